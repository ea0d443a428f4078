"""A large tensor's statistics → the bars of its histogram, from its smallest element to its largest.

histogram(Statistics(min=-3.1, max=3.0, histogram=[1, 4, 9, 4, 2]))     "<svg …>"
"""

from __future__ import annotations

from trace_tools import formats
from trace_tools.rendering.charts.drawing import SOFT, Drawing, colour
from trace_tools.schema import Statistics

WIDTH, HEIGHT = 260.0, 66.0
TALL = 48.0


def histogram(statistics: Statistics) -> str | None:
    """Draw how many elements lie in each of the equal bins; None where the trace has none."""
    bins, low, high = statistics.histogram, statistics.min, statistics.max
    if not bins or low is None or high is None or not any(bins):
        return None
    drawing = Drawing(WIDTH, HEIGHT)
    wide, most = WIDTH / len(bins), max(bins)
    bars = "".join(
        f"M{place * wide:.1f} {TALL:g}v-{TALL * count / most:.1f}h{wide - 0.6:.1f}V{TALL:g}Z"
        for place, count in enumerate(bins)
        if count
    )
    drawing.path(bars, fill=colour(0), fill_opacity=0.75)
    drawing.line((0, TALL), (WIDTH, TALL), stroke=SOFT)
    drawing.text((0, HEIGHT - 4), formats.number(low, 4), size=10.5)
    drawing.text((WIDTH, HEIGHT - 4), formats.number(high, 4), size=10.5, anchor="end")
    drawing.text((WIDTH / 2, HEIGHT - 4), f"at most {most:,} in a bin", size=10.5, anchor="middle", fill=SOFT)
    ends = f"{formats.number(low, 4)} to {formats.number(high, 4)}"
    return drawing.inline(f"Histogram of {formats.plural(sum(bins), 'element')} from {ends}, {len(bins)} bins.")
