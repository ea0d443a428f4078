"""Draw figures for lectures: memory as cells, strides as jumps, bits as fields.

Each function returns a `Drawing` for `plot`, which calls it for a page and for a phone. It draws a matplotlib `Figure`
of at most a given width. Numbers in a figure are drawn as lines, so that the trace records them.

    plot(draw_storage(x, (1, 2)), title="x[1, 2] in the storage of x")
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from itertools import pairwise, product
from typing import Any, Concatenate, ParamSpec

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

INK = "#7a828e"  # readable on light and dark pages
ACCENT = "#d9480f"
SMALL = 8.25  # points: 11 pixels, the smallest size that is readable on a phone
SHEET_GAP = 0.6
CHAIN_GAP = 6.6  # from one box to the next, of width 2.8
COLOURS = ("#d9480f", "#2f6fdd", "#1a8f58", "#9a5bd0", "#b8860b", "#0b8fa3")

Drawing = Callable[[float], Figure]  # of a width in inches
Tensor = Any  # torch is not loaded for a drawing
P = ParamSpec("P")


def _drawing(draw: Callable[Concatenate[float, P], Figure]) -> Callable[P, Drawing]:
    """Let a function return a `Drawing`; `plot` supplies its first argument, the width in inches."""

    @wraps(draw)
    def given(*args: P.args, **kwargs: P.kwargs) -> Drawing:
        return lambda width: draw(width, *args, **kwargs)

    return given


@_drawing
def draw_storage(width: float, x: Tensor, index: tuple[int, int]) -> Figure:
    """Draw a matrix next to the row of cells that stores it, and the jumps that lead to `x[index]`."""
    rows, columns = x.shape
    elements = _storage_of(x)
    figure, axes = _page((-0.8, max(len(elements) + 0.2, 11.2)), (-0.8, rows + 3.2), width, 0.5)
    for row, column in product(range(rows), range(columns)):
        element = elements[_address(x, (row, column))]
        _cell(axes, column, 2 + rows - row, str(element), marked=(row, column) == index)
    _write(axes, columns, 3 + rows / 2, f"shape {tuple(x.shape)}, stride {tuple(x.stride())}", side="left")
    for address, element in enumerate(elements):
        _cell(axes, address, 0, str(element), marked=address == _address(x, index))
        _write(axes, address, -0.35, str(address), SMALL)
    # One arc for each stride on the path from the first element to `x[index]`.
    (row, column), (down, right) = index, x.stride()
    path = [x.storage_offset() + r * down for r in range(row + 1)]
    path += [path[-1] + c * right for c in range(1, column + 1)]
    axes.plot(path, [1.0] * len(path), ".", color=ACCENT, label=f"jumps to {list(index)}")
    for step, (start, end) in enumerate(pairwise(path)):
        stride, colour = (down, ACCENT) if step < row else (right, COLOURS[1])
        height = 0.5 + min(abs(stride), 4) * 0.18
        arc = f"arc3,rad={-0.5 if end >= start else 0.5}"
        _arrow(axes, (start, 1.05), (end, 1.05), color=colour, connectionstyle=arc, mutation_scale=10)
        _write(axes, (start + end) / 2, 1.2 + height, f"+{stride}", color=colour)
    return figure


@_drawing
def draw_views(width: float, views: Mapping[str, Tensor]) -> Figure:
    """Draw one storage and, for each of its views, a row of dots, numbered in the order in which the view is read."""
    elements = _storage_of(next(iter(views.values())))
    beside = width >= 0.5 * (len(elements) + 8)  # else a view's name stands above its dots
    level = 1.0 if beside else 1.6
    across = len(elements) + 8 if beside else max(len(elements) + 1, 9)
    figure, axes = _page((-0.8, across - 0.8), (-0.8, level * len(views) + 1.2), width, 0.5)
    for address in range(len(elements)):
        _cell(axes, address, 0, str(address))
    for number, (name, view) in enumerate(reversed(list(views.items())), start=1):
        colour, height = COLOURS[number % len(COLOURS)], 1.5 + level * (number - 1)
        places = {_address(view, index): place for place, index in enumerate(product(*map(range, view.shape)))}
        axes.plot([*places], [height] * len(places), "o", color=colour, alpha=0.3, ms=14, label=f"addresses of {name}")
        for address, place in places.items():
            _write(axes, address, height, str(place), SMALL)
        left, level_of_name = (len(elements), height) if beside else (-0.3, height + 0.6)
        _write(axes, left, level_of_name, f"{name}: shape {tuple(view.shape)}, stride {view.stride()}", side="left")
    return figure


@_drawing
def draw_bits(width: float, bits: Mapping[str, tuple[str, str, str]]) -> Figure:
    """Draw sign, exponent and mantissa of each named format, given as three strings of binary digits."""
    most = max(len("".join(fields)) for fields in bits.values())
    across = (-11 if width >= 6.4 else -9.5, most + 0.5)
    figure, axes = _blank(across, (0, len(bits) + 1), min(1.6 + 0.15 * most, width), 0.34 * (len(bits) + 1))
    for row, (name, fields) in enumerate(reversed(list(bits.items()))):
        _write(axes, -1, row + 0.5, name, side="right")
        index = 0
        for colour, digits in zip(COLOURS, fields, strict=False):
            for digit in digits:
                axes.add_patch(Rectangle((index, row + 0.1), 1, 0.8, facecolor=colour, alpha=0.3, edgecolor=INK))
                _write(axes, index + 0.5, row + 0.47, digit, SMALL)
                index += 1
    for index, (colour, name) in enumerate(zip(COLOURS, ("sign", "exponent", "mantissa"), strict=False)):
        _write(axes, 1 + 9 * index, len(bits) + 0.5, name, color=colour, side="left")
    return figure


@_drawing
def draw_road_map(width: float, stops: Sequence[tuple[str, str]], aside: str) -> Figure:
    """Draw the stops of a road, each with its name and an addition; `aside` is written below them in grey."""
    columns = 4 if width >= 6.8 else 2
    rows = math.ceil(len(stops) / columns)
    beside = textwrap.wrap(aside, 24 * columns)
    figure, axes = _page((-0.2, 5.4 * columns - 0.8), (2.6 - 3.4 * rows - 0.7 * len(beside), 2.6), width, 0.42)
    for number, (name, adds) in enumerate(stops):
        left, bottom = 5.4 * (number % columns), -3.4 * (number // columns)
        axes.add_patch(Rectangle((left, bottom), 4.4, 2.4, facecolor=COLOURS[1], alpha=0.15, edgecolor=INK))
        _write(axes, left + 2.2, bottom + 1.6, name, 11, COLOURS[1])
        _write(axes, left + 2.2, bottom + 0.7, adds, 9)
        if number % columns:
            _arrow(axes, (left - 1, bottom + 1.2), (left, bottom + 1.2))
        elif number:
            last, middle = 5.4 * columns - 3.2, bottom + 2.9
            axes.plot((last, last, left + 2.2), (bottom + 3.4, middle, middle), color=INK, linewidth=1)
            _arrow(axes, (left + 2.2, middle), (left + 2.2, bottom + 2.4), shrinkA=0)
    for line, words in enumerate(beside):
        _write(axes, 0, -3.4 * rows + 2.2 - 0.7 * line, words, side="left")
    return figure


@_drawing
def draw_token_and_weights(width: float) -> Figure:
    """Draw a token that meets a matrix three times, forward and backward, above a bar of the 2 + 4 FLOPs."""
    figure, axes = _page((-4, 8), (-6.2, 2.6), width, 0.45)
    axes.add_patch(Rectangle((0, -1.4), 4, 3, facecolor=COLOURS[1], alpha=0.15, edgecolor=INK))
    _write(axes, 2, 1.1, "W", 12, COLOURS[1])
    meetings = (
        ((-2.4, 0.5), (6.4, 0.5), "1", "x", "forward: x·W, 2 FLOPs", COLOURS[1]),
        ((6.4, -0.5), (-2.4, -0.5), "2", "G", "backward: G·Wᵀ for the layer below, 2 FLOPs", ACCENT),
        ((2, 2.5), (2, 1.6), "3", "xᵀ and G", "backward: xᵀ·G to learn, as large as W, 2 FLOPs", COLOURS[2]),
    )
    for line, (start, end, number, comes, words, colour) in enumerate(meetings):
        _arrow(axes, start, end, color=colour)
        at = (3.0 if number == "3" else start[0] + (-0.5 if number == "1" else 0.5), start[1] - (number == "3") * 0.4)
        _write(axes, *at, comes, 9, colour, "left" if number == "3" else "center")
        _write(axes, -3.8, -2.2 - 0.7 * line, f"{number}  {words}", SMALL, colour, "left")
    left = -3.8
    for name, flops, colour in (("2 forward", 2, COLOURS[1]), ("4 backward", 4, ACCENT)):
        across = flops * 11.6 / 6
        axes.add_patch(Rectangle((left, -5.8), across, 1, facecolor=colour, alpha=0.3, edgecolor=INK))
        _write(axes, left + across / 2, -5.3, name)
        left += across
    return figure


# name, shape of its result for T tokens, weights, bytes that it keeps for each token, in bf16: of Llama 3 70B
LAYER = (
    ("RMSNorm", "T × 8192", "8,192", "32,768"),
    ("query · key · value, RoPE", "T × (64 + 2 × 8) × 128", "83.9 M", "20,480"),
    ("causal attention", "T × 64 × 128", "–", "16,384"),
    ("output", "T × 8192, added", "67.1 M", "–"),
    ("RMSNorm", "T × 8192", "8,192", "32,768"),
    ("gate · up", "2 × T × 28672", "469.8 M", "114,688"),
    ("silu(gate) · up", "T × 28672", "–", "114,688"),
    ("down", "T × 8192, added", "234.9 M", "–"),
)


@_drawing
def draw_layer(width: float) -> Figure:
    """Draw a layer of Llama 3 70B from top to bottom: its boxes, and with each its shape, weights and kept bytes."""
    wide = width >= 6.8  # else shapes stand inside the boxes
    step, along = (1.3, 4.8) if wide else (2.1, 8.2)
    columns = (7.4, 14.2, 17.4) if wide else (0.3, 9.6, 12.9)
    figure, axes = _page((-1.6, 20.4 if wide else 16), (-8 * step - 0.6, 1.8), width, 0.46)
    for x, words in zip(columns, ("result", "weights", "bytes kept"), strict=True):
        _write(axes, x, 1.3, words, SMALL, side="left")
    for number, (name, *cells) in enumerate(LAYER):
        y, colour = -step * number, COLOURS[1 - number // 4]
        box = Rectangle((0, y - step / 2 + 0.2), 5.6 if wide else 9, step - 0.4)
        box.set(facecolor=colour, alpha=0.15, edgecolor=INK)
        axes.add_patch(box)
        _write(axes, 0.3, y + (0 if wide else 0.4), name, 9, colour, "left")
        for x, words in zip(columns, cells, strict=True):
            _write(axes, x, y - (0.4 if x == 0.3 else 0), words, SMALL, side="left")
        if number % 4 == 3:
            _arrow(axes, (0, y), (-1.0, y - 0.6))
        else:
            _arrow(axes, (along, y - step / 2 + 0.2), (along, y - step / 2 - 0.2))
        if number % 4 == 0:
            _arrow(axes, (-1.0, y + 0.6), (0, y))
    _arrow(axes, (-1.0, 1.2), (-1.0, -8 * step - 0.2))  # the residual stream
    for x, words in zip(columns[1:], ("? · D²", "40.5 D"), strict=True):
        _write(axes, x, -8 * step + 0.3, words, 9, ACCENT, "left")
    return figure


@_drawing
def draw_batched_matmul(width: float, left: Sequence[int], right: Sequence[int]) -> Figure:
    """Draw a (batch, sequence, width) tensor times one (width, outputs) matrix: shapes in, one sheet a sequence."""
    batch, sequence, inputs = left
    outputs = right[-1]
    tall = max(batch * sequence + (batch - 1) * SHEET_GAP, inputs)
    across = inputs + 2 * outputs + 4
    figure, axes = _page((-0.8, across + 0.8), (-tall / 2 - 1.5, tall / 2 + 0.5), width, 0.35)
    index = 0.0
    for shape, sign in (((batch, sequence, inputs), "@"), ((1, inputs, outputs), "=")):
        index = _sheets(axes, index, shape) + 1
        _write(axes, index, 0, sign, 14)
        index += 1
    _sheets(axes, index, (batch, sequence, outputs))
    return figure


@_drawing
def draw_chain(
    width: float, nodes: Sequence[tuple[str, str]], forward: Sequence[str], backward: Sequence[str]
) -> Figure:
    """Draw tensors (name, shape) computed one from another, with each step's operation and its backward step below."""
    across = CHAIN_GAP * (len(nodes) - 1) + 3
    if width < 0.42 * across:
        return _draw_chain_down(width, nodes, forward, backward)
    figure, axes = _page((-0.2, across), (-1.3, 3.0), width, 0.43)
    for number, node in enumerate(nodes):
        _node(axes, (CHAIN_GAP * number, 0), node)
    for number, (operation, backward_step) in enumerate(zip(forward, backward, strict=True)):
        start, end = CHAIN_GAP * number + 2.8, CHAIN_GAP * (number + 1)
        arrows = (((start, end), 1.7, operation, INK), ((end, start), 0.7, backward_step, ACCENT))
        for ends, y, words, colour in arrows:
            _arrow(axes, (ends[0], y), (ends[1], y), color=colour)
            level, side = (y + 0.25, "bottom") if y == 1.7 else (y - 0.25, "top")
            axes.text((start + end) / 2, level, words, ha="center", va=side, fontsize=9, color=colour)
    return figure


def _draw_chain_down(
    width: float, nodes: Sequence[tuple[str, str]], forward: Sequence[str], backward: Sequence[str]
) -> Figure:
    """Draw a chain from top to bottom, with the operations at its left and the backward steps at its right."""
    figure, axes = _page((-5, 5), (-4.4 * (len(nodes) - 1) - 0.2, 2.6), width, 0.43)
    for number, node in enumerate(nodes):
        _node(axes, (-1.4, -4.4 * number), node)
    for number, (operation, backward_step) in enumerate(zip(forward, backward, strict=True)):
        start, end = -4.4 * number, -4.4 * number - 2.0
        _arrow(axes, (-0.6, start), (-0.6, end))
        _write(axes, -0.9, (start + end) / 2, operation, side="right")
        _arrow(axes, (0.6, end), (0.6, start), color=ACCENT)
        _write(axes, 0.9, (start + end) / 2, backward_step, color=ACCENT, side="left")
    return figure


def _node(axes: Axes, corner: tuple[float, float], node: tuple[str, str]) -> None:
    (x, y), (name, shape) = corner, node
    axes.add_patch(Rectangle(corner, 2.8, 2.4, facecolor=COLOURS[1], alpha=0.15, edgecolor=INK))
    _write(axes, x + 1.4, y + 1.65, name, 11, COLOURS[1])
    _write(axes, x + 1.4, y + 0.75, shape)


@_drawing
def draw_roofline(
    width: float, roofs: Mapping[str, tuple[float, float]], points: Mapping[str, tuple[float, float]]
) -> Figure:
    """Draw rooflines, each (FLOP/s, bytes/s), the ridge of the first, and points (FLOP/byte, FLOP/s), on log axes."""
    figure = Figure(figsize=(min(8, width), 5.2 if width >= 8 else 4.4), layout="constrained")
    axes = figure.add_subplot(xscale="log", yscale="log", xlabel="FLOP/byte", ylabel="FLOP/s")
    intensities = [intensity for intensity, _ in points.values()]
    ridges = [peak / bandwidth for peak, bandwidth in roofs.values()]
    left, right = min(intensities) / 3, max([*intensities, *ridges]) * 6
    for (name, (peak, bandwidth)), ridge, dashes in zip(roofs.items(), ridges, ("-", "--", ":"), strict=False):
        heights = [bandwidth * left, peak, peak]
        axes.plot([left, ridge, right], heights, dashes, color=INK, linewidth=1.8, label=f"roof: {name}")
    (peak, _), ridge = next(iter(roofs.values())), ridges[0]
    axes.axvline(ridge, color=INK, linewidth=0.8, linestyle=":")
    _write(axes, ridge, peak * 2.2, f"memory-bound ← {ridge:.3g} → compute-bound", SMALL)
    for index, (name, (intensity, rate)) in enumerate(points.items()):
        marker = "os^"[index // len(COLOURS) % 3]
        axes.plot([intensity], [rate], marker, color=COLOURS[index % len(COLOURS)], markersize=6, label=name)
    axes.set_xlim(left, right)
    axes.set_ylim(min(rate for _, rate in points.values()) / 4, max(peak for peak, _ in roofs.values()) * 5)
    axes.grid(visible=True, color=INK, alpha=0.25, linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    columns = 3 if width >= 8 else 1  # names beside the points would cover each other
    figure.legend(frameon=False, fontsize=9, loc="outside lower center", ncols=columns)
    return figure


def _storage_of(x: Tensor) -> list[Any]:
    """Return every element of the storage of `x` in order of address, with whole floats as integers."""
    count = x.untyped_storage().nbytes() // x.element_size()
    elements: list[Any] = x.as_strided((count,), (1,), 0).tolist()
    return [int(e) if isinstance(e, float) and math.isfinite(e) and e == int(e) else e for e in elements]


def _address(x: Tensor, index: Sequence[int]) -> int:
    return int(x.storage_offset() + sum(i * stride for i, stride in zip(index, x.stride(), strict=True)))


def _sheets(axes: Axes, left: float, shape: tuple[int, int, int]) -> float:
    """Draw `shape` = (sheets, rows, columns) as grids on top of each other; return the x coordinate to their right."""
    sheets, rows, columns = shape
    height = sheets * rows + (sheets - 1) * SHEET_GAP
    for sheet in range(sheets):
        bottom = sheet * (rows + SHEET_GAP) - height / 2
        colour = COLOURS[(sheet + 1) % len(COLOURS)] if sheets > 1 else INK
        for row, column in product(range(rows), range(columns)):
            corner = (left + column, bottom + row)
            axes.add_patch(Rectangle(corner, 1, 1, facecolor=colour, alpha=0.25, edgecolor=INK))
    name = f"{sheets} × {rows} × {columns}" if sheets > 1 else f"{rows} × {columns}"
    _write(axes, left + columns / 2, -height / 2 - 0.7, name, 10)
    return left + columns


def _cell(axes: Axes, x: float, y: float, words: str, *, marked: bool = False) -> None:
    fill, alpha = (ACCENT, 0.35) if marked else (INK, 0.08)
    axes.add_patch(Rectangle((x - 0.5, y), 1, 1, facecolor=fill, alpha=alpha, edgecolor="none"))
    axes.add_patch(Rectangle((x - 0.5, y), 1, 1, facecolor="none", edgecolor=INK, linewidth=0.8))
    _write(axes, x, y + 0.47, words)


def _write(axes: Axes, x: float, y: float, words: str, size: float = 9, color: str = INK, side: str = "center") -> None:
    axes.text(x, y, words, ha=side, va="center", fontsize=size, color=color)


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], *, color: str = INK, **more: Any) -> None:
    style: dict[str, Any] = {"arrowstyle": "->", "mutation_scale": 14} | more
    axes.add_patch(FancyArrowPatch(start, end, color=color, **style))


def _page(across: tuple[float, float], up: tuple[float, float], width: float, unit: float) -> tuple[Figure, Axes]:
    """Return a figure of two ranges of coordinates, at `unit` inches each, or less if it would exceed `width`."""
    wide, tall = across[1] - across[0], up[1] - up[0]
    unit = min(unit, width / wide)
    return _blank(across, up, wide * unit, tall * unit)


def _blank(across: tuple[float, float], up: tuple[float, float], width: float, height: float) -> tuple[Figure, Axes]:
    """Return a transparent figure of `width` by `height` inches, filled by invisible axes of two ranges."""
    figure = Figure(figsize=(width, height))
    figure.patch.set_alpha(0)
    axes = figure.add_axes((0, 0, 1, 1), xlim=across, ylim=up)
    axes.set_axis_off()
    return figure, axes
