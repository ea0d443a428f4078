"""Plot numbers of a lecture or report: lines, points, bars (grouped or stacked), steps.

    figure(narrative, "fig3")     '<svg role="img" …><title>Loss</title>…</svg>', also for a matplotlib figure
    plot([Series("a", [1, 2], [3.0, 1.0])], "fig3", "Loss", "a: 2 values")

A number that is not finite, or not positive on a logarithmic axis, leaves a gap. The legend is above the axes. Equal
numbers give equal bytes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise

from trace_tools.presentation.charts import svg
from trace_tools.presentation.charts.axes import TICK, Axes, Scale, grid_up, tick_text, ticks
from trace_tools.presentation.charts.drawing import (
    SOFT,
    Drawing,
    Point,
    colour,
    marker,
    polyline,
    steps,
    width_of,
)
from trace_tools.trace.model import Plot, Scalar, Series
from trace_tools.util import formats

WIDTH, HEIGHT = 640.0, 270.0  # HEIGHT is that of the axes alone
NARROW = 342.0  # width of a figure that fits on a phone
RIGHT, TOP, BOTTOM = 14.0, 14.0, 44.0
STROKE = 1.9
ROW = 17.0  # height of a line of the legend
NAME = 11.5  # font size of its names
SERIES = 12  # most series, because more could not be distinguished
LABELLED_BARS = 12
MARKED = 30  # a line with at most so many values marks each of them
SPARSE = 8  # marks of a longer line
SERIES_APART = 5  # so many series have marks at different values
JOINED = 40  # most points of one of several series that are joined by a curve
LARGEST = 1e300  # largest number that is drawn; an axis extends beyond it, and floats end at 1.8e308
FULL = 0.7  # share of the distance between two positions that bars fill
STACK = 110.0  # largest width of a stack of bars


def figure(record: Plot, prefix: str, width: float = WIDTH) -> str | None:
    """Return a plot of the lecture as safe inline SVG whose ids begin with `prefix`; None if it has no numbers.

    A plot that another tool drew has its own width, and may have a second drawing for a phone.
    """
    title = record.title or " against ".join(label for label in (record.y_label, record.x_label) if label) or "Figure"
    words = describe(record)
    if record.svg:
        source = record.narrow if record.narrow and width <= NARROW else record.svg
        return svg.clean(source, prefix, title, words)
    labels, log = (record.x_label or "", record.y_label or ""), (record.x_scale == "log", record.y_scale == "log")
    return plot(record.series[:SERIES], prefix, title, words, labels=labels, log=log, width=width)


def describe(record: Plot) -> str:
    """Describe a plot in words, for readers who cannot see it."""
    if record.text and not record.series:  # a matplotlib figure, which has a description
        return record.text
    axes = [f"{name}: {label}" for name, label in (("across", record.x_label), ("up", record.y_label)) if label]
    parts = [", ".join(axes)] if axes else []
    for series in record.series[:SERIES]:
        heights = [y for y in map(height, series.y) if math.isfinite(y)]
        if heights:
            unit = formats.unit_of(record.y_label or "")
            decimal = record.y_scale == "log" or formats.is_decimal(heights)
            low, high = (_height_text(end, unit, decimal=decimal) for end in (min(heights), max(heights)))
            name = formats.one_line(series.name, 60)
            ends = f"of {low}" if low == high else f"from {low} to {high}"
            parts.append(f"{name}: {formats.plural(len(series.y), 'value')} {ends}")
    return ". ".join(parts) + "." if parts else "A drawing."


@dataclass(frozen=True, slots=True)
class _Line:
    """The n-th series as floats; nan is a gap."""

    number: int
    name: str
    style: str
    x: list[float]
    y: list[float]
    base: list[float]  # the lower ends of its bars
    dashes: str


def plot(
    series: Sequence[Series],
    prefix: str,
    title: str,
    description: str,
    *,
    labels: tuple[str, str] = ("", ""),
    log: tuple[bool, bool] = (False, False),
    width: float = WIDTH,
) -> str | None:
    """Draw series on two axes with labels; None if there are no numbers.

    Heights are in the unit that their label names; the unit moves to the numbers, with a prefix.
    """
    series = [s for s in series if any(math.isfinite(height(y)) for y in s.y)]
    if not series:
        return None
    names = _categories(series)
    log_up = log[1] and any(height(y) > 0 for s in series for y in s.y)
    lines, stacked = _lines(series, names, log_up=log_up)
    with_bars = [line for line in lines if line.style in ("bars", "stacked")]
    grouped = [line for line in lines if line.style == "bars"]
    positions = sorted({x for line in with_bars for x in line.x if math.isfinite(x)})
    gap = min((b - a for a, b in pairwise(positions)), default=1.0)  # smallest distance between two positions of bars

    xs, ys = [x for line in lines for x in line.x], [*stacked.values(), *(y for line in lines for y in line.y)]
    log_across = log[0] and not names and any(x > 0 for x in xs)
    first, last = _span(xs, log=log_across, margin=0.02)
    if with_bars:
        first, last = max(first - 0.6 * gap, first / 2 if log_across else -math.inf), last + 0.6 * gap
    elif names:
        first, last = -0.5, len(names) - 0.5
    low, high = _span(ys, log=log_up, margin=0.08, floor=bool(with_bars))
    unit, decimal = formats.unit_of(labels[1]), log_up or formats.is_decimal([*stacked.values(), *ys])
    write_height = partial(_height_text, unit=unit, decimal=decimal)
    across_unit = formats.unit_of(labels[0])
    labels = labels[0] if across_unit is None or names else "", labels[1] if unit is None else ""
    write = partial(tick_text, unit=unit, decimal=decimal)
    marks = ticks(low, high, log=log_up, binary=unit in formats.BYTE_UNITS and not decimal)

    legend = _legend_rows(lines, width)
    top = TOP + ROW * len(legend) + (ROW if labels[1] else 0.0)
    left = 14 + max((width_of(write(tick), TICK) for tick in marks), default=20.0)
    across = Scale(first, last, left, width - RIGHT, log_across)
    axes = Axes(across, Scale(low, high, top + HEIGHT, top, log_up))
    room = (across.end - left) / max(len(names), 1)
    tight = any(width_of(_tick(name), TICK) + 6 > room for name in names)  # then every other name is a line lower
    bottom = BOTTOM + (14 if tight else 0)
    drawing = Drawing(width, top + HEIGHT + bottom)
    for number, row in enumerate(legend):
        for right, line in row:
            _draw_name(drawing, (left + right, 12 + ROW * number), line)
    drawing.text((4, top - 9), formats.one_line(labels[1], int(width / 8)), size=12)
    grid_up(drawing, axes, [(tick, write(tick)) for tick in marks])
    drawing.line((left, top + HEIGHT), (across.end, top + HEIGHT), stroke=SOFT)
    numbers = [] if names else ticks(first, last, log=log_across, count=6 if width > NARROW else 4)
    # integers, such as numbers of runs, have no ticks between them
    if all(type(at) is int for s in series for at in s.x):
        numbers = [tick for tick in numbers if math.isclose(tick, round(tick))]
    shown = [(n, _fitted(_tick(name), 2 * room - 8)) for n, name in enumerate(names)]
    for tick, words in [*shown, *((tick, tick_text(tick, across_unit)) for tick in numbers)]:
        lower = 14 if tight and int(tick) % 2 else 0
        drawing.line((across(tick), top + HEIGHT), (across(tick), top + HEIGHT + 4 + lower), stroke=SOFT)
        drawing.text((across(tick), top + HEIGHT + 17 + lower), words, size=TICK, anchor="middle")
    middle = (left + across.end) / 2
    name = formats.one_line(labels[0], int(width / 8))
    drawing.text((middle, top + HEIGHT + bottom - 7), name, size=12, anchor="middle")
    for line in lines:
        if line.style == "bars":
            _bars(drawing, axes, line, (grouped.index(line), len(grouped), gap), write_height)
        elif line.style == "stacked":
            _stack(drawing, axes, line, gap, write_height)
        else:
            _curve(drawing, axes, line)
    totals = {at: write_height(total) for at, total in stacked.items() if axes.at(at, total) is not None}
    if len({total.partition(" ")[2] for total in totals.values()}) == 1 and any(
        width_of(total, TICK) > room for total in totals.values()
    ):  # the axis has their unit
        totals = {at: total.partition(" ")[0] for at, total in totals.items()}
    for at, total in totals.items():
        drawing.text((axes.across(at), axes.up(stacked[at]) - 5), total, size=TICK, anchor="middle")
    return drawing.svg(prefix, title, description)


def _lines(
    series: Sequence[Series], names: Sequence[Scalar], *, log_up: bool
) -> tuple[list[_Line], dict[float, float]]:
    """Return the series with their pens, and the height of the stack at each position."""
    sampled = [] if names else _sampled(series)
    lines = []
    stacked: dict[float, float] = defaultdict(float)
    for n, s in enumerate(series):
        x, y = [float(names.index(at)) for at in s.x] if names else [height(at) for at in s.x], [height(y) for y in s.y]
        style, base = "line" if s in sampled else s.style, [0.0] * len(y)
        if style == "stacked" and log_up:  # sums have no meaning on a logarithmic axis
            style = "bars"
        elif style == "stacked":
            y = [max(part, 0.0) for part in y]
            for index, (at, part) in enumerate(zip(x, y, strict=False)):
                base[index] = stacked[at]
                stacked[at] += part if math.isfinite(part) else 0
        lines.append(_Line(n, formats.one_line(s.name, 60), style, x, y, base, "" if n < 6 else "6 4"))
    return lines, stacked


def height(value: Scalar) -> float:
    """Return a number to plot; nan if it is not finite or too large for the axis."""
    if not isinstance(value, (bool, int, float)):
        return math.nan
    try:
        number = float(value)
    except OverflowError:
        return math.nan
    return number if abs(number) <= LARGEST else math.nan


def _height_text(height: float, unit: str | None, *, decimal: bool) -> str:
    """Format a height to four digits, whole numbers without decimals."""
    if unit is not None:
        return formats.quantity(height, unit, decimal=decimal)
    return formats.number(int(height) if height.is_integer() else height)


def _categories(series: Sequence[Series]) -> list[Scalar]:
    """Return the positions across if they are names, or the few numbers under bars; [] for a numeric axis."""
    xs = list(dict.fromkeys(x for one in series for x in one.x))
    named = any(isinstance(x, str) for x in xs)
    few_bars = all(one.style in ("bars", "stacked") for one in series) and len(xs) <= LABELLED_BARS
    return xs if (named and len(xs) <= 60) or few_bars else []


def _sampled(series: Sequence[Series]) -> list[Series]:
    """Return those of several series of points that sample a function: few points, in order along x.

    A series whose positions are a subset of another one's highlights points on that curve, and is not joined.
    """
    points = [one for one in series if one.style == "points" and len(series) > 1]
    positions = [list(map(height, one.x)) for one in points]
    sampled = []
    for one, xs in zip(points, positions, strict=True):
        in_order = all(before < after for before, after in pairwise(xs))
        if 2 < len(xs) <= JOINED and in_order and not any(set(xs) < set(other) for other in positions):
            sampled.append(one)
    return sampled


def _tick(x: Scalar) -> str:
    return formats.one_line(x if isinstance(x, str) else "–" if x is None else formats.number(x, 4), 18)


def _fitted(words: str, room: float) -> str:
    """Shorten a name to a width in pixels."""
    while len(words) > 2 and width_of(words, TICK) > room:
        words = words.rstrip("…")[:-1] + "…"
    return words


def _span(numbers: Sequence[float], *, log: bool, margin: float, floor: bool = False) -> tuple[float, float]:
    """Return the ends of an axis, slightly beyond the numbers; bars start at 0, or at a power of ten."""
    drawable = [n for n in numbers if math.isfinite(n) and (n > 0 or not log)]
    low, high = min(drawable, default=1.0), max(drawable, default=1.0)
    if log:
        low = max(10.0 ** math.floor(math.log10(low) - 0.3) if floor else low, 1e-300)
        beyond = max((high / low) ** margin, 1.05)
        return low if floor else max(low / beyond, 1e-300), min(high * beyond, 1e300)
    beyond = (high - low) * margin or abs(high) * margin or 1.0
    if floor:
        return (low - beyond if low < 0 else 0.0), (high + beyond if high > 0 else 0.0)
    return low - beyond, high + beyond


def _curve(drawing: Drawing, axes: Axes, line: _Line) -> None:
    """Draw a series as a line, a staircase or points; gaps interrupt it."""
    points = [axes.at(x, y) for x, y in zip(line.x, line.y, strict=False)]
    runs = [[p for p in run if p] for has_points, run in groupby(points, key=bool) if has_points]
    if line.style != "points":
        path = "".join(steps(run, run[-1][0]) if line.style == "steps" else polyline(run) for run in runs)
        drawing.path(path, stroke=colour(line.number), fill="none", width=STROKE, stroke_dasharray=line.dashes)
    if line.style != "steps":
        marked = [point for run in runs for point in run]
        if line.style != "points" and len(marked) > MARKED:  # then some, at different positions for each series
            stride = -(-len(marked) // SPARSE)
            marked = marked[(line.number * stride) // SERIES_APART % stride :: stride]
        for point in marked:
            marker(drawing, point, line.number, 3.6 if line.style == "points" else 2.6)


def _bars(
    drawing: Drawing,
    axes: Axes,
    line: _Line,
    position: tuple[int, int, float],
    write: Callable[[float], str],
) -> None:
    """Draw the bars of a series next to the others', with their heights if there are few."""
    number, count, gap = position  # the n-th of so many in a group, and the distance between groups
    wide = FULL * gap / count
    floor = axes.up.start if axes.up.log else axes.up(0)
    for x, y in zip(line.x, line.y, strict=False):
        first, last = (x + (number - count / 2 + side) * wide for side in (0, 1))
        if axes.across.log:
            first, last = (max(end, 1e-300) if x > 0 else math.nan for end in (first, last))
        corner = axes.at(first, y)
        if corner is None:
            continue
        left, end = corner
        across = axes.across(last) - left
        size = max(across - 1, 0.5), abs(floor - end)
        drawing.rect((left, min(end, floor)), size, fill=colour(line.number))
        if len(line.x) * count <= LABELLED_BARS and width_of(write(y), TICK) < 1.4 * across:
            above = min(end, floor) - 4 if y >= 0 else max(end, floor) + 12
            drawing.text((left + across / 2, above), write(y), size=TICK, anchor="middle")


def _stack(drawing: Drawing, axes: Axes, line: _Line, gap: float, write: Callable[[float], str]) -> None:
    """Draw the bars of a series on top of the earlier ones, each with a tooltip and, if it fits, its number."""
    for x, y, base in zip(line.x, line.y, line.base, strict=False):
        foot, top = axes.at(x, base), axes.at(x, base + y)
        if foot is None or top is None or not y:
            continue
        room = abs(axes.across(x + gap / 2) - axes.across(x - gap / 2))
        wide, tall, words = min(FULL * room, STACK), foot[1] - top[1], write(y)
        with drawing.linked(None, f"{line.name}: {words}"):
            drawing.rect((top[0] - wide / 2, top[1]), (wide, max(tall - 1, 0.5)), fill=colour(line.number))
        if tall >= TICK and width_of(words, TICK) + 8 < (room - wide) / 2:
            drawing.text((top[0] + wide / 2 + 6, top[1] + tall / 2 + 4), words, size=TICK)


def _legend_rows(lines: Sequence[_Line], width: float) -> list[list[tuple[float, _Line]]]:
    """Arrange the names of several series in rows, each with its x."""
    rows: list[list[tuple[float, _Line]]] = []
    at = width
    for line in lines if len(lines) > 1 else ():
        wide = width_of(line.name, NAME) + 46
        if at + wide > width - 60:
            rows.append([])
            at = 0.0
        rows[-1].append((at, line))
        at += wide
    return rows


def _draw_name(drawing: Drawing, at: Point, line: _Line) -> None:
    x, y = at
    if line.style in ("bars", "stacked"):
        drawing.rect((x + 4, y - 6), (12, 11), fill=colour(line.number))
    elif line.style != "points":
        drawing.line(
            (x, y),
            (x + 22, y),
            stroke=colour(line.number),
            width=STROKE,
            stroke_dasharray=line.dashes,
        )
    if line.style in ("points", "line"):
        marker(drawing, (x + 11, y), line.number, 3.2)
    drawing.text((x + 28, y + 4), line.name, size=NAME)
