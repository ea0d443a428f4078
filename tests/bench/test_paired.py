"""The judgement of rounds, on simulated ones: what differs is known, and how they are noisy too."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from trace_tools.bench import paired
from trace_tools.bench.judgement import FEWEST_ROUNDS, Floats, judge_pairs

DURATIONS = 40
GROUPS = np.where(np.arange(DURATIONS) < 10, paired.LARGE, paired.OTHERS)


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
    monkeypatch.setattr(paired, "SWAPS", 200)


@pytest.mark.parametrize(("rounds", "busy"), [(FEWEST_ROUNDS, 0.0), (FEWEST_ROUNDS, 0.3), (12, 0.3), (20, 0.6)])
def test_a_lecture_hardly_ever_differs_from_itself(rounds: int, busy: float) -> None:
    """In 5% of comparisons something may be called: of 50, more than 8 would be a chance of 1 in 1,000."""
    rng = np.random.default_rng(rounds)
    called = [judge_pairs(*busy_rounds(rng, rounds, busy=busy), GROUPS, seed).called.any() for seed in range(50)]
    assert sum(called) <= 8


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


def test_what_is_suspected_is_found_beside_much_that_is_noisy() -> None:
    """With as few false alarms: what is suspected was decided before the clocks were read."""
    rng, suspected = np.random.default_rng(7), np.where(np.arange(DURATIONS) < 3, paired.SUSPECTED, GROUPS)
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
    swaps = {tuple(map(bool, row)) for row in paired._swaps(6, 0)}
    assert swaps == {(False, *others) for others in product([False, True], repeat=5)}
    assert not paired._swaps(6, 0)[0].any() and not paired._swaps(30, 0)[0].any()


def test_the_rarest_that_six_rounds_can_be_is_one_of_32() -> None:
    a = np.array([[0.0, 0.01, 0.02, 0.03, 0.04, 0.05]])
    assert judge_pairs(a, a + 1).adjusted_p[0] == 1 / 32


def test_durations_without_any_noise_are_judged() -> None:
    a = np.full((2, 6), 10.0)
    judged = judge_pairs(a, a + np.array([[0.0], [1.0]]))
    assert not judged.called[0] and np.isfinite(judged.effect).all() and np.isfinite(judged.detectable).all()
