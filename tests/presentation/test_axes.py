from __future__ import annotations

import pytest

from trace_tools.presentation.charts.axes import Scale, binary_ticks, decades


def test_ticks_are_round_numbers() -> None:
    assert decades(1e-9, 1e9, 5) == [1e-9, 1e-5, 1e-1, 1e3, 1e7]
    assert binary_ticks(5 * 2**20) == [0, 2**21, 2**22]


def test_a_scale_is_linear_or_logarithmic() -> None:
    assert Scale(0, 10, 100, 200)(5) == 150
    assert Scale(1, 10_000, 0, 400, log=True)(100) == pytest.approx(200)
