"""Student's t distribution and the two functions of Γ that its moderated form takes, in numpy alone.

t_two_sided(np.array([4.303]), np.array([2.0]))  # array([0.05])
t_quantile(0.975, 4.0)                           # 2.776
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MANY = 1e6  # degrees of freedom from which t is normal to all digits that matter
TINY = 1e-300


def t_two_sided(t: Floats, degrees: Floats) -> Floats:
    """Return the probability of a |t| at least as large."""
    finite = np.minimum(degrees, MANY)
    x = finite / (finite + t * t)
    p = _incomplete_beta(finite / 2, np.full_like(finite, 0.5), x)
    normal = np.array([math.erfc(abs(v) / math.sqrt(2)) for v in t])
    return np.where(degrees >= MANY, normal, p)


def _incomplete_beta(a: Floats, b: Floats, x: Floats) -> Floats:
    """Return the regularised incomplete beta function, by its continued fraction (DLMF 8.17.22)."""
    mirrored = x > (a + 1) / (a + b + 2)  # where it converges fast
    p, q, z = np.where(mirrored, b, a), np.where(mirrored, a, b), np.where(mirrored, 1 - x, x)
    logs = np.array([math.lgamma(u + v) - math.lgamma(u) - math.lgamma(v) for u, v in zip(p, q, strict=True)])
    with np.errstate(divide="ignore"):
        front = np.exp(logs + p * np.log(z) + q * np.log1p(-z)) / p
    value = front * _fraction(p, q, z)
    return np.asarray(np.clip(np.where(mirrored, 1 - value, value), 0.0, 1.0))


def _fraction(a: Floats, b: Floats, x: Floats) -> Floats:
    """Evaluate the continued fraction by Lentz's method."""
    c = np.ones_like(x)
    d = 1 / _nonzero(1 - (a + b) * x / (a + 1))
    h = d.copy()
    for m in range(1, 300):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _nonzero(1 + term * d)
            c = _nonzero(1 + term / c)
            h = h * d * c
        if np.all(np.abs(d * c - 1) < 1e-14):
            break
    return np.asarray(h)


def _nonzero(x: Floats) -> Floats:
    return np.where(np.abs(x) < TINY, TINY, x)


def t_quantile(probability: float, degrees: float) -> float:
    """Return the t below which a share `probability` (0.5 … 1) lies; infinite beyond 10¹².

    Each round divides the interval that holds it into 64 at once.
    """
    tail = 2 * (1 - probability)

    def first_beyond(points: Floats) -> int:
        return int(np.searchsorted(-t_two_sided(points, np.full(len(points), degrees)), -tail))

    steps = np.concatenate([[0.0], 2.0 * 4.0 ** np.arange(20)])
    place = first_beyond(steps)
    if place == len(steps):
        return math.inf
    low, high = float(steps[max(place - 1, 0)]), float(steps[place])
    for _ in range(8):
        points = np.linspace(low, high, 65)
        place = min(max(first_beyond(points), 1), 64)
        low, high = float(points[place - 1]), float(points[place])
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
