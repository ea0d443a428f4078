"""The records of a run are bounded, whatever a lecture does; omitted records and characters are counted."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path

import pytest

from tests.tracing.probed import Probed, Trace, listening
from trace_tools.lecture import vocabulary
from trace_tools.trace.model import Plot, Series
from trace_tools.tracing.recorder.output import ROOMS, thinned

# ------------------------------------------------------------------------------ text, warnings and values


def test_secrets_are_redacted_only_in_and_around_kept_text(tmp_path: Path) -> None:
    searched_lengths: list[int] = []

    def redact(text: str) -> str:
        searched_lengths.append(len(text))
        return text.replace("a-secret", "<TOKEN>")

    text = """
def main():
    print("a-secret " * 1_000_000)
    warn("x" * 3_980 + "a-secret" + "y" * 5_000_000)
"""
    lecture = Probed(text, "lecture.py", tmp_path / "x.journal", given={"warn": warnings.warn})
    with warnings.catch_warnings(), listening(lecture.recorder, redact), lecture:
        warnings.simplefilter("always")
        lecture.module.main()
    [printed], [warned] = lecture.steps("print"), lecture.steps("warn")
    text = printed.stdout
    assert set(text.replace("<TOKEN>", "")) <= {*" \n", *"<TOKEN>"} and len(text) == 2 * ROOMS["stdout"]
    assert warned.warnings == ["UserWarning: " + "x" * 3_980 + "<TOKEN>"]
    assert max(searched_lengths) < 2 << 20 and sum(searched_lengths) < 4 << 20
    [[kind, count, _]] = printed.left_out
    assert kind == "stdout" and 0.85 * 9_000_000 < count + len(text) <= 9_000_001


def test_first_and_last_printed_text_is_kept(trace: Trace) -> None:
    lecture = trace("""
def main():
    [print(f"line {i:05}") for i in range(10_000)]
    print("one more")
""", bounds={"stdout": 1_000})  # fmt: skip
    printed = "".join(f"line {i:05}\n" for i in range(10_000))
    [step], [after] = lecture.steps("[print"), lecture.steps('print("one')
    [[kind, count, at]] = step.left_out
    text = step.stdout
    assert kind == "stdout" and at == 1000 and len(text) + count == len(printed)
    assert text == printed[:1000] + printed[-1000:]
    assert after.stdout == "one more\n" and not after.left_out


def test_omitted_narrative_and_warnings_are_counted(trace: Trace) -> None:
    given = {"text": vocabulary.text, "warn": warnings.warn}
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        lecture = trace("""
def main():
    [text(f"sentence {i}") for i in range(1_000)]
    [warn(f"warning {i}") for i in range(1_000)]
""", bounds={"narrative": 2_000, "warnings": 2_000}, given=given)  # fmt: skip
    [step], [warned] = lecture.steps("[text"), lecture.steps("[warn")
    assert [entry["text"] for entry in step.narrative] == [f"sentence {i}" for i in range(len(step.narrative))]
    assert step.left_out == [["narrative", 1_000 - len(step.narrative), 0]] and 10 < len(step.narrative) < 100
    assert warned.left_out == [["warnings", 1_000 - len(warned.warnings), 0]] and len(warned.warnings) > 10


# ------------------------------------------------------------------------------ steps

NESTS = """
def main():
    first()
    for i in range({n}):
        epoch(i)
    last()
def first():
    for i in range(30):
        f(i)
def last():
    f(0)
    g(0)
def epoch(i):
    for j in range(30):
        f(j)
    g(i)
def f(j):
    for k in range(30):
        x = k
def g(i):
    assert i >= 0
"""


@pytest.mark.parametrize(("n", "steps", "limit"), [(20, 2_000, 100), (100, 4_000, 40)])
def test_steps_of_a_run_are_bounded(trace: Trace, n: int, steps: int, limit: int) -> None:
    """The first calls are kept, then only the calls of sections, and the last executions; all others are counted."""
    lecture = trace(NESTS.format(n=n), steps=steps, limit=limit)
    assert steps / 2 < len(lecture.run.steps) < 1.1 * steps
    left_out = next(n for (_, number), (n, _) in lecture.run.omitted.items() if number == lecture.number("epoch(i)"))
    assert len(lecture.steps("epoch(i)")) + left_out == n and lecture.steps("epoch(i)")[-1].execution == n
    assert len(lecture.frames("first")) == len(lecture.frames("last")) == 1
    callers = {frame.of for frame in lecture.frames("f")}
    assert all(step.seq in callers for step in lecture.steps("f(i)"))
    if limit == 100:
        assert len(lecture.frames("f")) + lecture.recorder.limits.refused["f"] == 30 + n * 30 + 1


def test_bound_of_steps_changes_nothing_if_not_reached(trace: Trace) -> None:
    few, many = (trace(NESTS.format(n=2), steps=steps) for steps in (100_000, 10**9))
    assert few.run.steps == many.run.steps and not few.recorder.limits.refused


def test_steps_of_open_frames_are_bounded(trace: Trace) -> None:
    """Each call loops after its nested call has returned; there was room when the calls began."""
    lecture = trace("""
def main():
    down(60)
def down(n):
    if n: down(n - 1)
    for i in range(80):
        x = i
        y = x
""", steps=2_000)  # fmt: skip
    assert len(lecture.run.steps) < 3_000


def test_failed_claims_are_never_omitted(trace: Trace) -> None:
    lecture = trace("""
def main():
    for i in range(500):
        part(i)
def part(i):
    assert i not in (200, 300)
""", limit=10, failing_claims_raise=False)  # fmt: skip
    claims = [step.claim[1] for step in lecture.steps("assert") if step.claim]
    assert claims.count("passed over") == 2 and len(claims) == 12
    executions = [step.execution for step in lecture.steps("part(i)")]
    assert executions == [1, 2, 3, 4, 5, 201, 301, 496, 497, 498, 499, 500]
    assert [n for n, _ in lecture.run.omitted.values() if n == 488]


def test_failed_claims_below_stepover_are_bounded(trace: Trace) -> None:
    lecture = trace("""
def main():
    x = many()  # @stepover
def many():
    for i in range(2_000):
        assert i < 0
""", failing_claims_raise=False)  # fmt: skip
    [step] = lecture.steps("x = many")
    assert step.claim and step.claim[1] == "passed over" and len(lecture.records) < 20


def test_a_plot_keeps_every_nth_point() -> None:
    line = Series("y", [*range(200_000)], [n * 0.5 for n in range(200_000)])
    plot = thinned(Plot(series=[line]))
    assert isinstance(plot, Plot)
    [cut] = plot.series
    assert len({b - a for a, b in itertools.pairwise(cut.x)}) == 1  # type: ignore[operator]
    assert cut.x[0] == 0 and 10_000 < len(cut.x) == 200_000 - (plot.left_out or 0) and len(cut.y) == len(cut.x)
    assert thinned(plot) is plot
