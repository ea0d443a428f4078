"""Logarithms of durations, one per process → which of many steps took longer, and how sure that is.

    judged = moderated([([9.10, 9.12, 9.11], [9.30, 9.33, 9.31]), …])
    judged.adjusted_p[0], judged.effect[0]  # 0.0007, 0.2 (of the logarithm: 1.22 × slower)

The unit is the process. A step's variance, known from a few processes only, is shrunk towards the pooled
variance of all steps: empirical Bayes as in limma (Smyth, "Linear models and empirical Bayes methods for
assessing differential expression", 2004, section 6). The false discovery rate is held at 5% (Benjamini and
Hochberg, 1995). What most steps have in common, such as a clock that ran slower all the while, is taken out
where asked for: the centre of an empirical null (Efron, "Large-scale simultaneous hypothesis testing: the
choice of a null hypothesis", 2004). Steps that there is a reason to suspect get half of the false discoveries that
are allowed (Genovese, Roeder and Wasserman, "False discovery control with p-value weighting", 2006).
`tests/checks/power.md` has the curve of power against effect, noise and passes.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trace_tools.comparing.judging.student import t_quantile, t_two_sided, trigamma, trigamma_inverse

FALSE_DISCOVERY_RATE = 0.05
SMALLEST_EFFECT = 1.10  # ratio below which no difference is called
POWER = 0.8  # with which the smallest detectable change would have been called
FEWEST_PROCESSES = 3
MOST_OF_THEM = 30  # steps from which on what most have in common says something about the machine
DIGAMMA_STEP = 1e-4

Floats = NDArray[np.float64]
Samples = tuple[Sequence[float], Sequence[float]]  # logarithms, one per process, in A and in B


@dataclass(frozen=True, slots=True)
class Prior:
    """What all steps together say about the variance of one."""

    variance: float  # of a logarithm between processes
    degrees_of_freedom: float  # may be infinite: the steps don't differ in variance

    def shrink(self, variance: Floats, degrees: Floats) -> Floats:
        """Return each step's variance, drawn towards the pooled one by as much as that is sure."""
        if math.isinf(self.degrees_of_freedom):
            return np.full_like(variance, self.variance)
        weighted = self.degrees_of_freedom * self.variance + degrees * variance
        return np.asarray(weighted / (self.degrees_of_freedom + degrees))


@dataclass(frozen=True, slots=True)
class ModeratedTest:
    """One entry per step; effects and errors are those of the logarithm of the ratio B / A."""

    effect: Floats
    error: Floats  # standard error
    degrees: Floats
    p: Floats
    weighted_p: Floats  # over the weight of the step: below 1 for what nothing speaks against
    adjusted_p: Floats
    called: NDArray[np.bool_]
    prior: Prior
    typical: Prior  # the same with the variance of a typical step, after shrinking
    drift: float  # what most steps have in common: no difference of any one of them

    @property
    def threshold(self) -> float:
        """The p at which a step would have been called, were it the only one with so large an effect."""
        rejected = self.weighted_p[self.adjusted_p <= FALSE_DISCOVERY_RATE]
        alone = FALSE_DISCOVERY_RATE / max(1, len(self.p))
        return max(alone, float(rejected.max())) if len(rejected) else alone

    def detectable(self) -> Floats:
        """Return the ratio that each step would have shown with 80% probability."""
        return detectable_ratio(self.error, self.degrees, self.threshold)

    def intervals(self) -> tuple[Floats, Floats]:
        """Return the 95% interval of each ratio."""
        half = _quantiles(0.975, self.degrees) * self.error
        return np.exp(self.effect - half), np.exp(self.effect + half)


def moderated(
    steps: Sequence[Samples], most_drift: float = 0.0, suspected: Sequence[bool] | None = None
) -> ModeratedTest:
    """Judge steps of which each side has at least two processes; up to `most_drift` that most share is no change.

    `suspected` are steps that something other than their time speaks against: as likely to be slower as all others.
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
    p = t_two_sided(np.divide(own, error, out=np.zeros_like(effect), where=error > 0), total)
    p = np.where((error == 0) & (own != 0), 0.0, p)
    weighted = p / _weights(np.array(suspected if suspected is not None else [False] * len(p), dtype=bool))
    adjusted = benjamini_hochberg(weighted)
    large = np.minimum(np.abs(effect), np.abs(own)) >= math.log(SMALLEST_EFFECT)
    called = (adjusted <= FALSE_DISCOVERY_RATE) & large & (np.sign(own) == np.sign(effect))
    return ModeratedTest(effect, error, total, p, weighted, adjusted, called, prior, typical, drift)


def _weights(suspected: NDArray[np.bool_]) -> Floats:
    """Return weights with a mean of 1, of which the suspected ones have half in all, unless they are most."""
    few = int(suspected.sum())
    if not 0 < few < len(suspected) / 2:
        return np.ones(len(suspected))
    halves = np.where(suspected, few, len(suspected) - few)
    return np.asarray(len(suspected) / 2 / halves)


def _mean(samples: Sequence[float]) -> float:
    return sum(samples) / len(samples)


def _squares(samples: Sequence[float]) -> float:
    mean = _mean(samples)
    return sum([(sample - mean) ** 2 for sample in samples])


def fit_prior(variance: Floats, degrees: Floats) -> Prior:
    """Fit a scaled inverse chi-squared prior to the steps' variances by the moments of their logarithms."""
    known = variance > 1e-5 * (np.median(variance) or 1.0)  # limma's floor: a clock's steps can give exactly 0
    if known.sum() < 3:
        return Prior(float(variance.mean()) if len(variance) else 0.0, math.inf)
    halves = degrees[known] / 2
    e = np.log(variance[known]) - _digamma(halves) + np.log(halves)
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
    reach = _quantiles(1 - threshold / 2, degrees) + _quantiles(POWER, degrees)
    with np.errstate(over="ignore"):
        return np.asarray(np.maximum(np.exp(reach * error), SMALLEST_EFFECT))


def _quantiles(probability: float, degrees: Floats) -> Floats:
    distinct, places = np.unique(degrees, return_inverse=True)
    return np.array([t_quantile(probability, float(d)) for d in distinct])[places]


def processes_needed(ratio: float, typical: Prior, threshold: float, most: int = 50) -> int | None:
    """Return how many processes a side would show a ratio in a typical step; None when `most` are too few."""

    def is_enough(n: int) -> bool:
        error = np.array([math.sqrt(typical.variance * 2 / n)])
        degrees = np.array([2 * n - 2 + typical.degrees_of_freedom])
        return bool(detectable_ratio(error, degrees, threshold)[0] <= ratio)

    found = FEWEST_PROCESSES + bisect_left(range(FEWEST_PROCESSES, most + 1), True, key=is_enough)
    return found if found <= most else None


def side_by_side(steps: Sequence[Samples]) -> Floats:
    """Return, for steps on two machines, the factor by which the 95% interval of their ratio reaches (Welch).

    Each side's variances are shrunk towards that side's own: machines differ in noise, too. Each side has
    at least two processes.
    """
    (error_a, degrees_a), (error_b, degrees_b) = (_side([step[side] for step in steps]) for side in (0, 1))
    total = error_a + error_b
    parts = error_a**2 / degrees_a + error_b**2 / degrees_b
    degrees = np.divide(total**2, parts, out=np.full_like(total, np.inf), where=parts > 0)
    coarse = np.where(degrees > 100, 100 * (degrees // 100), np.maximum(np.floor(degrees), 1.0))  # few to invert
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(_quantiles(0.975, coarse) * np.sqrt(total)))


def _side(steps: Sequence[Sequence[float]]) -> tuple[Floats, Floats]:
    """Return the squared standard error of each step's mean, and its degrees of freedom."""
    sizes = np.array([float(len(samples)) for samples in steps])
    variance = np.array([_squares(samples) for samples in steps]) / (sizes - 1)
    prior = fit_prior(variance, sizes - 1)
    degrees = np.minimum(sizes - 1 + prior.degrees_of_freedom, (sizes - 1).sum())
    return prior.shrink(variance, sizes - 1) / sizes, degrees
