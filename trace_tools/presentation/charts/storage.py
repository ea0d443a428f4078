"""Draw a storage as a row of cells, and which cells each tensor uses, in which order.

    storage("x", tensor, [("x", x), ("y", y)])     "<svg …>"

The cells show the recorded elements. Below, each tensor with this storage has a row with the numbers of its elements in
reading order: tensors that share a cell have numbers in one column, and a transposed matrix has 0 2 1 3 where its
original has 0 1 2 3. The lines below name the parts that have no room or were not recorded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

from trace_tools.analysis import summaries
from trace_tools.presentation.charts.drawing import SOFT, TICK, Drawing, colour, width_of
from trace_tools.trace.model import Tensor
from trace_tools.util import formats

MOST_CELLS = 32
MOST_VIEWS = 6
MOST_ELEMENTS = 256  # most elements of a tensor that are located; an expanded tensor may have many in few cells
CELL, ROW = 21.0, 17.0  # height (and least width) of a cell, height of a line of text
BESIDE = 8.0  # room for a cell's border

Views = dict[str, list[tuple[str, Tensor]]]


def window(tensor: Tensor) -> tuple[object, ...]:
    return tensor.dtype, tuple(tensor.shape), tuple(tensor.strides or ()), tensor.offset or 0


def storage(name: str, tensor: Tensor, views: Sequence[tuple[str, Tensor]]) -> str | None:
    """Draw the storage of a tensor; None if it shows no more than the tensor itself, or its cells are unknown.

    If there are many cells, they are drawn from the tensor's first one, if others share them or the tensor has gaps.
    """
    cells = cells_of(tensor)
    addresses = places(tensor, MOST_ELEMENTS)
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
    wide = math.ceil(max(CELL, *(width_of(w, TICK) + BESIDE for w in (*texts.values(), str(drawn[-1])))))
    labels, omitted = [_label(*row) for row in rows], _omitted(tensor, cells, drawn, others[MOST_VIEWS - 1 :])
    room = math.ceil(max(width_of(words, TICK) for words in (*labels, *omitted))) + 2
    top = CELL + 18
    bottom = top + 2 * ROW * len(rows)
    drawing = Drawing(max(len(drawn) * wide + 2, room), bottom + ROW * len(omitted))
    left = {at: 1 + wide * n for n, at in enumerate(drawn)}
    filled = "".join(f"M{left[at]:g} 1h{wide:g}v{CELL:g}h-{wide:g}Z" for at in drawn if at in addresses)
    drawing.path(filled, fill=colour(0), fill_opacity=0.25)
    grid = "".join(f"M{1 + wide * n:g} 1v{CELL:g}" for n in range(len(drawn) + 1))
    frame = "".join(f"M1 {y:g}h{wide * len(drawn):g}" for y in (1, 1 + CELL))
    drawing.path(grid + frame, stroke=SOFT, width=0.8)
    for at in drawn:
        drawing.text((left[at] + wide / 2, 16), texts.get(at, ""), size=TICK, anchor="middle")
        drawing.text((left[at] + wide / 2, CELL + 13), str(at), size=TICK, anchor="middle", fill=SOFT)
    for row, ((_name, view), label) in enumerate(zip(rows, labels, strict=True)):
        y = top + 2 * ROW * row
        drawing.text((1, y + 11), label, size=TICK)
        numbers: dict[int, int] = {}  # of the elements in reading order; the first one of an expanded tensor's cell
        for number, at in enumerate(places(view, MOST_ELEMENTS)):
            numbers.setdefault(at, number)
        for at in (at for at in drawn if at in numbers):
            middle = left[at] + wide / 2, y + ROW + 8
            drawing.text(middle, f"{numbers[at]}", size=TICK, anchor="middle", fill=colour(row))
    for line, words in enumerate(omitted):
        drawing.text((1, bottom + ROW * line + 11), words, size=TICK)
    strides = formats.sizes(tensor.strides or ())
    words = f"{cells} cells; {name} sees {len(set(addresses))} of them with strides ({strides})"
    names = ", ".join(other for other, _view in rows[1:])
    shared = f"; so do {names}" if others else ""
    return drawing.inline(". ".join([words + shared, *omitted]) + ".")


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


def _omitted(tensor: Tensor, cells: int, drawn: range, others: Sequence[tuple[str, Tensor]]) -> list[str]:
    """Describe what the figure omits."""
    sentences, count = [], math.prod(tensor.shape)
    if len(drawn) < cells:
        before = f", {drawn[0]:,} of them before these" if drawn[0] else ""
        sentences.append(f"… {cells - len(drawn):,} more of {cells:,} elements{before}")
    if missing := count - len(tensor.elements or ()):
        sentences.append(f"… {missing:,} of {count:,} elements of this tensor are not in the trace")
    if others:
        names = ", ".join(formats.one_line(name, 30) for name, _ in others[:MOST_VIEWS])
        sentences.append(f"… {formats.plural(len(others), 'more tensor')} in this storage: {names}")
    return sentences
