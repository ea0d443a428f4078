"""Verdicts on durations: statements are judged over processes, measured functions by the time of one call.

A slower side whose own first or unloaded runs were as fast is not called.
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
    HARNESS,
    LOADED,
    SMALL,
    UNLIKE,
    first_runs_were_as_fast,
)
from trace_tools.diff.report.entries import entries
from trace_tools.diff.wording import word_of
from trace_tools.trace.model import Peak, Process, Step, Trace


def test_slowdown_in_a_loop_is_one_entry() -> None:
    difference = differ(made(0), with_steps(made(1), slower(1.5)))
    (entry,) = entries(difference, "time")
    assert (
        entry.executions == 20
        and difference.function_of(entry.row) == "work"
        and 1.45 < float(entry.name.split("×")[0]) < 1.55
    )
    assert {row.step.line for row in difference.rows if any(time.matters for time in row.times)} == {SLOW_LINE}


def test_executions_of_a_statement_are_tested_together() -> None:
    difference = differ(made(0), with_steps(made(1), slower(1.5)))
    slow = [time for row in difference.rows for time in row.times if time.matters]
    assert len(slow) == 20 and {time.durations.executions for time in slow} == {20}
    assert len({time.durations.p for time in slow}) == 1
    assert len({time.ratio for time in slow}) == 20  # each execution has its own ratio, and all share one p-value
    assert difference.times.different == 20 and difference.times.statements < 20 < difference.times.judged


def test_negligible_statement_is_not_judged() -> None:
    def rescaled(step: Step) -> Step:
        factor = {3: 2000, 14: 0.2, 15: 0.2, 16: 0.2}.get(step.line, 1.0)
        return slower(factor, step.line)(step)

    a, b = with_steps(made(0), rescaled), with_steps(with_steps(made(1), rescaled), slower(3.0, 16))
    difference = differ(a, b)
    assert [word_of(time) for row in difference.rows if row.step.line == 16 for time in row.times] == ["slower"] * 20
    with_long_statement = with_steps(a, slower(100.0, 3)), with_steps(b, slower(100.0, 3))
    assert {time.detail for row in differ(*with_long_statement).rows if row.step.line == 16 for time in row.times} == {
        SMALL
    }
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
        assert slower_lines == set()
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
    for others in ([replace(busy[0], name="survey")], [*busy, *quiet]):  # load outside the passes, or in one of three
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
    rows = [time for row in difference.rows if row.step.line == SLOW_LINE for time in row.times]
    assert not difference.matters and rows
    for time in rows:
        assert time.verdict == "ratio" and time.ratio and time.durations.interval
        assert time.durations.interval[0] < time.ratio < time.durations.interval[1] and 2.7 < time.ratio < 3.3
    assert "Another processor" in terminal_of(difference)


def times(difference: Difference, line: int) -> list[tuple[Subject, str, str | None]]:
    timed = [time for row in difference.rows if row.step.line == line for time in row.times]
    return [(t.subject, word_of(t), t.detail if t.verdict == "not judged" else None) for t in timed]


def test_slower_measured_function_is_detected_despite_equal_step_times() -> None:
    difference = differ(measuring(3e-6), measuring(4.5e-6))
    assert times(difference, 6) == [(Subject("measured", 0), "slower", None)]
    [entry] = entries(difference, "time")
    assert (entry.line, entry.name, entry.a, entry.b) == (6, "1.5× slower", "3 µs", "4.5 µs")


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
    assert entry.finding.subject == Subject("measured", 1) and "measurement 2" in (entry.detail or "")


def test_different_numbers_of_measurements_are_not_judged() -> None:
    assert times(differ(measuring(3e-6), measuring(3e-6, 3e-6)), 6) == [(Subject("time"), "not judged", UNLIKE)]


def test_roof_shares_are_those_of_one_call() -> None:
    machine = replace(CPU, peaks=[Peak("float32", 1e12, "a datasheet")])
    a, b = (measuring(s, flops=1_000_000, machine=machine) for s in (4e-6, 8e-6))
    [time] = [t for row in differ(a, b).rows if row.step.line == 6 for t in row.times]
    assert time.durations.roof == "float32"
    assert (time.durations.a_share, time.durations.b_share) == pytest.approx((0.25, 0.125), rel=0.02)


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
        return {subject.kind: verdict for subject, verdict, _ in times(difference, SLOW_LINE)}

    unchanged = "no difference detected"
    assert verdicts(1.5, 1) == {"time": unchanged, "launch": "slower"}
    assert verdicts(1, 1.5) == {"time": "slower", "launch": unchanged}
    assert verdicts(1, 1, name="Another processor") == {"time": "ratio", "launch": "ratio"}


# --- a side's own runs ------------------------------------------------------------------------------------


def _with_cold(trace: Trace, factors: Sequence[float], line: int) -> Trace:
    """Return the trace with first runs of 10 µs, multiplied by `factors` in one line."""

    def change(step: Step) -> Step:
        line_factors = factors if step.line == line else [1.0] * len(factors)
        return replace(step, cold_ns=[round(10_000 * factor) for factor in line_factors])

    return with_steps(trace, change)


def test_slower_side_whose_own_first_runs_were_as_fast_is_not_called() -> None:
    """As observed for a product on two threads: 0.6 ms, or 14 ms if its second thread must be woken."""
    a, b = made(0), with_steps(made(1), slower(10.0))
    slow_first = _with_cold(a, [1.0, 1.0, 9.0], SLOW_LINE), _with_cold(b, [9.0, 9.5, 9.2], SLOW_LINE)
    fast_first = _with_cold(a, [1.0, 1.0, 1.1], SLOW_LINE), _with_cold(b, [9.0, 9.5, 1.1], SLOW_LINE)
    called = differ(*slow_first)
    assert {row.step.line for row in called.rows for time in row.times if time.matters} >= {SLOW_LINE}
    excused = differ(*fast_first)
    assert not excused.matters and excused.times.different == 0 and excused.time_not_judged is None
    verdicts = {word_of(time) for row in excused.rows if row.step.line == SLOW_LINE for time in row.times}
    assert verdicts == {"no difference detected"}


@pytest.mark.parametrize("passes", [3, 5])
def test_real_differences_are_rarely_excused(passes: int) -> None:
    """First runs take longer than warm runs, by as much on both sides."""
    rng = np.random.default_rng(passes)
    for noise, factor in ((0.03, 1.2), (0.05, 1.5), (0.1, 2.0)):
        excused = 0
        for _ in range(500):
            first = rng.exponential(0.3)
            slow, fast = (np.exp(rng.normal(mean, noise, passes)) for mean in (math.log(factor), 0.0))
            first_runs = np.exp(rng.normal(math.log(factor) + first, noise, passes))
            excused += first_runs_were_as_fast([*first_runs], float(np.median(fast)), float(np.median(slow)))
        assert excused <= 0.05 * 500, (noise, factor, excused)


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
