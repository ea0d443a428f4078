from __future__ import annotations

import math
import random
import re
from xml.etree.ElementTree import Element

import numpy as np
import pytest

from tests.cases_in_one import each
from tests.messages import says
from tests.presentation.reading import read, words
from trace_tools.presentation.charts.storage import places, storage
from trace_tools.trace.model import Tensor


def tensor(shape: list[int], strides: list[int], offset: int = 0, cells: int = 6) -> Tensor:
    count = math.prod(shape)
    return Tensor("float32", shape, "cpu", 4 * count, strides, offset, storage="A", storage_bytes=4 * cells,
                  elements=[float(n) for n in range(count)])  # fmt: skip


def rows_of(root: Element) -> list[list[tuple[float, str]]]:
    """Return the numbers in each row below the cells: position and text."""
    rows: dict[float, list[tuple[float, str]]] = {}
    for text in root.iter("text"):
        if re.match(r"var\(--s\d", text.get("fill", "")):
            rows.setdefault(float(text.get("y", 0)), []).append((float(text.get("x", 0)), text.text or ""))
    return [rows[y] for y in sorted(rows)]


def test_the_elements_of_a_view_are_numbered_in_reading_order() -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(6.0).view(2, 3)
    view = x.t()[1:]
    view_tensor = tensor(list(view.shape), list(view.stride()), view.storage_offset())
    root = read(storage("x", tensor([2, 3], [3, 1]), [("y", view_tensor)]))
    of_x, of_y = rows_of(root)
    cell = of_x[1][0] - of_x[0][0]
    assert [int(number) for _, number in of_x] == [*range(6)]
    places = {int(number): round((at - of_x[0][0]) / cell) for at, number in of_y}
    assert [places[n] for n in range(view.numel())] == view.flatten().tolist()  # each element equals its address


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
    assert len(rows_of(root)[0]) == len(
        view
    ) and f"… {1024 - 12:,} more of 1,024 elements, {first:,} of them before these" in words(root)

    views = [(f"view{n}", tensor([1], [1], n, 20)) for n in range(20)]
    root = read(storage("x", tensor([20], [1], cells=20), views))
    drawn_views = {word.partition(" ")[0] for word in words(root)} & {name for name, _ in views}
    [omitted] = [word for word in words(root) if word.startswith("… ")]
    assert len(drawn_views) == 5 and says(omitted, "15 more tensors", "view5", "9 more")

    partly_recorded = Tensor("float32", [2, 3], "cpu", 24, [3, 1], 0, storage="A", storage_bytes=24)
    assert any(says(text, "… 6 of 6 elements", "trace") for text in words(read(storage("x", partly_recorded, []))))


def test_cells_show_their_elements_completely() -> None:
    x = Tensor("float32", [2, 2], "cpu", 16, [2, 1], 0, storage="A", storage_bytes=16,
               elements=[1.2345, -0.0002938, 1234567.0, -3.0])  # fmt: skip
    read_back = [float(word) for word in words(read(storage("x", x, []))) if word[0] in "-1234567890"]
    assert [number for number in read_back if number not in range(4)] == pytest.approx(x.elements, rel=1e-3)


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
    assert places(tensor, 100) == view.flatten().tolist()
    assert places(tensor, view.size - 1) == []


@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ([1 << 28], [1]),
        ([10**6, 10**6], [0, 0]),
        ([0, 10**12], [1, 1]),
        ([10**30], [10**30]),
        ([2], None),
    ],
)
def test_unlistable_storage_positions_are_empty(shape: list[int], strides: list[int] | None) -> None:
    assert places(Tensor("float32", shape, "meta", strides=strides), 256) == []
