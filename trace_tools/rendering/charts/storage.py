"""Tensors that lie in one storage → its cells in a row, and which of them each tensor sees.

    storage(tensor, [("x", x), ("y", y)])     "<svg …>"

The cells hold what was recorded there. For the tensor itself, an arc for each dimension says how far its stride
jumps; below, a row of dots for every tensor seen in this storage: who shares a cell is in one column.
"""

from __future__ import annotations

from collections.abc import Sequence

from trace_tools import formats, shapes, summaries
from trace_tools.rendering.charts.drawing import SOFT, Drawing, colour, fitted
from trace_tools.rendering.document import Block, rows_shown
from trace_tools.schema import Tensor

MOST_CELLS = 32
MOST_VIEWS = 6
MOST_ELEMENTS = 256  # of a tensor: one that is expanded may have any number in few cells
CELL, ROW = 21.0, 17.0
ARCS = 34.0  # height of the jumps

Views = dict[str, list[tuple[str, Tensor]]]


def views_of(blocks: Sequence[Block]) -> Views:
    """Return, by storage, the different tensors that were inspected on a page, in order of appearance."""
    found: Views = {}
    for row in rows_shown(blocks):
        for name, value in (pair for execution in row.executions for pair in execution.values):
            tensor = value.tensor
            if tensor is None or tensor.storage is None:
                continue
            views = found.setdefault(tensor.storage, [])
            if not any(name == other and _window(tensor) == _window(seen) for other, seen in views):
                views.append((name, tensor))
    return found


def _window(tensor: Tensor) -> tuple[object, ...]:
    return tensor.dtype, tuple(tensor.shape), tuple(tensor.strides or ()), tensor.offset or 0


def storage(name: str, tensor: Tensor, views: Sequence[tuple[str, Tensor]]) -> str | None:
    """Draw the storage of a tensor; None where it has too many cells, or says no more than the tensor does."""
    cells = cells_of(tensor)
    addresses = shapes.places(tensor, MOST_ELEMENTS)
    if not cells or not addresses or not 0 <= min(addresses) <= max(addresses) < cells:
        return None
    others = [
        (n, t)
        for n, t in views
        if t.dtype == tensor.dtype and cells_of(t) and (n, _window(t)) != (name, _window(tensor))
    ]
    if not others and len(tensor.shape) < 2 and len(addresses) == cells and tensor.contiguous is not False:
        return None
    rows = [(name, tensor), *others[: MOST_VIEWS - 1]]
    drawing = Drawing(cells * CELL + 2, ARCS + CELL + 12 + 2 * ROW * len(rows))
    _cells(drawing, tensor, addresses, cells)
    _jumps(drawing, tensor)
    for place, (label, view) in enumerate(rows):
        _dots(drawing, label, view, place, cells)
    strides = formats.sizes(tensor.strides or ())
    words = f"{cells} cells; {formats.one_line(name, 40)} sees {len(set(addresses))} of them with strides ({strides})"
    shared = f"; so do {', '.join(formats.one_line(n, 40) for n, _ in rows[1:])}" if others else ""
    return drawing.inline(f"{words}{shared}.")


def cells_of(tensor: Tensor) -> int:
    """Return how many elements of the tensor's type its storage holds; 0 where that is unknown or too many."""
    count = shapes.count(tensor.shape, MOST_ELEMENTS)
    if not tensor.storage_bytes or not tensor.bytes or not 0 < count <= MOST_ELEMENTS or tensor.bytes % count:
        return 0
    cells = tensor.storage_bytes // (tensor.bytes // count)
    return cells if cells <= MOST_CELLS else 0


def _cells(drawing: Drawing, tensor: Tensor, addresses: Sequence[int], cells: int) -> None:
    """Draw the cells with their addresses above; those of the tensor are filled and hold its elements."""
    held = dict(zip(addresses, tensor.elements or (), strict=False))
    filled = "".join(f"M{1 + CELL * at:g} {ARCS:g}h{CELL:g}v{CELL:g}h-{CELL:g}Z" for at in sorted(set(addresses)))
    drawing.path(filled, fill=colour(0), fill_opacity=0.25)
    grid = "".join(f"M{1 + CELL * at:g} {ARCS:g}v{CELL:g}" for at in range(cells + 1))
    frame = "".join(f"M1 {y:g}h{CELL * cells:g}" for y in (ARCS, ARCS + CELL))
    drawing.path(grid + frame, stroke=SOFT, width=0.8)
    for at in sorted(at for at in held if at < cells):
        words = summaries.element(held[at]).rstrip(".")
        words = fitted(words, CELL + 4, 9) or words[:2]
        drawing.text((1 + CELL * (at + 0.5), ARCS + 15), words, size=9.5, anchor="middle")
    for at in range(cells):
        drawing.text((1 + CELL * (at + 0.5), ARCS + CELL + 9), str(at), size=8, anchor="middle", fill=SOFT)


def _jumps(drawing: Drawing, tensor: Tensor) -> None:
    """Draw from the first element how far each dimension's next one is."""
    start = tensor.offset or 0
    steps = [(d, s) for d, (n, s) in enumerate(zip(tensor.shape, tensor.strides or (), strict=False)) if n > 1 and s]
    for dimension, stride in steps:
        x, end = 1 + CELL * (start + 0.5), 1 + CELL * (start + stride + 0.5)
        height = min(ARCS - 12, 6 + 4 * abs(stride))
        tip = colour(dimension + 1)
        drawing.path(f"M{x:g} {ARCS - 1:g}Q{(x + end) / 2:g} {ARCS - 2 * height:g} {end:g} {ARCS - 1:g}", stroke=tip)
        drawing.path(f"M{end - 3:g} {ARCS - 7:g}L{end:g} {ARCS - 1:g}L{end + 3:g} {ARCS - 7:g}", stroke=tip)
        drawing.text(((x + end) / 2, max(ARCS - height - 3, 9)), f"dim {dimension}: +{stride}", size=9, anchor="middle")


def _dots(drawing: Drawing, label: str, view: Tensor, place: int, cells: int) -> None:
    top = ARCS + CELL + 14 + 2 * ROW * place
    size, strides = formats.shape(view.shape), formats.sizes(view.strides or ())
    words = f"{formats.one_line(label, 30)} {size}, strides ({strides})" + (
        f", offset {view.offset}" if view.offset else ""
    )
    drawing.text((1, top + 11), words, size=11)
    for at in sorted({at for at in shapes.places(view, MOST_ELEMENTS) if 0 <= at < cells}):
        drawing.circle((1 + CELL * (at + 0.5), top + ROW + 3), 4, fill=colour(place))
