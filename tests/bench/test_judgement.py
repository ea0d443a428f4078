"""The judgement of rounds: of simulated durations and of planted traces, both with known differences and noise."""

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
    """Return logarithms of A's and B's durations on a machine that others use: bursts, some rounds much worse."""
    load = 2 * busy * rng.random(rounds)  # a round's share of durations that a burst hits, on either side
    sides = []
    for _ in range(2):
        own, process = rng.normal(14, noise, (DURATIONS, rounds)), rng.normal(0, 0.05, rounds)
        bursts = (rng.random((DURATIONS, rounds)) < load) * rng.exponential(1.0, (DURATIONS, rounds))
        sides.append(own + process + bursts)
    return sides[0], sides[1]


@pytest.fixture(autouse=True)
def few_swaps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judgement, "SWAPS", 200)


@pytest.mark.slow
@pytest.mark.parametrize(("rounds", "busy"), [(FEWEST_ROUNDS, 0.0), (FEWEST_ROUNDS, 0.3), (12, 0.3), (20, 0.6)])
def test_a_lecture_hardly_ever_differs_from_itself(rounds: int, busy: float) -> None:
    """In 5% of comparisons something may be called: of 50, more than 8 would be a chance of 1 in 1,000."""
    rng = np.random.default_rng(rounds)
    called = [judge_pairs(*busy_rounds(rng, rounds, busy=busy), GROUPS, seed).called.any() for seed in range(50)]
    assert sum(called) <= 8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "busy", "rounds", "share"), [(0.02, 0.0, 6, 1.0), (0.1, 0.0, 12, 0.95), (0.1, 0.3, 20, 0.95)]
)
def test_half_as_long_again_is_found(noise: float, busy: float, rounds: int, share: float) -> None:
    rng = np.random.default_rng(2)
    found = []
    for seed in range(30):
        a, b = busy_rounds(rng, rounds, noise=noise, busy=busy)
        b[:3] += math.log(1.5)
        judged = judge_pairs(a, b, GROUPS, seed)
        found.append(judged.called[:3].mean())
        assert np.all(judged.effect[:3][judged.called[:3]] > 0)
    assert np.mean(found) >= share


@pytest.mark.slow
def test_what_is_suspected_is_found_beside_much_that_is_noisy() -> None:
    """With as few false alarms: what is suspected was decided before the clocks were read."""
    rng, suspected = np.random.default_rng(7), np.where(np.arange(DURATIONS) < 3, judgement.SUSPECTED, GROUPS)
    found: dict[str, list[float]] = {"suspected": [], "not": [], "falsely": []}
    for seed in range(20):
        a, b = busy_rounds(rng, 9, busy=0.1)
        a[3:] += rng.choice([0.0, 0.5], a[3:].shape)  # two modes, of which the quicker may be one side's by chance
        b[3:] += rng.choice([0.0, 0.5], b[3:].shape)
        found["falsely"].append(judge_pairs(a, b, suspected, seed).called.any())
        b[:3] += math.log(1.5)
        for name, groups in (("suspected", suspected), ("not", GROUPS)):
            found[name].append(judge_pairs(a, b, groups, seed).called[:3].mean())
    assert np.mean(found["suspected"]) > np.mean(found["not"]) + 0.1 and np.mean(found["falsely"]) <= 0.2


def test_a_machine_that_is_slower_for_minutes_hides_nothing() -> None:
    rng, found = np.random.default_rng(8), []
    for seed in range(20):
        a, b = busy_rounds(rng, 12, noise=0.05, busy=0.1)
        minutes = np.where(np.arange(12) < 9, 0.6, 0.0)  # the last three rounds are quick
        a, b = a + minutes, b + minutes
        b[:3] += math.log(1.5)
        found.append(judge_pairs(a, b, GROUPS, seed).called[:3].mean())
    assert np.mean(found) > 0.8


def test_all_that_differs_is_found_beside_much_else_that_does() -> None:
    a, b = busy_rounds(np.random.default_rng(3), 10, noise=0.03, busy=0.0)
    b[:20] -= math.log(2)
    judged = judge_pairs(a, b)
    assert list(judged.called) == [True] * 20 + [False] * 20
    assert np.all(np.abs(np.exp(judged.effect[:20]) - 0.5) < 0.05)


@pytest.mark.slow
def test_intervals_hold_the_truth() -> None:
    rng = np.random.default_rng(4)
    held = []
    for seed in range(20):
        a, b = busy_rounds(rng, 12, busy=0.0)
        judged = judge_pairs(a, b + math.log(1.3), GROUPS, seed)
        held += [low <= 1.3 <= high for low, high in zip(*judged.intervals(), strict=True)]
    assert np.mean(held) > 0.9


def test_what_is_said_to_be_detectable_mostly_is() -> None:
    rng = np.random.default_rng(5)
    found = []
    for seed in range(40):
        a, b = busy_rounds(rng, 9, busy=0.1)
        said = float(judge_pairs(a, b, GROUPS, seed).detectable[0])
        b[0] += math.log(said)
        found.append(judge_pairs(a, b, GROUPS, seed).called[0])
    assert np.mean(found) > 0.65  # 80% is meant


def test_ten_percent_is_the_least_that_matters() -> None:
    a, _ = busy_rounds(np.random.default_rng(6), 8, noise=0.001, busy=0.0)
    assert not judge_pairs(a, a + math.log(1.08)).called.any()
    assert judge_pairs(a, a + math.log(1.12)).called.all()


def test_every_swap_is_tried_where_there_are_few() -> None:
    """The first round stays: all others swapped instead is the same statistic, so that there are 2⁵ ways."""
    swaps = {tuple(map(bool, row)) for row in judgement._swaps(6, 0)}
    assert swaps == {(False, *others) for others in product([False, True], repeat=5)}
    assert not judgement._swaps(6, 0)[0].any() and not judgement._swaps(30, 0)[0].any()


def test_the_rarest_that_six_rounds_can_be_is_one_of_32() -> None:
    a = np.array([[0.0, 0.01, 0.02, 0.03, 0.04, 0.05]])
    assert judge_pairs(a, a + 1).adjusted_p[0] == 1 / 32


def test_durations_without_any_noise_are_judged() -> None:
    a = np.full((2, 6), 10.0)
    judged = judge_pairs(a, a + np.array([[0.0], [1.0]]))
    assert not judged.called[0] and np.isfinite(judged.effect).all() and np.isfinite(judged.detectable).all()


# --- traces whose passes are rounds ---------------------------------------------------------------


ROUNDS = 8


def judged(a: Trace, b: Trace, rounds: int = ROUNDS) -> RoundsJudgement:
    return judge_rounds(Side("a.py", a), Side("b.py", b), rounds)


def lines(found: RoundsJudgement) -> set[int]:
    """The lines that were called different and are the cause themselves."""
    rows = [row for row in found.difference.rows if any(t.matters and t.cause is None for t in row.times)]
    return {row.step.line for row in rows}


def pair(**changes: Any) -> tuple[Trace, Trace]:
    return made(1, passes=ROUNDS, **changes), made(2, passes=ROUNDS, **changes)


def test_the_same_is_not_called_different() -> None:
    found = judged(*pair())
    assert not lines(found)
    assert found.difference.times.judged and found.difference.time_not_judged is None
    assert found.would_find is not None and found.would_find < 1.2


def test_a_slower_statement_is_found_and_named() -> None:
    a, b = pair()
    found = judged(a, with_steps(b, slower(1.5)))
    assert lines(found) == {SLOW_LINE}
    time = next(t for row in found.difference.rows for t in row.times if t.matters)
    assert time.overall is not None and abs(time.overall - 1.5) < 0.05
    assert found.difference.matters and found.difference.times.different == 20
    work = next(f for f in found.functions if f.function == "work")
    assert abs(work.ratio - 3.5 / 3) < 0.05  # one of its three statements, each as long as the others


def test_load_that_hits_both_is_no_reason_not_to_judge() -> None:
    notes = [Process(f"pass {n + 1}", "complete", notes=["load average 8.00 on 2 cores"]) for n in range(ROUNDS)]
    a, b = (replace(t, run=replace(t.run, processes=notes)) for t in pair())
    found = judged(a, with_steps(b, slower(1.5)))
    assert lines(found) == {SLOW_LINE}
    assert found.difference.a.trace is a  # what is reported are the traces as they are


def test_bursts_in_some_rounds_of_one_side_are_no_difference() -> None:
    def burst(step: Step) -> Step:
        return replace(step, host_ns=[ns * (10 if n < 3 else 1) for n, ns in enumerate(step.host_ns or [])])

    a, b = pair()
    assert not lines(judged(a, with_steps(b, burst)))


def test_of_cold_and_warm_the_shorter_counts() -> None:
    def cold(step: Step) -> Step:
        return replace(step, cold_ns=list(step.host_ns or []), host_ns=[10 * ns for ns in step.host_ns or []])

    a, b = pair()
    assert not lines(judged(with_steps(a, cold), b))


def test_what_some_round_lacks_is_not_judged() -> None:
    def lacking(step: Step) -> Step:
        return replace(step, host_ns=(step.host_ns or [])[1:]) if step.line == SLOW_LINE else step

    a, b = pair()
    found = judged(a, with_steps(with_steps(b, slower(2)), lacking))
    assert not lines(found) & {SLOW_LINE}
    assert dict(found.difference.times.not_judged)[MISSED] == 20


def test_of_a_measurement_the_seconds_per_call_are_judged() -> None:
    def measuring(seconds: float) -> Any:
        def change(step: Step) -> Step:
            if step.line != SLOW_LINE:
                return step
            calls = [Measured([seconds * (1 + 0.01 * n) for n in range(ROUNDS)])]
            return replace(step, measured=calls, harness=True)

        return change

    a, b = pair()
    found = judged(with_steps(a, measuring(1e-3)), with_steps(b, measuring(2e-3)))
    assert lines(found) == {SLOW_LINE}
    assert {t.clock for row in found.difference.rows for t in row.times if t.matters} == {"call"}
    assert "work" not in {f.function for f in found.functions}  # its own time is the harness's


def test_fewer_rounds_than_can_say_anything() -> None:
    with pytest.raises(ValueError, match="5 rounds; expected at least 6"):
        judged(made(1, passes=5), made(2, passes=5), rounds=5)


def test_a_lecture_of_nothing_but_short_statements() -> None:
    a, b = (with_steps(t, lambda step: replace(step, host_ns=[300] * ROUNDS)) for t in pair())
    found = judged(a, b)
    assert found.difference.time_not_judged == "all steps are too short to time"
    assert found.would_find is None and not found.difference.matters
