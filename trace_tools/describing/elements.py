"""Summarise the elements of a large array by a corner and statistics; the same code serves NumPy and torch.

x = torch.randn(4096, 4096)
corner_shape(x.shape)             # [4, 8]
views, repeats, note = sample(walk, x, x.stride())
statistics(numbers, repeats, torch, whole=False)  # {"min": -5.4, "max": 5.3, "mean": 0.1, "std": 1.0, "zero": 3, …}
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from trace_tools.describing.walk import Walk

BINS = 16
CORNER = (4, 8)  # rows and columns shown of a large array
PIECES = 64  # of a sample


def corner_shape(shape: Sequence[int]) -> list[int]:
    """Return the shape of the block at the origin that represents a large array of this shape."""
    outer, inner = shape[:-2], shape[-2:]
    return [1] * len(outer) + [min(size, most) for size, most in zip(inner, CORNER[-len(shape) :], strict=True)]


def sample(walk: Walk, x: Any, strides: Sequence[int]) -> tuple[list[Any], int, str | None]:
    """Return views of the elements to read, how often `x` repeats each of them, and a note; no views, and the reason,
    if other parts of the value took too much.

    The dimensions of `x` must be in the order of memory, so that each view is one piece of it: such a piece of a GPU's
    memory is copied to the host without further memory on the device. Elements repeated by a stride of 0 are read once.
    """
    repeats, limit = 1, walk.limits.statistics
    for dim, stride in enumerate(strides):
        if stride == 0 and x.shape[dim] > 1:
            repeats *= x.shape[dim]
            x = x[(slice(None),) * dim + (slice(0, 1),)]
    count = math.prod(x.shape)
    if count > walk.statistics < limit:
        return [], 1, "no statistics: the value is too large"
    size = max(1, limit // PIECES)
    views = list(_pieces(x, size))
    every = -(-len(views) // PIECES) if count > limit else 1
    walk.statistics -= min(count, limit)
    return views[::every], repeats, f"statistics of 1 in {every} elements" if every > 1 else None


def _pieces(x: Any, size: int) -> Iterator[Any]:
    """Yield views of at most `size` elements that together form `x`."""
    count = math.prod(x.shape)
    if count <= size:
        yield x
        return
    dim = next(dim for dim, length in enumerate(x.shape) if length > 1)
    step = max(1, size * x.shape[dim] // count)
    for start in range(0, x.shape[dim], step):
        yield from _pieces(x[(slice(None),) * dim + (slice(start, start + step),)], size)


def statistics(numbers: Any, repeats: int, library: Any, *, whole: bool) -> dict[str, Any]:
    """Return the fields of a `Statistics` that differ from their defaults, of an array of `library` with float64
    numbers in one dimension.

    Overwrites the numbers, because a temporary of their size would take longer than all else. `whole` numbers have
    integers as minimum and maximum, if these are exact. `std` divides by n - 1, like `torch.std`.
    """
    fields, read = dict[str, Any](), len(numbers)
    if not math.isfinite(float(numbers.sum())):
        nan = int((numbers != numbers).sum())
        numbers = numbers[(numbers < math.inf) & (numbers > -math.inf)]
        fields = {"nan": nan * repeats, "inf": (read - nan - len(numbers)) * repeats}
    if count := len(numbers):
        low, high, mean = float(numbers.min()), float(numbers.max()), float(numbers.sum()) / count
        exact = whole and max(-low, high) < 2**53  # a float64 between larger integers is none of them
        fields |= {"min": int(low) if exact else low, "max": int(high) if exact else high}
        fields["zero"] = (count - int(library.count_nonzero(numbers))) * repeats
        if 0 < high - low < math.inf:
            bins, _ = library.histogram(numbers, BINS, range=(low, high))
            fields["histogram"] = [int(number) * repeats for number in bins]
        if math.isfinite(mean):  # else the sum is beyond float64
            fields["mean"] = mean
            numbers -= mean
            numbers *= numbers
            squares = float(numbers.sum())
            if math.isfinite(squares) and count * repeats > 1:
                fields["std"] = math.sqrt(squares * repeats / (count * repeats - 1))
    return {name: field for name, field in fields.items() if field or name not in ("nan", "inf", "zero")}
