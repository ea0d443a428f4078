"""Student's t and what the moderated form needs, against tables and integrals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trace_tools.comparing.judging.student import t_quantile, t_two_sided, trigamma, trigamma_inverse


@pytest.mark.parametrize(
    ("probability", "degrees", "table"),  # NIST/SEMATECH e-Handbook, 1.3.6.7.2
    [(0.975, 2, 4.303), (0.975, 4, 2.776), (0.95, 10, 1.812), (0.999, 5, 5.893), (0.975, math.inf, 1.960)],
)
def test_quantiles_are_those_of_the_tables(probability: float, degrees: float, table: float) -> None:
    assert t_quantile(probability, degrees) == pytest.approx(table, abs=6e-4)


def test_the_tails_integrate_the_density() -> None:
    for degrees in (1.0, 2.5, 4.0, 40.0):
        x = np.linspace(-6, 6, 400_001)
        constant = math.gamma((degrees + 1) / 2) / math.sqrt(degrees * math.pi) / math.gamma(degrees / 2)
        density = constant * (1 + x * x / degrees) ** (-(degrees + 1) / 2)
        inside = float(np.trapezoid(density, x)) if hasattr(np, "trapezoid") else float(np.trapz(density, x))
        assert t_two_sided(np.array([6.0]), np.array([degrees]))[0] == pytest.approx(1 - inside, abs=1e-7)


def test_trigamma() -> None:
    assert trigamma(np.array([1.0, 0.5])) == pytest.approx([math.pi**2 / 6, math.pi**2 / 2], abs=1e-9)
    assert trigamma_inverse(math.pi**2 / 6) == pytest.approx(1.0)
