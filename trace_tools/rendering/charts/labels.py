"""What a figure shows, and words that belong to places in it → where the words stand: over nothing else.

    labels = Labels((92, 14, 680, 294))           the frame that they may not leave
    labels.avoid([(92, 200), (400, 40)])          a line that was drawn
    labels.beside((300, 150), "x @ w", 11)        ((308, 154), ""): at the right of that place; None where all is taken

Widths are estimates, rather too broad (`drawing.width_of`); a browser's boxes are what the tests go by.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from trace_tools.rendering.charts.drawing import Point, width_of

Box = tuple[float, float, float, float]  # left, top, right, bottom
# From a place to the baseline of its words and, anchored there, their start, end or middle: the first that is free.
# Below comes before above: what is measured lies under its roof.
AROUND = (
    (8, 4, ""), (7, 15, ""), (0, 18, "middle"), (-8, 4, "end"), (-7, 15, "end"), (7, -6, ""), (0, -9, "middle"),
    (-7, -6, "end"),
)  # fmt: skip
ABOVE = ((5, -5, ""), (-5, -5, "end"), (0, -7, "middle"), (5, -17, ""), (-5, -17, "end"))
ASCENT, DESCENT = 0.85, 0.27  # of a letter, as shares of its size


class Labels:
    """Remembers what is taken in a frame, and finds room for words."""

    def __init__(self, frame: Box) -> None:
        self._frame = frame
        self._boxes: list[Box] = []
        self._lines: list[tuple[Point, Point]] = []

    def avoid(self, line: Sequence[Point]) -> None:
        """Keep words off a line through points; off a single one and 6 pixels around it."""
        if len(line) == 1:
            ((x, y),) = line
            self._boxes.append((x - 6, y - 6, x + 6, y + 6))
        self._lines += pairwise(line)

    def beside(
        self, place: Point, words: str, size: float, around: Sequence[tuple[float, float, str]] = AROUND
    ) -> tuple[Point, str] | None:
        """Take the first room for words beside a place: where they are to be written, and their anchor."""
        wide = width_of(words, size)
        for right, down, anchor in around:
            x, y = place[0] + right, place[1] + down
            left = x - wide * {"": 0, "middle": 0.5, "end": 1}[anchor]
            box = (left, y - ASCENT * size, left + wide, y + DESCENT * size)
            if self._is_free(box):
                self._boxes.append(box)
                return (x, y), anchor
        return None

    def _is_free(self, box: Box) -> bool:
        left, top, right, bottom = self._frame
        inside = left <= box[0] and top <= box[1] and box[2] <= right and box[3] <= bottom
        taken = any(_overlap(box, other) for other in self._boxes)
        return inside and not taken and not any(_crosses(start, end, box) for start, end in self._lines)


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _crosses(start: Point, end: Point, box: Box) -> bool:
    """Whether a straight line meets a box: some of its way lies between both pairs of the box's sides at once."""
    first, last = 0.0, 1.0
    for axis in (0, 1):
        way = end[axis] - start[axis]
        near, far = box[axis] - start[axis], box[axis + 2] - start[axis]
        if way:
            near, far = sorted((near / way, far / way))
            first, last = max(first, near), min(last, far)
        elif near > 0 or far < 0:
            return False
    return first <= last
