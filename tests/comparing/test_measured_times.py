"""A step that measured is compared by what one call took and did, never by its own time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.comparing.planted import CPU, at, differ, made, with_steps
from tests.comparing.report_cases import terminal_of
from tests.comparing.test_compare import LECTURE, PEAKS, lines, side_by_side
from tests.rendering.recording import Recording
from trace_tools.comparing.compare import SEVERAL
from trace_tools.comparing.difference import Difference, Subject
from trace_tools.comparing.judging.times import HARNESS, UNLIKE
from trace_tools.comparing.reports.difference_report import headline
from trace_tools.comparing.reports.entries import entries, leads
from trace_tools.comparing.reports.listing import listing_of
from trace_tools.schema import Machine, Measured, Meters, Peak, Process, Trace

WHOLE = [400_000_000, 401_000_000, 399_000_000]  # as long as `measure` takes, whatever it was given


def measuring(*seconds: float, flops: int | None = None, whole: float = 1.0, machine: Machine = CPU) -> Trace:
    """Return a trace whose line 6 measured functions that take so many seconds, and line 3 calls it."""
    calls = [Measured([s, 1.01 * s, s / 1.01], flops, 4_000, 4_000, "float32") for s in seconds]
    took = [round(whole * ns) for ns in WHOLE]
    changes = {"annotated": True, "values": None, "meters": None, "harness": True, "host_ns": took}
    trace = with_steps(made(0, machine=machine), at(6, measured=calls, **changes))
    return with_steps(trace, at(2, harness=True, host_ns=took))


def times(difference: Difference, line: int) -> list[tuple[Subject, str, str | None]]:
    return [(t.subject, t.verdict, t.why) for row in difference.rows if row.step.line == line for t in row.times]


def test_a_measured_function_that_got_slower_is_found_though_its_step_took_as_long() -> None:
    difference = differ(measuring(3e-6), measuring(4.5e-6))
    assert times(difference, 6) == [(Subject("measured", 0), "slower", None)]
    [entry] = entries(difference, "time")
    assert (entry.line, entry.name, entry.a, entry.b) == (6, "1.5× slower", "3 µs", "4.5 µs")
    seen = [o for said in listing_of(difference).said.values() for o in said if o.aspect == "time" and o.level == 2]
    assert [(o.name, o.verdict) for o in seen] == [("one call", "slower")] and "µs" in (seen[0].a or "")


def test_the_time_of_the_harness_is_neither_judged_nor_shown() -> None:
    difference = differ(measuring(3e-6), measuring(3e-6, whole=2.0))
    assert not difference.matters
    assert times(difference, 2) == [(Subject("time"), "not judged", HARNESS)]
    everything = entries(difference, "time", everything=True)
    assert [(e.a, e.b) for e in everything if e.detail == HARNESS] == [(None, None)] * 1
    text = terminal_of(difference, everything=True)
    assert "400 ms" not in text and "800 ms" not in text


def test_of_several_measurements_each_has_its_own_verdict() -> None:
    difference = differ(measuring(3e-6, 5e-5), measuring(3e-6, 1e-4))
    assert [verdict for _, verdict, _ in times(difference, 6)] == ["no difference detected", "slower"]
    [entry] = entries(difference, "time")
    assert entry.subject == Subject("measured", 1) and "measurement 2" in (entry.detail or "")


def test_another_number_of_measurements_is_not_judged() -> None:
    assert times(differ(measuring(3e-6), measuring(3e-6, 3e-6)), 6) == [(Subject("time"), "not judged", UNLIKE)]


def test_a_measured_count_that_doubled_leads_also_where_no_clock_can_tell() -> None:
    a, b = measuring(3e-6, flops=1_000_000), measuring(3e-6, flops=1_500_000)
    difference = differ(a, b)
    [entry] = entries(difference, "flops")
    assert difference.matters and entry.subject == Subject("measured", 0, "flops") and entry.a == "1 MFLOP"
    busy = [Process(f"pass {n}", "complete", notes=["load average 3.9 on 2 cores: much"]) for n in (1, 2, 3)]
    unjudged = differ(a, replace(b, run=replace(b.run, processes=busy)))
    assert "50% more FLOPs; clocks too noisy. TIME NOT JUDGED: others were using" in headline(unjudged)
    assert "clocks too noisy" in (entries(unjudged, "flops")[0].detail or "")


def test_a_time_that_grew_with_its_count_may_follow_from_it_and_comes_after_it() -> None:
    difference = differ(measuring(3e-6, flops=10**6), measuring(6e-6, flops=2 * 10**6))
    [lead] = leads(difference)
    assert (lead.subject, lead.follows) == (Subject("measured", 0, "flops"), 1)
    assert [(e.verdict, e.after_line) for e in entries(difference, "time")] == [("slower", 6)]
    faster = differ(measuring(6e-6, flops=10**6), measuring(3e-6, flops=2 * 10**6))
    assert leads(faster) == [] and [e.after_line for e in entries(faster, "time")] == [None]


def test_shares_of_the_roof_are_those_of_the_call() -> None:
    machine = replace(CPU, peaks=[Peak("float32", 1e12, "a datasheet")])
    a, b = (measuring(s, flops=1_000_000, machine=machine) for s in (4e-6, 8e-6))
    [time] = [t for row in differ(a, b).rows if row.step.line == 6 for t in row.times]
    assert time.roof == "float32"
    assert (time.a_share, time.b_share) == pytest.approx((0.25, 0.125), rel=0.02)


# --- compare --------------------------------------------------------------------------------------


def compared(*measured: Measured, harness: bool = True) -> Trace:
    made = Recording(LECTURE)
    whole = [10**9] * 3
    first = made.frame("first", made.step(made.frame("main"), "first()", host_ns=whole, harness=harness))
    meters = Meters(flops=10**9, bytes_read=10**9, bytes_written=0, peak_bytes=4_096)
    calls = list(measured) or None
    made.step(first, "y = ", annotated=True, host_ns=whole, meters=meters, measured=calls, harness=harness)
    return made.trace(machine=Machine("a", "a", "cpu", peaks=PEAKS))


CALL = Measured([2e-4, 2.2e-4, 1.9e-4], 200_000, 10_000, 10_000, "float32")


def test_machines_are_compared_by_one_call_of_what_was_measured() -> None:
    one = compared(CALL)
    found = side_by_side(one, replace(one, machine=replace(one.machine, slug="b")))
    [time], [rate], [mfu] = (lines(found, key) for key in ("time_s", "flops_per_second", "mfu"))
    assert time.cells[0].value == pytest.approx(2e-4)  # not the second that measuring took
    assert rate.cells[0].value == pytest.approx(200_000 / 2e-4)
    assert mfu.cells[0].value == pytest.approx(0.1)
    assert rate.cells[0].low == pytest.approx(200_000 / 2.2e-4)
    assert rate.cells[0].intensity == 10
    [section] = [line for line in found.tables[0].lines if line.where == "section"]
    assert section.cells[0].value == 1.0  # of a section it is all that it took


@pytest.mark.parametrize(("calls", "why"), [([CALL, CALL], SEVERAL), ([], HARNESS)])
def test_what_measured_several_things_or_only_counted_has_no_rate(calls: list[Measured], why: str) -> None:
    one = compared(*calls)
    whole = compared(harness=False)
    found = side_by_side(one, replace(whole, machine=replace(one.machine, slug="b")))
    for key in ("time_s", "flops_per_second", "bytes_per_second"):
        [line] = lines(found, key)
        reading = line.cells[0]
        assert reading.value is None and reading.why == why
