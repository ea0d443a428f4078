"""Test which durations of A and B in rounds differ, without assumptions about the noise.

    judged = judge_pairs(a_logs, b_logs)  # two arrays of logarithms: a row for each duration, a column for each round
    judged.called[0], math.exp(judged.effect[0])  # True, 1.48: B takes 1.48 times as long

The moderated t of `statistics` is not suitable here. In simulated rounds with bursts on 30% of the durations, it found
12% of the changes by half when it used all rounds; this test finds all of them. When it used the quicker half of the
rounds, it called a difference in 20% to 56% of comparisons of a lecture with itself.

Other work on a machine only makes a run longer, sometimes tenfold, so the quickest runs show the speed of the code best
(Chen and Revels, "Robust benchmarking in noisy environments", 2016). For each side, the test compares the mean of the k
quickest rounds. k ranges from all rounds down to a quarter of them; the k with the smallest error counts. The error is
that of a trimmed mean (Tukey and McLaughlin, 1963; only slow rounds are trimmed), shrunk towards the typical error so
that a small error alone makes no large statistic (Tusher, Tibshirani and Chu, "Significance analysis of microarrays",
2001). A machine may also be slower for minutes. So the common part of all durations of a round, on its quicker side, is
subtracted from both sides first; otherwise the few rounds of a quick minute would decide the result.

If A and B do not differ, the labels of the two runs of a round are exchangeable. The largest statistic over all
durations in such swaps shows what chance produces (Westfall and Young, "Resampling-based multiple testing", 1993): for
any noise and any dependence between durations, at most 5% of comparisons of a lecture with itself report a difference.
These 5% are divided among groups, which are defined before any clock is read: most for durations with a reason for
suspicion, least for the many short ones (Genovese, Roeder and Wasserman, "False discovery control with p-value
weighting", 2006).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trace_tools.diff.judge.statistics import POWER, SMALLEST_EFFECT, Floats, TimeTest, quantiles

FALSE_ALARMS = 0.05  # share of comparisons without a difference that report one
SUSPECTED, LARGE, OTHERS = range(3)  # groups of durations
# shares of FALSE_ALARMS; the share of an empty group goes to the others
OF_ALARMS = {SUSPECTED: 0.8, LARGE: 0.15, OTHERS: 0.05}
FEWEST_ROUNDS = 6  # one of 2⁵ swaps is the original: 3%; with fewer rounds no result is as rare as 5%
SWAPS = 1000  # number of random swaps if there are more
AT_ONCE = 50_000  # numbers per side that are processed at once
SHARES = (1.0, 0.5, 0.33, 0.25)  # of the rounds: how many may count as the quickest
FEWEST_QUICK = 3  # of the quickest rounds: the error of two has no meaning


@dataclass(frozen=True)
class SwapTest(TimeTest):
    """The test of paired rounds; an adjusted p is the probability of a statistic so large among all durations."""

    a: Floats  # logarithm of the duration, in the quickest rounds
    b: Floats
    detectable: Floats  # the ratio that would have been called with 80% probability


def judge_pairs(a: Floats, b: Floats, groups: NDArray[np.int_] | None = None, seed: int = 0) -> SwapTest:
    """Judge durations with at least FEWEST_ROUNDS rounds on both sides, column by column of the same round.

    `groups` gives for each duration SUSPECTED (its code or counts differ), LARGE (a relevant share of the run) or
    OTHERS; None treats all alike.
    """
    groups = np.full(len(a), LARGE) if groups is None else groups
    # by how much each round is slower as a whole: the quicker side counts, because a burst of load
    # may hit one process only, and swapping the sides changes nothing
    quicker = np.minimum(a, b)
    common = np.asarray(np.median(quicker - np.median(quicker, axis=1, keepdims=True), axis=0))
    a, b = a - common, b - common
    shared = sum(OF_ALARMS[group] for group in set(groups.tolist()))
    effect, error, low_a, low_b = _compared(a, b)
    statistic = _statistic(effect, error)
    # the statistics after each swap, a row each, in chunks that keep arrays small
    swaps = _swaps(a.shape[1], seed)
    at_once = max(1, AT_ONCE // a.size)
    blocks = [swaps[start : start + at_once, np.newaxis] for start in range(0, len(swaps), at_once)]
    both = ((np.where(block, b, a), np.where(block, a, b)) for block in blocks)
    swapped = np.concatenate([_statistic(*_compared(*sides)[:2]) for sides in both])
    adjusted, critical = np.ones(len(a)), np.zeros(len(a))
    for group in set(groups.tolist()):
        family, share = groups == group, OF_ALARMS[group] / shared
        largest = swapped[:, family].max(axis=1)
        rare = np.array([float((largest >= s - 1e-12).mean()) for s in statistic[family]])
        adjusted[family] = np.minimum(rare / share, 1.0)
        critical[family] = np.quantile(largest, 1 - share * FALSE_ALARMS, method="higher")
    p = np.mean(swapped >= statistic - 1e-12, axis=0)
    steadied = np.sqrt((error**2 + np.median(error) ** 2) / 2)
    degrees = np.full(len(a), 2.0 * (FEWEST_QUICK - 1))  # at least: of two sides
    reach = critical * _steadied(error) + quantiles(POWER, degrees) * steadied
    with np.errstate(over="ignore"):
        detectable = np.maximum(np.exp(reach), SMALLEST_EFFECT)
    called = (adjusted <= FALSE_ALARMS) & (np.abs(effect) >= math.log(SMALLEST_EFFECT))
    return SwapTest(effect, steadied, degrees, p, adjusted, called, low_a, low_b, np.asarray(detectable))


def _compared(a: Floats, b: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the difference between the means of the quickest rounds, its error, and both means.

    Rounds are the last axis. The axes before it are durations, or swaps and durations.
    """
    rounds = a.shape[-1]
    ordered = np.sort(a, axis=-1), np.sort(b, axis=-1)
    candidates = []
    for quickest in sorted({min(rounds, max(FEWEST_QUICK, round(rounds * share))) for share in SHARES}):
        (low_a, squared_a), (low_b, squared_b) = (_low(side, quickest) for side in ordered)
        candidates.append((np.sqrt(squared_a + squared_b), low_a, low_b))
    errors, lows_a, lows_b = (np.array(part) for part in zip(*candidates, strict=True))
    best = errors.argmin(axis=0)[np.newaxis]
    error, low_a, low_b = (np.take_along_axis(part, best, axis=0)[0] for part in (errors, lows_a, lows_b))
    return low_b - low_a, error, low_a, low_b


def _low(ordered: Floats, quickest: int) -> tuple[Floats, Floats]:
    """Return the mean of each row's smallest values and its squared error; larger values count as the largest kept
    one.
    """
    kept = ordered[..., :quickest]
    winsorised = np.minimum(ordered, kept[..., -1:])
    squares = ((winsorised - winsorised.mean(axis=-1, keepdims=True)) ** 2).sum(axis=-1)
    return kept.mean(axis=-1), squares / (quickest * (quickest - 1))


def _steadied(error: Floats) -> Floats:
    return (error + np.median(error, axis=-1, keepdims=True)) / 2


def _statistic(effect: Floats, error: Floats) -> Floats:
    steadied = _steadied(error)
    statistic: Floats = np.divide(np.abs(effect), steadied, out=np.zeros_like(effect), where=steadied > 0)
    return statistic


def _swaps(rounds: int, seed: int) -> NDArray[np.bool_]:
    """Return which rounds to swap, a row for each swap: all of them if there are few; the first row swaps nothing.

    Swapping the complement gives the same statistic, so the first round is never swapped.
    """
    if 2 ** (rounds - 1) <= SWAPS:
        ways = np.arange(2 ** (rounds - 1))[:, np.newaxis] >> np.arange(rounds - 1) & 1
    else:
        ways = np.random.default_rng(seed).integers(0, 2, (SWAPS, rounds - 1))
        ways[0] = 0
    return np.asarray(np.pad(ways, ((0, 0), (1, 0))) == 1)
