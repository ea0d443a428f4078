"""Build one SVG element from shapes and text, in the page's colours, and map numbers to its pixels.

    drawing = Drawing(640, 200)
    drawing.line((0, 10), (640, 10), stroke=SOFT)
    drawing.text((4, 20), "a label", size=11)
    drawing.svg("fig3", "Title", "What it shows")          "<svg viewBox=…><title>…"
    up = Scale(0, 4 * 2**20, 160, 20)                      from bytes to pixels, upwards; up(2**21) is 90.0

A page contains dozens of these figures, so they are written as text: a millisecond and a few kB each, where matplotlib
(which draws the lecture's own plots) takes 50 ms and ten times the bytes. Only presentation attributes are used,
because the page's content policy forbids styles. Widths are upper estimates (`width_of`).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from itertools import takewhile
from typing import NamedTuple

from trace_tools.presentation.charts import svg
from trace_tools.util import formats

INK = "currentColor"
SOFT = f"var(--soft, {svg.SOFT})"
PAPER = "var(--paper, none)"
COLOURS = tuple(f"var(--s{n}, {colour})" for n, colour in enumerate(svg.PALETTE, start=1))
TICK = 11  # size of the labels of ticks
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

    def text(
        self, start: Point, words: str, *, size: float = 12, anchor: str = "", fill: str = "", halo: bool = False
    ) -> None:
        """Write text whose baseline starts (or ends, or is centred) at a point; a halo keeps lines off its letters."""
        look: dict[str, Paint] = {"x": start[0], "y": start[1], "font-size": size, "text-anchor": anchor, "fill": fill}
        if halo:
            look |= {"stroke": PAPER, "stroke-width": 3, "paint-order": "stroke"}
        if words:
            self._parts.append(f"<text{_attributes(look)}>{escape(words, quote=False)}</text>")

    @contextmanager
    def linked(self, link: str | None, tip: str = "") -> Iterator[None]:
        """Make everything drawn in the `with` block a link, with a tooltip."""
        opening = f'<a href="{escape(link)}">' if link else "<g>"
        self._parts.append(opening + (f"<title>{escape(tip, quote=False)}</title>" if tip else ""))
        yield
        self._parts.append("</a>" if link else "</g>")

    def svg(self, prefix: str, title: str, description: str) -> str:
        """Return the figure as one element; ids begin with `prefix`."""
        words = [escape(formats.shorten(text, 1_000), quote=False) for text in (title, description)]
        labels = f'<title id="{prefix}-title">{words[0]}</title><desc id="{prefix}-desc">{words[1]}</desc>'
        # an image may not contain links
        role = "group" if any(part.startswith("<a ") for part in self._parts) else "img"
        return self._element(f'role="{role}" aria-labelledby="{prefix}-title {prefix}-desc"', labels)

    def inline(self, description: str) -> str:
        """Return the figure without ids, for pages with many of them."""
        label = escape(formats.shorten(description, 400))
        return self._element(f'role="img" aria-label="{label}"', "")

    def _element(self, attributes: str, labels: str) -> str:
        size = f'width="{self.width:g}" height="{self.height:g}" viewBox="0 0 {self.width:g} {self.height:g}"'
        content = labels + "".join(self._parts)
        return f'<svg fill="currentColor" stroke-linejoin="round" {size} {attributes}>{content}</svg>'

    def _add(self, tag: str, attributes: Mapping[str, Paint], more: Mapping[str, Paint]) -> None:
        named = {name.replace("_", "-"): value for name, value in more.items()}
        self._parts.append(f"<{tag}{_attributes({**attributes, **named})}/>")


def marker(drawing: Drawing, at: Point, n: int) -> None:
    """Draw the mark of the n-th series: a disc, a square, a triangle, a diamond."""
    (x, y), size = at, 4.2
    shapes: tuple[list[Point], ...] = (
        [],
        [(x - size, y - size), (x + size, y - size), (x + size, y + size), (x - size, y + size)],
        [(x, y - 1.3 * size), (x + 1.2 * size, y + size), (x - 1.2 * size, y + size)],
        [(x, y - 1.4 * size), (x + 1.4 * size, y), (x, y + 1.4 * size), (x - 1.4 * size, y)],
    )
    if shape := shapes[n % len(shapes)]:
        drawing.path(f"{polyline(shape)}Z", width=0.8, stroke=PAPER, fill=colour(n))
    else:
        drawing.circle(at, size, stroke=PAPER, fill=colour(n), stroke_width=0.8)


def polyline(points: Sequence[Point]) -> str:
    """Return a path through points, rounded to a tenth of a pixel."""
    return "M" + "L".join(f"{_number(x)} {_number(y)}" for x, y in points)


def _attributes(attributes: Mapping[str, Paint]) -> str:
    written = {name: value if isinstance(value, str) else _number(value) for name, value in attributes.items()}
    return "".join(f' {name}="{escape(value)}"' for name, value in written.items() if value)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


# --- axes ---


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
