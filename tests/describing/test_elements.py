"""Statistics of the elements of large arrays, of NumPy and of torch."""

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from tests.cases_in_one import each
from tests.describing.value_form import describe, tensor
from trace_tools.describing.elements import corner_shape

Array = np.ndarray[Any, np.dtype[Any]]


def statistics(x: Array, **limits: int) -> Iterator[dict[str, Any]]:
    """Yield the statistics of an array, and those of the tensor on its memory."""
    yield tensor(x, elements=0, **limits)["statistics"]
    if all(stride >= 0 for stride in x.strides):
        owner = x
        while owner.base is not None:
            owner = owner.base  # type: ignore[assignment]
        steps = [stride // x.itemsize for stride in x.strides]
        offset = (x.ctypes.data - owner.ctypes.data) // x.itemsize
        same = torch.as_strided(torch.from_numpy(owner).flatten(), x.shape, steps, offset)
        yield tensor(same, elements=0, **limits)["statistics"]


@each(
    "layout",
    [
        lambda x: x,
        lambda x: x.T,
        lambda x: x[::-1, :, ::-1],
        lambda x: x[::2, 1:, ::3],
        lambda x: np.broadcast_to(x[:, :1], x.shape),
        lambda x: np.broadcast_to(x[:1, :, :1], x.shape),
        lambda x: x[:1, :1, :1],
    ],
)
@each("limit", [210, 300, 10**6])  # read in pieces of 3 and 4 elements, and at once
def test_statistics_equal_numpys_own(layout: Callable[[Array], Array], limit: int) -> None:
    x = np.random.default_rng(0).normal(size=(5, 6, 7))
    x[abs(x) < 0.1] = 0
    x = layout(x)
    for fields in statistics(x, statistics=limit):
        assert (fields["min"], fields["max"]) == (x.min(), x.max())
        assert fields["mean"] == pytest.approx(x.mean(), rel=1e-12, abs=1e-15)
        assert fields.get("zero", 0) == (x == 0).sum()
        if x.size == 1:
            assert "std" not in fields and "histogram" not in fields
            continue
        assert fields["std"] == pytest.approx(x.std(ddof=1), rel=1e-12)
        assert fields["histogram"] == np.histogram(x, bins=16)[0].tolist()


def test_elements_that_are_not_finite_are_counted_and_left_out() -> None:
    normal = np.random.default_rng(0).normal(size=500)
    x = np.concatenate([normal, [math.nan] * 3, [math.inf] * 2, [-math.inf] * 4, [0.0, -0.0]])
    np.random.default_rng(1).shuffle(x)
    finite = x[np.isfinite(x)]
    for fields in statistics(x):
        assert (fields["nan"], fields["inf"], fields["zero"]) == (3, 6, 2)
        assert (fields["min"], fields["max"]) == (finite.min(), finite.max())
        assert fields["std"] == pytest.approx(finite.std(ddof=1), rel=1e-12)
        assert sum(fields["histogram"]) == len(finite)


def test_special_arrays() -> None:
    for fields in statistics(np.array([math.nan] * 60 + [math.inf] * 50)):
        assert fields == {"nan": 60, "inf": 50}
    for fields in statistics(np.full(300, 0.1)):
        assert fields == {"min": 0.1, "max": 0.1, "mean": pytest.approx(0.1), "std": pytest.approx(0)}
    for fields in statistics(np.array([1e308, -1e308, 1.7e308, 1.5e308] * 50)):
        assert fields == {"min": -1e308, "max": 1.7e308}  # the sum and the range are beyond float64
    far = 1e9 + np.random.default_rng(0).normal(size=1000)
    for fields in statistics(far):
        assert fields["std"] == pytest.approx((far - 1e9).std(ddof=1), rel=1e-7)
    for fields in statistics(np.array([2**53 - 1, -(2**53) + 1] * 40)):
        assert (fields["min"], fields["max"], type(fields["max"])) == (-(2**53) + 1, 2**53 - 1, int)
    for fields in statistics(np.array([2**63 - 1, 5] * 40)):
        assert (fields["max"], type(fields["max"])) == (2.0**63, float)  # no integer, because it is not exact


def test_above_the_limit_a_sample_is_read_and_noted() -> None:
    x = np.arange(128.0 * 40).reshape(40, 128)
    rows = x[:, :].reshape(-1, 16)[::5]  # 64 pieces of 16 elements
    for obj in (x, x.T, torch.from_numpy(x), torch.from_numpy(x).T):
        value = describe(obj, statistics=1024)
        assert value["note"] == "statistics of 1 in 5 elements"
        assert value["tensor"]["statistics"]["mean"] == pytest.approx(rows.mean())
        assert sum(value["tensor"]["statistics"]["histogram"]) == rows.size
    for fields in statistics(np.zeros((3,) * 8), statistics=10):
        assert 0 < fields["zero"] <= 64


def test_repeated_elements_are_read_once() -> None:
    for fields in statistics(np.broadcast_to(np.arange(3.0), (10**6, 10**6, 3)), statistics=100):
        assert (fields["zero"], fields["mean"], sum(fields["histogram"])) == (10**12, 1.0, 3 * 10**12)


def test_the_limit_is_for_the_whole_value() -> None:
    items = describe([torch.ones(600), torch.ones(600), torch.ones(300)], statistics=1000)["items"]
    assert ["statistics" in item["tensor"] for item in items] == [True, False, True]
    assert items[1]["note"] == "no statistics: the value is too large"
    assert len(str(describe([torch.rand(256) for _ in range(100)]))) < 200_000


def test_shapes_of_corners() -> None:
    shapes = {(3,): [3], (300,): [8], (300, 300): [4, 8], (300, 2): [4, 2], (5, 6, 300, 300): [1, 1, 4, 8]}
    assert {shape: corner_shape(shape) for shape in shapes} == shapes
    for shape in product([1, 5, 300], repeat=3):
        assert math.prod(corner_shape(shape)) <= 32
