"""Verdicts on durations: statements are judged over processes, measured functions by the time of one call.

Differences that also occur between runs of one side (two modes) are tested with observed, invented and random times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.diff.plain_tracing import traced
from tests.diff.planted import CPU, MANY, SLOW_LINE, differ, made, measuring, noisy, slower, with_steps
from tests.diff.report_cases import terminal_of
from trace_tools.diff.difference import Difference, Subject
from trace_tools.diff.judge.times import (
    FIRST_RUN,
    HARNESS,
    LOAD,
    LOADED,
    OTHER_FIRST_RUN,
    SMALL,
    UNLIKE,
    SideDurations,
    why_two_modes,
)
from trace_tools.diff.report.entries import ReportEntry, entries
from trace_tools.diff.report.listing import listing_of
from trace_tools.trace.model import Peak, Process, Step, Trace


def test_slowdown_in_a_loop_is_one_entry() -> None:
    difference = differ(made(0), with_steps(made(1), slower(1.5)))
    (entry,) = entries(difference, "time")
    assert (
        entry.executions == 20
        and difference.function_of(entry.row) == "work"
        and 1.45 < float(entry.name.split("×")[0]) < 1.55
    )
    assert {row.step.line for row in difference.rows if row.time and row.time.matters} == {SLOW_LINE}


def test_executions_of_a_statement_are_tested_together() -> None:
    difference = differ(made(0), with_steps(made(1), slower(1.5)))
    slow = [row.time for row in difference.rows if row.time and row.time.matters]
    assert len(slow) == 20 and {time.executions for time in slow} == {20} and len({time.p for time in slow}) == 1
    assert len({time.ratio for time in slow}) == 20  # each execution has its own ratio, and all share one p-value
    assert difference.times.different == 20 and difference.times.statements < 20 < difference.times.judged
    assert sum(o.level == 2 for row in difference.rows for o in observations_of(difference, row.number)) == 1


def observations_of(difference: Difference, number: int) -> Sequence[ReportEntry]:
    """Return the entries that the page shows for a row."""
    return listing_of(difference).entries.get(number, ())


def test_negligible_statement_is_not_judged() -> None:
    def rescaled(step: Step) -> Step:
        factor = {3: 2000, 14: 0.2, 15: 0.2, 16: 0.2}.get(step.line, 1.0)
        return slower(factor, step.line)(step)

    a, b = with_steps(made(0), rescaled), with_steps(with_steps(made(1), rescaled), slower(3.0, 16))
    difference = differ(a, b)
    assert [row.time.verdict for row in difference.rows if row.step.line == 16 and row.time] == ["slower"] * 20
    with_long_statement = with_steps(a, slower(100.0, 3)), with_steps(b, slower(100.0, 3))
    assert {row.time.why for row in differ(*with_long_statement).rows if row.step.line == 16 and row.time} == {SMALL}
    assert differ(*with_long_statement).times.not_judged[0][0] == SMALL


@pytest.mark.parametrize(
    ("notes", "threads", "called"),
    [(None, 2, False), (None, 1, True), (["load average 2.4 on 2 cores: much"], 2, False)],
)
def test_common_slowdown_is_attributed_to_the_machine(notes: list[str] | None, threads: int, called: bool) -> None:
    factor = 1.6 if notes else 1.09
    a, b = traced(MANY, machine=CPU), traced(MANY, machine=replace(CPU, threads=threads))
    a, b = noisy(a, 0), with_steps(noisy(b, 1), lambda s: slower(factor if s.line != 9 else 1.3 * factor, s.line)(s))
    b = replace(b, run=replace(b.run, processes=[Process("pass 1", "complete", notes=notes)]))
    difference = differ(a, b)
    slower_lines = {e.line for e in entries(difference, "time")}
    if notes:  # load slows some steps more than others, so steps that are slower only under load are not called
        assert slower_lines == set() and LOAD in dict(difference.times.not_judged)
    else:
        assert (9 in slower_lines) and (difference.times.drift == 1 if called else slower_lines == {9})
    if not called:
        assert difference.times.drift == pytest.approx(factor, rel=0.01)
        assert "attributed to the machine" in " ".join(terminal_of(difference).split())


def test_times_of_a_busy_machine_are_not_judged() -> None:
    busy = [
        Process(
            "pass 2", "complete", notes=["load average 3.9 on 2 cores: more tasks were running than there are cores"]
        )
    ]
    b = with_steps(made(1), slower(1.5))
    difference = differ(made(0), replace(b, run=replace(b.run, processes=busy)))
    assert not difference.matters and difference.times.judged == 0
    assert {why for why, _ in difference.times.not_judged} == {LOADED}
    quiet = [Process(f"pass {n}", "complete") for n in (1, 3)]
    for others in ([replace(busy[0], name="metering")], [*busy, *quiet]):  # load outside the passes, or in one of three
        assert differ(made(0), replace(b, run=replace(b.run, processes=others))).matters


def test_launch_and_compilation_times_are_not_judged() -> None:
    gpu = replace(CPU, device="cuda")
    a, b = made(0, passes=3), with_steps(made(1), slower(9.0))
    difference = differ(replace(a, machine=gpu), replace(b, machine=gpu))
    assert difference.times.judged == 1 and difference.times.different == 0  # the one annotated step
    compiled = with_steps(b, lambda s: replace(s, compiled=True))
    assert differ(a, compiled).times.judged == 0


def test_fewer_than_three_processes_give_no_verdict() -> None:
    difference = differ(made(0, passes=2), with_steps(made(1, passes=3), slower(5.0)))
    assert difference.times.judged == 0 and not difference.matters
    assert "fewer than 3 processes" in terminal_of(difference)


def test_times_across_machines_are_ratios_with_intervals() -> None:
    other = replace(with_steps(made(1), slower(3.0)), machine=replace(CPU, name="Another processor"))
    difference = differ(made(0), other)
    rows = [row.time for row in difference.rows if row.step.line == SLOW_LINE and row.time]
    assert not difference.matters and rows
    for time in rows:
        assert time.verdict == "ratio" and time.ratio and time.interval
        assert time.interval[0] < time.ratio < time.interval[1] and 2.7 < time.ratio < 3.3
    assert "Another processor" in terminal_of(difference)


def times(difference: Difference, line: int) -> list[tuple[Subject, str, str | None]]:
    return [(t.subject, t.verdict, t.why) for row in difference.rows if row.step.line == line for t in row.times]


def test_slower_measured_function_is_detected_despite_equal_step_times() -> None:
    difference = differ(measuring(3e-6), measuring(4.5e-6))
    assert times(difference, 6) == [(Subject("measured", 0), "slower", None)]
    [entry] = entries(difference, "time")
    assert (entry.line, entry.name, entry.a, entry.b) == (6, "1.5× slower", "3 µs", "4.5 µs")
    listed = [
        o
        for row_entries in listing_of(difference).entries.values()
        for o in row_entries
        if o.aspect == "time" and o.level == 2
    ]
    assert [(o.name, o.verdict) for o in listed] == [("one call", "slower")] and "µs" in (listed[0].a or "")


def test_harness_time_is_neither_judged_nor_shown() -> None:
    difference = differ(measuring(3e-6), measuring(3e-6, harness_factor=2.0))
    assert not difference.matters
    assert times(difference, 2) == [(Subject("time"), "not judged", HARNESS)]
    everything = entries(difference, "time", everything=True)
    assert [(e.a, e.b) for e in everything if e.detail == HARNESS] == [(None, None)] * 1
    text = terminal_of(difference, everything=True)
    assert "400 ms" not in text and "800 ms" not in text


def test_each_measurement_has_its_own_verdict() -> None:
    difference = differ(measuring(3e-6, 5e-5), measuring(3e-6, 1e-4))
    assert [verdict for _, verdict, _ in times(difference, 6)] == ["no difference detected", "slower"]
    [entry] = entries(difference, "time")
    assert entry.subject == Subject("measured", 1) and "measurement 2" in (entry.detail or "")


def test_different_numbers_of_measurements_are_not_judged() -> None:
    assert times(differ(measuring(3e-6), measuring(3e-6, 3e-6)), 6) == [(Subject("time"), "not judged", UNLIKE)]


def test_roof_shares_are_those_of_one_call() -> None:
    machine = replace(CPU, peaks=[Peak("float32", 1e12, "a datasheet")])
    a, b = (measuring(s, flops=1_000_000, machine=machine) for s in (4e-6, 8e-6))
    [time] = [t for row in differ(a, b).rows if row.step.line == 6 for t in row.times]
    assert time.roof == "float32"
    assert (time.a_share, time.b_share) == pytest.approx((0.25, 0.125), rel=0.02)


def test_launch_and_device_times_have_separate_verdicts() -> None:
    """The launch can be more than half of a step's time, so the report states which of the two changed."""

    def on_device(trace: Trace, launch: float, device: float) -> Trace:
        def timed(step: Step) -> Step:
            ns = step.host_ns or []
            launch_ns, device_ns = ([round(factor * n) for n in ns] for factor in (launch, 3 * device))
            return replace(step, annotated=True, launch_ns=launch_ns, device_ns=device_ns)

        timed_trace = with_steps(trace, lambda step: timed(step) if step.line in (SLOW_LINE, 10) else step)
        return replace(timed_trace, machine=replace(CPU, device="cuda"))

    def verdicts(launch: float, device: float, **machine: str) -> dict[str, str]:
        a, b = on_device(made(0), 1, 1), on_device(made(1), launch, device)
        difference = differ(a, replace(b, machine=replace(b.machine, **machine)))
        names = " ".join(time_names(difference))
        assert ("launch time" in names) == (launch != 1 or bool(machine)) and "roof" not in names
        return {subject.kind: verdict for subject, verdict, _ in times(difference, SLOW_LINE)}

    unchanged = "no difference detected"
    assert verdicts(1.5, 1) == {"time": unchanged, "launch": "slower"}
    assert verdicts(1, 1.5) == {"time": "slower", "launch": unchanged}
    assert verdicts(1, 1, name="Another processor") == {"time": "ratio", "launch": "ratio"}


def time_names(difference: Difference) -> list[str]:
    """Return the names of the times that the page emphasises."""
    return [
        o.name
        for row_entries in listing_of(difference).entries.values()
        for o in row_entries
        if o.aspect == "time" and o.level
    ]


# --- two modes ------------------------------------------------------------------------------------


QUIET = (False, False, False)


def side(warm: Sequence[float], cold: Sequence[float] = (), loaded: Sequence[bool] = QUIET) -> SideDurations:
    return SideDurations([*map(math.log, warm)], [*map(math.log, cold)], loaded)


FAST, SLOW = (
    [0.63, 0.60, 0.63],
    [14.5, 14.0, 10.7],
)  # ms, for a product of (64, 1024) by (1024, 64) on two threads


@pytest.mark.parametrize(
    ("cold_slow", "cold_fast", "reason"),
    [
        ([8.7, 8.5, 0.79], [0.60, 0.61, 9.06], FIRST_RUN),  # the observed durations
        ([8.7, 8.5, 0.79], [0.60, 0.61, 0.62], FIRST_RUN),
        ([8.7, 8.5, 9.2], [0.60, 0.61, 9.06], OTHER_FIRST_RUN),
        ([14.9, 14.2, 13.0], [0.60, 0.61, 0.62], None),  # the code of the slower side is slower
        ([26.0, 25.0, 24.0], [12.5, 12.9, 12.1], None),  # also, a first run takes 12 ms longer on both sides
        ([14.9, 14.2, 13.0], [11.0, 12.9, 12.1], None),  # slow first runs in every process are no second mode
        (
            [14.9, 14.2, 13.0],
            [0.60, 0.61, 300.0],
            None,
        ),  # unlike the slower side; for example, a disk access
        ([7.0, 7.1, 6.9], [0.30, 0.31, 0.29], None),  # first runs are twice as fast on both sides
    ],
)
def test_first_runs_can_reveal_two_modes(cold_slow: list[float], cold_fast: list[float], reason: str | None) -> None:
    assert why_two_modes(side(SLOW, cold_slow), side(FAST, cold_fast), 0.1) == reason


def test_one_slow_first_run_does_not_excuse_a_doubled_time() -> None:
    doubled = side([2.0, 2.05, 1.95], [2.1, 2.2, 2.0])
    assert why_two_modes(doubled, side([1.0, 1.02, 0.99], [1.01, 1.05, 1.6]), 0.02) is None
    assert why_two_modes(doubled, side([1.0, 1.02, 0.99], [3.0, 3.1, 40.0]), 0.02) is None


@pytest.mark.parametrize(
    ("loaded", "warm", "reason"),
    [
        ([True, True, True], SLOW, LOAD),
        ([True, True, False], SLOW, LOAD),
        ([True, False, False], SLOW, None),  # as slow without load
        ([True, False, False], [14.5, 0.60, 0.63], LOAD),
    ],
)
def test_slowness_only_under_load_is_excused(loaded: list[bool], warm: list[float], reason: str | None) -> None:
    assert why_two_modes(side(warm, loaded=loaded), side(FAST), 0.1) == reason
    assert why_two_modes(side(SLOW), side(FAST, loaded=loaded), 0.1) is None  # faster despite its load


@pytest.mark.parametrize("passes", [3, 5])
def test_real_differences_are_rarely_excused(passes: int) -> None:
    rng = np.random.default_rng(passes)
    for noise, factor in ((0.03, 1.2), (0.05, 1.5), (0.1, 2.0)):
        excused = 0
        for _ in range(500):
            first = rng.exponential(0.3)  # additional time of a first run, on both sides
            runs = [
                SideDurations(
                    rng.normal(log_ns, noise, passes).tolist(),
                    rng.normal(log_ns + first, noise, passes).tolist(),
                    [False] * passes,
                )
                for log_ns in (math.log(factor), 0.0)
            ]
            excused += why_two_modes(*runs, noise) is not None
        assert excused <= 0.03 * 500, (noise, factor, excused)


def _with_cold(trace: Trace, factors: Sequence[float], line: int) -> Trace:
    """Return the trace with first runs of 10 µs, multiplied by `factors` in one line."""

    def change(step: Step) -> Step:
        line_factors = factors if step.line == line else [1.0] * len(factors)
        return replace(step, cold_ns=[round(10_000 * factor) for factor in line_factors])

    return with_steps(trace, change)


def test_statement_with_two_modes_and_its_caller_are_not_judged() -> None:
    def called(step: Step) -> Step:  # line 11 calls the function of line 15 and takes longer than it
        return replace(step, host_ns=[ns + 90_000 for ns in step.host_ns or ()]) if step.line == 11 else step

    a, b = (with_steps(made(seed), called) for seed in (0, 1))
    b = with_steps(
        with_steps(b, slower(10.0)),
        lambda s: replace(s, host_ns=[ns + 90_000 for ns in s.host_ns or ()]) if s.line == 11 else s,
    )
    two_modes = _with_cold(a, [1.0, 1.0, 9.0], SLOW_LINE), _with_cold(b, [9.0, 9.5, 1.1], SLOW_LINE)
    slower_sides = _with_cold(a, [1.0, 1.0, 1.1], SLOW_LINE), _with_cold(b, [9.0, 9.5, 9.2], SLOW_LINE)
    difference = differ(*slower_sides)
    assert {row.step.line for row in difference.rows for time in row.times if time.matters} >= {SLOW_LINE}
    difference = differ(*two_modes)
    modes = {row.step.line for row in difference.rows for time in row.times if time.verdict == "two modes"}
    assert not difference.matters and modes == {11, SLOW_LINE}
    assert (FIRST_RUN, 40) in difference.times.not_judged and difference.times.different == 0
    assert difference.time_not_judged is None  # other statements were judged


@pytest.mark.slow
def test_time_is_not_judged_if_everything_has_two_modes() -> None:
    def only(trace: Trace, *, factor: float) -> Trace:  # only one statement is long enough to be judged
        def change(step: Step) -> Step:
            ns = round(10_000_000 * factor) if step.line == 5 else 500
            return replace(step, host_ns=[ns, ns + 5, ns - 5], cold_ns=[10_000_000] * 3)

        return with_steps(trace, change)

    difference = differ(only(made(0), factor=1.0), only(made(1), factor=9.0))
    assert difference.time_not_judged == FIRST_RUN and not difference.matters
    short = differ(only(made(0), factor=1e-6), only(made(1), factor=5e-5))
    assert short.time_not_judged is None and not short.matters  # nothing is long enough to matter


@pytest.mark.slow
def test_slower_side_under_load_does_not_matter() -> None:
    b = with_steps(made(1), slower(3.0))
    busy = [Process(f"pass {n}", "complete", other_cores=0.97) for n in (1, 2, 3)]
    calm = [
        Process(f"pass {n}", "complete", notes=["load average 2.1 on 2 cores: its own"], other_cores=0.02)
        for n in (1, 2, 3)
    ]
    loaded, quiet = (replace(b, run=replace(b.run, processes=processes)) for processes in (busy, calm))
    assert not differ(made(0), loaded).matters and differ(made(0), quiet).matters
    assert differ(loaded, made(0)).matters is False  # A is slower, but under load
    fast = replace(made(0), run=loaded.run)
    assert differ(fast, b).matters  # B is slower without load
