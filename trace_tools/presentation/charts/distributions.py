"""Draw the distribution of numbers that a page shows as one.

samples(Timing("host", (11200000, 11290000, 11210000), (15000000,)))     a strip of marks: warm runs filled, first runs
                                                                         hollow
histogram(Statistics(min=-3.1, max=3.0, histogram=[1, 4, 9, 4, 2]))      bars for the elements of a large tensor
"""

from __future__ import annotations

from trace_tools.analysis.rates import Timing
from trace_tools.presentation.charts.drawing import SOFT, TICK, Drawing, Scale, colour
from trace_tools.trace.model import Statistics
from trace_tools.util import formats

WIDTH, STRIP, BARS, TALL = 260.0, 44.0, 66.0, 48.0
EDGE = 10.0
MOST_SAMPLES = 200  # most samples in a row
FAR = 20  # times the shortest; beyond it the strip is logarithmic


def samples(timing: Timing) -> str | None:
    """Draw samples from left (short) to right (long); None for fewer than two."""
    cold = timing.cold_ns if timing.cold_ns != timing.samples_ns else ()
    times = [ns for ns in (*timing.samples_ns, *cold) if ns > 0]
    if len(set(times)) < 2:
        return None
    low, high = min(times), max(times)
    drawing = Drawing(WIDTH, STRIP)
    across = Scale(low, high, EDGE, WIDTH - EDGE, log=high > FAR * low)
    for y, row, filled in ((8.0, timing.samples_ns, True), (21.0, cold, False)):
        drawing.line((EDGE, y), (WIDTH - EDGE, y), stroke=SOFT, stroke_opacity=0.35)
        for ns in row[:MOST_SAMPLES]:
            if ns > 0:
                paint = {"fill": colour(0), "fill_opacity": 0.7} if filled else {"fill": "none", "stroke": colour(1)}
                drawing.circle((across(ns), y), 3.6, **paint)
    drawing.text((EDGE, 38), formats.duration(low), size=TICK)
    drawing.text((WIDTH - EDGE, 38), formats.duration(high), size=TICK, anchor="end")
    drawing.text((WIDTH / 2, 38), "● warm ○ first run" if cold else "● warm", size=TICK, anchor="middle")
    words = f"{len(timing.samples_ns)} warm runs from {_range(timing.samples_ns)}"
    return drawing.inline(words + (f"; first runs from {_range(cold)}" if cold else ""))


def _range(times_ns: tuple[int, ...]) -> str:
    return f"{formats.duration(min(times_ns))} to {formats.duration(max(times_ns))}"


def histogram(statistics: Statistics) -> str | None:
    """Draw the number of elements in each bin; None if the trace has no histogram."""
    bins, low, high = statistics.histogram, statistics.min, statistics.max
    if not bins or low is None or high is None or not any(bins) or len(bins) > WIDTH / 2:
        return None
    drawing = Drawing(WIDTH, BARS)
    wide, most = WIDTH / len(bins), max(bins)
    bars = "".join(
        f"M{number * wide:.1f} {TALL:g}v-{TALL * count / most:.1f}h{wide - 0.6:.1f}V{TALL:g}Z"
        for number, count in enumerate(bins)
        if count
    )
    drawing.path(bars, fill=colour(0), fill_opacity=0.75)
    drawing.line((0, TALL), (WIDTH, TALL), stroke=SOFT)
    least, largest = formats.number(low, 4), formats.number(high, 4)
    drawing.text((0, BARS - 4), least, size=TICK)
    drawing.text((WIDTH, BARS - 4), largest, size=TICK, anchor="end")
    drawing.text((WIDTH / 2, BARS - 4), f"at most {most:,} in a bin", size=TICK, anchor="middle", fill=SOFT)
    elements = formats.plural(sum(bins), "element")
    return drawing.inline(f"Histogram of {elements} from {least} to {largest}, {len(bins)} bins.")
