"""Statistical tests of durations: power, false positives and intervals in simulations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
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


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)  # generating examples is slow on a busy machine
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


def simulated(
    noise: float, processes: int, slow: float, seed: int, *, drift: float = 1.0, most: float = 1.0
) -> tuple[float, float]:
    """Return the shares of 20 slowed steps and of 980 others that are called; all steps of B drift by `drift`."""
    rng = np.random.default_rng(seed)
    effects = [math.log(drift * (slow if step < 20 else 1.0)) for step in range(1000)]
    samples = [(list(rng.normal(9, noise, processes)), list(rng.normal(9 + e, noise, processes))) for e in effects]
    called = moderated(samples, math.log(most)).called
    return float(called[:20].mean()), float(called[20:].mean())


def test_three_processes_detect_20_percent_in_3_percent_noise() -> None:
    runs = [simulated(0.03, 3, 1.2, seed) for seed in range(5)]
    assert (
        np.mean([detected for detected, _ in runs]) > 0.9
        and max(false_positives for _, false_positives in runs) < 0.005
    )


def test_noise_alone_rarely_causes_false_positives() -> None:
    assert all(simulated(noise, 3, 1.0, 7)[1] < 0.005 for noise in (0.01, 0.05, 0.16))


def test_limited_common_drift_is_attributed_to_the_machine() -> None:
    for drift, most in ((1.08, 1.1), (1.4, math.inf), (0.7, math.inf)):
        detected, false_positives = simulated(0.01, 5, 1.3, 3, drift=drift, most=most)
        assert detected == (1.0 if drift >= 1 else 0.0) and false_positives == 0.0  # 0.7 × 1.3 < 1: no step got slower
    assert simulated(0.01, 5, 1.0, 3, drift=1.4, most=1.1)[1] > 0.99  # more drift than is attributed to a machine
    assert simulated(0.01, 5, 1.0, 3, drift=1.15)[1] > 0.9  # no drift is allowed if settings differ


def test_few_steps_give_no_machine_drift() -> None:
    rng = np.random.default_rng(4)
    steps = [(list(rng.normal(9, 0.01, 5)), list(rng.normal(9.3, 0.01, 5))) for _ in range(10)]
    judged = moderated(steps, math.inf)
    assert judged.drift == 0 and judged.called.all()


@pytest.mark.slow
def test_detectable_ratio_is_detected_with_80_percent_power() -> None:
    rng = np.random.default_rng(1)
    base = [(list(rng.normal(9, 0.1, 3)), list(rng.normal(9, 0.1, 3))) for _ in range(1000)]
    ratio = float(np.median(moderated(base).detectable()))
    powers = [simulated(0.1, 3, ratio, seed)[0] for seed in range(5)]
    assert 0.65 < np.mean(powers) < 0.95  # the nominal power is 80%
    needed = processes_needed(1.2, moderated(base).typical, 0.05 / 1000)
    assert needed and np.mean([simulated(0.1, needed, 1.2, seed)[0] for seed in range(5)]) > 0.7


def test_detectable_ratio_agrees_with_the_needed_passes() -> None:
    rng = np.random.default_rng(5)
    for noise in (0.02, 0.06, 0.2):
        spread = noise * np.sqrt(3 / rng.chisquare(3, 300))
        judged = moderated([(list(rng.normal(9, s, 4)), list(rng.normal(9, s, 4))) for s in spread])
        needed = processes_needed(1.2, judged.typical, judged.threshold)
        assert (needed is not None and needed <= 4) == (float(np.median(judged.detectable())) <= 1.2)


def test_step_without_variance_is_not_significant_by_itself() -> None:
    rng = np.random.default_rng(2)
    noisy = [(list(rng.normal(9, 0.1, 3)), list(rng.normal(9, 0.1, 3))) for _ in range(200)]
    judged = moderated([*noisy, ([9.0] * 3, [9.12] * 3)])
    assert not judged.called[-1]  # a coarse clock gives equal samples


def test_interval_across_machines_covers_the_ratio() -> None:
    rng = np.random.default_rng(3)
    steps = [(list(rng.normal(9, 0.02, 3)), list(rng.normal(9.5, 0.2, 3))) for _ in range(2000)]
    factor = side_by_side(steps)
    centre = np.array([np.mean(b) - np.mean(a) for a, b in steps])
    covered = np.mean(np.abs(centre - 0.5) <= np.log(factor))
    assert 0.92 < covered < 0.99


@pytest.mark.parametrize(
    ("probability", "degrees", "table"),  # NIST/SEMATECH e-Handbook, 1.3.6.7.2
    [(0.975, 2, 4.303), (0.975, 4, 2.776), (0.95, 10, 1.812), (0.999, 5, 5.893), (0.975, math.inf, 1.960)],
)
def test_t_quantiles_match_published_tables(probability: float, degrees: float, table: float) -> None:
    assert t_quantile(probability, degrees) == pytest.approx(table, abs=6e-4)


def test_t_tails_match_the_integrated_density() -> None:
    for degrees in (1.0, 2.5, 4.0, 40.0):
        x = np.linspace(-6, 6, 400_001)
        constant = math.gamma((degrees + 1) / 2) / math.sqrt(degrees * math.pi) / math.gamma(degrees / 2)
        density = constant * (1 + x * x / degrees) ** (-(degrees + 1) / 2)
        inside = float(np.trapezoid(density, x)) if hasattr(np, "trapezoid") else float(np.trapz(density, x))
        assert t_two_sided(np.array([6.0]), np.array([degrees]))[0] == pytest.approx(1 - inside, abs=1e-7)


def test_trigamma() -> None:
    assert trigamma(np.array([1.0, 0.5])) == pytest.approx([math.pi**2 / 6, math.pi**2 / 2], abs=1e-9)
    assert trigamma_inverse(math.pi**2 / 6) == pytest.approx(1.0)
