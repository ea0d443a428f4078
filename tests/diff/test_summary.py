"""Summaries of comparisons in sentences, from traces with known times, limits and claims."""

from __future__ import annotations

from dataclasses import replace

from tests.diff.test_compare import machine_trace, side_by_side
from trace_tools.diff.report.summary import clear_differences, summary_of
from trace_tools.trace.model import Claim, Step, Trace

SLOW, FAST = [900_000, 1_000_000, 1_100_000], [450_000, 500_000, 550_000]


def texts_by_evidence(*traces: Trace) -> dict[str, list[str]]:
    texts: dict[str, list[str]] = {}
    for sentence in summary_of(side_by_side(*traces)):
        texts.setdefault(sentence.evidence, []).append(sentence.text)
    return texts


def test_steps_faster_in_every_pass_are_summarised() -> None:
    texts = texts_by_evidence(machine_trace("slow", SLOW), machine_trace("fast", FAST))
    [text] = texts["judged"]
    assert text.startswith("3 of 3 timed steps were faster in every pass on one machine; the widest margins: “y = ")
    assert text.count("on fast (2 times as fast)") == 3


def test_overlapping_times_are_not_called_faster() -> None:
    texts = texts_by_evidence(machine_trace("slow", SLOW), machine_trace("near", [440_000, 500_000, 1_200_000]))
    assert "judged" not in texts
    assert "0 of 3 timed steps were faster in every pass on one machine." in texts["time_s"]
    assert clear_differences(side_by_side(machine_trace("a", SLOW), machine_trace("b", SLOW)).tables[0].lines) == []


def test_failed_claims_are_listed_with_their_machine() -> None:
    def claiming(name: str, *, held: bool) -> Trace:
        trace = machine_trace(name, SLOW)
        index = next(n for n, step in enumerate(trace.steps) if isinstance(step, Step) and step.annotated)
        steps = [*trace.steps]
        steps[index] = replace(steps[index], claim=Claim("1 == 2", held))
        return replace(trace, steps=steps)

    [text] = texts_by_evidence(claiming("well", held=True), claiming("ill", held=False))["machines"]
    assert text.startswith("Claims failed on ill (line ")
    [text] = texts_by_evidence(claiming("well", held=True), claiming("as well", held=True))["machines"]
    assert text == "Every claim of the lecture holds on every machine."
