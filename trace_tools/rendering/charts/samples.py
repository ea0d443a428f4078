"""A timing's samples → a strip of marks: the warm run of each pass filled, the first runs hollow.

samples(Timing("host", (11200000, 11290000, 11210000), (15000000,)))     "<svg …>"
"""

from __future__ import annotations

from trace_tools import formats
from trace_tools.rates import Timing
from trace_tools.rendering.charts.axes import Scale
from trace_tools.rendering.charts.drawing import SOFT, Drawing, colour

WIDTH, HEIGHT = 260.0, 44.0
EDGE = 10.0
FAR = 20  # times the shortest, beyond which the strip is logarithmic


def samples(timing: Timing) -> str | None:
    """Draw samples from left (short) to right (long); None for fewer than two."""
    cold = timing.cold_ns if timing.cold_ns != timing.samples_ns else ()
    known = [ns for ns in (*timing.samples_ns, *cold) if ns > 0]
    if len(known) < 2 or min(known) == max(known):
        return None
    low, high = min(known), max(known)
    drawing = Drawing(WIDTH, HEIGHT)
    across = Scale(low, high, EDGE, WIDTH - EDGE, log=high > FAR * low)
    for y, row, filled in ((8.0, timing.samples_ns, True), (21.0, cold, False)):
        drawing.line((EDGE, y), (WIDTH - EDGE, y), stroke=SOFT, stroke_opacity=0.35)
        for ns in row:
            if ns > 0:
                paint = {"fill": colour(0), "fill_opacity": 0.7} if filled else {"fill": "none", "stroke": colour(1)}
                drawing.circle((across(ns), y), 3.6, **paint)
    drawing.text((EDGE, 38), formats.duration(low), size=10.5)
    drawing.text((WIDTH - EDGE, 38), formats.duration(high), size=10.5, anchor="end")
    drawing.text((WIDTH / 2, 38), "● warm" + (" ○ first run" if cold else ""), size=10.5, anchor="middle")
    words = f"{len(timing.samples_ns)} warm runs from {_range(timing.samples_ns)}"
    return drawing.inline(words + (f"; first runs from {_range(cold)}" if cold else ""))


def _range(found: tuple[int, ...]) -> str:
    return f"{formats.duration(min(found))} to {formats.duration(max(found))}"
