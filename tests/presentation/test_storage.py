from __future__ import annotations

import math

import pytest

from tests.messages import says
from tests.presentation.reading import circles, read, words
from trace_tools.presentation.charts.storage import storage
from trace_tools.trace.model import Tensor


def tensor(shape: list[int], strides: list[int], offset: int = 0, cells: int = 6) -> Tensor:
    count = math.prod(shape)
    return Tensor("float32", shape, "cpu", 4 * count, strides, offset, storage="A", storage_bytes=4 * cells,
                  elements=[float(n) for n in range(count)])  # fmt: skip


def test_dots_of_a_view_mark_the_elements_torch_reads() -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(6.0).view(2, 3)
    view = x.t()[1:]
    view_tensor = tensor(list(view.shape), list(view.stride()), view.storage_offset())
    root = read(storage("x", tensor([2, 3], [3, 1]), [("y", view_tensor)]))
    marks = circles(root)
    cell = marks[1][0] - marks[0][0]
    of_x, of_y = (
        {round((mx - marks[0][0]) / cell) for mx, my in marks if my == y} for y in sorted({y for _, y in marks})
    )
    assert of_x == set(range(6))
    assert of_y == {int(number) for number in view.flatten().tolist()}  # each element equals its address
    assert "dim 0: +3" in words(root) and "dim 1: +1" in words(root)


def test_trivial_and_large_storages_are_not_drawn() -> None:
    assert storage("x", tensor([6], [1]), []) is None
    assert storage("x", tensor([10, 10], [10, 1], cells=100), []) is None
    expanded = tensor([1000, 1000], [0, 0], cells=1)
    assert storage("x", expanded, []) is None
    assert storage("x", tensor([2], [1]), [("huge", expanded)]) is not None
    assert storage("x", Tensor("float32", [2], "cpu"), []) is None


def test_a_drawing_reports_what_it_leaves_out() -> None:
    torch = pytest.importorskip("torch")
    base = torch.arange(1024.0).view(32, 32)
    view = base[31, 20:24]
    row = tensor(list(view.shape), list(view.stride()), view.storage_offset(), base.numel())
    root = read(storage("row", row, []))
    numbers = [int(word) for word in words(root) if word.isdigit()]
    first = view.storage_offset()
    assert set(range(first, first + len(view))) <= set(numbers)  # the addresses of its elements
    shown = len(circles(root))
    assert shown == len(view) and f"… {1024 - 12:,} more of 1,024 elements, {first:,} of them before these" in words(
        root
    )

    views = [(f"view{n}", tensor([1], [1], n, 20)) for n in range(20)]
    root = read(storage("x", tensor([20], [1], cells=20), views))
    drawn_views = {word.partition(" ")[0] for word in words(root)} & {name for name, _ in views}
    [omitted] = [word for word in words(root) if word.startswith("… ")]
    assert len(drawn_views) == 5 and says(omitted, "15 more tensors", "view5", "9 more")

    partly_recorded = Tensor(
        "float32", [2, 3], "cpu", 24, [3, 1], 0, storage="A", storage_bytes=24, elements=[1.0, 2.0]
    )
    assert any(says(text, "… 4 of 6 elements", "trace") for text in words(read(storage("x", partly_recorded, []))))


def test_cells_show_their_elements_completely() -> None:
    x = Tensor("float32", [2, 2], "cpu", 16, [2, 1], 0, storage="A", storage_bytes=16,
               elements=[1.2345, -0.0002938, 1234567.0, -3.0])  # fmt: skip
    read_back = [float(word) for word in words(read(storage("x", x, []))) if word[0] in "-1234567890"]
    assert [number for number in read_back if number not in range(4)] == pytest.approx(x.elements, rel=1e-3)
