from __future__ import annotations

import random

import numpy as np

from tests.cases_in_one import each
from trace_tools.trace import shapes
from trace_tools.trace.model import Tensor


def test_element_counts_stop_above_the_limit() -> None:
    for sizes, expected in (([], 1), ([4, 4], 16), ([0, 10**30], 0), ([10**30, 0], 0), ([257], 257), ([16, 16], 256)):
        assert shapes.count(sizes, most=256) == expected
    assert shapes.count([2**63] * 1_000_000, most=10**40) == 10**40 + 1


@each("seed", range(10))
def test_storage_positions_equal_those_of_numpy(seed: int) -> None:
    draw = random.Random(seed)
    base = np.arange(48)
    view = base.reshape(draw.choice([(48,), (6, 8), (2, 3, 8), (1, 48), (48, 1, 1)]))
    view = view[draw.randrange(view.shape[0]) :: draw.choice([1, 2])]
    view = np.broadcast_to(view.T, (draw.choice([1, 2]), *view.T.shape))
    strides = [stride // base.itemsize for stride in view.strides]
    offset = int(view.flatten()[0]) if view.size else 0
    tensor = Tensor("int64", list(view.shape), "cpu", strides=strides, offset=offset)
    assert shapes.places(tensor, 100) == view.flatten().tolist()
    assert shapes.places(tensor, view.size - 1) == []


@each(
    ("shape", "strides"),
    [([1 << 28], [1]), ([10**6] * 2, [0, 0]), ([0, 10**12], [1, 1]), ([10**30], [10**30]), ([2], None), ([2], [1, 1])],
)
def test_unlistable_storage_positions_are_empty(shape: list[int], strides: list[int] | None) -> None:
    assert shapes.places(Tensor("float32", shape, "meta", strides=strides), 256) == []
