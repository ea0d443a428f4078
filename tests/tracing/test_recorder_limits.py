"""The records of a run are bounded, whatever a lecture does; what is left out is counted, with its time."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path

import pytest

from tests.tracing.probed import Probed, Trace, listening
from trace_tools.lecture import vocabulary
from trace_tools.trace.model import Plot, Series
from trace_tools.tracing.recorder.limits import ROOMS, thinned


def executions(lecture: Probed, code: str) -> list[int]:
    return [step.execution for step in lecture.steps(code)]


def omitted(lecture: Probed, code: str) -> list[tuple[int, int]]:
    """Return the number and total ns of omitted executions, for each frame with omissions."""
    number = lecture.number(code)
    return [totals for (_, statement), totals in lecture.run.omitted.items() if statement == number]


# ------------------------------------------------------------------------------ steps


@pytest.mark.parametrize(("n", "limit"), [(99, 100), (100, 100), (101, 100), (1000, 100), (20, 7), (5, 2)])
def test_first_and_last_executions_are_kept(trace: Trace, n: int, limit: int) -> None:
    lecture = trace(f"def main():\n    for i in range({n}):\n        work(i)\n", limit=limit)
    head, tail = limit // 2, limit - limit // 2
    kept = [*range(1, n + 1)][:head] + [*range(1, n + 1)][max(head, n - tail) :]
    assert executions(lecture, "work(i)") == kept
    assert [step.ns for step in lecture.steps("work(i)")] == [execution - 1 for execution in kept]
    left_out = [i for i in range(n) if i + 1 not in kept]
    assert omitted(lecture, "work(i)") == ([(len(left_out), sum(left_out))] if left_out else [])
    assert len(executions(lecture, "for i")) == min(n + 1, limit)


def test_the_limit_is_per_frame(trace: Trace) -> None:
    lecture = trace("""
def main():
    for i in range(3):
        part(i)
def part(i):
    for j in range(10 + i):
        work(1)  #: [1, 2, 9, 10, 1, 2, 10, 11, 1, 2, 11, 12]
""", limit=4).check("execution")  # fmt: skip
    assert omitted(lecture, "work(1)") == [(6, 6), (7, 7), (8, 8)]


def test_the_time_of_omitted_executions_includes_the_ends_of_with_blocks(trace: Trace) -> None:
    lecture = trace("""
def main():
    for i in range(30):
        with Held():
            work(5)
class Held:
    def __enter__(self): work(10)
    def __exit__(self, *error): work(100)
""", limit=10)  # fmt: skip
    assert omitted(lecture, "with Held()") == [(20, 20 * 110)] and omitted(lecture, "work(5)") == [(20, 100)]


# ------------------------------------------------------------------------------ calls

CALLS = """
def main():
    for i in range(500):
        f(i)
def f(i):  # @inspect i
    work(i)
    g(i)
    for j in range(9): print(end=str(j))  # @inspect j
def g(i):
    assert i >= 0
    try: raise ValueError(i)
    except ValueError as e: pass
"""


def test_calls_below_omitted_steps_are_omitted(trace: Trace) -> None:
    """They do not count for the limit of calls of a function, either."""
    lecture = trace(CALLS, limit=10, frames=12)
    kept, run = [*range(5), *range(495, 500)], lecture.run
    arguments = [frame.arguments[0][2]["value"] for frame in lecture.frames("f")]
    assert arguments == kept == [step.ns for step in lecture.steps("work(i)")]
    assert len(lecture.frames("g")) == len(lecture.steps("assert i")) == 10
    assert all(frame.of in run.steps for frame in run.frames.values() if frame.of is not None)
    assert all(step.frame in run.frames for step in run.steps.values())
    assert omitted(lecture, "f(i)") == [(490, sum(range(5, 495)))]


def test_calls_of_a_function_are_limited_to_the_first(trace: Trace) -> None:
    lecture = trace("""
def main():
    total = sum(f(i) for i in range(300))
    again = f(1000)
    g(1)
    down(80)
    fibonacci(10)
def f(i):
    work(1)
    return g(i)
def g(i):
    return i
def down(n):
    work(1)
    if n: down(n - 1)
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)
""", frames=50)  # fmt: skip
    assert {len(lecture.frames(function)) for function in ("f", "g", "down", "fibonacci")} == {50}
    assert [lecture.steps(code)[0].ns for code in ("total =", "down(80)")] == [300, 81]
    run, depth = lecture.run, {0: 0, 1: 0}
    for frame in run.frames.values():
        if frame.of is not None:
            depth[frame.id] = depth[run.steps[frame.of].frame] + 1
    assert max(depth.values()) == 50


# ------------------------------------------------------------------------------ generators


def test_generators_may_outlive_the_step_that_started_them(trace: Trace) -> None:
    trace("""
def main():
    kept = []
    for i in range(30):
        kept.append(begun(i))
    for g in kept: next(g)
def begun(i):
    g = generator(i)
    next(g)
    return g
def generator(i):  # @inspect i
    yield 1
    work(i)  #: [0, 1, 2, 3, 4, 25, 26, 27, 28, 29]
    yield 2
""", limit=10).check("ns")  # fmt: skip


def test_unfinished_generators_keep_their_open_step(trace: Trace) -> None:
    """The open step is recorded without a time, together with the last steps before it."""
    trace("""
kept = []
def main():
    g = endless()
    for _ in range(30): next(g)
    kept.append(g)
def endless():
    n = 0
    while True:
        n += 1  #: [(1, 0), (2, 0), (29, 0), (30, 0)]
        yield n  #: [(1, None), (2, None), (29, None), (30, None)]
""", limit=4).check("execution", "ns")  # fmt: skip


# ------------------------------------------------------------------------------ bounded


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


# ------------------------------------------------------------------------------ all steps of a run

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


@pytest.mark.parametrize(("n", "steps", "limit"), [(20, 2_000, 100), (60, 2_000, 40)])
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
        part(i)  #: [1, 2, 3, 4, 5, 201, 301, 496, 497, 498, 499, 500]
def part(i):
    assert i not in (200, 300)  #: [1] * 12
""", limit=10, failing_claims_raise=False).check("execution")  # fmt: skip
    assert [step.claim[1] for step in lecture.steps("assert")].count("passed over") == 2
    assert [n for n, _ in lecture.run.omitted.values() if n == 488]


def test_failed_claims_below_stepover_are_bounded(trace: Trace) -> None:
    lecture = trace("""
def main():
    x = many()  # @stepover  #: ["passed over"]
def many():
    for i in range(2_000):
        assert i < 0
""", failing_claims_raise=False).check(of=lambda step: step.claim[1])  # fmt: skip
    assert len(lecture.records) < 20


def test_a_plot_keeps_every_nth_point() -> None:
    line = Series("y", [*range(200_000)], [n * 0.5 for n in range(200_000)])
    plot = thinned(Plot(series=[line]))
    assert isinstance(plot, Plot)
    [cut] = plot.series
    assert len({b - a for a, b in itertools.pairwise(cut.x)}) == 1  # type: ignore[operator]
    assert cut.x[0] == 0 and 10_000 < len(cut.x) == 200_000 - (plot.left_out or 0) and len(cut.y) == len(cut.x)
    assert thinned(plot) is plot
