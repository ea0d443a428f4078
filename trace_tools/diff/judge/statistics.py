"""Test which of many steps took longer, and how certain that is, from logarithms of durations (one per process).

    judged = moderated([([9.10, 9.12, 9.11], [9.30, 9.33, 9.31]), …])
    judged.adjusted_p[0], judged.effect[0]  # 0.0007, 0.2 (of the logarithm: 1.22 × slower)

The unit is the process. A step's variance, estimated from few processes, is shrunk towards the pooled variance of all
steps by empirical Bayes as in limma (Smyth, "Linear models and empirical Bayes methods for assessing differential
expression", 2004, section 6). The false discovery rate is controlled at 5% (Benjamini and Hochberg, 1995). On request,
the change that most steps share, such as the effect of a slower clock, is removed. It is estimated as the centre of an
empirical null (Efron, "Large-scale simultaneous hypothesis testing: the choice of a null hypothesis", 2004).

Student's t is computed here, because no dependency provides it; t_quantile(0.975, 4.0) is 2.776.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FALSE_DISCOVERY_RATE = 0.05
SMALLEST_EFFECT = 1.10  # ratio below which no difference is called
POWER = 0.8  # probability of detecting the smallest detectable change
FEWEST_PROCESSES, MOST_PROCESSES = 3, 50
MOST_OF_THEM = 30  # least number of steps for attributing their common change to the machine
DIGAMMA_STEP = 1e-4
MANY = 1e6  # degrees of freedom above which t is normal to all relevant digits
TINY = 1e-300

Floats = NDArray[np.float64]
Samples = tuple[Sequence[float], Sequence[float]]  # logarithms, one per process, in A and in B


@dataclass(frozen=True, slots=True)
class Prior:
    """The distribution of variances, estimated from all steps together."""

    variance: float  # variance of a logarithm between processes
    degrees_of_freedom: float  # infinite if the steps do not differ in variance

    def shrink(self, variance: Floats, degrees: Floats) -> Floats:
        """Return each step's variance, shrunk towards the pooled variance according to the prior's degrees of
        freedom.
        """
        if math.isinf(self.degrees_of_freedom):
            return np.full_like(variance, self.variance)
        weighted = self.degrees_of_freedom * self.variance + degrees * variance
        return np.asarray(weighted / (self.degrees_of_freedom + degrees))


@dataclass(frozen=True)
class ModeratedTest:
    """The test of many durations, of processes that ran one after the other, a few on each side.

    Arrays have one entry for each; effects and errors apply to the logarithm of the ratio B / A.
    """

    effect: Floats
    error: Floats  # standard error
    degrees: Floats
    p: Floats
    adjusted_p: Floats
    called: NDArray[np.bool_]
    typical: Prior  # of all steps, with the variance of a typical step after shrinking
    drift: float  # change that most steps share, so no difference of a single step

    def intervals(self) -> tuple[Floats, Floats]:
        """Return the 95% interval of each ratio."""
        half = quantiles(0.975, self.degrees) * self.error
        return np.exp(self.effect - half), np.exp(self.effect + half)

    @property
    def threshold(self) -> float:
        """The p below which a step would be called different if no other step had so large an effect."""
        rejected = self.p[self.adjusted_p <= FALSE_DISCOVERY_RATE]
        alone = FALSE_DISCOVERY_RATE / max(1, len(self.p))
        return max(alone, float(rejected.max())) if len(rejected) else alone

    def detectable(self) -> Floats:
        """Return the ratio that each step would have shown with 80% probability."""
        return detectable_ratio(self.error, self.degrees, self.threshold)


def moderated(steps: Sequence[Samples], most_drift: float = 0.0) -> ModeratedTest:
    """Judge steps with at least two processes on each side; a change up to `most_drift` that most steps share is
    ignored.
    """
    effect = np.array([_mean(b) - _mean(a) for a, b in steps])
    degrees = np.array([float(len(a) + len(b) - 2) for a, b in steps])
    variance = np.array([_squares(a) + _squares(b) for a, b in steps]) / degrees
    share = np.array([1 / len(a) + 1 / len(b) for a, b in steps])
    prior = fit_prior(variance, degrees)
    shrunk = prior.shrink(variance, degrees)
    typical = Prior(float(np.median(shrunk)), prior.degrees_of_freedom)
    error = np.sqrt(shrunk * share)
    total = np.minimum(degrees + prior.degrees_of_freedom, degrees.sum())
    drift = float(np.clip(np.median(effect), -most_drift, most_drift)) if len(steps) >= MOST_OF_THEM else 0.0
    own = effect - drift
    # Steps drift by different amounts: a step must differ with the drift removed and without, and the smaller effect
    # counts.
    smaller = np.where(np.sign(own) == np.sign(effect), np.minimum(np.abs(own), np.abs(effect)), 0.0)
    p = t_two_sided(np.divide(smaller, error, out=np.zeros_like(effect), where=error > 0), total)
    p = np.where((error == 0) & (smaller != 0), 0.0, p)
    adjusted = benjamini_hochberg(p)
    called = (adjusted <= FALSE_DISCOVERY_RATE) & (smaller >= math.log(SMALLEST_EFFECT))
    return ModeratedTest(effect, error, total, p, adjusted, called, typical, drift)


def _mean(samples: Sequence[float]) -> float:
    return sum(samples) / len(samples)


def _squares(samples: Sequence[float]) -> float:
    mean = _mean(samples)
    return sum([(sample - mean) ** 2 for sample in samples])


def fit_prior(variance: Floats, degrees: Floats) -> Prior:
    """Fit a scaled inverse chi-squared prior to the steps' variances by the moments of their logarithms."""
    # limma's lower bound; a clock's resolution can give exactly 0
    positive = variance > 1e-5 * (np.median(variance) or 1.0)
    if positive.sum() < 3:
        return Prior(float(variance.mean()) if len(variance) else 0.0, math.inf)
    halves = degrees[positive] / 2
    e = np.log(variance[positive]) - _digamma(halves) + np.log(halves)
    excess = float(e.var(ddof=1) - trigamma(halves).mean())
    if excess <= 0:
        pooled = float((variance * degrees).sum() / degrees.sum())
        return Prior(pooled, math.inf)
    prior_halves = trigamma_inverse(excess)
    variance_0 = math.exp(float(e.mean()) + float(_digamma(np.array([prior_halves]))[0]) - math.log(prior_halves))
    return Prior(variance_0, 2 * prior_halves)


def _digamma(x: Floats) -> Floats:
    """Return the derivative of log Γ by its symmetric difference (error below 1e-8 for the x that occur)."""
    step = DIGAMMA_STEP * np.maximum(x, 0.1)
    logs = [[math.lgamma(v + sign * h) for v, h in zip(x, step, strict=True)] for sign in (1, -1)]
    return np.asarray((np.array(logs[0]) - np.array(logs[1])) / (2 * step))


def benjamini_hochberg(p: Floats) -> Floats:
    """Return p-values adjusted so that those below a level have at most that share of false ones."""
    order = np.argsort(-p)
    ranks = np.arange(len(p), 0, -1)
    adjusted = np.minimum.accumulate(p[order] * len(p) / ranks) if len(p) else p
    result = np.empty_like(p)
    result[order] = np.minimum(adjusted, 1.0)
    return result


def detectable_ratio(error: Floats, degrees: Floats, threshold: float) -> Floats:
    """Return the ratio called with 80% probability at that p, for a standard error of the log ratio."""
    reach = quantiles(1 - threshold / 2, degrees) + quantiles(POWER, degrees)
    with np.errstate(over="ignore"):
        return np.asarray(np.maximum(np.exp(reach * error), SMALLEST_EFFECT))


def quantiles(probability: float, degrees: Floats) -> Floats:
    """Return Student's t of a probability, for each of many degrees of freedom."""
    distinct, inverse = np.unique(degrees, return_inverse=True)
    return np.array([t_quantile(probability, float(d)) for d in distinct])[inverse]


def processes_needed(ratio: float, typical: Prior, threshold: float) -> int | None:
    """Return the number of processes per side that would detect a ratio in a typical step, if MOST_PROCESSES do."""

    def is_enough(n: int) -> bool:
        error = np.array([math.sqrt(typical.variance * 2 / n)])
        degrees = np.array([2 * n - 2 + typical.degrees_of_freedom])
        return bool(detectable_ratio(error, degrees, threshold)[0] <= ratio)

    processes = FEWEST_PROCESSES + bisect_left(range(FEWEST_PROCESSES, MOST_PROCESSES + 1), True, key=is_enough)
    return processes if processes <= MOST_PROCESSES else None


def side_by_side(steps: Sequence[Samples]) -> Floats:
    """Return, for steps on two machines, the factor between their ratio and the ends of its 95% interval (Welch).

    Each side's variances are shrunk towards that side's own pooled variance, because machines differ in noise. Each
    side has at least two processes.
    """
    total, parts = np.zeros(len(steps)), np.zeros(len(steps))
    for side in (0, 1):
        sizes = np.array([float(len(step[side])) for step in steps])
        variance = np.array([_squares(step[side]) for step in steps]) / (sizes - 1)
        prior = fit_prior(variance, sizes - 1)
        of_side = np.minimum(sizes - 1 + prior.degrees_of_freedom, (sizes - 1).sum())
        squared_error = prior.shrink(variance, sizes - 1) / sizes  # squared error of the mean
        total = total + squared_error
        parts = parts + squared_error**2 / of_side
    degrees = np.divide(total**2, parts, out=np.full_like(total, np.inf), where=parts > 0)
    degrees = np.clip(degrees, 1.0, MANY)
    coarse = np.where(degrees > 100, 100 * (degrees // 100), np.floor(degrees))  # few to invert
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(quantiles(0.975, coarse) * np.sqrt(total)))


# --- Student's t distribution ---------------------------------------------------------------------


def t_two_sided(t: Floats, degrees: Floats) -> Floats:
    """Return the probability of a |t| at least as large."""
    finite = np.minimum(degrees, MANY)
    x = finite / (finite + t * t)
    p = _incomplete_beta(finite / 2, np.full_like(finite, 0.5), x)
    normal = np.array([math.erfc(abs(v) / math.sqrt(2)) for v in t])
    return np.where(degrees >= MANY, normal, p)


def _incomplete_beta(a: Floats, b: Floats, x: Floats) -> Floats:
    """Return the regularised incomplete beta function, by its continued fraction (DLMF 8.17.22)."""
    mirrored = x > (a + 1) / (a + b + 2)  # converges fast
    p, q, z = np.where(mirrored, b, a), np.where(mirrored, a, b), np.where(mirrored, 1 - x, x)
    logs = np.array([math.lgamma(u + v) - math.lgamma(u) - math.lgamma(v) for u, v in zip(p, q, strict=True)])
    with np.errstate(divide="ignore"):
        front = np.exp(logs + p * np.log(z) + q * np.log1p(-z)) / p
    c = np.ones_like(z)  # the continued fraction by Lentz's method
    d = 1 / _nonzero(1 - (p + q) * z / (p + 1))
    h = d.copy()
    for m in range(1, 300):
        even = m * (q - m) * z / ((p + 2 * m - 1) * (p + 2 * m))
        odd = -(p + m) * (p + q + m) * z / ((p + 2 * m) * (p + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _nonzero(1 + term * d)
            c = _nonzero(1 + term / c)
            h = h * d * c
        if np.all(np.abs(d * c - 1) < 1e-14):
            break
    value = front * h
    return np.asarray(np.clip(np.where(mirrored, 1 - value, value), 0.0, 1.0))


def _nonzero(x: Floats) -> Floats:
    return np.where(np.abs(x) < TINY, TINY, x)


def t_quantile(probability: float, degrees: float) -> float:
    """Return Student's t quantile for `probability` (0.5 … 1); infinite beyond 10¹².

    Each iteration divides the interval that contains the quantile into 64 parts.
    """
    tail = 2 * (1 - probability)

    def first_beyond(points: Floats) -> int:
        return int(np.searchsorted(-t_two_sided(points, np.full(len(points), degrees)), -tail))

    steps = np.concatenate([[0.0], 2.0 * 4.0 ** np.arange(20)])
    index = first_beyond(steps)
    if index == len(steps):
        return math.inf
    low, high = float(steps[max(index - 1, 0)]), float(steps[index])
    for _ in range(8):
        points = np.linspace(low, high, 65)
        index = min(max(first_beyond(points), 1), 64)
        low, high = float(points[index - 1]), float(points[index])
    return (low + high) / 2


def trigamma(x: Floats) -> Floats:
    """Return the second derivative of log Γ: by recurrence to x ≥ 8, then its asymptotic series (DLMF 5.15.8)."""
    x, total = np.array(x, dtype=np.float64), np.zeros(len(x))
    for _ in range(8):
        total, x = np.where(x < 8, total + 1 / x**2, total), np.where(x < 8, x + 1, x)
    r = 1 / x**2
    return np.asarray(total + 1 / x + r / 2 + r / x * (1 / 6 - r * (1 / 30 - r * (1 / 42 - r / 30))))


def trigamma_inverse(y: float) -> float:
    """Return the x > 0 with trigamma(x) = y, by bisection of its logarithm."""
    low, high = -16.0, 16.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if trigamma(np.array([math.exp(middle)]))[0] > y else (low, middle)
    return math.exp(low)
