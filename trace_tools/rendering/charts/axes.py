"""Numbers → places on a drawing: linear and logarithmic scales, with the ticks that people read.

up = Scale(0, 4 * 2**20, 160, 20)           from bytes to pixels, upwards
up(2**21)                                   90.0
binary_ticks(4 * 2**20)                     [0, 1048576, 2097152, …]
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import takewhile

from trace_tools import formats
from trace_tools.rendering.charts.drawing import SOFT, Drawing

TICK = 11  # size of the labels


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


def binary_ticks(most: float, count: int = 4) -> list[float]:
    """Return multiples of a power of two from 0 to `most`, about `count` of them."""
    step = 2 ** max(0, math.ceil(math.log2(max(most, 1) / count)))
    return list(takewhile(lambda tick: tick <= most, (place * step for place in range(2 * count + 2))))


def decades(low: float, high: float, count: int = 7) -> list[float]:
    """Return powers of ten between two numbers, at most about `count`."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    stride = max(1, math.ceil((last - first + 1) / count))
    return [10.0**n for n in range(first, last + 1, stride)]


def bytes_upwards(drawing: Drawing, scale: Scale, left: float, right: float) -> None:
    """Draw a grid of sizes with their labels at the left."""
    for tick in binary_ticks(scale.high):
        drawing.line((left, scale(tick)), (right, scale(tick)), stroke=SOFT, width=0.8, stroke_opacity=0.3)
        drawing.text((left - 6, scale(tick) + 4), formats.byte_size(tick), size=TICK, anchor="end")


def ticks(low: float, high: float, *, log: bool = False, count: int = 6) -> list[float]:
    """Return round numbers between two: multiples of 1, 2 or 5 times a power of ten; of a log axis, decades."""
    if not log:
        step = _round_step((high - low) / count)
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        return [place * step for place in range(first, last + 1)]
    found = decades(low, high, count + 1)
    if len(found) > 2:
        return found
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [t for n in powers for digit in (1, 2, 5) if low <= (t := digit * 10.0**n) <= high]


def _round_step(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step)) if step > 0 else 1.0
    return next(digit * power for digit in (1, 2, 5, 10) if digit * power >= step * (1 - 1e-9) or digit == 10)


def tick_text(value: float) -> str:
    """Write a tick: 0.01, 1, 20,000, 1e6."""
    if value == int(value) and abs(value) < 1e5:
        return f"{int(value):,}" if abs(value) >= 10_000 else f"{int(value)}"
    return f"{value:g}" if 1e-3 <= abs(value) < 1e5 else formats.number(value, 3).removesuffix(".0")
