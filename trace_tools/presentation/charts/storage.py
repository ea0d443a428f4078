"""Draw a storage as a row of cells, and which cells each tensor uses.

    storage(tensor, [("x", x), ("y", y)])     "<svg …>"

The cells show the recorded elements. An arc for each dimension of the tensor shows its stride. Below, each tensor with
this storage has a row of dots: tensors that share a cell have dots in one column. The lines below name the parts that
have no room or were not recorded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from trace_tools.analysis import summaries
from trace_tools.presentation.charts.axes import TICK
from trace_tools.presentation.charts.drawing import SOFT, Drawing, colour, width_of
from trace_tools.trace import shapes
from trace_tools.trace.model import Tensor
from trace_tools.util import formats

MOST_CELLS = 32
MOST_VIEWS = 6
MOST_ELEMENTS = 256  # most elements of a tensor that are located; an expanded tensor may have many in few cells
CELL, ROW = 21.0, 17.0  # height of a cell, and of a line of text
NARROWEST = 21.0  # smallest width of a cell
BESIDE = 8.0  # room for a cell's border
JUMP = 30.0  # room for the mark before an arc's name, and between two of them
ARCS = 40.0  # height of the arcs and their names

Views = dict[str, list[tuple[str, Tensor]]]


def window(tensor: Tensor) -> tuple[object, ...]:
    return tensor.dtype, tuple(tensor.shape), tuple(tensor.strides or ()), tensor.offset or 0


def storage(name: str, tensor: Tensor, views: Sequence[tuple[str, Tensor]]) -> str | None:
    """Draw the storage of a tensor; None if it shows no more than the tensor itself, or its cells are unknown.

    If there are many cells, they are drawn from the tensor's first one, if others share them or the tensor has gaps.
    """
    cells = cells_of(tensor)
    addresses = shapes.places(tensor, MOST_ELEMENTS)
    if not cells or not addresses or not 0 <= min(addresses) <= max(addresses) < cells:
        return None
    others = [
        (n, t) for n, t in views if t.dtype == tensor.dtype and cells_of(t) and (n, window(t)) != (name, window(tensor))
    ]
    fills_storage = len(addresses) == cells and tensor.contiguous is not False
    if not others and fills_storage and (len(tensor.shape) < 2 or cells > MOST_CELLS):
        return None
    rows = [(name, tensor), *others[: MOST_VIEWS - 1]]
    first = min(addresses) if max(addresses) >= MOST_CELLS else 0
    drawn = range(first, min(first + MOST_CELLS, cells))
    texts = {at: summaries.element(e).rstrip(".") for at, e in zip(addresses, tensor.elements or (), strict=False)}
    wide = math.ceil(max(NARROWEST, *(width_of(w, TICK) + BESIDE for w in (*texts.values(), str(drawn[-1])))))
    labels, omitted = [_label(*row) for row in rows], _omitted(tensor, cells, drawn, others[MOST_VIEWS - 1 :])
    jumps = sum(width_of(words, TICK) + JUMP for *_at, words in _jumps(tensor))
    room = math.ceil(max(jumps, *(width_of(words, TICK) for words in (*labels, *omitted)))) + 2
    bottom = ARCS + CELL + 16 + 2 * ROW * len(rows)
    drawing = Drawing(max(len(drawn) * wide + 2, room), bottom + ROW * len(omitted))
    left = {at: 1 + wide * n for n, at in enumerate(drawn)}
    filled = "".join(f"M{left[at]:g} {ARCS:g}h{wide:g}v{CELL:g}h-{wide:g}Z" for at in drawn if at in addresses)
    drawing.path(filled, fill=colour(0), fill_opacity=0.25)
    grid = "".join(f"M{1 + wide * n:g} {ARCS:g}v{CELL:g}" for n in range(len(drawn) + 1))
    frame = "".join(f"M1 {y:g}h{wide * len(drawn):g}" for y in (ARCS, ARCS + CELL))
    drawing.path(grid + frame, stroke=SOFT, width=0.8)
    for at in drawn:
        drawing.text((left[at] + wide / 2, ARCS + 15), texts.get(at, ""), size=TICK, anchor="middle")
    for at in drawn:
        drawing.text((left[at] + wide / 2, ARCS + CELL + 12), str(at), size=TICK, anchor="middle", fill=SOFT)
    _draw_jumps(drawing, tensor, drawn, wide)
    for row, ((_name, view), label) in enumerate(zip(rows, labels, strict=True)):
        top = ARCS + CELL + 16 + 2 * ROW * row
        drawing.text((1, top + 11), label, size=TICK)
        for at in sorted({at for at in shapes.places(view, MOST_ELEMENTS) if at in drawn}):
            drawing.circle((1 + wide * (at - first + 0.5), top + ROW + 3), 4, fill=colour(row))
    for line, words in enumerate(omitted):
        drawing.text((1, bottom + ROW * line + 11), words, size=TICK)
    strides = formats.sizes(tensor.strides or ())
    words = f"{cells} cells; {formats.one_line(name, 40)} sees {len(set(addresses))} of them with strides ({strides})"
    names = ", ".join(formats.one_line(other, 40) for other, _view in rows[1:])
    shared = f"; so do {names}" if others else ""
    return drawing.inline(". ".join([words + shared, *omitted]) + ".")


def cells_of(tensor: Tensor) -> int:
    """Return how many elements of the tensor's type its storage holds; 0 if that is unknown or too large."""
    count = shapes.count(tensor.shape, MOST_ELEMENTS)
    if not tensor.storage_bytes or not tensor.bytes or not 0 < count <= MOST_ELEMENTS or tensor.bytes % count:
        return 0
    return tensor.storage_bytes // (tensor.bytes // count)


def _label(name: str, view: Tensor) -> str:
    size, strides = formats.shape(view.shape), formats.sizes(view.strides or ())
    offset = f", offset {view.offset}" if view.offset else ""
    return f"{formats.one_line(name, 30)} {size}, strides ({strides})" + offset


def _omitted(tensor: Tensor, cells: int, drawn: range, others: Sequence[tuple[str, Tensor]]) -> list[str]:
    """Describe what the figure omits."""
    sentences, count = [], shapes.count(tensor.shape, MOST_ELEMENTS)
    if len(drawn) < cells:
        before = ", {n} of them before these".format(n=f"{drawn[0]:,}") if drawn[0] else ""
        more = "… {n} more of {all} elements".format(n=f"{cells - len(drawn):,}", all=f"{cells:,}")
        sentences.append(more + before)
    if missing := count - len(tensor.elements or ()):
        absent = "… {n} of {all} elements of this tensor are not in the trace"
        sentences.append(absent.format(n=f"{missing:,}", all=f"{count:,}"))
    if others:
        names = ", ".join(formats.one_line(name, 30) for name, _ in others[:MOST_VIEWS])
        if len(others) > MOST_VIEWS:
            names = "{names} and {n} more".format(names=names, n=f"{len(others) - MOST_VIEWS:,}")
        tensors = formats.plural(len(others), "more tensor")
        sentences.append(f"… {tensors} in this storage: {names}")
    return sentences


def _jumps(tensor: Tensor) -> list[tuple[int, int, str]]:
    """Return the distance to the next element in each dimension, and its label, for dimensions with more than one."""
    steps = enumerate(zip(tensor.shape, tensor.strides or (), strict=False))
    return [(d, stride, f"dim {d}: +{stride}") for d, (size, stride) in steps if size > 1 and stride]


def _draw_jumps(drawing: Drawing, tensor: Tensor, drawn: range, wide: float) -> None:
    """Draw an arc from the first element to the next one in each dimension, with a label."""
    left, start = 1.0, (tensor.offset or 0) - drawn[0]
    for dimension, stride, words in _jumps(tensor):
        tip = colour(dimension + 1)
        drawing.line((left, 8), (left + 12, 8), stroke=tip, width=2)
        drawing.text((left + 16, 12), words, size=TICK)
        left += width_of(words, TICK) + JUMP
        if start + stride >= len(drawn):
            continue
        x, end, height = 1 + wide * (start + 0.5), 1 + wide * (start + stride + 0.5), min(20, 8 + 4 * abs(stride))
        drawing.path(f"M{x:g} {ARCS - 1:g}Q{(x + end) / 2:g} {ARCS - 2 * height:g} {end:g} {ARCS - 1:g}", stroke=tip)
        drawing.path(f"M{end - 3:g} {ARCS - 7:g}L{end:g} {ARCS - 1:g}L{end + 3:g} {ARCS - 7:g}", stroke=tip)
