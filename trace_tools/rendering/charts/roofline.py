"""Machines with their peaks, and steps that were counted and timed → one roofline figure.

    roofline([Roof("CPU", (("float32", 2e11),), 4e10, (RoofPoint(85.3, 5e10, "x @ w", "#L216"),))], "roofs")

A step's place is its intensity (FLOP/byte) and what it achieved (FLOP/s); the roof over it is what the machine's
memory or its arithmetic allow there. Each machine has a colour, and a marker of its own: colour alone says
nothing to some.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from trace_tools import formats
from trace_tools.rates import leading_peak, peak_of, ridge
from trace_tools.rendering.charts.axes import TICK, Axes, Scale, decades, grid_across, grid_up
from trace_tools.rendering.charts.drawing import INK, Drawing, Point, colour, marker, polyline, width_of
from trace_tools.rendering.document import Execution
from trace_tools.schema import Machine

WIDTH, HEIGHT = 680.0, 340.0
LEFT, RIGHT, TOP, BOTTOM = 92.0, 14.0, 14.0, 46.0
ROW = 17.0  # height of a line of the legend
DASHES = ("", "7 4", "2 3", "9 3 2 3")
NAMED = 16  # points that may have their names beside them
SMALL = 11.0  # size of such a name
DRAWN = 1e-100, 1e100  # rates and intensities: their quotients, too, are numbers that axes can have

Box = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass(frozen=True, slots=True)
class RoofPoint:
    """A step under the roof: FLOP/byte, FLOP/s, what it is called and where it stands."""

    intensity: float
    flops_per_second: float
    name: str
    link: str | None = None
    dtype: str | None = None  # whose peak it is measured against


@dataclass(frozen=True, slots=True)
class Roof:
    """One machine's roof (FLOP/s per dtype, bytes/s) and what was measured under it."""

    label: str
    peaks: tuple[tuple[str, float], ...]
    bytes_per_second: float | None
    points: tuple[RoofPoint, ...]


def roof_points(execution: Execution, name: str, link: str | None) -> Iterator[RoofPoint]:
    """Yield the place of an execution, or of each call that it measured, numbered where there are several.

    There is none where its author did not ask, or it was not both timed and counted.
    """
    step = execution.step
    if step.annotated or step.measured:
        for rate in execution.rates:
            if rate.name == "FLOP/s" and rate.intensity and rate.per_second:
                which = f" ({rate.call})" if len(step.measured or ()) > 1 else ""
                yield RoofPoint(rate.intensity, rate.per_second, name + which, link, rate.peak)


def roof_of(label: str, machine: Machine, points: Iterable[RoofPoint]) -> Roof:
    """Return a machine's roof over its points: the one that pages lead with, and those they are measured against."""
    points = tuple(p for p in points if _drawn(p.intensity) and _drawn(p.flops_per_second))
    leading, memory = leading_peak(machine), peak_of(machine, "memory")
    used = {leading.name if leading is not None else None, *(point.dtype for point in points)}
    rates = [(p.name, p.per_second) for p in machine.peaks if p.name in used and p != memory]
    peaks = tuple((name, rate) for name, rate in rates if rate is not None and _drawn(rate))
    return Roof(label, peaks, memory.per_second if memory and _drawn(memory.per_second) else None, points)


def _drawn(number: float | None) -> bool:
    return number is not None and DRAWN[0] <= number <= DRAWN[1]


def roofline(roofs: Sequence[Roof], prefix: str, title: str = "Roofline") -> str | None:
    """Draw every machine's roofs on one pair of logarithmic axes, its steps under them; None without any."""
    shown = [roof for roof in roofs if roof.points or (roof.peaks and roof.bytes_per_second)]
    if not shown:
        return None
    legend = sum(len(roof.peaks) + bool(roof.points) for roof in shown)
    drawing = Drawing(WIDTH, HEIGHT + ROW * math.ceil(legend / 2) + 6)
    axes = _axes(shown)
    across, up = axes
    places = decades(across.low, across.high)
    grid_across(drawing, axes, [(tick, formats.number(tick, 3).removesuffix(".0")) for tick in places])
    rates = decades(up.low, up.high)
    grid_up(drawing, axes, [(tick, formats.quantity(tick, "FLOP/s", 3)) for tick in rates], apart=7, opacity=0.25)
    drawing.text(((across.start + across.end) / 2, up.start + 36), "FLOP per byte", size=12, anchor="middle")
    for place, roof in enumerate(shown):
        _draw_roof(drawing, roof, place, axes)
    spots = [[(across(p.intensity), up(max(p.flops_per_second, up.low))) for p in roof.points] for roof in shown]
    for place, roof in reversed(list(enumerate(shown))):  # the first machine's on top
        for spot, point in zip(spots[place], roof.points, strict=True):
            rate = formats.quantity(point.flops_per_second, "FLOP/s", 3)
            tip = f"{roof.label}: {point.name} · {formats.number(point.intensity, 3)} FLOP/byte, {rate}"
            with drawing.linked(point.link, tip):
                marker(drawing, spot, place)
    if len(spots[0]) <= NAMED:
        _name_points(drawing, shown[0], spots)
    _legend(drawing, shown)
    words = " ".join(_in_words(roof) for roof in shown)
    return drawing.svg(prefix, title, f"Across: FLOP per byte. Up: FLOP/s. Both logarithmic. {words}")


def _axes(roofs: Sequence[Roof]) -> Axes:
    """Return axes that hold every point and every ridge, and a little more."""
    places = [point.intensity for roof in roofs for point in roof.points]
    rates = [point.flops_per_second for roof in roofs for point in roof.points]
    peaks = [rate for roof in roofs for _, rate in roof.peaks]
    ridges = [meet for roof in roofs for _, rate in roof.peaks if (meet := ridge(rate, roof.bytes_per_second))]
    across = Scale(min([*places, *ridges]) / 4, max([*places, *ridges]) * 5, LEFT, WIDTH - RIGHT, log=True)
    low = max(min([*rates, *peaks]) / 4, max([*peaks, *rates]) / 1e9)
    return Axes(across, Scale(low, max([*peaks, *rates]) * 2.5, HEIGHT - BOTTOM, TOP, log=True))


def _draw_roof(drawing: Drawing, roof: Roof, place: int, axes: Axes) -> None:
    """Draw what memory or arithmetic allows at each intensity, a line for each peak."""
    across, up = axes
    memory = roof.bytes_per_second
    for number, (name, peak) in enumerate(roof.peaks):
        points = [(x, min(peak, x * memory) if memory else peak) for x in (across.low, across.high)]
        meet = ridge(peak, memory)
        if meet is not None and across.low < meet < across.high:
            points.insert(1, (meet, peak))
        if memory and points[0][1] < up.low:  # it enters the figure from below
            points[0] = (up.low / memory, up.low)
        path = polyline([(across(x), up(max(y, up.low))) for x, y in points])
        tip = f"{roof.label}: {name}, {formats.quantity(peak, 'FLOP/s', 3)}"
        tip += f", meets memory's at {formats.quantity(meet, 'FLOP/B', 3)}" if meet is not None else ""
        with drawing.linked(None, tip):
            drawing.path(path, stroke=colour(place), width=1.8, stroke_dasharray=DASHES[number % len(DASHES)])


def _name_points(drawing: Drawing, roof: Roof, spots: Sequence[Sequence[Point]]) -> None:
    """Write the first machine's names where they cover neither a point of any machine nor another name."""
    taken = [(x - 6, y - 6, x + 6, y + 6) for every in spots for x, y in every]
    for (x, y), point in zip(spots[0], roof.points, strict=True):
        words = formats.one_line(point.name, 26)
        wide = width_of(words, SMALL)
        for left, base in ((x + 8, y + 4), (x - 8 - wide, y + 4), (x - wide / 2, y + 17), (x - wide / 2, y - 8)):
            box = (left, base - 9, left + wide, base + 3)
            if box[0] > LEFT and box[2] < WIDTH and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                drawing.text((left, base), words, size=SMALL)
                break


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _legend(drawing: Drawing, roofs: Sequence[Roof]) -> None:
    entries = []
    for place, roof in enumerate(roofs):
        for number, (name, peak) in enumerate(roof.peaks):
            entries.append((place, number, f"{roof.label}: {name} {formats.quantity(peak, 'FLOP/s', 3)}"))
        if roof.points:
            entries.append((place, -1, f"{roof.label}: {formats.plural(len(roof.points), 'step')}"))
    half = math.ceil(len(entries) / 2)
    for index, (place, number, words) in enumerate(entries):
        x, y = LEFT + (index // half) * (WIDTH - LEFT) / 2, HEIGHT + 4 + ROW * (index % half)
        if number < 0:
            marker(drawing, (x + 12, y), place)
        else:
            dashes = DASHES[number % len(DASHES)]
            drawing.line((x, y), (x + 24, y), stroke=colour(place), width=1.8, stroke_dasharray=dashes)
        drawing.text((x + 31, y + 4), formats.one_line(words, 44), size=TICK, fill=INK)


def _in_words(roof: Roof) -> str:
    rates = [point.flops_per_second for point in roof.points]
    peaks = ", ".join(f"{name} {formats.quantity(peak, 'FLOP/s', 3)}" for name, peak in roof.peaks) or "no known peak"
    count = formats.plural(len(rates), "step")
    reached = f"; {count}, at most {formats.quantity(max(rates), 'FLOP/s', 3)}" if rates else ""
    return f"{formats.one_line(roof.label, 60)}: {peaks}{reached}."
