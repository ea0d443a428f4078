"""What a comparison comes to, in words: on traces whose times, limits and claims are known."""

from __future__ import annotations

from dataclasses import replace

from tests.diff.test_compare import machine_trace, side_by_side
from tests.messages import says
from trace_tools.diff.report.summary import clear_differences, summary_of
from trace_tools.trace.model import Claim, Machine, Meters, Peak, Step, Trace

SLOW, FAST = [900_000, 1_000_000, 1_100_000], [450_000, 500_000, 550_000]


def told(*traces: Trace, base: str | None = None) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for sentence in summary_of(side_by_side(*traces, base=base)):
        found.setdefault(sentence.evidence, []).append(sentence.text)
    return found


def test_quantities_better_in_all_passes_are_reported() -> None:
    said = told(machine_trace("slow", SLOW), machine_trace("fast", FAST))
    [text] = said["judged"]
    assert text.startswith("3 of 3 timed steps were faster in every pass on one machine; the widest margins: “y = ")
    assert text.count("on fast (2 times as fast)") == 3
    [memory] = said["peak_bytes"]
    assert says(memory, "Every step", "same peak memory")


def test_overlapping_quantities_are_not_distinguished() -> None:
    said = told(machine_trace("slow", SLOW), machine_trace("near", [440_000, 500_000, 1_200_000]))
    assert "judged" not in said
    assert "0 of 3 timed steps were faster in every pass on one machine." in said["time_s"]
    assert clear_differences(side_by_side(machine_trace("a", SLOW), machine_trace("b", SLOW)).tables[0].lines) == []


def test_machines_are_described_by_their_peaks() -> None:
    peaks = [Peak("float32", 4e12, "datasheet"), Peak("memory", 1e12, "datasheet")]
    said = told(
        machine_trace("cpu", SLOW), machine_trace("gpu", FAST, machine=Machine("gpu", "gpu", "cuda", peaks=peaks))
    )
    [text] = said["peaks"]
    assert "float32 products at most 4 TFLOP/s on gpu, " in text and "memory at most 1 TB/s on gpu, " in text


def test_an_advantage_is_attributed_to_memory_or_arithmetic() -> None:
    """Four steps are limited by memory and ten times as fast, four by arithmetic and twice as fast."""

    def made(name: str, factors: dict[float, int]) -> Trace:
        trace = machine_trace(name, SLOW)
        steps = [step for step in trace.steps if isinstance(step, Step) and step.annotated]
        new: list[Step] = []
        for intensity, factor in factors.items():
            for _ in range(4):
                meters = Meters(flops=int(1000 * intensity), bytes_read=500, bytes_written=500, dtype="float32")
                ns = [n // factor for n in SLOW]
                new.append(replace(steps[0], execution=len(new) + 1, id=900 + len(new), host_ns=ns, meters=meters))
        return replace(trace, steps=[*(step for step in trace.steps if step not in steps), *new])

    ridge = 10e9 / 1e9  # of `test_compare`'s machines: 10 GFLOP/s and 1 GB/s
    base, other = made("base", {ridge / 5: 1, ridge * 5: 1}), made("other", {ridge / 5: 10, ridge * 5: 2})
    [text] = told(base, other)["flops_per_second"]
    bound = ("memory-bound on base", "10 times", "median of 4", "compute-bound on base", "2 times", "median of 4")
    assert says(text, "other", *bound)


def test_failed_claims_are_listed_with_their_machine() -> None:
    def claiming(name: str, *, held: bool) -> Trace:
        trace = machine_trace(name, SLOW)
        at = next(n for n, step in enumerate(trace.steps) if isinstance(step, Step) and step.annotated)
        steps = [*trace.steps]
        steps[at] = replace(steps[at], claim=Claim("1 == 2", held))
        return replace(trace, steps=steps)

    [text] = told(claiming("well", held=True), claiming("ill", held=False))["machines"]
    assert text.startswith("Claims failed on ill (line ")
    [text] = told(claiming("well", held=True), claiming("as well", held=True))["machines"]
    assert text == "Every claim of the lecture holds on every machine."
