"""Rates of steps, from their measurements or their own times, and the times of the statements of a section."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.cases_in_one import each
from tests.messages import says
from tests.pages.recording import Recording
from trace_tools.analysis.rates import DEEPEST, floor_of
from trace_tools.machines.peaks import known_machines, leading_peak
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.document import CodeLine, CodeListing, CodeRow, Execution
from trace_tools.pages.margin import execution_facts, margin_notes
from trace_tools.pages.section_charts import operations
from trace_tools.presentation.report import Bar
from trace_tools.trace.model import Machine, Measured, Meters, Peak, Step, Value, Work

CPU = Machine("A processor", "cpu", "cpu", peaks=[Peak("float32", 2e11, "best of 3"), Peak("memory", 4e10, "copies")])
MATMUL = Meters(2_000_000, 8_000, 4_000, dtype="float32")
SECOND = 10**9


def execution_of(machine: Machine = CPU, **changes: Any) -> Execution:
    """Return an execution of an annotated matmul that took 1 ms in three runs; `changes` replace its step's fields."""
    defaults: dict[str, Any] = {"annotated": True, "host_ns": [10**6] * 3, "meters": MATMUL}
    return Execution(Step(0, 0, 0, 1, **(defaults | changes)), machine)


def facts_of(execution: Execution) -> dict[str, str]:
    return dict(execution_facts(execution))


def operations_of(executed: Execution) -> list[Bar]:
    row = CodeRow((CodeLine(1, "x @ w  # a product"),), "L1", executions=(executed,))
    return list(operations([CodeListing((row,))]))


def test_a_measuring_step_has_the_rate_of_one_call() -> None:
    call = Measured([1.1e-05, 1e-05, 0.9e-05], 1_000_000, 4_000, 1_000, "float32")
    executed = execution_of(host_ns=[SECOND] * 3, measured=[call], harness=True)
    assert [(r.name, r.peak) for r in executed.rates] == [("FLOP/s", "float32"), ("B/s", "memory")]
    assert [x for r in executed.rates for x in (r.per_second, r.share)] == pytest.approx([1e11, 0.5, 5e8, 0.0125])
    assert executed.timing is not None
    assert (executed.timing.clock, executed.timing.samples_ns) == ("call", (11_000, 10_000, 9_000))
    [note] = margin_notes(CodeRow((), "L1", executions=(executed,)))
    assert note.text == "10 µs ± 10% a call · 1 MFLOP"
    facts = facts_of(executed)
    assert facts["FLOPs"] == "1 MFLOP (1,000,000)" and facts["intensity"] == "200.0 FLOP/byte"
    assert facts["time a call"].startswith("10 µs ± 10%") and facts["all its calls, the whole statement"].startswith(
        "1 s"
    )
    assert operations_of(executed) == [
        Bar("x @ w", pytest.approx(0.5), "50%", "at 200 FLOP/byte, under the float32 peak", "#L1")
    ]


def test_several_measurements_have_separate_rates() -> None:
    work: list[Work] = [("aten.add", "float32", 100, 900), ("aten._mm", "float32", 900, 100)]
    fast, slow = (Measured([seconds] * 3, 1_000, 500, 500, "float32", work=work) for seconds in (1e-06, 2e-06))
    executed = execution_of(measured=[fast, slow], harness=True)
    assert [(r.call, r.per_second) for r in executed.rates if r.name == "FLOP/s"] == [(1, 1e9), (2, 5e8)]
    assert executed.timing is not None and executed.timing.clock == "host"
    by_bytes = [(bar.label, bar.number, bar.soft) for bar in operations_of(executed)]
    assert by_bytes == [("add", f"{share}%", "at 1 FLOP/byte, under the bandwidth") for share in ("2.5", "1.2")]
    by_flops = replace(executed, machine=replace(CPU, peaks=[Peak("float32", 1e9, "t"), Peak("memory", 4e10, "t")]))
    assert [bar.label for bar in operations_of(by_flops)] == ["mm", "mm"]
    facts = facts_of(executed)
    assert facts["1: time a call"].startswith("1 µs") and facts["2: time a call"].startswith("2 µs")
    [note] = margin_notes(CodeRow((), "L1", executions=(executed,)))
    assert note.text == "1 µs to 2 µs a call"


@each("measurements", [None, []])
def test_a_counting_step_has_no_rate_and_a_reason(measurements: list[Measured] | None) -> None:
    executed = execution_of(host_ns=[SECOND] * 3, measured=measurements, harness=True)
    assert executed.rates == () and operations_of(executed) == []
    assert says(facts_of(executed)["rate"], "none: ", "`measure`", "`count`")
    assert not {"intensity", "achieved"} & facts_of(executed).keys()
    counting = execution_of(measured=measurements, harness=True, meters=replace(MATMUL, uncounted=["aten.sort"]))
    assert margin_notes(CodeRow((), "L1", executions=(counting,))) == []
    uncounted = execution_of(measured=[Measured([1e-06] * 3, why="no torch operator ran in it")], harness=True)
    assert uncounted.rates == () and facts_of(uncounted)["rate"] == "none: no torch operator ran in it"
    assert facts_of(uncounted)["time a call"].startswith("1 µs")


@each(
    ("changes", "reason"),
    [
        ({"host_ns": [99_000] * 3}, "shorter than 100 µs: mostly dispatch"),
        ({"host_ns": [10**6] * 2}, "2 timed runs; at least 3 are needed"),
        ({"host_ns": [1_000_000, 1_000_000, 1_260_000]}, "the slowest run took 1.26 times as long as the fastest"),
        ({"host_ns": None, "cold_ns": [10**6] * 3}, "only first runs were timed"),
        ({"compiled": True}, "torch.compile ran during it"),
    ],
)
def test_short_unsteady_or_compiled_steps_have_no_rate(changes: dict[str, Any], reason: str) -> None:
    executed = execution_of(**changes)
    assert executed.rates == () and facts_of(executed)["rate"] == "none: " + reason
    assert operations_of(executed) == []


def test_steady_times_of_operators_make_rates() -> None:
    executed = execution_of(host_ns=[1_000_000, 1_000_000, 1_240_000])
    assert [(r.per_second, r.peak) for r in executed.rates] == [(2e9, "float32"), (1.2e7, "memory")]
    assert "rate" not in facts_of(executed)


UNCOUNTED = Meters(2_000_000, 8_000, 4_000, dtype="float32", uncounted=["aten.sort"], operators=[("aten.sort", 1)])


@each("samples_ns", [[10**6] * 3, [5_000] * 3, [10**6, 10**6, 9 * 10**6]])
def test_uncounted_operators_are_named_and_prevent_a_rate(samples_ns: list[int]) -> None:
    """The note next to the line names them even if the time is too short or too unsteady for a rate."""
    executed = execution_of(host_ns=samples_ns, meters=UNCOUNTED)
    facts = facts_of(executed)
    assert executed.rates == () and operations_of(executed) == []
    assert facts["FLOPs"].startswith("at least 2 MFLOP") and "aten.sort" in facts["no FLOP formula"]
    assert not {"intensity", "achieved", "rate"} & facts.keys()
    [time, uncounted] = margin_notes(CodeRow((), "L1", executions=(executed, executed)))[:2]
    assert "at least 2 MFLOP" in time.text
    assert (uncounted.text, uncounted.collapsed) == ("not counted: aten.sort", False)
    without_flops = execution_of(host_ns=samples_ns, meters=replace(UNCOUNTED, flops=0))
    assert "FLOP" not in "".join(note.text for note in margin_notes(CodeRow((), "L1", executions=(without_flops,))))
    assert floor_of(executed.step, known_machines()[0]) is None


def test_only_counted_measurements_have_rates() -> None:
    counted, uncounted = (
        Measured([1e-06] * 3, 1_000, 500, 500, "float32", uncounted=operators) for operators in (None, ["aten.sort"])
    )
    executed = execution_of(measured=[counted, uncounted], harness=True)
    assert {rate.call for rate in executed.rates} == {1}
    facts = facts_of(executed)
    assert facts["1: FLOPs"] == "1 kFLOP" and "1: intensity" in facts and "1: no FLOP formula" not in facts
    assert facts["2: FLOPs"] == "at least 1 kFLOP" and "aten.sort" in facts["2: no FLOP formula"]
    assert "2: intensity" not in facts
    alone = execution_of(measured=[uncounted], harness=True)
    assert alone.rates == () and floor_of(alone.step, known_machines()[0]) is None


def test_flops_on_the_meta_device_are_in_no_rate() -> None:
    """A step with 10¹⁵ FLOPs on the meta device has the rates of its two million other FLOPs."""
    with_meta_flops = replace(MATMUL, flops=10**15 + 2_000_000, meta_flops=10**15)
    mixed, without_meta_flops = execution_of(meters=with_meta_flops), execution_of()
    assert [(r.per_second, r.share, r.intensity) for r in mixed.rates] == [
        (r.per_second, r.share, r.intensity) for r in without_meta_flops.rates
    ]
    facts = facts_of(mixed)
    assert facts["FLOPs"].startswith("1 PFLOP") and facts["not computed"].startswith("1 PFLOP")
    only_meta_flops = execution_of(meters=replace(MATMUL, flops=10**15, meta_flops=10**15))
    assert [r.name for r in only_meta_flops.rates] == ["B/s"] and "intensity" not in facts_of(only_meta_flops)


@each("measured_peak", [True, False])
def test_a_rate_above_its_roof_comes_with_a_warning(measured_peak: bool) -> None:
    peaks = [Peak("float32", 1e9, "best of 3", measured_peak), Peak("memory", 1e12, "copies", measured_peak)]
    executed = execution_of(Machine("A processor", "cpu", "cpu", peaks=peaks))
    above, below = executed.rates
    assert above.share == 2 and above.above is not None and below.above is None
    assert ("measured" if measured_peak else "datasheet") in above.above
    facts = execution_facts(executed)
    position = next(n for n, (name, text) in enumerate(facts) if "200%" in text)
    assert facts[position + 1] == ("warning", above.above)


def test_the_roof_belongs_to_the_dtype_of_the_work() -> None:
    """float32 matmuls that may compute in tf32 have its roof. Work in several dtypes has no roof."""
    peaks = [Peak("float32", 6e13, "a datasheet"), Peak("tf32", 5e14, "a datasheet")]
    gpu = Machine("A device", "gpu", "cuda", compute_capability="9.0", peaks=peaks)
    for dtype, peak in (("float32", "float32"), ("tf32", "tf32"), ("tf32_or_bfloat16", "tf32")):
        work: list[Work] = [("aten.mm", dtype, 10, 20)]
        counted = execution_of(gpu, meters=replace(MATMUL, work=work))
        assert [r.peak for r in counted.rates if r.name == "FLOP/s"] == [peak]
        measuring = execution_of(gpu, measured=[Measured([1e-06], 10, 10, 10, "float32", work=work)])
        assert [r.peak for r in measuring.rates if r.name == "FLOP/s"] == [peak]
    [mixed, _] = execution_of(meters=Meters(10, 10, 10)).rates
    assert (mixed.share, mixed.peak, mixed.roof) == (None, None, "no peak: its FLOPs have no single dtype")


def test_a_row_shows_in_how_many_runs_it_ran() -> None:
    for runs, timed_runs, text in ((4, 6, "ran in 4 of 6 runs"), (1, None, "ran in 1 of the timed runs")):
        executed = Execution(Step(0, 0, 0, 1, runs=runs), CPU, timed_runs=timed_runs)
        [note] = margin_notes(CodeRow((), "L1", executions=(executed,)))
        assert (note.kind, note.text) == ("runs", text)


def test_expressions_with_a_common_beginning_are_separate() -> None:
    beginning = "the_same_name_of_more_than_sixty_characters_before_anything_differs"
    values = [(f"{beginning}.first", Value("int", 1)), (f"{beginning}.second", Value("int", 1))]
    executions = tuple(Execution(Step(n, 0, 0, 1, n + 1, values=values), CPU) for n in range(2))
    notes = margin_notes(CodeRow((), "L1", executions=executions))
    assert [(note.index, note.text, note.label) for note in notes] == [(0, "1", ""), (1, "1", "")]


def gpu(capability: str, *peaks: Peak) -> Machine:
    return Machine("A card", "a-card", "cuda", compute_capability=capability, peaks=list(peaks))


def test_an_unknown_card_has_its_measured_roof() -> None:
    unknown = Peak("bfloat16", None, "not in the table")
    card = gpu("9.0", unknown, Peak("bfloat16", 4e9, "measured: best of 9", True))
    executed = execution_of(card, meters=replace(MATMUL, dtype="bfloat16"))
    [flops] = [rate for rate in executed.rates if rate.name == "FLOP/s"]
    assert flops.share == pytest.approx(0.5) and flops.roof == "bfloat16 peak, measured: best of 9"


@each(("capability", "expected"), [("7.5", "float16"), ("8.0", "bfloat16"), ("gfx942", "bfloat16")])
def test_the_leading_peak_is_of_a_format_with_matrix_units(capability: str, expected: str) -> None:
    """A card of capability 7.5, such as a T4, has units for float16 only, although bfloat16 was measured too."""
    measured_peaks = [Peak(name, 2e13, "measured", True) for name in ("bfloat16", "float16", "float32")]
    peak = leading_peak(gpu(capability, Peak("bfloat16", None, "not in the table"), *measured_peaks))
    assert peak is not None and (peak.name, peak.per_second) == (expected, 2e13)


@each(("capability", "roof"), [("7.0", "float32"), ("gfx942", "float32"), ("8.0", "tf32")])
def test_tf32_is_the_roof_only_if_torch_can_use_it(capability: str, roof: str) -> None:
    card = gpu(capability, Peak("float32", 1e13, "a datasheet"), Peak("tf32", 1e14, "a datasheet"))
    work = [("aten.mm", "tf32", 2_000_000, 12_000)]
    [rate] = [rate for rate in execution_of(card, meters=replace(MATMUL, work=work)).rates if rate.name == "FLOP/s"]
    assert rate.peak == roof


LECTURE = """\
def main():
    train()


def train():
    for step in range(3):
        loss = model(step)
    done = 1


def model(x):
    return x
"""


def test_times_of_statements_include_omitted_executions_and_those_of_callees() -> None:
    """40 executions of `loss` were omitted, one of `done` suspended."""
    recording = Recording(LECTURE)
    train = recording.call(recording.frame("main"), "train()", "train")
    for turn in range(3):
        recording.step(train, "for step", host_ns=[10, 20, 30])
        step = recording.step(train, "loss", host_ns=[100 * (turn + 1)])
        for _ in range(99):  # `model` calls itself
            meters = Meters(peak_bytes=1_024 * (turn + 1))
            step = recording.step(recording.frame("model", step), "return x", host_ns=[7, 9, 8], meters=meters)
    recording.omit(train, "loss", 40, 4_000)
    recording.step(train, "done", cold_ns=[5])
    recording.step(train, "done", host_ns=[1_000], suspended=True)
    [section] = make_document(recording.trace()).sections
    header, loss, done = section.costs
    assert (header.label, header.anchor, header.is_code) == ("for step in range(3):", "L6", True)
    assert (header.ns, loss.ns, done.ns) == (3 * 20, 100 + 200 + 300 + 4_000, 5)
    assert (header.peak_bytes, loss.peak_bytes) == (0, 3_072)  # of what it called
    [inside] = loss.inside
    assert (inside.label, inside.ns, inside.peak_bytes) == ("return x", 3 * 8, 3_072)
    for _ in range(DEEPEST - 1):
        [inside] = inside.inside
    assert not inside.inside
