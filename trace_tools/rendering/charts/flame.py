"""Where time went → an icicle: each statement as wide as its time, what it called below it.

    flame(TimeBlock("main", 1_420_000_000, None, "the lecture", (…,)), "time", "Where the time went")

A block is a link to its line. What is too narrow to be seen is left out; its caller shows the gap.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trace_tools import formats
from trace_tools.rendering.charts.drawing import Drawing, colour, fitted
from trace_tools.rendering.time_tree import StatementTime

WIDTH, ROW = 960.0, 24.0
NARROWEST = 2.0  # pixels
LETTERS = 11.5
OPACITIES = (0.34, 0.22)  # of neighbours


@dataclass(frozen=True, slots=True)
class TimeBlock:
    """One part of the time, and what it was spent on."""

    name: str
    ns: int
    link: str | None
    tip: str
    inside: tuple[TimeBlock, ...] = ()


def blocks_of(spent: Iterable[StatementTime], page: str = "", depth: int = 6) -> tuple[TimeBlock, ...]:
    """Return statements as blocks that link to their lines on `page` ("" for the page itself)."""
    return tuple(
        TimeBlock(
            s.code,
            s.ns,
            f"{page}#{s.anchor}" if s.anchor else None,
            f"line {s.line}: {s.code}" + (f" ({s.executions:,} executions)" if s.executions > 1 else ""),
            blocks_of(s.inside, page, depth - 1) if depth > 1 else (),
        )
        for s in spent
    )


def flame(root: TimeBlock, prefix: str, title: str) -> str | None:
    """Draw a block over what it was spent on; None when nothing took any time."""
    if not root.ns or not any(block.ns for block in root.inside):
        return None
    drawing = Drawing(WIDTH, ROW * _depth(root, WIDTH))

    def draw(block: TimeBlock, left: float, width: float, depth: int, number: int) -> None:
        """Draw a block, the n-th in its caller, with what is inside it below."""
        took = formats.duration(block.ns)
        with drawing.linked(block.link, f"{block.tip} · {took}, {formats.percent(block.ns / root.ns)}"):
            corner, size = (left, depth * ROW), (max(width - 1, 1), ROW - 1)
            drawing.rect(corner, size, fill=colour(depth), fill_opacity=OPACITIES[number % 2])
            both, room = f"{block.name} · {took}", width - 8
            label = both if fitted(both, room, LETTERS) == both else fitted(block.name, room, LETTERS)
            drawing.text((left + 4, depth * ROW + 16), label, size=LETTERS)
        for place, (inner, wide) in enumerate(_widths(block, width)):
            if wide >= NARROWEST:
                draw(inner, left, wide, depth + 1, place)
            left += wide

    draw(root, 0.0, WIDTH, 0, 0)
    longest = sorted(root.inside, key=lambda block: -block.ns)[:6]
    parts = [f"{formats.one_line(b.name, 60)}: {formats.percent(b.ns / root.ns)}" for b in longest if b.ns]
    return drawing.svg(prefix, title, f"{formats.duration(root.ns)} in all. The most of it: {'; '.join(parts)}.")


def _widths(block: TimeBlock, width: float) -> list[tuple[TimeBlock, float]]:
    """Return what is inside a block of so many pixels, each with its own; narrower where threads overlapped."""
    scale = width / max(block.ns, sum(inner.ns for inner in block.inside), 1)
    return [(inner, inner.ns * scale) for inner in block.inside]


def _depth(block: TimeBlock, width: float) -> int:
    return 1 + max((_depth(inner, wide) for inner, wide in _widths(block, width) if wide >= NARROWEST), default=0)
