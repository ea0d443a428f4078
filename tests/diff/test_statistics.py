"""Statistical tests of durations: power, false positives and intervals in simulations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_tools.diff.judge.statistics import (
    benjamini_hochberg,
    fit_prior,
    moderated,
    processes_needed,
    side_by_side,
    t_quantile,
    t_two_sided,
    trigamma,
    trigamma_inverse,
)

Steps = list[tuple[list[float], list[float]]]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_benjamini_hochberg_follows_its_definition(p: list[float]) -> None:
    ordered = sorted(p)
    largest = max((k for k in range(1, len(p) + 1) if ordered[k - 1] <= 0.05 * k / len(p)), default=0)
    rejected = benjamini_hochberg(np.array(p)) <= 0.05
    clear = [abs(v - 0.05 * k / len(p)) > 1e-12 for k, v in enumerate(ordered, 1)]
    if all(clear):
        assert rejected.sum() == (sum(v <= ordered[largest - 1] for v in p) if largest else 0)


def test_fitted_prior_recovers_the_true_one() -> None:
    rng = np.random.default_rng(0)
    true = 0.01 * 8 / rng.chisquare(8, 20_000)
    prior = fit_prior(true * rng.chisquare(4, 20_000) / 4, np.full(20_000, 4.0))
    assert prior.variance == pytest.approx(0.01, rel=0.05) and prior.degrees_of_freedom == pytest.approx(8, rel=0.15)


def drawn(seed: int, count: int, processes: int, noise: float, of_b: float | None = None, ratio: float = 0.0) -> Steps:
    """Return logarithms of durations of equal steps in several processes; those of B have another mean and noise."""
    rng = np.random.default_rng(seed)
    draw = [(9.0, noise), (9.0 + ratio, noise if of_b is None else of_b)]
    return [tuple(list(rng.normal(mean, spread, processes)) for mean, spread in draw) for _ in range(count)]  # type: ignore[misc]


def simulated(
    noise: float, processes: int, slow: float, seed: int, *, drift: float = 1.0, most: float = 1.0
) -> tuple[float, float]:
    """Return the shares of 20 slowed steps and of 980 others that are called; all steps of B drift by `drift`."""
    slowed = drawn(seed, 20, processes, noise, ratio=math.log(drift * slow))
    samples = [*slowed, *drawn(seed + 100, 980, processes, noise, ratio=math.log(drift))]
    called = moderated(samples, math.log(most)).called
    return float(called[:20].mean()), float(called[20:].mean())


def test_three_processes_detect_20_percent_in_3_percent_noise() -> None:
    detected, false_positives = zip(*(simulated(0.03, 3, 1.2, seed) for seed in range(5)), strict=True)
    assert np.mean(detected) > 0.9 and max(false_positives) < 0.005
    assert all(simulated(noise, 3, 1.0, 7)[1] < 0.005 for noise in (0.01, 0.05, 0.16))  # noise alone is not called


def test_limited_common_drift_is_attributed_to_the_machine() -> None:
    for drift, most in ((1.08, 1.1), (1.4, math.inf), (0.7, math.inf)):
        detected, false_positives = simulated(0.01, 5, 1.3, 3, drift=drift, most=most)
        assert detected == (1.0 if drift >= 1 else 0.0) and false_positives == 0.0  # 0.7 × 1.3 < 1: no step got slower
    assert simulated(0.01, 5, 1.0, 3, drift=1.4, most=1.1)[1] > 0.99  # more drift than is attributed to a machine
    assert simulated(0.01, 5, 1.0, 3, drift=1.15)[1] > 0.9  # no drift is allowed if settings differ
    few = moderated(drawn(4, 10, 5, 0.01, ratio=0.3), math.inf)  # too few steps to tell a machine's drift
    assert few.drift == 0 and few.called.all()


@pytest.mark.slow
def test_detectable_ratio_is_detected_with_80_percent_power() -> None:
    judged = moderated(drawn(1, 1000, 3, 0.1))
    ratio = float(np.median(judged.detectable()))
    powers = [simulated(0.1, 3, ratio, seed)[0] for seed in range(5)]
    assert 0.65 < np.mean(powers) < 0.95  # the nominal power is 80%
    needed = processes_needed(1.2, judged.typical, 0.05 / 1000)
    assert needed and np.mean([simulated(0.1, needed, 1.2, seed)[0] for seed in range(5)]) > 0.7


def test_detectable_ratio_agrees_with_the_needed_passes() -> None:
    for noise, enough in ((0.02, True), (0.04, True), (0.06, False), (0.2, False)):
        judged = moderated(drawn(5, 300, 4, noise))
        needed = processes_needed(1.2, judged.typical, judged.threshold)
        assert (float(np.median(judged.detectable())) <= 1.2) == (needed is not None and needed <= 4) == enough


def test_step_without_variance_is_not_significant_by_itself() -> None:
    judged = moderated([*drawn(2, 200, 3, 0.1), ([9.0] * 3, [9.12] * 3)])
    assert not judged.called[-1]  # a coarse clock gives equal samples


def test_interval_across_machines_covers_the_ratio() -> None:
    steps = drawn(3, 2000, 3, 0.02, of_b=0.2, ratio=0.5)
    centre = np.array([np.mean(b) - np.mean(a) for a, b in steps])
    assert 0.92 < np.mean(np.abs(centre - 0.5) <= np.log(side_by_side(steps))) < 0.99


@pytest.mark.parametrize(
    ("probability", "degrees", "table"),  # NIST/SEMATECH e-Handbook, 1.3.6.7.2
    [(0.975, 2, 4.303), (0.975, 4, 2.776), (0.95, 10, 1.812), (0.999, 5, 5.893), (0.975, math.inf, 1.960)],
)
def test_t_quantiles_match_published_tables(probability: float, degrees: float, table: float) -> None:
    assert t_quantile(probability, degrees) == pytest.approx(table, abs=6e-4)
    assert t_two_sided(np.array([table]), np.array([degrees]))[0] == pytest.approx(2 * (1 - probability), abs=1e-4)


def test_trigamma() -> None:
    assert trigamma(np.array([1.0, 0.5])) == pytest.approx([math.pi**2 / 6, math.pi**2 / 2], abs=1e-9)
    assert trigamma_inverse(math.pi**2 / 6) == pytest.approx(1.0)
