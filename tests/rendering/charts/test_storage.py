from __future__ import annotations

import math

import pytest

from tests.rendering.charts.reading import circles, read, words
from trace_tools.rendering.charts.storage import storage
from trace_tools.schema import Tensor


def tensor(shape: list[int], strides: list[int], offset: int = 0, cells: int = 6) -> Tensor:
    count = math.prod(shape)
    return Tensor("float32", shape, "cpu", 4 * count, strides, offset, storage="A", storage_bytes=4 * cells,
                  elements=[float(n) for n in range(count)])  # fmt: skip


def test_a_view_has_its_dots_under_the_cells_that_torch_says_it_sees() -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(6.0).view(2, 3)
    view = x.t()[1:]
    other = tensor(list(view.shape), list(view.stride()), view.storage_offset())
    root = read(storage("x", tensor([2, 3], [3, 1]), [("y", other)]))
    marks = circles(root)
    cell = marks[1][0] - marks[0][0]
    of_x, of_y = (
        {round((mx - marks[0][0]) / cell) for mx, my in marks if my == y} for y in sorted({y for _, y in marks})
    )
    assert of_x == set(range(6))
    assert of_y == {int(number) for number in view.flatten().tolist()}  # its elements are their addresses
    assert "dim 0: +3" in words(root) and "dim 1: +1" in words(root)


def test_no_storage_is_drawn_where_it_would_say_nothing_or_too_much() -> None:
    assert storage("x", tensor([6], [1]), []) is None
    assert storage("x", tensor([100], [1], cells=100), [("y", tensor([6], [1]))]) is None
    expanded = tensor([1000, 1000], [0, 0], cells=1)
    assert storage("x", expanded, []) is None
    assert storage("x", tensor([2], [1]), [("huge", expanded)]) is not None
    assert storage("x", Tensor("float32", [2], "cpu"), []) is None
