"""Draw machines with their peaks, and the counted and timed steps, as one roofline figure.

    roofline([Roof("CPU", (("float32", 2e11),), 4e10, (RoofPoint(85.3, 5e10, "x @ w", "#L216"),))])

A step's position is its intensity (FLOP/byte) and its rate (FLOP/s). The roofline above it is the limit by the
machine's memory or arithmetic. Machines differ in colour and marker. Steps far below the roofline would stretch the
axis, so they are only counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from trace_tools.machines.peaks import leading_peak, peak_of, ridge
from trace_tools.presentation.charts.drawing import (
    TICK,
    Drawing,
    Point,
    Scale,
    colour,
    decades,
    fitted,
    grid,
    marker,
    polyline,
    width_of,
)
from trace_tools.trace.model import Machine
from trace_tools.util import formats

WIDTH, HEIGHT = 680.0, 340.0
LEFT, RIGHT, TOP, BOTTOM = 92.0, 14.0, 14.0, 46.0
ROW = 17.0  # height of a line of the legend
DASHES = ("", "7 4", "2 3", "9 3 2 3")
NAMED = 16  # most points with labels
# Offsets from a point to the baseline of its name, with the anchor; the first free one is used. Below comes before
# above, because measurements are below their roofline.
AROUND = ((8, 4, ""), (7, 15, ""), (0, 18, "middle"), (-8, 4, "end"), (-7, 15, "end"), (7, -6, ""), (0, -9, "middle"))
FAR = 1e-3  # points below this share of the roofline are far from any limit


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
    far: int = 0  # points far below it, which are not drawn

    def over(self, point: RoofPoint) -> float | None:
        """Return the highest possible rate at a point's intensity; None if unknown."""
        limits = [max(rate for _, rate in self.peaks)] if self.peaks else []
        if self.bytes_per_second is not None:
            limits.append(point.intensity * self.bytes_per_second)
        return min(limits, default=None)


def roof_of(label: str, machine: Machine, points: Iterable[RoofPoint]) -> Roof:
    """Return a machine's roofline with its points: the leading peak, and the peaks of the points' formats.

    Points so far below it that neither arithmetic nor memory limits them are only counted.
    """
    points = tuple(p for p in points if p.intensity > 0 and p.flops_per_second > 0)
    leading, memory = leading_peak(machine), peak_of(machine, "memory")
    used = {leading.name if leading is not None else None, *(point.dtype for point in points)}
    names = [name for name in dict.fromkeys(peak.name for peak in machine.peaks) if name in used and name != "memory"]
    best = [peak for name in names if (peak := peak_of(machine, name)) is not None]
    suffix = ", measured" if machine.device != "cpu" else ""
    peaks = tuple((p.name + suffix * p.measured, p.per_second) for p in best if p.per_second)
    roof = Roof(label, peaks, memory.per_second or None if memory else None, points)
    near = tuple(point for point in points if point.flops_per_second >= FAR * (roof.over(point) or 0.0))
    return replace(roof, points=near, far=len(points) - len(near))


def roofline(roofs: Sequence[Roof]) -> str:
    """Draw the rooflines of all machines on logarithmic axes, with their steps; "" without any."""
    placed = {n: roof for n, roof in enumerate(roofs) if roof.points or (roof.peaks and roof.bytes_per_second)}
    if not placed:
        return ""
    drawing = Drawing(WIDTH, HEIGHT + ROW * len(placed) + 6)
    across, up = _axes(list(placed.values()))
    intensities = [(tick, formats.number(tick, 3).removesuffix(".0")) for tick in decades(across.low, across.high)]
    rates = [(tick, formats.quantity(tick, "FLOP/s", 3)) for tick in decades(up.low, up.high)]
    grid(drawing, across, up, columns=intensities, rows=rates)
    drawing.text(((across.start + across.end) / 2, up.start + 36), "FLOP per byte", anchor="middle")
    for machine, roof in placed.items():
        _draw_roof(drawing, roof, machine, across, up)
    names: list[tuple[Point, str]] = []
    for machine, roof in reversed(placed.items()):  # the first machine is drawn last, on top, and its steps are named
        names.clear()
        for point in roof.points:
            spot = across(point.intensity), up(max(point.flops_per_second, up.low))
            rate = formats.quantity(point.flops_per_second, "FLOP/s", 3)
            tip = f"{roof.label}: {point.name} · {formats.number(point.intensity, 3)} FLOP/byte, {rate}"
            tip += ": above its roof" if point.flops_per_second > (roof.over(point) or math.inf) else ""
            with drawing.linked(point.link, tip):
                marker(drawing, spot, machine)
            names.append((spot, formats.one_line(point.name, 26)))
    _name_points(drawing, names if len(names) <= NAMED else [])
    _legend(drawing, placed, up.start + BOTTOM)
    words = " ".join(map(_in_words, placed.values()))
    return drawing.svg(f"Roofline. Across: FLOP per byte. Up: FLOP/s. Both logarithmic. {words}")


def _name_points(drawing: Drawing, names: Sequence[tuple[Point, str]]) -> None:
    """Write names beside their points, where they cover no point and no other name."""
    taken = [(x - 6, y - 6, x + 6, y + 6) for (x, y), _ in names]
    for spot, name in names:
        wide = width_of(name, TICK)
        for right, down, anchor in AROUND:
            x, y = spot[0] + right, spot[1] + down
            left = x - wide * {"": 0, "middle": 0.5, "end": 1}[anchor]
            box = (left, y - 0.85 * TICK, left + wide, y + 0.27 * TICK)
            inside = left >= LEFT and box[1] >= TOP and box[2] <= WIDTH and box[3] <= HEIGHT - BOTTOM
            if inside and not any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken):
                taken.append(box)
                drawing.text((x, y), name, size=TICK, anchor=anchor, halo=True)
                break


def _axes(roofs: Sequence[Roof]) -> tuple[Scale, Scale]:
    """Return axes that contain every ridge and every point, with a margin."""
    intensities = [point.intensity for roof in roofs for point in roof.points]
    intensities += [x for roof in roofs for _, rate in roof.peaks if (x := ridge(rate, roof.bytes_per_second))]
    rates = [point.flops_per_second for roof in roofs for point in roof.points]
    rates += [rate for roof in roofs for _, rate in roof.peaks]
    across = Scale(min(intensities) / 4, max(intensities) * 5, LEFT, WIDTH - RIGHT, log=True)
    low = max(min(rates) / 4, max(rates) / 1e9)
    return across, Scale(low, max(rates) * 2.5, HEIGHT - BOTTOM, TOP, log=True)


def _draw_roof(drawing: Drawing, roof: Roof, machine: int, across: Scale, up: Scale) -> None:
    """Draw the limit by memory or arithmetic at each intensity, a line for each peak."""
    memory = roof.bytes_per_second
    for number, (name, peak) in enumerate(roof.peaks):
        points = [(x, min(peak, x * memory) if memory else peak) for x in (across.low, across.high)]
        ridge_point = ridge(peak, memory)
        if ridge_point is not None and across.low < ridge_point < across.high:
            points.insert(1, (ridge_point, peak))
        if memory and points[0][1] < up.low:  # it starts below the figure
            points[0] = (up.low / memory, up.low)
        line = [(across(x), up(max(y, up.low))) for x, y in points]
        tip = f"{roof.label}: {name}, {formats.quantity(peak, 'FLOP/s', 3)}"
        if ridge_point is not None:
            tip += f", ridge point {formats.quantity(ridge_point, 'FLOP/B', 3)}"
        with drawing.linked(None, tip):
            look = {"stroke": colour(machine), "stroke_dasharray": DASHES[number % len(DASHES)]}
            drawing.add("path", d=polyline(line), stroke_width=1.8, **look)


def _legend(drawing: Drawing, roofs: Mapping[int, Roof], top: float) -> None:
    for row, (machine, roof) in enumerate(roofs.items()):
        y = top + 4 + ROW * row
        if roof.peaks:
            drawing.add("path", d=f"M{LEFT:g} {y:g}h24", stroke=colour(machine), stroke_width=1.8)
        if roof.points:
            marker(drawing, (LEFT + 12, y), machine)
        drawing.text((LEFT + 31, y + 4), fitted(_in_words(roof), WIDTH - LEFT - 31, TICK), size=TICK)


def _in_words(roof: Roof) -> str:
    peaks = ", ".join(f"{name} {formats.quantity(peak, 'FLOP/s', 3)}" for name, peak in roof.peaks) or "no known peak"
    steps = f"; {formats.plural(len(roof.points), 'step')}" if roof.points else ""
    far = f"; {roof.far:,} more below a thousandth of the roof" if roof.far else ""
    return f"{roof.label}: {peaks}{steps}{far}."
