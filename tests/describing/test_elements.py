import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.cases_in_one import each
from trace_tools.describing.elements import Conversion, blocks, corner_shape, summarize

Array = np.ndarray[Any, np.dtype[Any]]

FLOATS = Conversion(lambda block: block.astype(np.float64))
INTEGERS = Conversion(lambda block: block.astype(np.float64), lambda block: block)


def fields(x: Array, reading: Conversion = FLOATS, *, chunk: int = 50, limit: int = 10**6) -> dict[str, Any]:
    with np.errstate(all="ignore"):
        return summarize(x, x.strides, reading, chunk=chunk, limit=limit).fields


def variants(x: Array) -> dict[str, Array]:
    return {
        "plain": x,
        "transposed": x.T,
        "reversed": x[::-1, :, ::-1],
        "strided": x[::2, 1:, ::3],
        "broadcast": np.broadcast_to(x[:, :1], x.shape),
        "broadcast twice": np.broadcast_to(x[:1, :, :1], x.shape),
        "one element": x[:1, :1, :1],
        "empty": x[:0],
    }


@each("layout", variants(np.empty((5, 6, 7))))
@each("chunk", [1, 7, 50, 10**6])
def test_statistics_equal_numpys_own(layout: str, chunk: int) -> None:
    x = variants(np.random.default_rng(0).normal(size=(5, 6, 7)).round(1))[layout]
    statistics = fields(x, chunk=chunk)
    if not x.size:
        assert statistics == {}
        return
    assert (statistics["min"], statistics["max"]) == (x.min(), x.max())
    assert statistics["mean"] == pytest.approx(x.mean(), rel=1e-12, abs=1e-15)
    assert statistics.get("zero", 0) == (x == 0).sum()
    if x.size == 1:
        assert "std" not in statistics and "histogram" not in statistics
        return
    assert statistics["std"] == pytest.approx(x.std(ddof=1), rel=1e-12)
    assert statistics["histogram"] == np.histogram(x, bins=16)[0].tolist()


def test_elements_that_are_not_finite_are_counted_and_left_out() -> None:
    normal = np.random.default_rng(0).normal(size=500)
    x = np.concatenate([normal, [math.nan] * 3, [math.inf] * 2, [-math.inf] * 4, [0.0, -0.0]])
    np.random.default_rng(1).shuffle(x)
    finite = x[np.isfinite(x)]
    statistics = fields(x)
    assert (statistics["nan"], statistics["inf"], statistics["zero"]) == (3, 6, 2)
    assert (statistics["min"], statistics["max"]) == (finite.min(), finite.max())
    assert statistics["std"] == pytest.approx(finite.std(ddof=1), rel=1e-12)
    assert statistics["histogram"] == np.histogram(finite, bins=16)[0].tolist()


def test_arrays_without_finite_elements() -> None:
    assert fields(np.array([math.nan] * 60 + [math.inf] * 50)) == {"nan": 60, "inf": 50}


def test_equal_elements_have_no_histogram() -> None:
    assert fields(np.full(300, 0.1)) == {"min": 0.1, "max": 0.1, "mean": pytest.approx(0.1), "std": pytest.approx(0)}


def test_integers_have_exact_minimum_and_maximum() -> None:
    statistics = fields(np.array([2**63 - 1, -(2**63), 5] * 40), INTEGERS)
    assert (statistics["min"], statistics["max"]) == (-(2**63), 2**63 - 1)
    assert type(statistics["min"]) is int


def test_std_is_precise_far_from_zero() -> None:
    x = 1e9 + np.random.default_rng(0).normal(size=1000)
    assert fields(x, chunk=10)["std"] == pytest.approx((x - 1e9).std(ddof=1), rel=1e-7)


def test_sums_beyond_float64() -> None:
    x = np.array([1e308, -1e308, 1.7e308, 1.5e308] * 50)
    with np.errstate(all="ignore"):
        summary = summarize(x, x.strides, FLOATS, chunk=3, limit=1000)
    assert (summary.fields["min"], summary.fields["max"]) == (-1e308, 1.7e308)
    assert not {"mean", "std", "histogram"} & summary.fields.keys()
    assert summary.notes == ["the mean is beyond float64"]


def test_above_the_limit_a_sample_is_read_and_noted() -> None:
    x = np.arange(100.0 * 40).reshape(40, 100)
    summary = summarize(x, x.strides, FLOATS, chunk=64, limit=1000)
    sample = x[:, ::4]
    assert summary.read == sample.size == 1000
    assert summary.notes == ["statistics of a sample: one index in 4 of dimension 1"]
    assert summary.fields["mean"] == pytest.approx(sample.mean())


def test_a_sample_of_many_short_dimensions() -> None:
    x = np.zeros((3,) * 8)
    summary = summarize(x, x.strides, FLOATS, chunk=64, limit=10)
    assert 0 < summary.read <= 10


def test_repeated_elements_are_read_once() -> None:
    x = np.broadcast_to(np.arange(3.0), (10**6, 10**6, 3))
    summary = summarize(x, x.strides, FLOATS, chunk=64, limit=100)
    assert summary.read == 3
    assert summary.fields["zero"] == 10**12
    assert summary.fields["mean"] == 1.0
    assert sum(summary.fields["histogram"]) == 3 * 10**12


@given(hnp.arrays(np.int8, hnp.array_shapes(max_dims=4, max_side=6)), st.integers(1, 40), st.data())
def test_blocks_are_small_and_cover_the_array(x: Array, size: int, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(x.ndim)))
    parts = list(blocks(x, order, size))
    assert all(part.size <= size for part in parts)
    assert sorted(np.concatenate([part.ravel() for part in parts])) == sorted(x.ravel())


@settings(max_examples=50)
@given(hnp.arrays(np.float32, st.integers(1, 200), elements=st.floats(width=32)), st.integers(1, 60))
def test_statistics_of_random_floats(x: Array, chunk: int) -> None:
    statistics = fields(x, chunk=chunk)
    finite = x[np.isfinite(x)].astype(np.float64)
    assert statistics.get("nan", 0) == np.isnan(x).sum()
    assert statistics.get("inf", 0) == np.isinf(x).sum()
    assert statistics.get("zero", 0) == (x == 0).sum()
    assert statistics.get("min") == (finite.min() if finite.size else None)
    if "histogram" in statistics:
        assert sum(statistics["histogram"]) == finite.size
    if finite.size:
        assert finite.min() - 1e-9 <= statistics["mean"] + 1e-9 * abs(finite).max()
        assert statistics["mean"] == pytest.approx(finite.mean(), rel=1e-9, abs=1e-9 * abs(finite).max())


def test_shapes_of_corners() -> None:
    assert corner_shape([3]) == [3]
    assert corner_shape([300]) == [8]
    assert corner_shape([300, 300]) == [4, 8]
    assert corner_shape([300, 2]) == [4, 2]
    assert corner_shape([5, 6, 300, 300]) == [1, 1, 4, 8]
    for shape in product([1, 5, 300], repeat=3):
        assert math.prod(corner_shape(shape)) <= 32
