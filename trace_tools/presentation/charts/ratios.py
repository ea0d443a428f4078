"""Draw B's times relative to A's: a row for each statement, from × 1 to its ratio, with an interval.

    time_ratios([TimeRatio("112  y = x @ w", 0.21, (0.2, 0.23), "#r14")], "times", ("A cpu", "B cpu-one-thread"))

Slower is an orange square to the right of the line, faster a blue disc to the left. Intervals that contain × 1 are
grey.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trace_tools.presentation.charts.axes import TICK, Axes, Scale, grid_across, ticks
from trace_tools.presentation.charts.drawing import INK, SOFT, Drawing, colour, marker, width_of
from trace_tools.util import formats

MOST = 26  # most rows of a figure
WIDTH, RIGHT, TOP, ROW, BOTTOM = 860.0, 14.0, 6.0, 22.0, 44.0
LETTERS = 64  # longest name


@dataclass(frozen=True, slots=True)
class TimeRatio:
    """B's time over A's for one statement, with its interval and the anchor of its row."""

    name: str
    ratio: float
    interval: tuple[float, float] | None = None
    link: str | None = None


def time_ratios(ratios: Sequence[TimeRatio], prefix: str, labels: tuple[str, str]) -> str | None:
    """Draw B's times over A's on a logarithmic axis, one row per statement; None without ratios."""
    shown = ratios[:MOST]
    if not shown:
        return None
    names = [formats.one_line(item.name, LETTERS) for item in shown]
    ends = [end for item in shown for end in (item.ratio, *(item.interval or ())) if 0 < end < math.inf]
    low, high = min(*ends, 0.8) / 1.15, max(*ends, 1.25) * 1.15
    bottom = TOP + ROW * len(shown)
    left = 16 + 1.1 * max(width_of(name, TICK) for name in names)  # code has wide characters
    across = Scale(low, high, left, WIDTH - RIGHT, log=True)
    axes = Axes(across, Scale(len(shown), 0, bottom, TOP))
    drawing = Drawing(WIDTH, bottom + BOTTOM)
    between = [t for t in (0.8, 1.25, 1.5) if low < t < high < 8 * low]  # if 1, 2 and 5 are too few
    grid_across(drawing, axes, [(t, f"× {t:g}") for t in sorted([*ticks(low, high, log=True), *between])])
    drawing.line((across(1), bottom), (across(1), TOP))
    for row, (item, name) in enumerate(zip(shown, names, strict=True)):
        y, slower = axes.up(row + 0.5), item.ratio > 1
        first, last = (min(max(end, low), high) for end in item.interval or (item.ratio, item.ratio))
        paint = SOFT if first <= 1 <= last else colour(slower)
        interval = f", interval × {formats.ratio(first)} to × {formats.ratio(last)}" if item.interval else ""
        with drawing.linked(item.link, item.name if name != item.name else ""):
            drawing.text((left - 8, y + 4), name, size=TICK, anchor="end")
        with drawing.linked(None, f"× {formats.ratio(item.ratio)}{interval}"):
            drawing.line((across(1), y), (across(item.ratio), y), stroke=paint, width=4, stroke_opacity=0.7)
            if item.interval is not None:
                edges = "".join(f"M{across(end):.1f} {y - 4:g}v8" for end in (first, last))
                drawing.path(f"M{across(first):.1f} {y:g}H{across(last):.1f}{edges}", stroke=INK, width=1.1)
            marker(drawing, (across(item.ratio), y), slower, 3.4, fill=paint)
    middle = (left + across.end) / 2
    drawing.text((middle, bottom + 36), f"time of {labels[1]} ÷ time of {labels[0]}", size=12, anchor="middle")
    words = "; ".join(f"{item.name}: × {formats.number(item.ratio, 3)}" for item in shown[:8])
    return drawing.svg(prefix, "Times as ratios", words)
