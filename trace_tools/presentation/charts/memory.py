"""Draw the bytes of live tensors along the steps of a section.

    memory([MemoryPoint(1, 4096, 8192, "x = …", "#L12"), …])

The area shows the bytes alive after each statement, the line above it the maximum during the statement. They were
counted in a run of its own and are a lower bound of the memory that the machine used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trace_tools.presentation.charts.drawing import (
    SOFT,
    TICK,
    Drawing,
    Scale,
    binary_ticks,
    colour,
    grid,
    width_of,
)
from trace_tools.util import formats

WIDTH, HEIGHT = 680.0, 220.0
LEFT, RIGHT, TOP, BOTTOM = 72.0, 12.0, 22.0, 34.0
NAMED = 4  # most peaks labelled with their lines
APART = 8.0  # pixels between labels
LEAST_BYTES = 4096  # sections with less have no figure
MOST_POINTS = 600  # longer paths are thinned out, but keep their peaks


@dataclass(frozen=True, slots=True)
class MemoryPoint:
    """One statement without calls: the bytes alive after it, and the maximum during it."""

    number: int  # of the step
    live_bytes: int
    peak_bytes: int
    name: str
    link: str | None


def memory(points: Sequence[MemoryPoint]) -> str:
    """Draw bytes over steps; "" if all tensors together stayed small."""
    by_peak = sorted(points, key=lambda point: -point.peak_bytes)
    if len(points) < 2 or by_peak[0].peak_bytes < LEAST_BYTES:
        return ""
    drawing = Drawing(WIDTH, HEIGHT)
    across = Scale(points[0].number - 1, points[-1].number, LEFT, WIDTH - RIGHT)
    up = Scale(0, by_peak[0].peak_bytes * 1.04, HEIGHT - BOTTOM, TOP)
    grid(drawing, across, up, rows=[(size, formats.byte_size(size)) for size in binary_ticks(up.high)])
    size = -(-len(points) // MOST_POINTS)  # size of the groups of neighbours; only the highest point of each is drawn
    groups = (points[at : at + size] for at in range(0, len(points), size))
    drawn = [(across(p.number - 1), p) for p in (max(group, key=lambda p: p.peak_bytes) for group in groups)]
    live = f"M{across.start:g} {up.start:g}" + "".join(f"H{x:.1f}V{up(p.live_bytes):.1f}" for x, p in drawn)
    drawing.add("path", d=f"{live}H{across.end:g}V{up.start:g}Z", fill=colour(0), fill_opacity=0.25)
    drawing.add("path", d=f"{live}H{across.end:g}", stroke=colour(0), stroke_width=1.4)
    peaks = [(x, p) for x, p in drawn if p.peak_bytes > p.live_bytes]
    spikes = "".join(f"M{x:.1f} {up(p.live_bytes):.1f}V{up(p.peak_bytes):.1f}" for x, p in peaks)
    drawing.add("path", d=spikes, stroke=colour(1), stroke_width=1.1, stroke_opacity=0.75)
    named: list[tuple[float, float]] = []  # where labels begin and end
    for point in by_peak:
        x, y = across(point.number - 1), up(point.peak_bytes)
        if point.peak_bytes < up.high / 8 or len(named) == NAMED:
            break
        words = f"{point.name}: {formats.byte_size(point.peak_bytes, 3)}"
        wide = width_of(words, TICK)
        left = min(x + 5, WIDTH - wide)
        if all(left > end or left + wide < start for start, end in named):
            named.append((left - APART, left + wide + APART))
            with drawing.linked(point.link, words):
                drawing.add("circle", cx=x, cy=y, r=3, fill=colour(1))
                drawing.text((left, y - 5), words, size=TICK, halo=True)
    drawing.text((LEFT, HEIGHT - 8), "first line", size=TICK, fill=SOFT)
    drawing.text((WIDTH - RIGHT, HEIGHT - 8), "last line", size=TICK, anchor="end", fill=SOFT)
    most_bytes, end_bytes = formats.byte_size(by_peak[0].peak_bytes), formats.byte_size(points[-1].live_bytes)
    most = f"at most {most_bytes}, at {by_peak[0].name}"
    return drawing.svg(f"Memory across {len(points)} steps: {most}; {end_bytes} alive at the end.")
