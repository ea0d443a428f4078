"""Draw how far a lecture ran from the roofline: for each kind of operator, its time relative to the lower bound.

    distance(distances(trace), "distance", "How far from the roof")

The line at 1 is the roofline. A row's box covers the middle half of its steps, its whiskers 80%, and a line marks the
median. On the right are the number of steps and the time above the lower bound.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from trace_tools.analysis.distances import MIXED, Distance, lost_by_kind
from trace_tools.presentation.charts.axes import TICK, Axes, Scale, decades, grid_across, tick_text
from trace_tools.presentation.charts.drawing import INK, SOFT, Drawing, colour
from trace_tools.util import formats

WIDTH, LEFT, RIGHT, TOP, ROW, BOTTOM = 860.0, 100.0, 270.0, 24.0, 26.0, 44.0
COLUMNS = (WIDTH - 190.0, WIDTH - 105.0, WIDTH - 8.0)  # right ends of the numbers
ALL = "all"
NAMES = {
    ALL: "all",
    "matmul": "matmul",
    "elementwise": "elementwise",
    "reduction": "reduction",
    "copy": "copy",
    "fill": "fill",
    "indexing": "indexing",
    "collective": "collective",
    "other": "other",
    MIXED: "mixed",
}


def distance(distances: Sequence[Distance], prefix: str, title: str) -> str | None:
    """Draw time over lower bound on a logarithmic axis, the kinds that lost most time first; None without steps."""
    own = [one for one in distances if one.own]
    if not own:
        return None
    kinds = lost_by_kind(own)
    rows = [(ALL, sorted(one.ratio for one in own), sum(kind.floor for kind in kinds), sum(k.lost for k in kinds))]
    rows += [(k.kind, sorted(one.ratio for one in own if one.kind == k.kind), k.floor, k.lost) for k in kinds]
    low = min(0.5, *(_quantile(ratios, 0.1) for _, ratios, _, _ in rows)) / 1.2
    high = 1.5 * max(20.0, *(_quantile(ratios, 0.9) for _, ratios, _, _ in rows))
    bottom = TOP + ROW * len(rows)
    axes = Axes(Scale(low, high, LEFT, WIDTH - RIGHT, log=True), Scale(len(rows), 0, bottom, TOP))
    drawing = Drawing(WIDTH, bottom + BOTTOM)
    across = axes.across
    grid_across(drawing, axes, [(t, tick_text(t)) for t in decades(low, high)])
    drawing.line((across(1), bottom), (across(1), TOP), width=1.4)
    drawing.text((across(1), TOP - 8), "the roof", size=TICK, anchor="middle")
    for head, x in zip(("steps", "lower bounds", "time above"), COLUMNS, strict=True):
        drawing.text((x, TOP - 8), head, size=TICK, anchor="end", fill=SOFT)
    summaries = []
    for row, (kind, ratios, floor, lost) in enumerate(rows):
        y, name = axes.up(row + 0.5), NAMES[kind]
        tenth, first, middle, third, ninetieth = (across(_quantile(ratios, q)) for q in (0.1, 0.25, 0.5, 0.75, 0.9))
        median = f"× {formats.ratio(statistics.median(ratios))}"
        time_above = formats.duration(1e9 * max(lost, 0.0))
        with drawing.linked(None, f"{name}: median {median}"):
            drawing.text((LEFT - 10, y + 4), name, size=TICK, anchor="end")
            drawing.line((tenth, y), (ninetieth, y), stroke=colour(0), width=1.2)
            drawing.rect((first, y - 7), (max(third - first, 1), 14), fill=colour(0), fill_opacity=0.35)
            drawing.line((middle, y - 7), (middle, y + 7), stroke=INK, width=2)
        for words, x in zip((f"{len(ratios):,}", formats.duration(1e9 * floor), time_above), COLUMNS, strict=True):
            drawing.text((x, y + 4), words, size=TICK, anchor="end")
        summary = "{kind}: {n} steps, median {ratio}, {time} above their lower bounds"
        summaries.append(summary.format(kind=name, n=f"{len(ratios):,}", ratio=median, time=time_above))
    drawing.text(((LEFT + WIDTH - RIGHT) / 2, bottom + 36), "time ÷ lower bound", size=12, anchor="middle")
    return drawing.svg(prefix, title, "; ".join(summaries))


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[round(share * (len(ordered) - 1))]
