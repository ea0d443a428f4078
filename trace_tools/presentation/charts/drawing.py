"""Build one SVG element from shapes and text, in the page's colours.

    drawing = Drawing(640, 200)
    drawing.line((0, 10), (640, 10), stroke=SOFT)
    drawing.text((4, 20), "a label", size=11)
    drawing.svg("fig3", "Title", "What it shows")          "<svg viewBox=…><title>…"

A page contains dozens of these figures, so they are written as text: a millisecond and a few kB each, where matplotlib
(which draws the lecture's own plots) takes 100 ms and ten times the bytes. Only presentation attributes are used,
because the page's content policy forbids styles.

`Labels` finds free space for words:

    labels = Labels((92, 14, 680, 294))           the frame for the words
    labels.avoid([(92, 200), (400, 40)])          a line that was drawn
    labels.beside((300, 150), "x @ w", 11)        ((308, 154), ""): to the right of that point; None if no room is left

Widths are upper estimates (`width_of`); tests use the boxes of a browser.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from itertools import pairwise

from trace_tools.presentation.charts import svg
from trace_tools.util import formats

INK = "currentColor"
SOFT = f"var(--soft, {svg.SOFT})"
PAPER = "var(--paper, none)"
COLOURS = tuple(f"var(--s{n}, {colour})" for n, colour in enumerate(svg.PALETTE, start=1))
# Width of a letter relative to its size, for DejaVu Sans, the widest font of the pages.
LETTER = 0.62
UNLIKE = dict.fromkeys(" .,:;'|!()[]-/·Iijlfrt", 0.39) | dict.fromkeys("mwMW@%…→←↓=+×<>−≈", 0.95)
UNLIKE |= dict.fromkeys("ABCDEFGHJKLNOPQRSTUVXYZ", 0.72)

Point = tuple[float, float]
Paint = str | float


def colour(n: int) -> str:
    """Return the colour of the n-th of several series."""
    return COLOURS[n % len(COLOURS)]


def width_of(text: str, size: float) -> float:
    """Return an upper estimate of a text's width."""
    return size * sum(UNLIKE.get(letter, LETTER) for letter in text)


def fitted(text: str, width: float, size: float) -> str:
    """Cut a text to a width; "" if not even three letters fit."""
    if width_of(text, size) <= width:
        return text
    letters = bisect_right(range(1, len(text)), width, key=lambda count: width_of(f"{text[:count]}…", size))
    return f"{text[:letters]}…" if letters >= 2 else ""


class Drawing:
    """Collects the parts of one figure."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self._parts: list[str] = []

    def line(self, start: Point, end: Point, *, stroke: str = INK, width: float = 1, **more: Paint) -> None:
        """Draw a straight line."""
        (x1, y1), (x2, y2) = start, end
        self._add("line", {"x1": x1, "y1": y1, "x2": x2, "y2": y2, "stroke": stroke, "stroke-width": width}, more)

    def path(self, d: str, *, stroke: str = "none", fill: str = "none", width: float = 1.5, **more: Paint) -> None:
        """Draw an SVG path; an empty one is skipped."""
        if d:
            outline: dict[str, Paint] = {} if stroke == "none" else {"stroke": stroke, "stroke-width": width}
            self._add("path", {"d": d, "fill": fill, **outline}, more)

    def rect(self, corner: Point, size: Point, *, fill: str = INK, **more: Paint) -> None:
        """Draw a rectangle from its upper left corner."""
        (x, y), (width, height) = corner, size
        self._add("rect", {"x": x, "y": y, "width": width, "height": height, "fill": fill}, more)

    def circle(self, centre: Point, radius: float, *, fill: str = INK, **more: Paint) -> None:
        """Draw a disc."""
        self._add("circle", {"cx": centre[0], "cy": centre[1], "r": radius, "fill": fill}, more)

    def text(self, start: Point, words: str, *, size: float = 12, anchor: str = "", fill: str = "") -> None:
        """Write text whose baseline starts (or ends, or is centred) at a point."""
        if words:
            x, y = start
            look: dict[str, Paint] = {"x": x, "y": y, "font-size": size, "text-anchor": anchor, "fill": fill}
            self._parts.append(f"<text{_attributes(look)}>{escape(formats.visible(words), quote=False)}</text>")

    @contextmanager
    def linked(self, link: str | None, tip: str = "") -> Iterator[None]:
        """Make everything drawn in the `with` block a link, with a tooltip."""
        opening = f'<a href="{escape(link)}">' if link else "<g>"
        self._parts.append(opening + (f"<title>{escape(formats.visible(tip), quote=False)}</title>" if tip else ""))
        yield
        self._parts.append("</a>" if link else "</g>")

    @contextmanager
    def classed(self, name: str) -> Iterator[None]:
        """Put everything drawn in the `with` block into a group with a class, for scripts."""
        self._parts.append(f'<g class="{escape(name)}">')
        yield
        self._parts.append("</g>")

    def svg(self, prefix: str, title: str, description: str) -> str:
        """Return the figure as one element; ids begin with `prefix`."""
        words = [escape(formats.visible(formats.shorten(text, 1_000)), quote=False) for text in (title, description)]
        labels = f'<title id="{prefix}-title">{words[0]}</title><desc id="{prefix}-desc">{words[1]}</desc>'
        # an image may not contain links
        role = "group" if any(part.startswith("<a ") for part in self._parts) else "img"
        size = f'width="{self.width:g}" height="{self.height:g}" viewBox="0 0 {self.width:g} {self.height:g}"'
        return (
            f'<svg fill="currentColor" stroke-linejoin="round" {size} role="{role}" '
            f'aria-labelledby="{prefix}-title {prefix}-desc">{labels}{"".join(self._parts)}</svg>'
        )

    def inline(self, description: str) -> str:
        """Return the figure without ids, for pages with many of them."""
        label = escape(formats.visible(formats.shorten(description, 400)))
        size = f'width="{self.width:g}" height="{self.height:g}" viewBox="0 0 {self.width:g} {self.height:g}"'
        return f'<svg fill="currentColor" {size} role="img" aria-label="{label}">{"".join(self._parts)}</svg>'

    def _add(self, tag: str, attributes: Mapping[str, Paint], more: Mapping[str, Paint]) -> None:
        named = {name.replace("_", "-"): value for name, value in more.items()}
        self._parts.append(f"<{tag}{_attributes({**attributes, **named})}/>")


def marker(drawing: Drawing, at: Point, n: int) -> None:
    """Draw the mark of the n-th series: a disc, a square, a triangle, a diamond."""
    (x, y), size = at, 4.2
    shapes = (
        "",
        polyline([(x - size, y - size), (x + size, y - size), (x + size, y + size), (x - size, y + size)]),
        polyline([(x, y - 1.3 * size), (x + 1.2 * size, y + size), (x - 1.2 * size, y + size)]),
        polyline([(x, y - 1.4 * size), (x + 1.4 * size, y), (x, y + 1.4 * size), (x - 1.4 * size, y)]),
    )
    shape = shapes[n % len(shapes)]
    if shape:
        drawing.path(f"{shape}Z", width=0.8, stroke=PAPER, fill=colour(n))
    else:
        drawing.circle(at, size, stroke=PAPER, fill=colour(n), stroke_width=0.8)


def polyline(points: Sequence[Point]) -> str:
    """Return a path through points, rounded to a tenth of a pixel."""
    return "M" + "L".join(f"{_number(x)} {_number(y)}" for x, y in points)


def steps(points: Sequence[Point], end: float) -> str:
    """Return a staircase path: each height until the next point, the last one until x = `end`.

    A height that is less than half a pixel from the drawn one is left out. Moves are relative, which takes fewer bytes.
    """
    x, y = (round(number, 1) for number in points[0])
    parts = [f"M{_number(x)} {_number(y)}"]
    for point in points[1:]:
        across, up = (round(number, 1) for number in point)
        if abs(up - y) >= 0.5:
            parts.append(f"h{_number(across - x)}v{_number(up - y)}")
            x, y = across, up
    return "".join([*parts, f"H{_number(end)}"])


def _attributes(attributes: Mapping[str, Paint]) -> str:
    written = {name: value if isinstance(value, str) else _number(value) for name, value in attributes.items()}
    return "".join(f' {name}="{escape(value)}"' for name, value in written.items() if value)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


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
