"""Measured points of several machines → figures for the reports, as safe inline SVG.

    rooflines([Roof("cpu", (("float32", 2e11),), 4e10, (RoofPoint(85.3, 5e10, "x @ w"),))], "roofs")
    time_ratios([TimeRatio("matmul: y = x @ w", 0.21, (0.2, 0.23))], "times")
    memory_lines([("A", [0, 4096, …]), ("B", …)], "memory")

The first machine has the first colour in every figure, and a marker of its own: colour alone says nothing
to some. Without anything to draw there is no figure.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from trace_tools.rendering import formats, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

MARKERS = "os^Dv*"
DASHES = ("-", "--", ":", "-.")
RATIOS = 30  # bars that one figure can hold
KIB = 1024


@dataclass(frozen=True, slots=True)
class RoofPoint:
    """A step under the roof: FLOP/byte, FLOP/s."""

    intensity: float
    flops_per_second: float
    name: str


@dataclass(frozen=True, slots=True)
class Roof:
    """One machine's roof (FLOP/s per dtype, bytes/s) and what was measured under it."""

    label: str
    peaks: tuple[tuple[str, float], ...]
    bytes_per_second: float | None
    points: tuple[RoofPoint, ...]


@dataclass(frozen=True, slots=True)
class TimeRatio:
    """B's time over A's for one step, with its interval; one that holds 1 is drawn softly."""

    name: str
    ratio: float
    interval: tuple[float, float] | None = None


def rooflines(roofs: Sequence[Roof], prefix: str) -> str | None:
    """Draw every machine's roofs, and its steps under them, on one pair of logarithmic axes."""
    if not any(roof.points or (roof.peaks and roof.bytes_per_second) for roof in roofs):
        return None
    low, high = _span(roofs)
    description = f"Across: FLOPs per byte. Up: FLOP/s. {' '.join(_roof_in_words(roof) for roof in roofs)}"

    def draw(axes: Axes) -> None:
        for place, roof in enumerate(roofs):
            _draw_roof(axes, roof, place, (low, high))
        axes.set_xscale("log")
        axes.set_yscale("log")
        _calm(axes, "FLOPs per byte", "", grid="both")
        _label(axes.xaxis, lambda value, _: formats.number(value, 3).removesuffix(".0"))
        _label(axes.yaxis, lambda value, _: formats.quantity(value, "FLOP/s", 3))
        _legend(axes)

    return _drawn(draw, (8.2, 4.2), prefix, "Rooflines", description)


def _span(roofs: Sequence[Roof]) -> tuple[float, float]:
    """Return the intensities to draw: those of the points and of the ridges, and a little more."""
    places = [point.intensity for roof in roofs for point in roof.points]
    for roof in roofs:
        if roof.bytes_per_second:
            places += [peak / roof.bytes_per_second for _, peak in roof.peaks]
    return min(places, default=0.1) / 3, max(places, default=100.0) * 4


def _draw_roof(axes: Axes, roof: Roof, place: int, span: tuple[float, float]) -> None:
    colour = svg.PALETTE[place % len(svg.PALETTE)]
    for number, (name, peak) in enumerate(roof.peaks):
        across = [span[0], span[1]]
        if roof.bytes_per_second and span[0] < peak / roof.bytes_per_second < span[1]:
            across.insert(1, peak / roof.bytes_per_second)
        heights = [min(peak, x * roof.bytes_per_second) if roof.bytes_per_second else peak for x in across]
        style: dict[str, Any] = {"color": colour, "linewidth": 1.6, "linestyle": DASHES[number % len(DASHES)]}
        axes.plot(across, heights, label=f"{roof.label}: {name} {formats.quantity(peak, 'FLOP/s', 3)}", **style)
    if roof.points:
        xs, ys = [p.intensity for p in roof.points], [p.flops_per_second for p in roof.points]
        marker = MARKERS[place % len(MARKERS)]
        label = f"{roof.label}: {formats.plural(len(xs), 'step')}"
        axes.plot(xs, ys, linestyle="none", marker=marker, markersize=5, color=colour, label=label)


def _roof_in_words(roof: Roof) -> str:
    rates = [point.flops_per_second for point in roof.points]
    peaks = ", ".join(f"{name} {formats.quantity(peak, 'FLOP/s', 3)}" for name, peak in roof.peaks) or "no known peak"
    reached = f"; its steps reach at most {formats.quantity(max(rates), 'FLOP/s', 3)}" if rates else ""
    return f"{formats.one_line(roof.label, 60)}: {peaks}{reached}."


def time_ratios(ratios: Sequence[TimeRatio], prefix: str, labels: tuple[str, str]) -> str | None:
    """Draw B's times over A's as bars with their intervals on a logarithmic axis, one row a step."""
    shown = list(reversed(ratios[:RATIOS]))
    if not shown:
        return None
    ends = [end for r in shown for end in (r.ratio, *(r.interval or ())) if end > 0]
    words = "; ".join(f"{r.name}: × {formats.number(r.ratio, 3)}" for r in ratios[:8])

    def draw(axes: Axes) -> None:
        for row, item in enumerate(shown):
            _draw_ratio(axes, row, item)
        axes.axvline(1, color="#000000", linewidth=1)
        axes.set_xscale("log")
        axes.set_xlim(min(*ends, 0.8) / 1.15, max(*ends, 1.25) * 1.15)
        axes.set_yticks(range(len(shown)), [formats.one_line(item.name, 52) for item in shown])
        axes.set_ylim(-0.7, len(shown) - 0.3)
        _calm(axes, f"time of {labels[1]} ÷ time of {labels[0]}", "", grid="x")
        low, high = axes.get_xlim()
        axes.set_xticks([t for t in _ticks(low, high) if low <= t <= high])
        _label(axes.xaxis, lambda value, _: f"× {value:g}")

    return _drawn(draw, (8.2, 0.9 + 0.24 * len(shown)), prefix, "Times as ratios", words)


def _draw_ratio(axes: Axes, row: int, item: TimeRatio) -> None:
    low, high = item.interval or (item.ratio, item.ratio)
    colour = svg.SOFT if low <= 1 <= high else svg.PALETTE[item.ratio > 1]
    axes.plot([1, item.ratio], [row, row], color=colour, linewidth=4, solid_capstyle="butt", alpha=0.75)
    if item.interval is not None:
        axes.plot(item.interval, [row, row], color="#000000", linewidth=1.1)
        axes.plot(item.interval, [row, row], color="#000000", linestyle="none", marker="|", markersize=6)
    axes.plot([item.ratio], [row], color=colour, marker=MARKERS[item.ratio > 1], markersize=5)


def _ticks(low: float, high: float) -> list[float]:
    """Return places for the ticks of a logarithmic axis that don't crowd each other."""
    decades = [10.0**n for n in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    if high > 300 * low:
        return decades
    between = [0.8, 1.25] if high < 4 * low else []
    return between + [d * step for d in decades for step in (1, 2, 5)]


def memory_lines(lines: Sequence[tuple[str, Sequence[int | None]]], prefix: str) -> str | None:
    """Draw live tensor bytes along the matched steps, one line a machine; below 1 KiB the axis is linear."""
    known = [size for _, sizes in lines for size in sizes if size is not None]
    most = max(known, default=0)
    if not most:
        return None
    words = "; ".join(
        f"{name}: at most {formats.byte_size(max((s or 0 for s in sizes), default=0))}" for name, sizes in lines
    )

    def draw(axes: Axes) -> None:
        for place, (name, sizes) in enumerate(lines):
            heights = [math.nan if size is None else size for size in sizes]
            colour = svg.PALETTE[place % len(svg.PALETTE)]
            # The first is drawn broad, so that it shows where the others cover it.
            width, opacity = (4.0, 0.45) if place == 0 else (1.3, 1.0)
            style: dict[str, Any] = {"color": colour, "linewidth": width, "alpha": opacity, "label": name}
            axes.plot(range(len(heights)), heights, drawstyle="steps-post", **style)
        axes.set_yscale("symlog", linthresh=KIB, base=2)
        powers = [2**n for n in range(10, 60, 5) if 2**n <= 2 * most]
        axes.set_yticks([0, *powers], [formats.byte_size(size) for size in (0, *powers)])
        axes.set_ylim(0, max(most * 1.6, KIB))
        axes.minorticks_off()
        _calm(axes, "matched step", "", grid="y")
        _legend(axes)

    return _drawn(draw, (8.2, 3.0), prefix, "Memory along the lecture", words)


def bars(
    groups: Sequence[str],
    rows: Sequence[tuple[str, Sequence[float | None]]],
    prefix: str,
    title: str,
    write: Callable[[float], str],
) -> str | None:
    """Draw one bar for each machine in each group on a logarithmic axis; `rows` are (machine, its heights)."""
    heights = [height for _, row in rows for height in row if height]
    if not heights:
        return None
    width = 0.8 / max(len(rows), 2)
    words = "; ".join(
        f"{name}: " + ", ".join(f"{group} {write(h)}" for group, h in zip(groups, row, strict=True) if h)
        for name, row in rows
    )

    def draw(axes: Axes) -> None:
        for place, (name, row) in enumerate(rows):
            across = [at + (place - (len(rows) - 1) / 2) * width for at, height in enumerate(row) if height]
            axes.bar(across, [h for h in row if h], width, color=svg.PALETTE[place % len(svg.PALETTE)], label=name)
        axes.set_yscale("log")
        axes.set_ylim(10 ** (math.floor(math.log10(min(heights)) - 0.3)), max(heights) * 2)
        axes.set_xticks(range(len(groups)), groups)
        axes.set_xlim(-0.6, max(len(groups) - 0.4, 2.6))
        _calm(axes, "", "", grid="y")
        _label(axes.yaxis, lambda value, _: write(value))
        _legend(axes)

    return _drawn(draw, (8.2, 2.9), prefix, title, words)


def _label(axis: Axis, write: Callable[[float, float], str]) -> None:
    """Label a logarithmic axis at its decades."""
    axis.set_major_formatter(write)
    axis.set_minor_formatter("")


def _legend(axes: Axes) -> None:
    """Put the names of the machines beside the axes, where they cover nothing."""
    axes.legend(frameon=False, fontsize=8, labelcolor="#000000", loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _calm(axes: Axes, across: str, up: str, grid: Literal["both", "x", "y"]) -> None:
    """Give the axes their names and a calm frame."""
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["bottom", "left"]].set_color(svg.SOFT)
    axes.tick_params(which="both", color=svg.SOFT, labelcolor="#000000", labelsize=9)
    axes.grid(visible=True, axis=grid, color=svg.SOFT, alpha=0.25, linewidth=0.8)
    axes.set_axisbelow(True)


def _drawn(
    draw: Callable[[Axes], None], inches: tuple[float, float], prefix: str, title: str, description: str
) -> str | None:
    """Draw on one pair of axes; the same numbers give the same bytes."""
    import matplotlib  # takes 0.2 s to import, and not every report draws
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    settings: Any = {"svg.hashsalt": "trace", "svg.fonttype": "none", "text.parse_math": False, "font.size": 10}
    with matplotlib.rc_context(settings):
        canvas: Any = FigureCanvasSVG(Figure(figsize=inches, layout="constrained"))
        axes = canvas.figure.subplots()
        canvas.figure.patch.set_alpha(0)
        axes.patch.set_alpha(0)
        draw(axes)
        out = io.StringIO()
        canvas.print_svg(out, metadata={"Date": None})
    return svg.clean(out.getvalue(), prefix, title, description)
