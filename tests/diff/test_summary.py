"""Summaries of comparisons in sentences, from traces with known times, limits and claims."""

from __future__ import annotations

from dataclasses import replace

from tests.diff.test_compare import machine_trace, side_by_side
from tests.messages import says
from trace_tools.diff.report.summary import clear_differences, summary_of
from trace_tools.trace.model import Claim, Machine, Meters, Peak, Step, Trace

SLOW, FAST = [900_000, 1_000_000, 1_100_000], [450_000, 500_000, 550_000]


def texts_by_evidence(*traces: Trace, base: str | None = None) -> dict[str, list[str]]:
    texts: dict[str, list[str]] = {}
    for sentence in summary_of(side_by_side(*traces, base=base)):
        texts.setdefault(sentence.evidence, []).append(sentence.text)
    return texts


def test_steps_faster_in_every_pass_are_summarised() -> None:
    texts = texts_by_evidence(machine_trace("slow", SLOW), machine_trace("fast", FAST))
    [text] = texts["judged"]
    assert text.startswith("3 of 3 timed steps were faster in every pass on one machine; the widest margins: “y = ")
    assert text.count("on fast (2 times as fast)") == 3
    [memory] = texts["peak_bytes"]
    assert says(memory, "Every step", "same peak memory")


def test_overlapping_times_are_not_called_faster() -> None:
    texts = texts_by_evidence(machine_trace("slow", SLOW), machine_trace("near", [440_000, 500_000, 1_200_000]))
    assert "judged" not in texts
    assert "0 of 3 timed steps were faster in every pass on one machine." in texts["time_s"]
    assert clear_differences(side_by_side(machine_trace("a", SLOW), machine_trace("b", SLOW)).tables[0].lines) == []


def test_summary_states_the_peaks_of_machines() -> None:
    peaks = [Peak("float32", 4e12, "datasheet"), Peak("memory", 1e12, "datasheet")]
    texts = texts_by_evidence(
        machine_trace("cpu", SLOW), machine_trace("gpu", FAST, machine=Machine("gpu", "gpu", "cuda", peaks=peaks))
    )
    [text] = texts["peaks"]
    assert "float32 products at most 4 TFLOP/s on gpu, " in text and "memory at most 1 TB/s on gpu, " in text


def test_speedups_are_grouped_by_the_limiting_roof() -> None:
    """Four memory-bound steps are ten times as fast as on the base, four compute-bound steps twice as fast."""

    def made(name: str, factors: dict[float, int]) -> Trace:
        trace = machine_trace(name, SLOW)
        steps = [step for step in trace.steps if isinstance(step, Step) and step.annotated]
        new_steps: list[Step] = []
        for intensity, factor in factors.items():
            for _ in range(4):
                meters = Meters(flops=int(1000 * intensity), bytes_read=500, bytes_written=500, dtype="float32")
                ns = [n // factor for n in SLOW]
                new_steps.append(
                    replace(steps[0], execution=len(new_steps) + 1, id=900 + len(new_steps), host_ns=ns, meters=meters)
                )
        return replace(trace, steps=[*(step for step in trace.steps if step not in steps), *new_steps])

    ridge = 10e9 / 1e9  # the machines of `test_compare` have 10 GFLOP/s and 1 GB/s
    base, other = made("base", {ridge / 5: 1, ridge * 5: 1}), made("other", {ridge / 5: 10, ridge * 5: 2})
    [text] = texts_by_evidence(base, other)["flops_per_second"]
    bound = ("memory-bound on base", "10 times", "median of 4", "compute-bound on base", "2 times", "median of 4")
    assert says(text, "other", *bound)


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
