"""Place words in a figure so that they cover nothing.

    labels = Labels((92, 14, 680, 294))           the frame for the words
    labels.avoid([(92, 200), (400, 40)])          a line that was drawn
    labels.beside((300, 150), "x @ w", 11)        ((308, 154), ""): to the right of that point; None if no room is left

Widths are upper estimates (`drawing.width_of`); tests use the boxes of a browser.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from trace_tools.presentation.charts.drawing import Point, width_of

Box = tuple[float, float, float, float]  # left, top, right, bottom
# Offsets from a point to the baseline of its words, with the anchor; the first free one is used. Below comes before
# above, because measurements are below their roofline.
AROUND = (
    (8, 4, ""), (7, 15, ""), (0, 18, "middle"), (-8, 4, "end"), (-7, 15, "end"), (7, -6, ""), (0, -9, "middle"),
    (-7, -6, "end"),
)  # fmt: skip
ABOVE = ((5, -5, ""), (-5, -5, "end"), (0, -7, "middle"), (5, -17, ""), (-5, -17, "end"))
ASCENT, DESCENT = 0.85, 0.27  # of a letter, relative to its size


class Labels:
    """Tracks the occupied boxes in a frame and finds room for words."""

    def __init__(self, frame: Box) -> None:
        self._frame = frame
        self._boxes: list[Box] = []
        self._lines: list[tuple[Point, Point]] = []

    def avoid(self, line: Sequence[Point]) -> None:
        """Keep words off a line through points, or 6 pixels away from a single point."""
        if len(line) == 1:
            ((x, y),) = line
            self._boxes.append((x - 6, y - 6, x + 6, y + 6))
        self._lines += pairwise(line)

    def beside(
        self, point: Point, words: str, size: float, around: Sequence[tuple[float, float, str]] = AROUND
    ) -> tuple[Point, str] | None:
        """Reserve the first free room for words near a point; return their position and anchor."""
        wide = width_of(words, size)
        for right, down, anchor in around:
            x, y = point[0] + right, point[1] + down
            left = x - wide * {"": 0, "middle": 0.5, "end": 1}[anchor]
            box = (left, y - ASCENT * size, left + wide, y + DESCENT * size)
            if self._is_free(box):
                self._boxes.append(box)
                return (x, y), anchor
        return None

    def _is_free(self, box: Box) -> bool:
        left, top, right, bottom = self._frame
        inside = left <= box[0] and top <= box[1] and box[2] <= right and box[3] <= bottom
        overlaps = any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in self._boxes)
        return inside and not overlaps and not any(_crosses(start, end, box) for start, end in self._lines)


def _crosses(start: Point, end: Point, box: Box) -> bool:
    """Return whether a straight line crosses a box."""
    first, last = 0.0, 1.0
    for axis in (0, 1):
        length = end[axis] - start[axis]
        near, far = box[axis] - start[axis], box[axis + 2] - start[axis]
        if length:
            near, far = sorted((near / length, far / length))
            first, last = max(first, near), min(last, far)
        elif near > 0 or far < 0:
            return False
    return first <= last
