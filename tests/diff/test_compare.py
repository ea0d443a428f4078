"""Comparison of machines: quantities, checked against figures computed by hand."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from tests.diff.plain_tracing import traced
from tests.diff.planted import CPU, at, ints, noisy, with_steps
from tests.messages import says
from tests.pages.recording import Recording, matrix
from trace_tools.diff.compare import (
    NOWHERE,
    SEVERAL,
    VALUES,
    Cell,
    Comparison,
    Line,
    best_of,
    better_end,
    compare,
    with_ratios,
)
from trace_tools.diff.difference import Side
from trace_tools.diff.judge.times import HARNESS
from trace_tools.errors import UsageError
from trace_tools.trace.model import Machine, Measured, Meters, Peak, Trace, Value

LECTURE = """\
def main():
    first()


def first():
    y = x @ w  # @inspect y
    for i in range(2):
        z = y + 1  # @inspect z
    seconds = measure(f)  # @inspect seconds [s]
    assert seconds < 1
"""
PEAKS = [Peak("float32", 1e10, "a datasheet"), Peak("memory", 1e9, "a datasheet")]
UNKNOWN = Machine("u", "u", "cpu", peaks=[Peak("float32", None, "not in the table")])
METERS = Meters(flops=200_000, bytes_read=10_000, bytes_written=10_000, peak_bytes=4_096)
FAST = replace(METERS, flops=2_000_000)
LONG = [200_000] * 3  # ns, in each of three runs: long enough for a rate
RATES = ("flops_per_second", "mfu", "bytes_per_second", "bandwidth_share")


def machine_trace(name: str, ns: list[int], text: str = LECTURE, meters: Meters = METERS, **changes: Any) -> Trace:
    recording = Recording(text)
    first = recording.frame("first", recording.step(recording.frame("main"), "first()", host_ns=[10**6]))
    recording.step(first, "y = ", annotated=True, host_ns=ns, values=[("y", matrix(2, 2))], meters=meters)
    for _ in range(2):
        recording.step(first, "z = ", annotated=True, host_ns=ns)
    recording.step(first, "seconds", values=[("seconds", Value("float", ns[0] / 1e9, unit="s"))])
    return recording.trace(**({"machine": Machine(name, re.sub(r"\W", "", name), "cpu", peaks=PEAKS)} | changes))


def side_by_side(*traces: Trace) -> Comparison:
    return compare([Side(f"{t.machine.slug}.yaml", t, t.machine.name) for t in traces])


def lines(comparison: Comparison, key: str, where: str = "step") -> list[Line]:
    table = next(table for quantity, table in comparison.tables.items() if quantity.key == key)
    return [line for line in table if line.where == where]


def test_quantities_match_hand_computed_values() -> None:
    comparison = side_by_side(machine_trace("a", [190_000, 200_000, 230_000]), machine_trace("b", [100_000] * 3))
    time = lines(comparison, "time_s")[0]
    assert [cell.value for cell in time.cells] == [2e-4, 1e-4]  # medians
    assert (time.cells[0].low, time.cells[0].high) == (1.9e-4, 2.3e-4)
    rates = {key: line for key in RATES for line in lines(comparison, key)}
    assert {key: [cell.value for cell in line.cells] for key, line in rates.items()} == {
        "flops_per_second": pytest.approx([1e9, 2e9]),  # 200,000 FLOP in 200 µs, 100 µs
        "mfu": pytest.approx([0.1, 0.2]),  # of 10 GFLOP/s
        "bytes_per_second": pytest.approx([1e8, 2e8]),
        "bandwidth_share": pytest.approx([0.1, 0.2]),
    }
    assert rates["flops_per_second"].cells[0].low == pytest.approx(200_000 / 2.3e-4)  # in the slowest pass
    [memory] = lines(comparison, "peak_bytes")
    assert memory.cells[0].value == 4_096


# --- measured functions ---------------------------------------------------------------------------

CALL = Measured([2e-4, 2.2e-4, 1.9e-4], 200_000, 10_000, 10_000, "float32")


def trace_of_measured(name: str, *measured: Measured, harness: bool = True) -> Trace:
    """Return a trace whose step that measured took a second."""
    own, calls = {"host_ns": [10**9] * 3, "harness": harness}, [*measured] or None
    trace = with_steps(machine_trace(name, LONG), at(6, measured=calls, **own))
    return with_steps(trace, at(2, **own))


def test_measured_functions_are_compared_by_time_per_call() -> None:
    comparison = side_by_side(trace_of_measured("a", CALL), trace_of_measured("b", CALL))
    time, rate, mfu = (lines(comparison, key)[0] for key in ("time_s", "flops_per_second", "mfu"))
    assert time.cells[0].value == pytest.approx(2e-4)  # not the one second of the whole measurement
    assert rate.cells[0].value == pytest.approx(200_000 / 2e-4)
    assert rate.cells[0].low == pytest.approx(200_000 / 2.2e-4) and mfu.cells[0].value == pytest.approx(0.1)
    [section] = lines(comparison, "time_s", "section")
    assert section.cells[0].value == 1.0  # the time of a section includes the whole measurement


@pytest.mark.parametrize(("calls", "reason"), [([CALL, CALL], SEVERAL), ([], HARNESS)])
def test_step_without_exactly_one_measurement_has_no_rate(calls: list[Measured], reason: str) -> None:
    comparison = side_by_side(trace_of_measured("a", *calls), trace_of_measured("b", harness=False))
    for key in ("time_s", "flops_per_second", "bytes_per_second"):
        line = lines(comparison, key)[0]
        assert (line.cells[0].value, line.cells[0].why) == (None, reason)


# --- what is missing, and why ---------------------------------------------------------------------


def test_missing_quantities_have_a_reason() -> None:
    recording = Recording(LECTURE)
    first = recording.call(recording.frame("main"), "first()", "first")
    meters = Meters(flops=10**15, meta_flops=10**15, bytes_read=0, bytes_written=0, peak_bytes=0)
    recording.step(first, "y = ", annotated=True, host_ns=[9_000], values=[("y", matrix(2, 2))], meters=meters)
    comparison = side_by_side(machine_trace("a", LONG), recording.trace(machine=UNKNOWN))
    assert lines(comparison, "flops_per_second")[0].cells[1].why == NOWHERE
    assert [cell.why for cell in lines(comparison, "time_s")[-1].cells] == [None, "did not run"]
    without_peak = side_by_side(machine_trace("a", LONG), machine_trace("u", LONG, machine=UNKNOWN))
    mfu = lines(without_peak, "mfu")[0].cells[1]
    assert (mfu.value, mfu.why) == (None, "no float32 peak: not in the table")
    assert any("no peak is known for float32" in note for note in without_peak.notes)
    uncounted = machine_trace("a", LONG, meters=replace(METERS, uncounted=["aten.sort"]))
    for key in RATES:
        [line] = lines(side_by_side(uncounted, machine_trace("b", LONG)), key)
        assert [cell.why for cell in line.cells] == ["not counted: aten.sort", None]
        assert [cell.value is None for cell in line.cells] == [True, False]


def test_launch_times_are_not_compared() -> None:
    trace = machine_trace("g", [9_000], machine=Machine("g", "g", "cuda", peaks=PEAKS))
    steps = [replace(e, annotated=False) if getattr(e, "statement", 0) == 3 else e for e in trace.steps]
    comparison = side_by_side(machine_trace("a", [9_000]), replace(trace, steps=steps))
    assert lines(comparison, "time_s")[0].cells[1].value is None
    [section] = lines(comparison, "time_s", "section")
    assert [cell.value for cell in section.cells] == [1e-3, None]  # nothing waited for the device
    assert not any(cell.best for cell in section.cells)


def test_measured_numbers_are_compared_but_equal_ones_are_not() -> None:
    a, b = machine_trace("a", [2_000]), machine_trace("b", [1_000])
    [line] = side_by_side(a, b).tables[VALUES]
    assert (line.code, line.unit, [c.value for c in line.cells]) == ("seconds", "s", [2e-6, 1e-6])
    assert side_by_side(a, replace(a, machine=b.machine)).tables[VALUES] == ()
    assert [*map(better_end, ("s", "token/s", "B/s", "FLOP", None))] == ["lower", "higher", "higher", None, None]


# --- which steps, and which machine is best -------------------------------------------------------

EDITABLE = """\
def main():
    product()
def product():
    x = 1
    for i in range(3):
        y = x + i
    seconds = 2
main()
"""


def test_steps_match_although_their_lines_moved() -> None:
    moved = LECTURE.replace("def first():\n", "def first():\n    # a comment\n    pass\n")
    comparison = side_by_side(machine_trace("a", [20_000]), machine_trace("b", [10_000], text=moved))
    assert (comparison.matched, comparison.unmatched) == (3, (0, 0))
    assert [(line.line, line.which) for line in lines(comparison, "time_s")] == [(6, ""), (8, ""), (8, "execution 2")]
    assert any("lecture's source differs" in note for note in comparison.notes)


def test_steps_that_the_first_lacks_have_a_line_of_each_machine_after_a_common_step() -> None:
    longer = EDITABLE.replace("    x = 1\n", "    x = 1\n    new = 5\n")
    texts = enumerate((EDITABLE, longer, longer))
    traces = (
        with_steps(noisy(traced(text, machine=CPU), n), lambda s: replace(s, annotated=True)) for n, text in texts
    )
    comparison = side_by_side(*traces)
    shown = [(line.code, [cell.value is not None for cell in line.cells]) for line in lines(comparison, "time_s")]
    start = [code for code, _ in shown].index("x = 1")
    assert shown[start + 1 : start + 3] == [("new = 5", [False, True, False]), ("new = 5", [False, False, True])]
    assert (comparison.matched, comparison.unmatched) == (13, (0, 1, 1))


def test_value_of_a_renamed_variable_has_one_row() -> None:
    def inspecting(name: str, n: int) -> Trace:
        trace = traced(EDITABLE.replace("seconds = 2", f"{name} = 2\n    z = [{name}]"), machine=CPU)
        return with_steps(trace, at(7, values=[(name, replace(ints(n=n)[0][1], unit="s"))]))

    [line] = side_by_side(inspecting("seconds", 5), inspecting("took_s", 4)).tables[VALUES]
    assert (line.code, [cell.value for cell in line.cells]) == ("seconds", [5, 4])


def test_ratios_use_the_first_and_overlapping_passes_have_no_best() -> None:
    slow, fast = machine_trace("slow", [900, 1_000, 1_100]), machine_trace("fast", [450, 500, 550])
    cells = lines(side_by_side(fast, slow), "time_s")[0].cells
    assert [cell.ratio for cell in cells] == pytest.approx([1, 2])
    assert [cell.best for cell in cells] == [True, False]
    near = machine_trace("near", [440, 490, 900])
    assert not any(cell.best for cell in lines(side_by_side(fast, near), "time_s")[0].cells)
    equal = lines(side_by_side(fast, replace(fast, machine=slow.machine)), "peak_bytes")[0].cells
    assert not any(cell.best for cell in equal)


@pytest.mark.parametrize(
    ("spans", "better", "best"),
    [
        ([(1, 2), (3, 4), (5, 6)], "lower", 0),
        ([(1, 2), (3, 4), (5, 6)], "higher", 2),
        ([(1, 4), (3, 5), (9, 9)], "lower", None),  # the passes of two overlap
        ([(1, 9), (2, 8), None], "lower", None),
        ([(1, 2), None], "lower", None),  # nothing to compare with
        ([(1, 2), (3, 4)], None, None),
        ([None, None], "lower", None),
    ],
)
def test_best_machine_beats_every_pass_of_the_others(
    spans: list[tuple[float, float] | None], better: str | None, best: int | None
) -> None:
    cells = [Cell(None) if span is None else Cell(sum(span) / 2, *span) for span in spans]
    assert best_of(cells, better) == best
    assert [n for n, cell in enumerate(with_ratios(cells, better)) if cell.best] == [best] * (best is not None)


# --- labels, notes, refusals ----------------------------------------------------------------------


def test_machines_with_equal_names_get_distinct_labels_and_partial_traces_are_noted() -> None:
    a = machine_trace("a", [1_000])
    assert [side.label for side in side_by_side(a, a, machine_trace("b", [1])).sides] == ["a-1", "a-2", "b"]
    partial = replace(a, run=replace(a.run, complete=False, ended="ValueError at line 6", passes=1))
    notes = side_by_side(machine_trace("b", [1_000]), partial).notes
    assert any(says(note, "a is partial", "ValueError at line 6", "missing") for note in notes)
    assert any(says(note, "a ran one pass", "variation unknown", "--passes") for note in notes)


def test_invalid_comparisons_are_refused() -> None:
    a = machine_trace("a", [1_000])
    with pytest.raises(UsageError, match=r"found 1 trace; expected two or more to compare"):
        side_by_side(a)
