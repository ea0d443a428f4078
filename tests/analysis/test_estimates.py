"""Estimates of machines whose times are planted: by hand, each machine left out in turn."""

from __future__ import annotations

import pytest

from trace_tools.analysis.distances import Distance
from trace_tools.analysis.estimates import Estimator, estimator_of
from trace_tools.analysis.floors import Floor


def one(kind: str, floor: float, ratio: float, *, steady: bool = True, calls: int = 1) -> Distance:
    found = Floor(floor, "memory", {kind: floor}, floor, calls=calls)  # type: ignore[dict-item]
    return Distance(0, ratio * floor, found, kind, own=True, steady=steady)


def machine(matmul: float, copy: float) -> list[Distance]:
    """Ten matmuls and ten copies, each so many times its floor."""
    sizes = [1e-4 * (n + 1) for n in range(10)]
    return [one("matmul", size, matmul) for size in sizes] + [one("copy", size, copy) for size in sizes]


def test_floors_are_scaled_by_kind_and_the_error_is_that_of_machines_left_out() -> None:
    """Of 40 estimates, 20 of copies are right; matmuls at 2 and 8 times their floors are × 4 off."""
    estimator = estimator_of([machine(2, 3), machine(8, 3)])
    assert estimator is not None and estimator.tried == 40
    assert estimator.ratios == {"matmul": pytest.approx(4), "copy": pytest.approx(3)}, "√(2·8), √(3·3)"
    assert (estimator.half, estimator.most) == (pytest.approx((1 + 4) / 2), pytest.approx(4))
    floor = Floor(3e-4, "memory", {"matmul": 1e-4, "copy": 2e-4}, 0.0, calls=2)
    assert estimator.seconds(floor) == pytest.approx(4 * 1e-4 + 3 * 2e-4)


def test_machines_that_agree_are_estimated_exactly() -> None:
    estimator = estimator_of([machine(2, 3), machine(2, 3), machine(2, 3)])
    assert estimator is not None and (estimator.half, estimator.most) == (pytest.approx(1), pytest.approx(1))
    assert estimator.tried == 60


def test_without_two_machines_there_is_no_estimate() -> None:
    assert estimator_of([]) is estimator_of([machine(2, 3)]) is estimator_of([machine(2, 3), []]) is None


def test_only_what_is_heavy_and_steady_takes_part() -> None:
    """A thousand operators with a floor of 1 µs together are mostly their start; times that scatter tell nothing."""
    light = [one("matmul", 1e-6, 5_000, calls=1_000) for _ in range(50)]
    unsteady = [one("copy", 1e-4, 900, steady=False) for _ in range(50)]
    estimator = estimator_of([[*machine(2, 3), *light, *unsteady], machine(2, 3)])
    assert estimator == Estimator(
        {"matmul": pytest.approx(2), "copy": pytest.approx(3)}, pytest.approx(1), pytest.approx(1), 40
    )
    assert estimator is not None and estimator.seconds(light[0].floor) is None
    assert estimator.seconds(Floor(1e-3, "memory", {"reduction": 1e-3}, calls=1)) is None, "of which nobody has a ratio"
    assert estimator.seconds(Floor(None, why="nothing was counted")) is None
