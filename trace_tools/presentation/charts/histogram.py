"""Draw the distribution of the elements of a large tensor.

histogram(Statistics(min=-3.1, max=3.0, histogram=[1, 4, 9, 4, 2]))      "<svg …>"
"""

from __future__ import annotations

from trace_tools.presentation.charts.drawing import SOFT, TICK, Drawing, colour
from trace_tools.trace.model import Statistics
from trace_tools.util import formats

WIDTH, HEIGHT, TALL = 260.0, 66.0, 48.0  # TALL is the highest bar


def histogram(statistics: Statistics) -> str | None:
    """Draw the number of elements in each bin; None if the trace has no histogram."""
    bins, low, high = statistics.histogram, statistics.min, statistics.max
    if not bins or low is None or high is None or not any(bins) or len(bins) > WIDTH / 2:
        return None
    drawing = Drawing(WIDTH, HEIGHT)
    wide, most = WIDTH / len(bins), max(bins)
    bars = "".join(
        f"M{number * wide:.1f} {TALL:g}v-{TALL * count / most:.1f}h{wide - 0.6:.1f}V{TALL:g}Z"
        for number, count in enumerate(bins)
        if count
    )
    drawing.add("path", d=bars, fill=colour(0), fill_opacity=0.75)
    drawing.add("path", d=f"M0 {TALL:g}H{WIDTH:g}", stroke=SOFT)
    least, largest = formats.number(low, 4), formats.number(high, 4)
    drawing.text((0, HEIGHT - 4), least, size=TICK)
    drawing.text((WIDTH, HEIGHT - 4), largest, size=TICK, anchor="end")
    drawing.text((WIDTH / 2, HEIGHT - 4), f"at most {most:,} in a bin", size=TICK, anchor="middle", fill=SOFT)
    elements = formats.plural(sum(bins), "element")
    return drawing.svg(f"Histogram of {elements} from {least} to {largest}, {len(bins)} bins.")
