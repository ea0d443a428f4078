"""Build one SVG element from shapes and text, in the page's colours, and map numbers to its pixels.

    drawing = Drawing(640, 200)
    drawing.add("path", d="M0 10H640", stroke=SOFT)
    drawing.text((4, 20), "a label", size=11)
    drawing.svg("What it shows")                           "<svg … role="img" aria-label="What it shows">…"
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

from trace_tools.presentation.charts import svg
from trace_tools.util import formats

SOFT = f"var(--soft, {svg.SOFT})"
PAPER = "var(--paper, none)"
COLOURS = tuple(f"var(--s{n}, {colour})" for n, colour in enumerate(svg.PALETTE, start=1))
TICK = 11  # size of the labels of ticks
MARKS = ("M-4.2-4.2h8.4v8.4h-8.4Z", "M0-5.5l5 9.7h-10Z", "M0-5.9l5.9 5.9l-5.9 5.9l-5.9-5.9Z")
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

    def add(self, shape: str, *, fill: str = "none", **more: Paint) -> None:
        """Draw a shape by its SVG element and attributes, `stroke_width=2` for `stroke-width`."""
        named = {name.replace("_", "-"): value for name, value in more.items()}
        self._parts.append(f"<{shape}{_attributes({'fill': fill, **named})}/>")

    def text(
        self, start: Point, words: str, *, size: float = 12, anchor: str = "", fill: str = "", halo: bool = False
    ) -> None:
        """Write text whose baseline starts (or ends, or is centred) at a point; a halo keeps lines off its letters."""
        look: dict[str, Paint] = {"x": start[0], "y": start[1], "font-size": size, "text-anchor": anchor, "fill": fill}
        if halo:
            look |= {"stroke": PAPER, "stroke-width": 3, "paint-order": "stroke"}
        self._parts.append(f"<text{_attributes(look)}>{escape(words, quote=False)}</text>")

    @contextmanager
    def linked(self, link: str | None, tip: str) -> Iterator[None]:
        """Make everything drawn in the `with` block a link, with a tooltip."""
        opening, closing = (f'<a href="{escape(link)}">', "</a>") if link else ("<g>", "</g>")
        self._parts.append(f"{opening}<title>{escape(tip, quote=False)}</title>")
        yield
        self._parts.append(closing)

    def svg(self, description: str) -> str:
        """Return the figure as one element, with its description for readers who cannot see it."""
        size = f'width="{self.width:g}" height="{self.height:g}" viewBox="0 0 {self.width:g} {self.height:g}"'
        # an image may not contain links
        role = "group" if any(part.startswith("<a ") for part in self._parts) else "img"
        label = f'role="{role}" aria-label="{escape(formats.shorten(description, 1_000))}"'
        return f'<svg fill="currentColor" stroke-linejoin="round" {size} {label}>{"".join(self._parts)}</svg>'


def marker(drawing: Drawing, at: Point, n: int) -> None:
    """Draw the mark of the n-th series: a disc, a square, a triangle, a diamond."""
    (x, y), look = at, {"fill": colour(n), "stroke": PAPER, "stroke-width": "0.8"}
    if n % 4:
        drawing.add("path", d=MARKS[n % 4 - 1], transform=f"translate({x:.1f} {y:.1f})", **look)
    else:
        drawing.add("circle", cx=x, cy=y, r=4.2, **look)


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


Marks = Iterable[tuple[float, str]]  # ticks with their labels


def grid(drawing: Drawing, across: Scale, up: Scale, *, columns: Marks = (), rows: Marks = ()) -> None:
    """Draw a line at each mark, with its label below a column or on the left of a row."""
    for tick, words in columns:
        _grid_line(drawing, (across(tick), up.start), (across(tick), up.end))
        drawing.text((across(tick), up.start + 16), words, size=TICK, anchor="middle")
    for tick, words in rows:
        _grid_line(drawing, (across.start, up(tick)), (across.end, up(tick)))
        drawing.text((across.start - 6, up(tick) + 4), words, size=TICK, anchor="end")


def _grid_line(drawing: Drawing, start: Point, end: Point) -> None:
    drawing.add("path", d=polyline([start, end]), stroke=SOFT, stroke_width=0.8, stroke_opacity=0.3)


def binary_ticks(most: float, count: int = 4) -> list[float]:
    """Return multiples of a power of two from 0 to `most`, about `count` of them."""
    step = 2 ** max(0, math.ceil(math.log2(max(most, 1) / count)))
    return list(takewhile(lambda tick: tick <= most, (n * step for n in range(2 * count + 2))))


def decades(low: float, high: float, count: int = 7) -> list[float]:
    """Return powers of ten between two numbers, at most about `count`."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    stride = max(1, math.ceil((last - first + 1) / count))
    return [10.0**n for n in range(first, last + 1, stride)]
