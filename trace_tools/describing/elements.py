"""Limit the description of a value, and summarise the elements of a large array by a corner and statistics.

Statistics are computed block by block, so that temporaries stay small. The same code serves NumPy arrays and torch
tensors: it uses only slicing, comparison, arithmetic and the methods `sum`, `min` and `max`. Counts are exact,
sums are in float64, and elements that a dimension of stride 0 repeats are read once.

    summarize(x, x.strides, Conversion(lambda block: block.astype("float64")), chunk=2**18, limit=2**26)
    # Summary({"min": -1.0, "max": 1.0, "mean": 0.1, "std": 0.5, "zero": 3, "histogram": […]}, 300, [])
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

BINS = 16
CORNER = (4, 8)  # rows and columns shown of a large array


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on the description of one value; larger parts are cut, with a note."""

    elements: int = 256  # of a tensor: all up to this number, else a corner and statistics
    items: int = 100  # of a container, from its start
    depth: int = 6  # containers inside containers
    text: int = 2_000  # characters of one string or repr
    size: int = 5_000  # of the whole value: 1 for each node and element, 1 for every 16 characters
    sorted_members: int = 10_000  # of a set of numbers or strings; a larger one is not sorted
    repr_seconds: float = 0.2  # for all calls of `repr` together, on the main thread
    statistics: int = 2**26  # elements in memory that are all counted; above it, every k-th index; 16 × on a GPU


class Budget:
    """The rest of the limits for one value; it only decreases."""

    __slots__ = ("repr_seconds", "size", "statistics")

    def __init__(self, limits: Limits) -> None:
        self.size = limits.size
        self.repr_seconds = limits.repr_seconds
        self.statistics = limits.statistics


@dataclass(frozen=True, slots=True)
class Conversion:
    """Conversion of a block of one element type to numbers."""

    floats: Callable[[Any], Any]  # block → float64 of the same shape
    integers: Callable[[Any], Any] | None = None  # block → integers, whose min and max are taken exactly
    origin: int = 0  # to add to the integers, if `integers` had to shift them
    note: str | None = None  # remark about the numbers


@dataclass(frozen=True, slots=True)
class Summary:
    """The fields of a `Statistics` that differ from their defaults, and how they were obtained."""

    fields: dict[str, Any]
    read: int  # elements
    notes: list[str]


def sample(
    x: Any,
    strides: Sequence[int],
    tensor: dict[str, Any],
    elements: Callable[[Any], list[Any]],
    conversion: Conversion | None,
    budget: Budget,
    notes: list[str],
    *,
    chunk: int,
    times: int = 1,
) -> None:
    """Add a corner of a large array to the fields of a `tensor`, and statistics if its elements are numbers.

    `elements` lists the elements of a small array; a device that reads `times` as many elements as a CPU in the same
    time has a limit `times` as high.
    """
    tensor["corner_shape"] = corner_shape(x.shape)
    tensor["corner"] = elements(x[tuple(map(slice, tensor["corner_shape"]))])
    budget.size -= len(tensor["corner"])
    if conversion is None:
        notes.append("no statistics for elements of this type")
    elif budget.statistics <= 0:
        notes.append("no statistics: the value is too large")
    else:
        summary = summarize(x, strides, conversion, chunk=chunk, limit=budget.statistics * times)
        tensor["statistics"] = summary.fields
        budget.statistics -= summary.read // times
        notes += [*([conversion.note] if conversion.note else []), *summary.notes]


def summarize(x: Any, strides: Sequence[int], conversion: Conversion, *, chunk: int, limit: int) -> Summary:
    """Return the statistics of all elements of an array.

    `chunk` is the number of elements read at once. If memory holds more than `limit` elements, every k-th index along
    the longest dimension is read (`limit` ≥ 1). `std` divides by n - 1, like `torch.std`.
    """
    repeats = 1
    for dim, stride in enumerate(strides):
        if stride == 0 and x.shape[dim] > 1:
            repeats *= x.shape[dim]
            x = _sliced(x, dim, slice(0, 1))
    steps = []
    while (count := math.prod(x.shape)) > limit:
        dim = max(range(len(x.shape)), key=lambda d: x.shape[d])
        step = min(-(-count // limit), x.shape[dim])
        x = _sliced(x, dim, slice(None, None, step))
        steps.append(f"{step} of dimension {dim}")
    notes = [f"statistics of a sample: one index in {', one in '.join(steps)}"] if steps else []
    order = sorted(range(len(strides)), key=lambda dim: -abs(strides[dim]))
    moments = _Moments()
    for block in blocks(x, order, chunk):
        moments.add(block, conversion)
    fields = moments.fields(repeats)
    bins = _histogram(blocks(x, order, chunk), conversion, moments)
    if bins is not None:
        fields["histogram"] = [count * repeats for count in bins]
    if moments.count and "mean" not in fields:
        notes.append("the mean is beyond float64")
    return Summary(fields, math.prod(x.shape), notes)


def corner_shape(shape: Sequence[int]) -> list[int]:
    """Return the shape of the block at the origin that represents a large array of this shape."""
    outer, inner = shape[:-2], shape[-2:]
    return [1] * len(outer) + [min(size, most) for size, most in zip(inner, CORNER[-len(shape) :], strict=True)]


def blocks(x: Any, order: Sequence[int], size: int) -> Iterator[Any]:
    """Yield views of at most `size` elements that together form `x`, split along dimensions in this order."""
    count = math.prod(x.shape)
    if count <= size:
        yield x
        return
    dim = next(d for d in order if x.shape[d] > 1)
    length = x.shape[dim]
    step = max(1, size * length // count)
    for start in range(0, length, step):
        yield from blocks(_sliced(x, dim, slice(start, start + step)), order, size)


def _sliced(x: Any, dim: int, part: slice) -> Any:
    return x[(slice(None),) * dim + (part,)]


class _Moments:
    """Counts and moments of the blocks so far, merged as in Chan, Golub & LeVeque (1979)."""

    def __init__(self) -> None:
        self.nan = self.inf = self.zero = 0
        self.count = 0  # of finite elements
        self.mean = self.squares = 0.0  # squares: of the distances from the mean
        self.min: int | float | None = None
        self.max: int | float | None = None

    def add(self, block: Any, conversion: Conversion) -> None:
        count = math.prod(block.shape)
        if not count:
            return
        floats = conversion.floats(block)
        total = float(floats.sum())
        if not math.isfinite(total):
            nan = int((floats != floats).sum())
            floats = _finite(floats)
            inf = count - nan - len(floats)
            self.nan, self.inf, count = self.nan + nan, self.inf + inf, len(floats)
            if not count:
                return
            total = float(floats.sum())
        self.zero += count - int((floats != 0).sum())
        mean = total / count
        distances = floats - mean
        distances *= distances
        all_count, shift = self.count + count, mean - self.mean
        self.mean += shift * count / all_count
        self.squares += float(distances.sum()) + shift * shift * self.count * count / all_count
        self.count = all_count
        numbers = floats if conversion.integers is None else conversion.integers(block)
        low, high = numbers.min().item(), numbers.max().item()
        if conversion.origin:
            low, high = low + conversion.origin, high + conversion.origin
        self.min = low if self.min is None else min(self.min, low)
        self.max = high if self.max is None else max(self.max, high)

    def fields(self, repeats: int) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        if self.count:
            fields = {"min": self.min, "max": self.max}
            if math.isfinite(self.mean):
                fields["mean"] = self.mean
            if math.isfinite(self.squares) and self.count * repeats > 1:
                fields["std"] = math.sqrt(self.squares * repeats / (self.count * repeats - 1))
        for name in ("nan", "inf", "zero"):
            if count := getattr(self, name):
                fields[name] = count * repeats
        return fields


def _finite(floats: Any) -> Any:
    return floats[abs(floats) < math.inf]


def _histogram(parts: Iterator[Any], conversion: Conversion, moments: _Moments) -> list[int] | None:
    """Count the finite elements in equal bins from min to max; None if these are equal or too distant."""
    if moments.min is None or moments.max is None:
        return None
    low, width = float(moments.min), float(moments.max) - float(moments.min)
    if not 0 < width < math.inf:
        return None
    edges = [low + width * (i / BINS) for i in range(1, BINS)]
    counts_below: list[Any] = [0] * len(edges)  # stays on the device until the end: one copy, not one per block
    for block in parts:
        floats = conversion.floats(block)
        if moments.nan or moments.inf:
            floats = _finite(floats)
        for i, edge in enumerate(edges):
            counts_below[i] = counts_below[i] + (floats < edge).sum()
    ends = [0, *(int(count) for count in counts_below), moments.count]
    return [end - start for start, end in itertools.pairwise(ends)]
