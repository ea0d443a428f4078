from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_tools.presentation.charts.axes import Axes, Scale, binary_ticks, decades, tick_text, ticks


@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9))
def test_ticks_are_few_and_within_the_axis(low: float, size: float) -> None:
    high = low + size
    chosen = ticks(low, high)
    assert 2 <= len(chosen) <= 14
    slack = 1e-6 * max(size, abs(low), abs(high))
    assert all(low - slack <= tick <= high + slack for tick in chosen)


@given(st.floats(-9, 9), st.floats(0.1, 12))
def test_ticks_of_a_log_axis_are_few_and_within_it(exponent: float, size: float) -> None:
    low, high = 10**exponent, 10 ** (exponent + size)
    chosen = ticks(low, high, log=True)
    assert len(chosen) <= 12 and chosen == sorted(chosen)
    assert all(low * (1 - 1e-6) <= tick <= high * (1 + 1e-6) for tick in chosen)


def test_ticks_are_round_numbers_with_short_labels() -> None:
    assert ticks(0, 10) == [0, 2, 4, 6, 8, 10]
    assert ticks(100, 1000, log=True) == [100, 200, 500, 1000]
    assert ticks(1e3, 1e9, log=True) == [10.0**n for n in range(3, 10)]
    assert decades(1e-9, 1e9, 5) == [1e-9, 1e-5, 1e-1, 1e3, 1e7]
    assert binary_ticks(5 * 2**20) == [0, 2**21, 2**22]
    assert [tick_text(t) for t in (0.01, 1.0, 20_000.0, 1e6, 2.5)] == ["0.01", "1", "20,000", "10⁶", "2.5"]


def test_a_scale_is_linear_or_logarithmic() -> None:
    assert Scale(0, 10, 100, 200)(5) == 150
    assert Scale(1, 10_000, 0, 400, log=True)(100) == pytest.approx(200)


def test_points_that_an_axis_cannot_show_have_no_position() -> None:
    axes = Axes(Scale(1, 100, 0, 200, log=True), Scale(0, 1, 100, 0))
    assert axes.at(10, 0.5) == (100, 50)
    assert axes.at(0, 0.5) is None and axes.at(10, math.nan) is None and axes.at(math.inf, 0) is None
