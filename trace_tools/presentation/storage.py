"""Show a storage as a table of cells: which of them each tensor uses, in which order.

    storage("x", tensor, [("x", x), ("y", y)])     ElementGrid("", [["cell", "0", "1", …], …]), ["x [2, 2], strides …"]

Below the cells and their elements, each tensor with this storage has a row with the numbers of its elements in reading
order: tensors that share a cell have numbers in one column, and a transposed matrix has 0 2 1 3 where its original has
0 1 2 3. Many cells stand below each other instead, without those that no tensor uses. The lines that follow describe
the tensors, and name the parts that have no room or were not recorded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

from trace_tools.analysis.summaries import ElementGrid, element
from trace_tools.trace.model import Tensor
from trace_tools.util import formats

MOST_CELLS = 32
ACROSS = 6  # most cells beside each other: a margin and a phone are narrow
MOST_VIEWS = 6
MOST_ELEMENTS = 256  # most elements of a tensor that are located; an expanded tensor may have many in few cells

Views = dict[str, list[tuple[str, Tensor]]]


def window(tensor: Tensor) -> tuple[object, ...]:
    return tensor.dtype, tuple(tensor.shape), tuple(tensor.strides or ()), tensor.offset or 0


def storage(name: str, tensor: Tensor, views: Sequence[tuple[str, Tensor]]) -> tuple[ElementGrid, list[str]] | None:
    """Return the storage of a tensor; None if it shows no more than the tensor itself, or its cells are unknown.

    If there are many cells, they are shown from the tensor's first one, if others share them or the tensor has gaps.
    """
    cells, addresses = cells_of(tensor), places(tensor, MOST_ELEMENTS)
    if not addresses or not 0 <= min(addresses) <= max(addresses) < cells:
        return None
    others = [
        (n, t) for n, t in views if t.dtype == tensor.dtype and cells_of(t) and (n, window(t)) != (name, window(tensor))
    ]
    fills_storage = len(addresses) == cells and tensor.contiguous is not False
    if not others and (len(addresses) == 1 or (fills_storage and (len(tensor.shape) < 2 or cells > MOST_CELLS))):
        return None
    rows = [(name, tensor), *others[: MOST_VIEWS - 1]]
    first = min(addresses) if max(addresses) >= MOST_CELLS else 0
    shown = range(first, min(first + MOST_CELLS, cells))
    elements = dict(zip(addresses, map(element, tensor.elements or ()), strict=False))
    table = [["cell", *map(str, shown)], ["element", *(elements.get(at, "") for at in shown)]]
    for label, view in rows:
        numbers: dict[int, str] = {}  # of the elements in reading order; the first one of an expanded tensor's cell
        for number, at in enumerate(places(view, MOST_ELEMENTS)):
            numbers.setdefault(at, str(number))
        table.append([formats.one_line(label, 30), *(numbers.get(at, "") for at in shown)])
    if len(shown) > ACROSS:
        table = [list(column) for column in zip(*table, strict=True) if any(column[1:])]  # cells that a tensor uses
    about = [*(_label(*row) for row in rows), *_omitted(tensor, cells, shown, others[MOST_VIEWS - 1 :])]
    return ElementGrid("", table, 1), about


def places(tensor: Tensor, most: int) -> list[int]:
    """Return each element's position in the storage, in row-major order.

    Empty if the tensor has more than `most` elements, as one on the meta device may, or its strides are unknown.
    """
    if tensor.strides is None or not 0 < math.prod(tensor.shape) <= most:
        return []
    dimensions = [(size, stride) for size, stride in zip(tensor.shape, tensor.strides, strict=True) if size != 1]
    steps = ([stride * index for index in range(size)] for size, stride in dimensions)
    return [(tensor.offset or 0) + sum(step) for step in product(*steps)]


def cells_of(tensor: Tensor) -> int:
    """Return how many elements of the tensor's type its storage holds; 0 if that is unknown or too large."""
    count = math.prod(tensor.shape)
    if not tensor.storage_bytes or not tensor.bytes or not 0 < count <= MOST_ELEMENTS or tensor.bytes % count:
        return 0
    return tensor.storage_bytes // (tensor.bytes // count)


def _label(name: str, view: Tensor) -> str:
    size, strides = formats.shape(view.shape), formats.sizes(view.strides or ())
    offset = f", offset {view.offset}" if view.offset else ""
    return f"{formats.one_line(name, 30)} {size}, strides ({strides}){offset}"


def _omitted(tensor: Tensor, cells: int, shown: range, others: Sequence[tuple[str, Tensor]]) -> list[str]:
    """Describe what the table omits."""
    sentences, count = [], math.prod(tensor.shape)
    if len(shown) < cells:
        before = f", {shown[0]:,} of them before these" if shown[0] else ""
        sentences.append(f"… {cells - len(shown):,} more of {cells:,} elements{before}")
    if missing := count - len(tensor.elements or ()):
        sentences.append(f"… {missing:,} of {count:,} elements of this tensor are not in the trace")
    if others:
        names = ", ".join(formats.one_line(name, 30) for name, _ in others[:MOST_VIEWS])
        sentences.append(f"… {formats.plural(len(others), 'more tensor')} in this storage: {names}")
    return sentences
