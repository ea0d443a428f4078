"""The rates of steps: of what they measured, of their own time where that is their operators', else none and why.

At the end: the times of a section's statements.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.messages import says
from tests.pages.recording import Recording
from trace_tools.analysis.floors import Ceiling, floor_of
from trace_tools.analysis.rates import StatementTime
from trace_tools.machines.peaks import leading_peak
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.document import CodeRow, Execution, execution
from trace_tools.pages.margin import margin_notes, measured
from trace_tools.pages.section_charts import roof_points
from trace_tools.trace.model import Machine, Measured, Meters, Peak, Step, Value

CPU = Machine("A processor", "cpu", "cpu", peaks=[Peak("float32", 2e11, "best of 3"), Peak("memory", 4e10, "copies")])
MATMUL = Meters(2_000_000, 8_000, 4_000, dtype="float32")
SECOND = 10**9


def ran(machine: Machine = CPU, **step: Any) -> Execution:
    known: dict[str, Any] = {"annotated": True, "host_ns": [10**6] * 3, "meters": MATMUL}
    return execution(Step(0, 0, 0, 1, **(known | step)), machine)


def said(one: Execution) -> dict[str, str]:
    return dict(measured(one))


def test_a_step_that_measures_has_the_rate_of_one_call_and_not_of_its_own_time() -> None:
    call = Measured([1.1e-05, 1e-05, 0.9e-05], 1_000_000, 4_000, 1_000, "float32")
    one = ran(host_ns=[SECOND] * 3, measured=[call], harness=True)
    assert [(r.name, r.peak) for r in one.rates] == [("FLOP/s", "float32"), ("B/s", "memory")]
    assert [x for r in one.rates for x in (r.per_second, r.share)] == pytest.approx([1e11, 0.5, 5e8, 0.0125])
    assert one.timing is not None and one.timing.clock == "call" and one.timing.samples_ns == (11_000, 10_000, 9_000)
    [note] = margin_notes(CodeRow((), "L1", executions=(one,)))
    assert note.text == "10 µs ± 10% a call · 1 MFLOP"
    told = said(one)
    assert told["FLOPs"] == "1 MFLOP (1,000,000)" and told["intensity"] == "200.0 FLOP/byte"
    assert told["time a call"].startswith("10 µs ± 10%") and told["all its calls"].startswith("1 s")
    [point] = roof_points(one, "x @ w", None)
    assert (point.intensity, point.flops_per_second, point.dtype, point.name) == (
        200.0,
        one.rates[0].per_second,
        "float32",
        "x @ w",
    )


def test_several_measurements_have_a_rate_each_in_their_order() -> None:
    fast, slow = (Measured([seconds] * 3, 1_000, 500, 500, "float32") for seconds in (1e-06, 2e-06))
    one = ran(measured=[fast, slow], harness=True)
    assert [(r.call, r.per_second) for r in one.rates if r.name == "FLOP/s"] == [(1, 1e9), (2, 5e8)]
    assert one.timing is not None and one.timing.clock == "host"
    assert [point.name for point in roof_points(one, "both", None)] == ["both (1)", "both (2)"]
    told = said(one)
    assert told["1: time a call"].startswith("1 µs") and told["2: time a call"].startswith("2 µs")
    [note] = margin_notes(CodeRow((), "L1", executions=(one,)))
    assert note.text == "1 ms ± 0% · with measuring"


@pytest.mark.parametrize("measurements", [None, []])
def test_a_step_that_only_counts_or_measures_below_has_none_and_says_why(measurements: list[Measured] | None) -> None:
    one = ran(host_ns=[SECOND] * 3, measured=measurements, harness=True)
    assert one.rates == () and list(roof_points(one, "x", None)) == []
    assert says(said(one)["rate"], "none: ", "`measure`", "`count`")
    assert "intensity" not in said(one) and "achieved" not in said(one)


def test_a_measurement_that_nobody_could_count_has_none_and_says_why() -> None:
    one = ran(measured=[Measured([1e-06] * 3, why="no torch operator ran in it")], harness=True)
    assert one.rates == () and said(one)["rate"] == "none: no torch operator ran in it"
    assert said(one)["time a call"].startswith("1 µs")


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ({"host_ns": [99_000] * 3}, "shorter than 100 µs: mostly dispatch"),
        ({"host_ns": [10**6] * 2}, "2 timed runs; at least 3 are needed"),
        ({"host_ns": [1_000_000, 1_000_000, 1_260_000]}, "the slowest run took 1.26 times as long as the fastest"),
        ({"host_ns": None, "cold_ns": [10**6] * 3}, "only first runs were timed"),
        ({"compiled": True}, "torch.compile ran during it"),
    ],
)
def test_a_time_that_is_not_that_of_the_operators_makes_no_rate(step: dict[str, Any], why: str) -> None:
    one = ran(**step)
    assert one.rates == () and one.no_rate == why and said(one)["rate"] == "none: " + why
    assert list(roof_points(one, "x", None)) == []


def test_a_time_that_is_makes_one() -> None:
    one = ran(host_ns=[1_000_000, 1_000_000, 1_240_000])
    assert [(r.name, r.per_second, r.peak) for r in one.rates] == [("FLOP/s", 2e9, "float32"), ("B/s", 1.2e7, "memory")]
    assert one.no_rate is None and "rate" not in said(one)


UNKNOWN = Meters(2_000_000, 8_000, 4_000, dtype="float32", uncounted=["aten.sort"], operators=[("aten.sort", 1)])


@pytest.mark.parametrize("samples_ns", [[10**6] * 3, [5_000] * 3, [10**6, 10**6, 9 * 10**6]])
def test_what_nobody_can_count_has_no_rate_and_its_line_names_it(samples_ns: list[int]) -> None:
    """The names stand on the line also where its time is too short, or too unsteady, to be shown otherwise."""
    one = ran(host_ns=samples_ns, meters=UNKNOWN)
    told = said(one)
    assert one.rates == () and list(roof_points(one, "x", None)) == []
    assert told["FLOPs"].startswith("at least 2 MFLOP") and "aten.sort" in told["not counted"]
    assert not {"intensity", "achieved", "rate"} & told.keys()
    [time, names] = margin_notes(CodeRow((), "L1", executions=(one, one)))[:2]
    assert time.text.endswith(" each · at least 2 MFLOP") and (names.text, names.collapsed) == (
        "not counted: aten.sort",
        False,
    )
    nothing = ran(host_ns=samples_ns, meters=replace(UNKNOWN, flops=0))
    assert "FLOP" not in "".join(note.text for note in margin_notes(CodeRow((), "L1", executions=(nothing,))))
    assert floor_of(one.step, Ceiling("a", {"float32": 1e12}, 1e11, "")).seconds is None


def test_of_two_measurements_only_the_one_that_was_counted_has_a_rate() -> None:
    known, unknown = (Measured([1e-06] * 3, 1_000, 500, 500, "float32", uncounted=of) for of in (None, ["aten.sort"]))
    one = ran(measured=[known, unknown], harness=True)
    assert {rate.call for rate in one.rates} == {1}
    told = said(one)
    assert told["1: FLOPs"] == "1 kFLOP" and "1: intensity" in told and "1: not counted" not in told
    assert (
        told["2: FLOPs"] == "at least 1 kFLOP" and "2: intensity" not in told and "aten.sort" in told["2: not counted"]
    )
    alone = ran(measured=[unknown], harness=True)
    assert alone.rates == () and floor_of(alone.step, Ceiling("a", {"float32": 1e12}, 1e11, "")).seconds is None


def test_flops_that_were_computed_nowhere_are_in_no_rate() -> None:
    """10¹⁵ FLOPs on the meta device, beside two million that ran."""
    mixed = replace(MATMUL, flops=10**15 + 2_000_000, meta_flops=10**15)
    one, alone = ran(meters=mixed), ran()
    assert [(r.per_second, r.share, r.intensity) for r in one.rates] == [
        (r.per_second, r.share, r.intensity) for r in alone.rates
    ]
    assert said(one)["FLOPs"].startswith("1 PFLOP") and said(one)["not computed"].startswith("1 PFLOP")
    only = ran(meters=replace(MATMUL, flops=10**15, meta_flops=10**15))
    assert [r.name for r in only.rates] == ["B/s"] and "intensity" not in said(only)
    older = ran(meters=replace(MATMUL, flops=10**15, work=[("aten.add", None, 0, 12_000)]))
    assert [r.name for r in older.rates] == ["B/s"]


@pytest.mark.parametrize("measured_peak", [True, False])
def test_a_rate_above_its_roof_comes_with_a_warning(measured_peak: bool) -> None:
    peaks = [Peak("float32", 1e9, "best of 3", measured_peak), Peak("memory", 1e12, "copies", measured_peak)]
    one = ran(Machine("A processor", "cpu", "cpu", peaks=peaks))
    above, below = one.rates
    assert above.share == 2 and above.above is not None and below.above is None
    assert ("measured" if measured_peak else "datasheet") in above.above
    facts = measured(one)
    place = next(n for n, (name, text) in enumerate(facts) if "200%" in text)
    assert facts[place + 1] == ("warning", above.above)


def test_the_roof_is_that_of_the_dtype_the_work_was_done_in() -> None:
    peaks = [Peak("float32", 6e13, "a datasheet"), Peak("tf32", 5e14, "a datasheet")]
    for tf32, peak in (("highest", "float32"), ("high", "tf32")):
        gpu = Machine("A device", "gpu", "cuda", tf32=tf32, peaks=peaks)
        assert [r.peak for r in ran(gpu).rates if r.name == "FLOP/s"] == [peak]
        measuring = ran(gpu, measured=[Measured([1e-06], 10, 10, 10, "float32")])
        assert [r.peak for r in measuring.rates if r.name == "FLOP/s"] == [peak]
    [mixed, _] = ran(meters=Meters(10, 10, 10)).rates
    assert (mixed.share, mixed.peak, mixed.roof) == (None, None, "no peak: its FLOPs have no single dtype")


def test_a_row_that_did_not_run_every_time_says_so() -> None:
    step = Step(0, 0, 0, 1, runs=4)
    [note] = margin_notes(CodeRow((), "L1", executions=(execution(step, CPU, timed_runs=6),)))
    assert (note.kind, note.text) == ("runs", "ran in 4 of 6 runs")
    [note] = margin_notes(CodeRow((), "L1", executions=(execution(Step(0, 0, 0, 1, runs=1, clock=True), CPU),)))
    assert note.text == "ran in 1 of the timed runs, depending on a clock"


def test_expressions_that_begin_alike_stay_apart() -> None:
    long = "the_same_name_of_more_than_sixty_characters_before_anything_differs"
    values = [(f"{long}.first", Value("int", 1)), (f"{long}.second", Value("int", 1))]
    twice = tuple(execution(Step(n, 0, 0, 1, n + 1, values=values), CPU) for n in range(2))
    found = margin_notes(CodeRow((), "L1", executions=twice))
    assert [(note.index, note.text, note.label) for note in found] == [(0, "1", ""), (1, "1", "")]


def gpu(capability: str, *peaks: Peak) -> Machine:
    return Machine("A card", "a-card", "cuda", compute_capability=capability, peaks=list(peaks))


def test_a_card_that_is_not_in_the_table_has_the_roof_that_was_measured() -> None:
    absent = Peak("bfloat16", None, "not in the table")
    found = gpu("9.0", absent, Peak("bfloat16", 4e9, "measured: best of 9", True))
    one = ran(found, meters=replace(MATMUL, dtype="bfloat16"))
    [flops] = [rate for rate in one.rates if rate.name == "FLOP/s"]
    assert flops.share == pytest.approx(0.5) and flops.roof == "bfloat16 peak, measured: best of 9"


@pytest.mark.parametrize(("capability", "leads"), [("7.5", "float16"), ("8.0", "bfloat16"), ("gfx942", "bfloat16")])
def test_pages_lead_with_the_format_that_the_card_has_units_for(capability: str, leads: str) -> None:
    """Both formats were measured, as every card's are; only one is in the table of a T4."""
    measured = [Peak(name, 2e13, "measured", True) for name in ("bfloat16", "float16", "float32")]
    peak = leading_peak(gpu(capability, Peak("bfloat16", None, "not in the table"), *measured))
    assert peak is not None and (peak.name, peak.per_second) == (leads, 2e13)


@pytest.mark.parametrize(("capability", "roof"), [("7.0", "float32"), ("gfx942", "float32"), ("8.0", "tf32")])
def test_tf32_is_the_roof_only_where_torch_computes_in_it(capability: str, roof: str) -> None:
    card = gpu(capability, Peak("float32", 1e13, "a datasheet"), Peak("tf32", 1e14, "a datasheet"))
    work = [("aten.mm", "tf32", 2_000_000, 12_000)]
    [rate] = [rate for rate in ran(card, meters=replace(MATMUL, work=work)).rates if rate.name == "FLOP/s"]
    assert rate.peak == roof


# --- the time of a section by statement -----------------------------------------------------------


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


def spent() -> tuple[StatementTime, ...]:
    made = Recording(LECTURE)
    train = made.call(made.frame("main"), "train()", "train")
    for turn in range(3):
        made.step(train, "for step", host_ns=[10, 20, 30])
        step = made.step(train, "loss", host_ns=[100 * (turn + 1)])
        made.step(made.frame("model", step), "return x", host_ns=[7, 9, 8])
    made.omit(train, "loss", 40, 4_000)
    made.step(train, "done", cold_ns=[5])
    made.step(train, "done", host_ns=[1_000], suspended=True)
    [section] = make_document(made.trace()).sections
    return section.times


def test_executions_of_a_statement_count_together_those_left_out_too() -> None:
    header, loss, done = spent()
    assert (header.code, header.line, header.anchor) == ("for step in range(3):", 6, "L6")
    assert (header.ns, header.executions) == (3 * 20, 3)
    assert (loss.ns, loss.executions) == (100 + 200 + 300 + 4_000, 43)
    assert (done.ns, done.executions) == (5, 2)


def test_what_a_statement_called_is_inside_it() -> None:
    _, loss, _ = spent()
    [inner] = loss.inside
    assert (inner.code, inner.ns, inner.executions) == ("return x", 3 * 8, 3)
