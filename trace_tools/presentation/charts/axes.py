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

from trace_tools.presentation.charts.drawing import SOFT, Drawing

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


class Axes(NamedTuple):
    """The two scales of a figure."""

    across: Scale
    up: Scale


Marks = Iterable[tuple[float, str]]  # ticks with their labels


def grid_up(drawing: Drawing, axes: Axes, marks: Marks) -> None:
    """Draw a horizontal line at each mark, with its label on the left."""
    (left, right), up = (axes.across.start, axes.across.end), axes.up
    for tick, words in marks:
        drawing.line((left, up(tick)), (right, up(tick)), stroke=SOFT, width=0.8, stroke_opacity=0.3)
        drawing.text((left - 6, up(tick) + 4), words, size=TICK, anchor="end")


def grid_across(drawing: Drawing, axes: Axes, marks: Marks) -> None:
    """Draw a vertical line at each mark, with its label below."""
    across, (bottom, top) = axes.across, (axes.up.start, axes.up.end)
    for tick, words in marks:
        drawing.line((across(tick), bottom), (across(tick), top), stroke=SOFT, width=0.8, stroke_opacity=0.3)
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
