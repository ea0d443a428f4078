"""Durations of A and B in rounds → which of them differ, and how surely: nothing is assumed about the noise.

    judged = judge_pairs(a_logs, b_logs)  # two arrays of logarithms: a row for each duration, a column for each round
    judged.called[0], math.exp(judged.effect[0])  # True, 1.48: B takes 1.48 times as long

What else a machine does only ever makes a run longer, at times tenfold, so the quickest runs say most about the code
(Chen and Revels, "Robust benchmarking in noisy environments", 2016): of each side the mean of the k quickest rounds is
compared, where k is all of them or down to a quarter, whichever has the smallest error. That error is the one of a
trimmed mean (Tukey and McLaughlin, 1963; here all that is trimmed is slow), drawn towards the typical one so that no
small error alone makes a large statistic (Tusher, Tibshirani and Chu, "Significance analysis of microarrays", 2001).
A machine may also be slower for minutes: what all durations of a round have in common on its quicker side is taken out
of both sides first, else the few rounds of a quick minute would speak for all.

If A and B don't differ, the names of the two runs of a round might as well be swapped. How large the largest
statistic of all gets in such swaps says what chance does (Westfall and Young, "Resampling-based multiple testing",
1993): whatever the noise, and however durations depend on each other, at most 5% of comparisons of a lecture with
itself call anything. These 5% are shared out among groups that were made before any clock was looked at: most go to
what there is a reason to suspect, least to the many durations that hardly matter (Genovese, Roeder and Wasserman,
"False discovery control with p-value weighting", 2006).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trace_tools.comparing.judging.statistics import POWER, SMALLEST_EFFECT
from trace_tools.comparing.judging.student import t_quantile

FALSE_ALARMS = 0.05  # share of comparisons without any difference in which something is called
SUSPECTED, LARGE, OTHERS = range(3)  # groups of durations
OF_ALARMS = {SUSPECTED: 0.8, LARGE: 0.15, OTHERS: 0.05}  # shares of these; what a group lacks goes to the others
FEWEST_ROUNDS = 6  # of 2⁵ ways to swap only one is as they were: 3%; with fewer rounds nothing is as rare as 5%
SWAPS = 1000  # that are tried where there are more
AT_ONCE = 50_000  # numbers of a side, of as many swaps as come to that
SHARES = (1.0, 0.5, 0.33, 0.25)  # of the rounds, that may be taken for the quickest
FEWEST_QUICK = 3  # of them: the error of two says nothing

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SwapTest:
    """One entry per duration; effects and errors are of log(B / A)."""

    a: Floats  # logarithm of what it takes, as the quickest rounds have it
    b: Floats
    effect: Floats
    error: Floats  # standard error
    degrees: float
    p: Floats  # of so large a statistic, had only this one been looked at
    adjusted_p: Floats  # of one so large among all of them
    called: NDArray[np.bool_]
    detectable: Floats  # the ratio that would have been called with 80% probability

    def interval(self, place: int) -> tuple[float, float]:
        """Return the 95% interval of one ratio."""
        half = t_quantile(0.975, self.degrees) * float(self.error[place])
        return math.exp(self.effect[place] - half), math.exp(self.effect[place] + half)


def judge_pairs(a: Floats, b: Floats, groups: NDArray[np.int_] | None = None, seed: int = 0) -> SwapTest:
    """Judge durations of which both sides have FEWEST_ROUNDS or more, column by column of the same round.

    `groups` says of each whether it is SUSPECTED (its code or its counts differ), LARGE (it takes a share of the run
    that matters) or one of the OTHERS; None: all are alike.
    """
    groups = np.full(len(a), LARGE) if groups is None else groups
    common = _common(a, b)
    a, b = a - common, b - common
    shared = sum(OF_ALARMS[group] for group in set(groups.tolist()))
    effect, error, low_a, low_b = _compared(a, b)
    statistic = _statistic(effect, error)
    swapped = _swapped(a, b, _swaps(a.shape[1], seed))
    adjusted, critical = np.ones(len(a)), np.zeros(len(a))
    for group in set(groups.tolist()):
        family, share = groups == group, OF_ALARMS[group] / shared
        largest = swapped[:, family].max(axis=1)
        rare = np.array([float((largest >= s - 1e-12).mean()) for s in statistic[family]])
        adjusted[family] = np.minimum(rare / share, 1.0)
        critical[family] = np.quantile(largest, 1 - share * FALSE_ALARMS, method="higher")
    p = np.mean(swapped >= statistic - 1e-12, axis=0)
    steadied = np.sqrt((error**2 + np.median(error) ** 2) / 2)
    degrees = 2.0 * (FEWEST_QUICK - 1)  # at least: of two sides
    reach = critical * _steadied(error) + t_quantile(POWER, degrees) * steadied
    with np.errstate(over="ignore"):
        detectable = np.maximum(np.exp(reach), SMALLEST_EFFECT)
    called = (adjusted <= FALSE_ALARMS) & (np.abs(effect) >= math.log(SMALLEST_EFFECT))
    return SwapTest(low_a, low_b, effect, steadied, degrees, p, adjusted, called, np.asarray(detectable))


def _common(a: Floats, b: Floats) -> Floats:
    """Return by how much each round is slower than others for everything in it; to swap its sides changes nothing.

    Of the two sides the quicker counts: a burst that hit one process leaves the other as it was.
    """
    quicker = np.minimum(a, b)
    return np.asarray(np.median(quicker - np.median(quicker, axis=1, keepdims=True), axis=0))


def _swapped(a: Floats, b: Floats, swaps: NDArray[np.bool_]) -> Floats:
    """Return the statistics that swaps lead to, a row each; so many at once as keep the arrays small."""
    at_once = max(1, AT_ONCE // a.size)
    blocks = [swaps[start : start + at_once, np.newaxis] for start in range(0, len(swaps), at_once)]
    both = ((np.where(block, b, a), np.where(block, a, b)) for block in blocks)
    return np.concatenate([_statistic(*_compared(*sides)[:2]) for sides in both])


def _compared(a: Floats, b: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return by how much the means of the quickest rounds differ, the error of that, and both means.

    Rounds are the last axis, those before it durations, or durations in one way to swap after the other.
    """
    rounds = a.shape[-1]
    ordered = np.sort(a, axis=-1), np.sort(b, axis=-1)
    found = []
    for quickest in sorted({min(rounds, max(FEWEST_QUICK, round(rounds * share))) for share in SHARES}):
        (low_a, squared_a), (low_b, squared_b) = (_low(side, quickest) for side in ordered)
        found.append((np.sqrt(squared_a + squared_b), low_a, low_b))
    errors, lows_a, lows_b = (np.array(part) for part in zip(*found, strict=True))
    best = errors.argmin(axis=0)[np.newaxis]
    error, low_a, low_b = (np.take_along_axis(part, best, axis=0)[0] for part in (errors, lows_a, lows_b))
    return low_b - low_a, error, low_a, low_b


def _low(ordered: Floats, quickest: int) -> tuple[Floats, Floats]:
    """Return the mean of each row's smallest, and its squared error: slower ones count as the slowest that is kept."""
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
    """Return which rounds to swap, a row each: every way where there are few; that of no swap is the first.

    To swap all others instead gives the same statistic, so that the first round stays as it is.
    """
    if 2 ** (rounds - 1) <= SWAPS:
        ways = np.arange(2 ** (rounds - 1))[:, np.newaxis] >> np.arange(rounds - 1) & 1
    else:
        ways = np.random.default_rng(seed).integers(0, 2, (SWAPS, rounds - 1))
        ways[0] = 0
    return np.asarray(np.pad(ways, ((0, 0), (1, 0))) == 1)
