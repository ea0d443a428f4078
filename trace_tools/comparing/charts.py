"""Measured points of several machines → figures for the reports, as safe inline SVG.

    time_ratios([TimeRatio("matmul: y = x @ w", 0.21, (0.2, 0.23))], "times")
    memory_lines([("A", [0, 4096, …]), ("B", …)], "memory")

Rooflines are drawn as on the pages, by `rendering.charts`. The first machine has the first colour in every
figure, and a marker of its own: colour alone says nothing to some. Without anything to draw there is no figure.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from trace_tools import formats
from trace_tools.rendering.charts import svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

MARKERS = "os^Dv*"
RATIOS = 30  # bars that one figure can hold
KIB = 1024


@dataclass(frozen=True, slots=True)
class TimeRatio:
    """B's time over A's for one step, with its interval; one that holds 1 is drawn softly."""

    name: str
    ratio: float
    interval: tuple[float, float] | None = None


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
