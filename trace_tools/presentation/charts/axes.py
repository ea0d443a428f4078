"""Map numbers to pixels: linear and logarithmic scales, ticks and grids.

up = Scale(0, 4 * 2**20, 160, 20)           from bytes to pixels, upwards
up(2**21)                                   90.0
binary_ticks(4 * 2**20)                     [0, 1048576, 2097152, …]
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from trace_tools.presentation.charts.drawing import SOFT, Drawing, Point
from trace_tools.util import formats

TICK = 11  # size of the labels
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps `low` … `high` to `start` … `end` (pixels)."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        share = (self._at(value) - self._at(self.low)) / ((self._at(self.high) - self._at(self.low)) or 1)
        return self.start + share * (self.end - self.start)

    def _at(self, value: float) -> float:
        return math.log10(value) if self.log else value


class Axes(NamedTuple):
    """The two scales of a figure."""

    across: Scale
    up: Scale

    def at(self, x: float, y: float) -> Point | None:
        """Return the position of two numbers; None if one is not finite, or not positive on a logarithmic scale."""
        for scale, value in ((self.across, x), (self.up, y)):
            if not math.isfinite(value) or (scale.log and value <= 0):
                return None
        return self.across(x), self.up(y)


Marks = Iterable[tuple[float, str]]  # ticks with their labels


def grid_up(drawing: Drawing, axes: Axes, marks: Marks, *, gap: float = 6, opacity: float = 0.3) -> None:
    """Draw a horizontal line at each mark, with its label on the left."""
    (left, right), up = (axes.across.start, axes.across.end), axes.up
    marks = list(marks)
    for tick, _ in marks:  # all lines before all labels: `svg` writes shared attributes of neighbours once
        drawing.line((left, up(tick)), (right, up(tick)), stroke=SOFT, width=0.8, stroke_opacity=opacity)
    for tick, words in marks:
        drawing.text((left - gap, up(tick) + 4), words, size=TICK, anchor="end")


def grid_across(drawing: Drawing, axes: Axes, marks: Marks, *, opacity: float = 0.25) -> None:
    """Draw a vertical line at each mark, with its label below."""
    across, (bottom, top) = axes.across, (axes.up.start, axes.up.end)
    marks = list(marks)
    for tick, _ in marks:
        drawing.line((across(tick), bottom), (across(tick), top), stroke=SOFT, width=0.8, stroke_opacity=opacity)
    for tick, words in marks:
        drawing.text((across(tick), bottom + 16), words, size=TICK, anchor="middle")


def binary_ticks(most: float, count: int = 4) -> list[float]:
    """Return multiples of a power of two from 0 to `most`, about `count` of them."""
    step = 2 ** max(0, math.ceil(math.log2(max(most, 1) / count)))
    return list(takewhile(lambda tick: tick <= most, (n * step for n in range(2 * count + 2))))


def decades(low: float, high: float, count: int = 7) -> list[float]:
    """Return powers of ten between two numbers, at most about `count`."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    stride = max(1, math.ceil((last - first + 1) / count))
    return [10.0**n for n in range(first, last + 1, stride)]


def ticks(low: float, high: float, *, log: bool = False, count: int = 6, binary: bool = False) -> list[float]:
    """Return round numbers in a range: multiples of 1, 2 or 5 times a power of ten; on a log axis, powers of ten.

    `binary` uses multiples of the IEC prefix of the larger number: 0, 20 MiB, 40 MiB.
    """
    if binary and not log:
        factor = next((factor for factor, _ in formats.IEC if high >= factor), 1)
        return [factor * tick for tick in ticks(low / factor, high / factor, count=count)]
    if not log:
        least = (high - low) / count
        power = 10.0 ** math.floor(math.log10(least)) if least > 0 else 1.0
        step = next(digit * power for digit in (1, 2, 5, 10) if digit * power >= least * (1 - 1e-9) or digit == 10)
        return [n * step for n in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
    tens = decades(low, high, count + 1)
    if len(tens) > 2:
        return tens
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [t for n in powers for digit in (1, 2, 5) if low <= (t := digit * 10.0**n) <= high]


def tick_text(value: float, unit: str | None = None, *, decimal: bool = True) -> str:
    """Format a tick: 0.01, 1, 20,000, 10⁷; with a unit, 20 GB/s."""
    if unit is not None:
        return formats.quantity(value, unit, 3, decimal=decimal) if value else "0"
    if value == int(value) and abs(value) < 1e5:
        return f"{int(value):,}" if abs(value) >= 10_000 else f"{int(value)}"
    if 1e-3 <= abs(value) < 1e5:
        return f"{value:g}"
    power = round(math.log10(abs(value)))
    if (abs(value) < 1e6 and power >= 0) or not math.isclose(value, 10.0**power):
        return formats.number(value, 3).removesuffix(".0")
    return "10" + str(power).translate(RAISED)
