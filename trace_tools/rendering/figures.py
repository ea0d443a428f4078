"""What a lecture plots → SVG: the only module that draws for the pages.

    figure(narrative, "fig3")     '<svg role="img" …><title>Loss</title>…</svg>'

A figure that the lecture drew itself comes cleaned; from numbers alone, matplotlib draws it. The same
numbers give the same bytes.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trace_tools.rendering import formats, svg
from trace_tools.schema import Narrative, Scalar, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

SERIES = 12  # more can't be told apart
LABELLED_BARS = 12


def figure(plot: Narrative, prefix: str) -> str | None:
    """Return a plot as safe inline SVG whose ids begin with `prefix`; None when there is nothing to draw."""
    source = plot.svg if plot.svg else _drawn(plot)
    title = plot.title or " against ".join(label for label in (plot.y_label, plot.x_label) if label) or "Figure"
    return svg.clean(source, prefix, title, describe(plot)) if source else None


def describe(plot: Narrative) -> str:
    """Say in words what a plot shows, for who can't see it."""
    axes = [f"{name}: {label}" for name, label in (("across", plot.x_label), ("up", plot.y_label)) if label]
    parts = [", ".join(axes)] if axes else []
    for series in (plot.series or [])[:SERIES]:
        heights = [y for y in map(_height, series.y) if math.isfinite(y)]
        if heights:
            low, high = formats.number(min(heights), 4), formats.number(max(heights), 4)
            name = formats.one_line(series.name, 60)
            parts.append(f"{name}: {formats.plural(len(series.y), 'value')} from {low} to {high}")
    return ". ".join(parts) + "." if parts else "A drawing."


def _drawn(plot: Narrative) -> str | None:
    series = [s for s in (plot.series or [])[:SERIES] if any(math.isfinite(_height(y)) for y in s.y)]
    if not series:
        return None
    import matplotlib  # takes 0.2 s to import, and most pages have no plot
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    settings: Any = {
        "svg.hashsalt": "trace",
        "svg.fonttype": "none",
        "text.parse_math": False,
        "font.size": 10,
        "path.simplify": True,
    }
    with matplotlib.rc_context(settings):
        canvas: Any = FigureCanvasSVG(Figure(figsize=(6.4, 3.2), layout="constrained"))
        axes = canvas.figure.subplots()
        canvas.figure.patch.set_alpha(0)
        axes.patch.set_alpha(0)
        _draw(axes, plot, series)
        out = io.StringIO()
        canvas.print_svg(out, metadata={"Date": None})
    return out.getvalue()


def _draw(axes: Axes, plot: Narrative, series: Sequence[Series]) -> None:
    categories = _categories(series)
    for place, one in enumerate(series):
        colour = svg.PALETTE[place % len(svg.PALETTE)]
        heights = [_height(y) for y in one.y]
        where = [float(categories.index(x)) for x in one.x] if categories else [_height(x) for x in one.x]
        name = formats.one_line(one.name, 40)
        if one.style == "bars":
            _bars(axes, where, heights, (place, len(series)), colour, name)
        else:
            dashes = "-" if place < len(svg.PALETTE) else "--"
            settings: dict[str, Any] = {"color": colour, "label": name, "linestyle": dashes, "linewidth": 1.8}
            if one.style == "points":
                settings |= {"linestyle": "none", "marker": "os^Dv*"[place % 6], "markersize": 5}
            elif one.style == "steps":
                settings["drawstyle"] = "steps-post"
            elif len(where) <= 30:
                settings |= {"marker": "o", "markersize": 3.5}
            axes.plot(where, heights, **settings)
    _dress(axes, plot, series)
    if categories:
        axes.set_xticks(range(len(categories)), [formats.one_line(_tick(c), 18) for c in categories])


def _categories(series: Sequence[Series]) -> list[Scalar]:
    """Return the places across when they are names, or the few numbers under bars; none for a number axis."""
    places = list(dict.fromkeys(x for one in series for x in one.x))
    named = any(isinstance(x, str) for x in places)
    few_bars = all(one.style == "bars" for one in series) and len(places) <= LABELLED_BARS
    return places if (named and len(places) <= 60) or few_bars else []


def _tick(place: Scalar) -> str:
    return place if isinstance(place, str) else "–" if place is None else formats.number(place, 4)


def _bars(
    axes: Axes, where: Sequence[float], heights: Sequence[float], which: tuple[int, int], colour: str, name: str
) -> None:
    """Draw the bars of series `which[0]` of `which[1]`, side by side, with their heights above when they are few."""
    gap = min((b - a for a, b in zip(sorted(where), sorted(where)[1:], strict=False) if b > a), default=1.0)
    width = 0.7 * gap / which[1]
    shifted = [x + (which[0] - (which[1] - 1) / 2) * width for x in where]
    finite = [0.0 if math.isnan(h) else h for h in heights]
    bars = axes.bar(shifted, finite, width=width, color=colour, label=name)
    if len(heights) * which[1] <= LABELLED_BARS:
        axes.bar_label(bars, labels=[formats.number(h, 4) for h in heights], fontsize=9, padding=2, color="#000000")


def _dress(axes: Axes, plot: Narrative, series: Sequence[Series]) -> None:
    """Give the axes their scales, names and a calm frame."""
    across = [_height(x) for one in series for x in one.x]
    up = [_height(y) for one in series for y in one.y]
    if plot.x_scale == "log" and any(place > 0 for place in across):
        axes.set_xscale("log")
        _label_powers(axes.xaxis, across)
    if plot.y_scale == "log" and any(place > 0 for place in up):
        axes.set_yscale("log")
        _label_powers(axes.yaxis, up)
    axes.set_xlabel(formats.one_line(plot.x_label or "", 80))
    axes.set_ylabel(formats.one_line(plot.y_label or "", 80))
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["bottom", "left"]].set_color(svg.SOFT)
    axes.tick_params(which="both", color=svg.SOFT, labelcolor="#000000", labelsize=9)
    axes.grid(visible=True, axis="y", color=svg.SOFT, alpha=0.25, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.margins(y=0.1)
    if len(series) > 1:
        axes.legend(frameon=False, fontsize=9, labelcolor="#000000")


def _label_powers(axis: Axis, places: Sequence[float]) -> None:
    """Label a logarithmic axis at its decades, and between them when it has hardly one."""
    positive = [place for place in places if place > 0]
    axis.set_major_formatter(_power)
    axis.set_minor_formatter(_power if max(positive) < 10 * min(positive) else "")


def _power(value: float, place: float) -> str:
    """Write a tick of a logarithmic axis: 0.01, 1, 1000, 1e6."""
    return f"{value:g}" if 1e-3 <= value < 1e5 else formats.number(value, 3)


def _height(value: Scalar) -> float:
    """Return a plotted number; what is none is a gap."""
    if isinstance(value, (bool, int, float)):
        try:
            number = float(value)
        except OverflowError:
            return math.nan
        return number if math.isfinite(number) else math.nan
    return math.nan
