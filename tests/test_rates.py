"""What a step's rates are: of what it measured, of its own time where that is its operators', else none and why."""

from __future__ import annotations

from typing import Any

import pytest

from trace_tools.rendering.charts.roofline import roof_points
from trace_tools.rendering.document import CodeRow, Execution, execution
from trace_tools.rendering.remarks import measured, remarks
from trace_tools.schema import Machine, Measured, Meters, Peak, Step, Value

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
    [remark] = remarks(CodeRow((), "L1", executions=(one,)))
    assert remark.text == "10 µs ± 10% a call · 1 MFLOP"
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
    [remark] = remarks(CodeRow((), "L1", executions=(one,)))
    assert remark.text == "1 ms ± 0% · with measuring"


@pytest.mark.parametrize("measurements", [None, []])
def test_a_step_that_only_counts_or_measures_below_has_none_and_says_why(measurements: list[Measured] | None) -> None:
    one = ran(host_ns=[SECOND] * 3, measured=measurements, harness=True)
    assert one.rates == () and list(roof_points(one, "x", None)) == []
    assert said(one)["rate"] == "none: its own time is that of all the calls that `measure` or `count` made"
    assert "intensity" not in said(one) and "achieved" not in said(one)


def test_a_measurement_that_nobody_could_count_has_none_and_says_why() -> None:
    one = ran(measured=[Measured([1e-06] * 3, why="no torch operator ran in it")], harness=True)
    assert one.rates == () and said(one)["rate"] == "none: no torch operator ran in it"
    assert said(one)["time a call"].startswith("1 µs")


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ({"host_ns": [99_000] * 3}, "shorter than 100 µs: mostly dispatch"),
        ({"host_ns": [10**6] * 2}, "2 timed runs, of 3 that it takes"),
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


def test_the_roof_is_that_of_the_dtype_the_work_was_done_in() -> None:
    peaks = [Peak("float32", 6e13, "a datasheet"), Peak("tf32", 5e14, "a datasheet")]
    for tf32, peak in (("highest", "float32"), ("high", "tf32")):
        gpu = Machine("A device", "gpu", "cuda", tf32=tf32, peaks=peaks)
        assert [r.peak for r in ran(gpu).rates if r.name == "FLOP/s"] == [peak]
        measuring = ran(gpu, measured=[Measured([1e-06], 10, 10, 10, "float32")])
        assert [r.peak for r in measuring.rates if r.name == "FLOP/s"] == [peak]
    [mixed, _] = ran(meters=Meters(10, 10, 10)).rates
    assert (mixed.share, mixed.peak, mixed.roof) == (None, None, "no one dtype that its FLOPs are in")


def test_a_row_that_did_not_run_every_time_says_so() -> None:
    step = Step(0, 0, 0, 1, runs=4)
    [remark] = remarks(CodeRow((), "L1", executions=(execution(step, CPU, timed_runs=6),)))
    assert (remark.kind, remark.text) == ("runs", "ran in 4 of 6 runs")
    [remark] = remarks(CodeRow((), "L1", executions=(execution(Step(0, 0, 0, 1, runs=1, clock=True), CPU),)))
    assert remark.text == "ran in 1 of the timed runs, as a clock had it"


def test_expressions_that_begin_alike_stay_apart() -> None:
    long = "the_same_name_of_more_than_sixty_characters_before_anything_differs"
    values = [(f"{long}.first", Value("int", 1)), (f"{long}.second", Value("int", 1))]
    twice = tuple(execution(Step(n, 0, 0, 1, n + 1, values=values), CPU) for n in range(2))
    found = remarks(CodeRow((), "L1", executions=twice))
    assert [(remark.index, remark.text, remark.label) for remark in found] == [(0, "1", ""), (1, "1", "")]
