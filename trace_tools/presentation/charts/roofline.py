"""Draw machines with their peaks, and the counted and timed steps, as one roofline figure.

    roofline([Roof("CPU", (("float32", 2e11),), 4e10, (RoofPoint(85.3, 5e10, "x @ w", "#L216"),))], "roofs")

A step's position is its intensity (FLOP/byte) and its rate (FLOP/s). The roofline above it is the limit by the
machine's memory or arithmetic. Machines differ in colour and marker. With many machines, each has one line, for its
highest peak. The parts of the n-th machine are in groups with the class `m<n>`, counted from 0. Steps far below the
roofline would stretch the axis, so they are drawn in a strip below it, with their rate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress

from trace_tools.machines.peaks import leading_peak, peak_of, ridge
from trace_tools.presentation.charts.axes import TICK, Axes, Scale, decades, grid_across, grid_up
from trace_tools.presentation.charts.drawing import INK, SOFT, Drawing, Labels, Point, colour, marker, polyline
from trace_tools.trace.model import Machine
from trace_tools.util import formats

WIDTH, HEIGHT = 680.0, 340.0
LEFT, RIGHT, TOP, BOTTOM = 92.0, 14.0, 14.0, 46.0
ROW = 17.0  # height of a line of the legend
DASHES = ("", "7 4", "2 3", "9 3 2 3")
MACHINES_WITH_ALL_PEAKS = 4  # so many machines have a line for each of their peaks
NAMED = 16  # most points with labels
SMALL = 11.0  # size of such a label
DRAWN = 1e-100, 1e100  # range of rates and intensities: their quotients must be finite as well
FAR = 1e-3  # points below this share of the roofline are far from any limit
STRIP = 26.0  # height of the strip for such points


@dataclass(frozen=True, slots=True)
class RoofPoint:
    """A step under the roofline: FLOP/byte, FLOP/s, its name and its link."""

    intensity: float
    flops_per_second: float
    name: str
    link: str | None = None
    dtype: str | None = None  # the format of its peak


@dataclass(frozen=True, slots=True)
class Roof:
    """The roofline of a machine (FLOP/s per dtype, bytes/s) and the points under it."""

    label: str
    peaks: tuple[tuple[str, float], ...]
    bytes_per_second: float | None
    points: tuple[RoofPoint, ...]

    def over(self, point: RoofPoint) -> float | None:
        """Return the highest possible rate at a point's intensity; None if unknown."""
        limits = [max(rate for _, rate in self.peaks)] if self.peaks else []
        if self.bytes_per_second is not None:
            limits.append(point.intensity * self.bytes_per_second)
        return min(limits, default=None)

    def is_far(self, point: RoofPoint) -> bool:
        """Return whether a point is so far below its roofline that neither arithmetic nor memory limits it."""
        return point.flops_per_second < FAR * (self.over(point) or 0.0)


def roof_of(label: str, machine: Machine, points: Iterable[RoofPoint]) -> Roof:
    """Return a machine's roofline with its points: the leading peak, and the peaks of the points' formats."""
    points = tuple(p for p in points if _drawn(p.intensity) and _drawn(p.flops_per_second))
    leading, memory = leading_peak(machine), peak_of(machine, "memory")
    used = {leading.name if leading is not None else None, *(point.dtype for point in points)}
    names = [name for name in dict.fromkeys(peak.name for peak in machine.peaks) if name in used and name != "memory"]
    best = [peak for name in names if (peak := peak_of(machine, name)) is not None]
    measured = "{format}, measured" if machine.device != "cpu" else "{format}"
    peaks = tuple(
        (measured.format(format=p.name) if p.measured else p.name, p.per_second)
        for p in best
        if p.per_second is not None and _drawn(p.per_second)
    )
    return Roof(label, peaks, memory.per_second if memory and _drawn(memory.per_second) else None, points)


def _drawn(number: float | None) -> bool:
    return number is not None and DRAWN[0] <= number <= DRAWN[1]


def roofline(roofs: Sequence[Roof], prefix: str, title: str = "Roofline") -> str | None:
    """Draw the rooflines of all machines on logarithmic axes, with their steps; None without any."""
    placed = {n: roof for n, roof in enumerate(roofs) if roof.points or (roof.peaks and roof.bytes_per_second)}
    if not placed:
        return None
    if len(placed) > MACHINES_WITH_ALL_PEAKS:
        placed = {n: replace(r, peaks=tuple(sorted(r.peaks, key=lambda p: p[1])[-1:])) for n, r in placed.items()}
    shown = list(placed.values())
    far = [[roof.is_far(point) for point in roof.points] for roof in shown]
    if all(map(all, far)):  # no other points that they would squeeze
        far = [[False] * len(row) for row in far]
    below = [p.flops_per_second for roof, row in zip(shown, far, strict=True) for p in compress(roof.points, row)]
    strip = STRIP if below else 0.0
    legend = len(_entries(placed))
    drawing = Drawing(WIDTH, HEIGHT + strip + ROW * (math.ceil(legend / 2) + bool(below)) + 6)
    axes = _axes(shown, far)
    across, up = axes
    bottom = up.start + strip
    intensities = [(tick, formats.number(tick, 3).removesuffix(".0")) for tick in decades(across.low, across.high)]
    grid_across(drawing, Axes(across, replace(up, start=bottom)), intensities)
    rates = decades(up.low, up.high)
    grid_up(drawing, axes, [(tick, formats.quantity(tick, "FLOP/s", 3)) for tick in rates])
    drawing.text(((across.start + across.end) / 2, bottom + 36), "FLOP per byte", size=12, anchor="middle")
    if below:
        drawing.line((LEFT, up.start), (across.end, up.start), stroke=SOFT, stroke_dasharray="3 3")
        drawing.text((LEFT - 6, bottom - STRIP / 2 + 4), "far below", size=TICK, anchor="end")
    labels = Labels((LEFT, TOP, WIDTH, bottom))
    labels.avoid([(LEFT, up.start), (across.end, up.start)])
    for machine, roof in placed.items():
        with drawing.classed(f"m{machine}"):
            for line in _draw_roof(drawing, roof, machine, axes):
                labels.avoid(line)
                if len(shown) > MACHINES_WITH_ALL_PEAKS:
                    marker(drawing, line[-1], machine)
    names: list[tuple[Point, str]] = []
    # the first machine is drawn last, on top
    for (machine, roof), row in reversed(list(zip(placed.items(), far, strict=True))):
        names.clear()
        with drawing.classed(f"m{machine}"):
            for point, is_far in zip(roof.points, row, strict=True):
                y = bottom - STRIP / 2 if is_far else up(max(point.flops_per_second, up.low))
                spot, rate = (across(point.intensity), y), formats.quantity(point.flops_per_second, "FLOP/s", 3)
                tip = f"{roof.label}: {point.name} · {formats.number(point.intensity, 3)} FLOP/byte, {rate}"
                tip += ": above its roof" if point.flops_per_second > (roof.over(point) or math.inf) else ""
                with drawing.linked(point.link, tip):
                    marker(drawing, spot, machine)
                labels.avoid([spot])
                names.append((spot, formats.one_line(point.name, 26) + f": {rate}" * is_far))
    for spot, name in names if len(names) <= NAMED else ():
        if position := labels.beside(spot, name, SMALL):
            drawing.text(position[0], name, size=SMALL, anchor=position[1])
    _legend(drawing, placed, bottom + BOTTOM)
    words = " ".join(map(_in_words, shown))
    if below:
        ends = dict.fromkeys(formats.quantity(end(below), "FLOP/s", 3) for end in (min, max))
        summary = "far below: {steps} at less than a thousandth of the roof: {rates}"
        summary = summary.format(steps=formats.plural(len(below), "step"), rates="–".join(ends))
        drawing.text((LEFT, drawing.height - 6), summary, size=TICK)
        words += f" {summary}."
    return drawing.svg(prefix, title, f"{'Across: FLOP per byte. Up: FLOP/s. Both logarithmic.'} {words}")


def _axes(roofs: Sequence[Roof], far: Sequence[Sequence[bool]]) -> Axes:
    """Return axes that contain every ridge and every point or, for points far below, their roofline, with a margin."""
    intensities = [point.intensity for roof in roofs for point in roof.points]
    rates = [
        roof.over(point) or point.flops_per_second if is_far else point.flops_per_second
        for roof, row in zip(roofs, far, strict=True)
        for point, is_far in zip(roof.points, row, strict=True)
    ]
    rates += [rate for roof in roofs for _, rate in roof.peaks]
    intensities += [x for roof in roofs for _, rate in roof.peaks if (x := ridge(rate, roof.bytes_per_second))]
    across = Scale(min(intensities) / 4, max(intensities) * 5, LEFT, WIDTH - RIGHT, log=True)
    low = max(min(rates) / 4, max(rates) / 1e9)
    return Axes(across, Scale(low, max(rates) * 2.5, HEIGHT - BOTTOM, TOP, log=True))


def _draw_roof(drawing: Drawing, roof: Roof, machine: int, axes: Axes) -> list[list[Point]]:
    """Draw the limit by memory or arithmetic at each intensity, a line for each peak; return the lines."""
    across, up = axes
    memory, lines = roof.bytes_per_second, []
    for number, (name, peak) in enumerate(roof.peaks):
        points = [(x, min(peak, x * memory) if memory else peak) for x in (across.low, across.high)]
        ridge_point = ridge(peak, memory)
        if ridge_point is not None and across.low < ridge_point < across.high:
            points.insert(1, (ridge_point, peak))
        if memory and points[0][1] < up.low:  # it starts below the figure
            points[0] = (up.low / memory, up.low)
        lines.append([(across(x), up(max(y, up.low))) for x, y in points])
        tip = f"{roof.label}: {name}, {formats.quantity(peak, 'FLOP/s', 3)}"
        if ridge_point is not None:
            tip += ", ridge point {intensity}".format(intensity=formats.quantity(ridge_point, "FLOP/B", 3))
        with drawing.linked(None, tip):
            dashes = DASHES[number % len(DASHES)]
            drawing.path(polyline(lines[-1]), stroke=colour(machine), width=1.8, stroke_dasharray=dashes)
    return lines


def _entries(roofs: Mapping[int, Roof]) -> list[tuple[int, int | None, bool, str]]:
    """Return the legend's entries: machine, line, whether with its mark, and text."""
    entries: list[tuple[int, int | None, bool, str]] = []
    for machine, roof in roofs.items():
        peaks = [f"{name} {formats.quantity(peak, 'FLOP/s', 3)}" for name, peak in roof.peaks]
        steps = [formats.plural(len(roof.points), "step")] if roof.points else []
        if len(roofs) > MACHINES_WITH_ALL_PEAKS:
            entries.append((machine, 0 if peaks else None, True, f"{roof.label}: {', '.join(peaks or steps)}"))
        else:
            entries += [(machine, number, False, f"{roof.label}: {words}") for number, words in enumerate(peaks)]
            entries += [(machine, None, True, f"{roof.label}: {words}") for words in steps]
    return entries


def _legend(drawing: Drawing, roofs: Mapping[int, Roof], top: float) -> None:
    entries = _entries(roofs)
    half = math.ceil(len(entries) / 2)
    for index, (machine, number, marked, words) in enumerate(entries):
        x, y = LEFT + (index // half) * (WIDTH - LEFT) / 2, top + 4 + ROW * (index % half)
        with drawing.classed(f"m{machine}"):
            if number is not None:
                dashes = DASHES[number % len(DASHES)]
                drawing.line((x, y), (x + 24, y), stroke=colour(machine), width=1.8, stroke_dasharray=dashes)
            if marked:
                marker(drawing, (x + 12, y), machine)
            drawing.text((x + 31, y + 4), formats.one_line(words, 44), size=TICK, fill=INK)


def _in_words(roof: Roof) -> str:
    rates = [point.flops_per_second for point in roof.points]
    peaks = ", ".join(f"{name} {formats.quantity(peak, 'FLOP/s', 3)}" for name, peak in roof.peaks) or "no known peak"
    count = formats.plural(len(rates), "step")
    reached = "; {steps}, at most {rate}" if rates else ""
    reached = reached.format(steps=count, rate=formats.quantity(max(rates, default=0), "FLOP/s", 3))
    return f"{formats.one_line(roof.label, 60)}: {peaks}{reached}."
