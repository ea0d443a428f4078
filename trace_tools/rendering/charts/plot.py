"""What a lecture plots as numbers → one figure: lines, points, bars or steps on linear or logarithmic axes.

    plot(Narrative("plot", title="Loss", series=[Series("a", [1, 2], [3.0, 1.0])]), "fig3")     "<svg …>"

What is no finite number is a gap, and on a logarithmic axis so is what is not above 0. The legend stands above
the axes, where it covers nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from trace_tools import formats
from trace_tools.rendering.charts.axes import TICK, Scale, tick_text, ticks
from trace_tools.rendering.charts.drawing import SOFT, Drawing, Point, colour, marker, polyline, steps, width_of
from trace_tools.schema import Narrative, Scalar, Series

WIDTH, HEIGHT = 640.0, 270.0  # HEIGHT is that of the axes
RIGHT, TOP, BOTTOM = 14.0, 14.0, 44.0
ROW = 17.0  # height of a line of the legend
SERIES = 12  # more can't be told apart
LABELLED_BARS = 12
MARKED = 30  # values of a line that each get a mark
SPARSE = 8  # marks of a line with more
SERIES_APART = 5  # series whose marks don't meet
FULL = 0.7  # of the room between two places that bars fill


@dataclass(frozen=True, slots=True)
class _Line:
    """One series with its numbers as floats; nan is a gap."""

    name: str
    style: str
    x: list[float]
    y: list[float]


@dataclass(frozen=True, slots=True)
class _Axes:
    """Where numbers lie on the figure; `names` are the places across when those are not numbers."""

    across: Scale
    up: Scale
    names: tuple[str, ...]


def plot(told: Narrative, prefix: str, title: str, description: str) -> str | None:
    """Draw the numbers of a plot; None when there are none."""
    series = [s for s in (told.series or [])[:SERIES] if any(math.isfinite(height(y)) for y in s.y)]
    if not series:
        return None
    names = _categories(series)
    lines = [_line(s, names) for s in series]
    log_across = not names and _is_log(told.x_scale, [line.x for line in lines])
    logs = log_across, _is_log(told.y_scale, [line.y for line in lines])
    legend = _legend_rows(lines)
    top = TOP + ROW * len(legend) + (ROW if told.y_label else 0.0)
    axes = _axes(lines, tuple(_tick(name) for name in names), logs, top)
    drawing = Drawing(WIDTH, top + HEIGHT + BOTTOM)
    _draw_legend(drawing, legend, axes.across.start)
    drawing.text((4, top - 9), formats.one_line(told.y_label or "", 80), size=12)
    _grid(drawing, axes, logs)
    middle = (axes.across.start + axes.across.end) / 2
    drawing.text((middle, axes.up.start + 37), formats.one_line(told.x_label or "", 80), size=12, anchor="middle")
    bars = [line for line in lines if line.style == "bars"]
    for place, line in enumerate(lines):
        if line.style == "bars":
            _bars(drawing, axes, line, (place, bars.index(line), len(bars)))
        else:
            _curve(drawing, axes, line, place)
    return drawing.svg(prefix, title, description)


def height(value: Scalar) -> float:
    """Return a plotted number; what is none is a gap."""
    if not isinstance(value, (bool, int, float)):
        return math.nan
    try:
        number = float(value)
    except OverflowError:
        return math.nan
    return number if math.isfinite(number) else math.nan


def _categories(series: Sequence[Series]) -> list[Scalar]:
    """Return the places across when they are names, or the few numbers under bars; none for a number axis."""
    places = list(dict.fromkeys(x for one in series for x in one.x))
    named = any(isinstance(x, str) for x in places)
    few_bars = all(one.style == "bars" for one in series) and len(places) <= LABELLED_BARS
    return places if (named and len(places) <= 60) or few_bars else []


def _tick(place: Scalar) -> str:
    return formats.one_line(place if isinstance(place, str) else "–" if place is None else formats.number(place, 4), 18)


def _line(series: Series, names: Sequence[Scalar]) -> _Line:
    x = [float(names.index(place)) for place in series.x] if names else [height(place) for place in series.x]
    return _Line(formats.one_line(series.name, 40), series.style, x, [height(y) for y in series.y])


def _is_log(scale: str | None, columns: Sequence[Sequence[float]]) -> bool:
    return scale == "log" and any(place > 0 for column in columns for place in column)


def _axes(lines: Sequence[_Line], names: tuple[str, ...], logs: tuple[bool, bool], top: float) -> _Axes:
    """Return scales that hold everything, and a margin that holds the labels."""
    across = _span([x for line in lines for x in line.x], log=logs[0], margin=0.02)
    up = _span([y for line in lines for y in line.y], log=logs[1], margin=0.08)
    if any(line.style == "bars" for line in lines):
        across = (across[0] - 0.6 * _gap(lines), across[1] + 0.6 * _gap(lines))
        up = up if logs[1] else (min(0.0, up[0]), max(0.0, up[1]))
    elif names:
        across = (-0.5, len(names) - 0.5)
    labels = [tick_text(tick) for tick in ticks(*up, log=logs[1])]
    left = 14 + max((width_of(label, TICK) for label in labels), default=20.0)
    bottom = top + HEIGHT
    return _Axes(Scale(*across, left, WIDTH - RIGHT, logs[0]), Scale(*up, bottom, top, logs[1]), names)


def _span(numbers: Sequence[float], *, log: bool, margin: float) -> tuple[float, float]:
    """Return the ends of an axis, a little beyond the numbers."""
    known = [n for n in numbers if math.isfinite(n) and (n > 0 or not log)]
    low, high = min(known, default=1.0), max(known, default=1.0)
    if log:
        beyond = max((high / low) ** margin, 1.05)
        return max(low / beyond, 1e-300), min(high * beyond, 1e300)
    beyond = (high - low) * margin or abs(high) * margin or 1.0
    return low - beyond, high + beyond


def _gap(lines: Sequence[_Line]) -> float:
    """Return the least distance between two places of bars."""
    places = sorted({x for line in lines if line.style == "bars" for x in line.x if math.isfinite(x)})
    return min((b - a for a, b in pairwise(places)), default=1.0)


def _grid(drawing: Drawing, axes: _Axes, logs: tuple[bool, bool]) -> None:
    across, up = axes.across, axes.up
    for tick in ticks(up.low, up.high, log=logs[1]):
        drawing.line((across.start, up(tick)), (across.end, up(tick)), stroke=SOFT, width=0.8, stroke_opacity=0.3)
        drawing.text((across.start - 6, up(tick) + 4), tick_text(tick), size=TICK, anchor="end")
    drawing.line((across.start, up.start), (across.end, up.start), stroke=SOFT)
    marks: list[tuple[float, str]] = list(enumerate(axes.names))
    for tick, words in marks or [(tick, tick_text(tick)) for tick in ticks(across.low, across.high, log=logs[0])]:
        drawing.line((across(tick), up.start), (across(tick), up.start + 4), stroke=SOFT)
        drawing.text((across(tick), up.start + 17), words, size=TICK, anchor="middle")


def _curve(drawing: Drawing, axes: _Axes, line: _Line, place: int) -> None:
    """Draw a series as a line, a staircase or points; a gap breaks it."""
    pairs = [_at(axes, x, y) for x, y in zip(line.x, line.y, strict=False)]
    runs = [[p for p in run if p] for known, run in groupby(pairs, key=bool) if known]
    if line.style != "points":
        dashes = "" if place < 6 else "6 4"
        path: Callable[[Sequence[Point]], str] = (
            (lambda run: steps(run, run[-1][0])) if line.style == "steps" else polyline
        )
        drawing.path("".join(map(path, runs)), stroke=colour(place), width=1.9, stroke_dasharray=dashes)
    for at in _marked(runs, line.style, place):
        marker(drawing, at, place, 3.6 if line.style == "points" else 2.6)


def _marked(runs: Sequence[Sequence[Point]], style: str, place: int) -> list[Point]:
    """Return the points that get a mark: all while they are few, else some, each series' at places of its own."""
    spots = [at for run in runs for at in run]
    if style == "steps":
        return []
    if style == "points" or len(spots) <= MARKED:
        return spots
    stride = -(-len(spots) // SPARSE)
    return spots[(place * stride) // SERIES_APART % stride :: stride]


def _at(axes: _Axes, x: float, y: float) -> Point | None:
    bad = not (math.isfinite(x) and math.isfinite(y)) or (axes.across.log and x <= 0) or (axes.up.log and y <= 0)
    return None if bad else (axes.across(x), axes.up(y))


def _bars(drawing: Drawing, axes: _Axes, line: _Line, which: tuple[int, int, int]) -> None:
    """Draw the bars of a series side by side with the others', their heights above when they are few."""
    place, number, count = which
    wide = FULL * _gap([line]) / count
    floor = axes.up.start if axes.up.log else axes.up(0)
    for x, y in zip(line.x, line.y, strict=False):
        left, right = (x + (number - count / 2 + side) * wide for side in (0, 1))
        at = _at(axes, max(left, 1e-300) if axes.across.log else left, y)
        if at is None:
            continue
        across = axes.across(right) - at[0]
        drawing.rect((at[0], min(at[1], floor)), (max(across - 1, 0.5), abs(floor - at[1])), fill=colour(place))
        if len(line.x) * count <= LABELLED_BARS:
            above = min(at[1], floor) - 4 if y >= 0 else max(at[1], floor) + 12
            drawing.text((at[0] + across / 2, above), formats.number(y, 4), size=TICK, anchor="middle")


def _legend_rows(lines: Sequence[_Line]) -> list[list[tuple[int, _Line, float]]]:
    """Set the names of several series in rows: (place, line, x)."""
    rows: list[list[tuple[int, _Line, float]]] = []
    at = WIDTH
    for place, line in enumerate(lines if len(lines) > 1 else ()):
        wide = width_of(line.name, 11.5) + 46
        if at + wide > WIDTH - 60:
            rows.append([])
            at = 0.0
        rows[-1].append((place, line, at))
        at += wide
    return rows


def _draw_legend(drawing: Drawing, rows: Sequence[Sequence[tuple[int, _Line, float]]], left: float) -> None:
    for number, row in enumerate(rows):
        y = 12 + ROW * number
        for place, line, at in row:
            x = left + at
            if line.style == "bars":
                drawing.rect((x + 4, y - 6), (12, 11), fill=colour(place))
            elif line.style != "points":
                dashes = "" if place < 6 else "6 4"
                drawing.line((x, y), (x + 22, y), stroke=colour(place), width=1.9, stroke_dasharray=dashes)
            if line.style in ("points", "line"):
                marker(drawing, (x + 11, y), place, 3.2)
            drawing.text((x + 28, y + 4), line.name, size=11.5)
