"""Compute the number of a tensor's elements and their positions in its storage, from sizes and strides.

A trace may contain any sizes: an expanded tensor, or a tensor on the meta device, has more elements than any memory.
Callers therefore pass the most elements that they need, and the work never exceeds that limit.

    count([4, 4], most=256)                                         16
    count([10**6, 10**6], most=256)                                 257: too many
    places(Tensor("int64", [2, 2], "cpu", strides=[1, 2]), 256)     [0, 2, 1, 3]
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from trace_tools.trace.model import Tensor


def count(sizes: Sequence[int], most: int) -> int:
    """Return how many elements a shape has; `most + 1` where they are more than `most`."""
    if 0 in sizes:
        return 0
    elements = 1
    for size in sizes:
        elements *= size
        if elements > most:
            return most + 1
    return elements


def places(tensor: Tensor, most: int) -> list[int]:
    """Return each element's position in the storage, in row-major order.

    Empty if the tensor has more than `most` elements, or its strides are unknown.
    """
    if tensor.strides is None or len(tensor.strides) != len(tensor.shape) or not 0 < count(tensor.shape, most) <= most:
        return []
    dimensions = [(size, stride) for size, stride in zip(tensor.shape, tensor.strides, strict=True) if size != 1]
    steps = ([stride * index for index in range(size)] for size, stride in dimensions)
    offset = tensor.offset or 0
    return [offset + sum(step) for step in product(*steps)]
