"""A difference that a side's own runs show, too: durations that were observed, made up, and drawn from known noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.diff.planted import SLOW_LINE, differ, made, slower, with_steps
from trace_tools.diff.judge.two_modes import FIRST_RUN, LOAD, OTHER_FIRST_RUN, SideDurations, why_two_modes
from trace_tools.trace.model import Process, Step, Trace

QUIET = (False, False, False)


def side(warm: Sequence[float], cold: Sequence[float] = (), loaded: Sequence[bool] = QUIET) -> SideDurations:
    return SideDurations([*map(math.log, warm)], [*map(math.log, cold)], loaded)


FAST, SLOW = [0.63, 0.60, 0.63], [14.5, 14.0, 10.7]  # ms: a product of (64, 1024) by (1024, 64) on two threads


@pytest.mark.parametrize(
    ("cold_slow", "cold_fast", "why"),
    [
        ([8.7, 8.5, 0.79], [0.60, 0.61, 9.06], FIRST_RUN),  # as it was observed
        ([8.7, 8.5, 0.79], [0.60, 0.61, 0.62], FIRST_RUN),
        ([8.7, 8.5, 9.2], [0.60, 0.61, 9.06], OTHER_FIRST_RUN),
        ([14.9, 14.2, 13.0], [0.60, 0.61, 0.62], None),  # its code is slower
        ([26.0, 25.0, 24.0], [12.5, 12.9, 12.1], None),  # and a first run costs 12 ms more, on both sides
        ([14.9, 14.2, 13.0], [11.0, 12.9, 12.1], None),  # whatever it costs: every process pays
        ([14.9, 14.2, 13.0], [0.60, 0.61, 300.0], None),  # a disk, say: not what the slower side takes
        ([7.0, 7.1, 6.9], [0.30, 0.31, 0.29], None),  # first runs are twice as fast on both sides
    ],
)
def test_what_first_runs_say_of_a_difference(cold_slow: list[float], cold_fast: list[float], why: str | None) -> None:
    assert why_two_modes(side(SLOW, cold_slow), side(FAST, cold_fast), 0.1) == why


def test_a_doubled_time_is_not_excused_by_one_slow_first_run_elsewhere() -> None:
    doubled = side([2.0, 2.05, 1.95], [2.1, 2.2, 2.0])
    assert why_two_modes(doubled, side([1.0, 1.02, 0.99], [1.01, 1.05, 1.6]), 0.02) is None
    assert why_two_modes(doubled, side([1.0, 1.02, 0.99], [3.0, 3.1, 40.0]), 0.02) is None


@pytest.mark.parametrize(
    ("loaded", "warm", "why"),
    [
        ([True, True, True], SLOW, LOAD),
        ([True, True, False], SLOW, LOAD),
        ([True, False, False], SLOW, None),  # it is as slow without
        ([True, False, False], [14.5, 0.60, 0.63], LOAD),
    ],
)
def test_what_is_slow_only_under_load_is_no_difference(loaded: list[bool], warm: list[float], why: str | None) -> None:
    assert why_two_modes(side(warm, loaded=loaded), side(FAST), 0.1) == why
    assert why_two_modes(side(SLOW), side(FAST, loaded=loaded), 0.1) is None  # faster in spite of its load


@pytest.mark.parametrize("passes", [3, 5])
def test_hardly_any_real_difference_is_excused(passes: int) -> None:
    rng = np.random.default_rng(passes)
    for noise, factor in ((0.03, 1.2), (0.05, 1.5), (0.1, 2.0)):
        excused = 0
        for _ in range(500):
            first = rng.exponential(0.3)  # what a first run takes more, on both sides
            runs = [
                SideDurations(
                    rng.normal(at, noise, passes).tolist(),
                    rng.normal(at + first, noise, passes).tolist(),
                    [False] * passes,
                )
                for at in (math.log(factor), 0.0)
            ]
            excused += why_two_modes(*runs, noise) is not None
        assert excused <= 0.03 * 500, (noise, factor, excused)


def _with_cold(trace: Trace, factors: Sequence[float], line: int) -> Trace:
    """Return the trace with first runs of about 10 µs, at one line so many times as long."""

    def change(step: Step) -> Step:
        by = factors if step.line == line else [1.0] * len(factors)
        return replace(step, cold_ns=[round(10_000 * factor) for factor in by])

    return with_steps(trace, change)


def test_a_diff_does_not_judge_it_nor_the_call_around_it() -> None:
    def called(step: Step) -> Step:  # line 11 calls what line 15 is in: its time is more than that of the call
        return replace(step, host_ns=[ns + 90_000 for ns in step.host_ns or ()]) if step.line == 11 else step

    a, b = (with_steps(made(seed), called) for seed in (0, 1))
    b = with_steps(
        with_steps(b, slower(10.0)),
        lambda s: replace(s, host_ns=[ns + 90_000 for ns in s.host_ns or ()]) if s.line == 11 else s,
    )
    both = _with_cold(a, [1.0, 1.0, 9.0], SLOW_LINE), _with_cold(b, [9.0, 9.5, 1.1], SLOW_LINE)
    real = _with_cold(a, [1.0, 1.0, 1.1], SLOW_LINE), _with_cold(b, [9.0, 9.5, 9.2], SLOW_LINE)
    found = differ(*real)
    assert {row.step.line for row in found.rows for time in row.times if time.matters} >= {SLOW_LINE}
    found = differ(*both)
    modes = {row.step.line for row in found.rows for time in row.times if time.verdict == "two modes"}
    assert not found.matters and modes == {11, SLOW_LINE}
    assert (FIRST_RUN, 40) in found.times.not_judged and found.times.different == 0
    assert found.time_not_judged is None  # others were judged


def test_where_all_that_was_judged_has_two_modes_time_is_not_judged() -> None:
    def only(trace: Trace, *, factor: float) -> Trace:  # one statement is long enough
        def change(step: Step) -> Step:
            ns = round(10_000_000 * factor) if step.line == 5 else 500
            return replace(step, host_ns=[ns, ns + 5, ns - 5], cold_ns=[10_000_000] * 3)

        return with_steps(trace, change)

    found = differ(only(made(0), factor=1.0), only(made(1), factor=9.0))
    assert found.time_not_judged == FIRST_RUN and not found.matters
    short = differ(only(made(0), factor=1e-6), only(made(1), factor=5e-5))
    assert short.time_not_judged is None and not short.matters  # nothing is long enough to matter


def test_a_diff_of_a_loaded_side_does_not_call_it_slower() -> None:
    b = with_steps(made(1), slower(3.0))
    busy = [Process(f"pass {n}", "complete", other_cores=0.97) for n in (1, 2, 3)]
    calm = [
        Process(f"pass {n}", "complete", notes=["load average 2.1 on 2 cores: its own"], other_cores=0.02)
        for n in (1, 2, 3)
    ]
    loaded, quiet = (replace(b, run=replace(b.run, processes=processes)) for processes in (busy, calm))
    assert not differ(made(0), loaded).matters and differ(made(0), quiet).matters
    assert differ(loaded, made(0)).matters is False  # A is slower, under its load
    fast = replace(made(0), run=loaded.run)
    assert differ(fast, b).matters  # B is slower without any
