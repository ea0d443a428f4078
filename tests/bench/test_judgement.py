"""The judgement of rounds, for simulated durations and for traces with planted changes."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.diff.planted import SLOW_LINE, made, slower, with_steps
from trace_tools.bench import judgement
from trace_tools.bench.judgement import FEWEST_ROUNDS, MISSED, Floats, RoundsJudgement, judge_pairs, judge_rounds
from trace_tools.diff.difference import Side
from trace_tools.trace.model import Measured, Process, Step, Trace

DURATIONS = 40
GROUPS = np.where(np.arange(DURATIONS) < 10, judgement.LARGE, judgement.OTHERS)


def busy_rounds(
    rng: np.random.Generator, rounds: int, *, noise: float = 0.1, busy: float = 0.3
) -> tuple[Floats, Floats]:
    """Return logarithms of A's and B's durations on a shared machine.

    Bursts of load hit a share `busy` of the durations on average; the share differs between rounds.
    """
    load = 2 * busy * rng.random(rounds)  # the share in each round, the same on both sides
    sides = []
    for _ in range(2):
        of_step, of_process = rng.normal(14, noise, (DURATIONS, rounds)), rng.normal(0, 0.05, rounds)
        bursts = (rng.random((DURATIONS, rounds)) < load) * rng.exponential(1.0, (DURATIONS, rounds))
        sides.append(of_step + of_process + bursts)
    return sides[0], sides[1]


@pytest.fixture(autouse=True)
def few_swaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try fewer random swaps, to save time."""
    monkeypatch.setattr(judgement, "SWAPS", 200)


@pytest.mark.slow
@pytest.mark.parametrize(("rounds", "busy"), [(FEWEST_ROUNDS, 0.0), (FEWEST_ROUNDS, 0.3), (12, 0.3), (20, 0.6)])
def test_equal_lectures_are_rarely_called_different(rounds: int, busy: float) -> None:
    """At most 5% of comparisons may be false alarms; then more than 8 of 50 have a probability below 1 in 1,000."""
    rng = np.random.default_rng(rounds)
    false_alarms = [judge_pairs(*busy_rounds(rng, rounds, busy=busy), GROUPS, seed).called.any() for seed in range(50)]
    assert sum(false_alarms) <= 8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "busy", "rounds", "share"), [(0.02, 0.0, 6, 1.0), (0.1, 0.0, 12, 0.95), (0.1, 0.3, 20, 0.95)]
)
def test_most_changes_by_half_are_found(noise: float, busy: float, rounds: int, share: float) -> None:
    rng = np.random.default_rng(2)
    found_shares = []
    for seed in range(30):
        a, b = busy_rounds(rng, rounds, noise=noise, busy=busy)
        b[:3] += math.log(1.5)
        test = judge_pairs(a, b, GROUPS, seed)
        found_shares.append(test.called[:3].mean())
        assert np.all(test.effect[:3][test.called[:3]] > 0)
    assert np.mean(found_shares) >= share


@pytest.mark.slow
def test_suspected_changes_are_found_more_often() -> None:
    """At most 20% of comparisons are false alarms, because suspicion does not depend on the times."""
    rng, with_suspected = np.random.default_rng(7), np.where(np.arange(DURATIONS) < 3, judgement.SUSPECTED, GROUPS)
    false_alarms: list[bool] = []
    found_shares: dict[str, list[float]] = {"suspected": [], "unsuspected": []}
    for seed in range(20):
        a, b = busy_rounds(rng, 9, busy=0.1)
        # two modes; by chance, one side may have the faster mode more often
        a[3:] += rng.choice([0.0, 0.5], a[3:].shape)
        b[3:] += rng.choice([0.0, 0.5], b[3:].shape)
        false_alarms.append(judge_pairs(a, b, with_suspected, seed).called.any())
        b[:3] += math.log(1.5)
        for name, groups in (("suspected", with_suspected), ("unsuspected", GROUPS)):
            found_shares[name].append(judge_pairs(a, b, groups, seed).called[:3].mean())
    assert np.mean(found_shares["suspected"]) > np.mean(found_shares["unsuspected"]) + 0.1
    assert np.mean(false_alarms) <= 0.2


def test_most_changes_are_found_even_if_the_machine_is_slow_for_minutes() -> None:
    rng, found_shares = np.random.default_rng(8), []
    for seed in range(20):
        a, b = busy_rounds(rng, 12, noise=0.05, busy=0.1)
        slow_minutes = np.where(np.arange(12) < 9, 0.6, 0.0)  # only the last three rounds are fast
        a, b = a + slow_minutes, b + slow_minutes
        b[:3] += math.log(1.5)
        found_shares.append(judge_pairs(a, b, GROUPS, seed).called[:3].mean())
    assert np.mean(found_shares) > 0.8


def test_many_changes_are_all_found() -> None:
    a, b = busy_rounds(np.random.default_rng(3), 10, noise=0.03, busy=0.0)
    b[:20] -= math.log(2)
    test = judge_pairs(a, b)
    assert list(test.called) == [True] * 20 + [False] * 20
    assert np.all(np.abs(np.exp(test.effect[:20]) - 0.5) < 0.05)


@pytest.mark.slow
def test_most_intervals_contain_the_true_ratio() -> None:
    rng = np.random.default_rng(4)
    contained = []
    for seed in range(20):
        a, b = busy_rounds(rng, 12, busy=0.0)
        test = judge_pairs(a, b + math.log(1.3), GROUPS, seed)
        contained += [low <= 1.3 <= high for low, high in zip(*test.intervals(), strict=True)]
    assert np.mean(contained) > 0.9  # 95% is expected


@pytest.mark.slow
def test_detectable_ratios_are_mostly_detected() -> None:
    rng = np.random.default_rng(5)
    called = []
    for seed in range(40):
        a, b = busy_rounds(rng, 9, busy=0.1)
        ratio = float(judge_pairs(a, b, GROUPS, seed).detectable[0])
        b[0] += math.log(ratio)
        called.append(judge_pairs(a, b, GROUPS, seed).called[0])
    assert np.mean(called) > 0.65  # 80% is expected


def test_changes_below_ten_percent_are_not_called() -> None:
    a, _ = busy_rounds(np.random.default_rng(6), 8, noise=0.001, busy=0.0)
    assert not judge_pairs(a, a + math.log(1.08)).called.any()
    assert judge_pairs(a, a + math.log(1.12)).called.all()


def test_all_swaps_of_few_rounds_are_tried() -> None:
    """Six rounds have 2⁵ swaps: swapping the other rounds gives the same statistic, so the first is never swapped."""
    swaps = {tuple(map(bool, row)) for row in judgement._swaps(6, 0)}
    assert swaps == {(False, *others) for others in product([False, True], repeat=5)}
    # the first row is the original order, also of random swaps
    assert not judgement._swaps(6, 0)[0].any() and not judgement._swaps(30, 0)[0].any()


def test_the_smallest_p_of_six_rounds_is_one_in_32() -> None:
    a = np.array([[0.0, 0.01, 0.02, 0.03, 0.04, 0.05]])
    assert judge_pairs(a, a + 1).adjusted_p[0] == 1 / 32


def test_durations_without_noise_are_judged() -> None:
    a = np.full((2, 6), 10.0)
    test = judge_pairs(a, a + np.array([[0.0], [1.0]]))
    assert test.called.tolist() == [False, True]
    assert np.isfinite(test.effect).all() and np.isfinite(test.detectable).all()


# --- traces whose passes are rounds ---------------------------------------------------------------


ROUNDS = 8


def judge(a: Trace, b: Trace, rounds: int = ROUNDS) -> RoundsJudgement:
    return judge_rounds(Side("a.py", a), Side("b.py", b), rounds)


def different_lines(result: RoundsJudgement) -> set[int]:
    """Return the lines with different times, without those that have their cause in another line."""
    rows = [row for row in result.difference.rows if any(t.matters and t.cause is None for t in row.times)]
    return {row.step.line for row in rows}


def trace_pair(**changes: Any) -> tuple[Trace, Trace]:
    """Return two traces of the same lecture with independent noise."""
    return made(1, passes=ROUNDS, **changes), made(2, passes=ROUNDS, **changes)


def test_equal_traces_are_not_called_different() -> None:
    result = judge(*trace_pair())
    assert not different_lines(result)
    assert result.difference.times.judged and result.difference.time_not_judged is None
    assert result.would_find is not None and result.would_find < 1.2


def test_a_slower_statement_and_its_function_are_found() -> None:
    a, b = trace_pair()
    result = judge(a, with_steps(b, slower(1.5)))
    assert different_lines(result) == {SLOW_LINE}
    time = next(t for row in result.difference.rows for t in row.times if t.matters)
    assert time.overall is not None and abs(time.overall - 1.5) < 0.05
    assert result.difference.matters and result.difference.times.different == 20
    work = next(f for f in result.functions if f.function == "work")
    assert abs(work.ratio - 3.5 / 3) < 0.05  # one of three equally long statements takes 1.5 times as long


def test_times_under_load_are_judged() -> None:
    notes = [Process(f"pass {n + 1}", "complete", notes=["load average 8.00 on 2 cores"]) for n in range(ROUNDS)]
    a, b = (replace(t, run=replace(t.run, processes=notes)) for t in trace_pair())
    result = judge(a, with_steps(b, slower(1.5)))
    assert different_lines(result) == {SLOW_LINE}
    assert result.difference.a.trace is a  # the report contains the unmodified traces


def test_bursts_in_three_of_eight_rounds_are_no_difference() -> None:
    def burst(step: Step) -> Step:
        return replace(step, host_ns=[ns * (10 if n < 3 else 1) for n, ns in enumerate(step.host_ns or [])])

    a, b = trace_pair()
    assert not different_lines(judge(a, with_steps(b, burst)))


def test_the_shorter_of_cold_and_warm_time_counts() -> None:
    def cold(step: Step) -> Step:
        return replace(step, cold_ns=list(step.host_ns or []), host_ns=[10 * ns for ns in step.host_ns or []])

    a, b = trace_pair()
    assert not different_lines(judge(with_steps(a, cold), b))


def test_statements_missing_in_a_round_are_not_judged() -> None:
    def without_first_round(step: Step) -> Step:
        return replace(step, host_ns=(step.host_ns or [])[1:]) if step.line == SLOW_LINE else step

    a, b = trace_pair()
    result = judge(a, with_steps(with_steps(b, slower(2)), without_first_round))
    assert not different_lines(result) & {SLOW_LINE}
    assert dict(result.difference.times.not_judged)[MISSED] == 20


def test_measurements_are_judged_by_seconds_per_call() -> None:
    def measuring(seconds: float) -> Any:
        def change(step: Step) -> Step:
            if step.line != SLOW_LINE:
                return step
            calls = [Measured([seconds * (1 + 0.01 * n) for n in range(ROUNDS)])]
            return replace(step, measured=calls, harness=True)

        return change

    a, b = trace_pair()
    result = judge(with_steps(a, measuring(1e-3)), with_steps(b, measuring(2e-3)))
    assert different_lines(result) == {SLOW_LINE}
    assert {t.clock for row in result.difference.rows for t in row.times if t.matters} == {"call"}
    assert "work" not in {f.function for f in result.functions}  # its time depends on the number of measured calls


def test_too_few_rounds_are_refused() -> None:
    with pytest.raises(ValueError, match="5 rounds; expected at least 6"):
        judge(made(1, passes=5), made(2, passes=5), rounds=5)


def test_a_lecture_of_short_statements_is_not_judged() -> None:
    a, b = (with_steps(t, lambda step: replace(step, host_ns=[300] * ROUNDS)) for t in trace_pair())
    result = judge(a, b)
    assert result.difference.time_not_judged == "all steps are too short to time"
    assert result.would_find is None and not result.difference.matters
