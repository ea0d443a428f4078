"""Where time went → an icicle: each statement as wide as its time, what it called below it.

    flame([Block("matmul", 1_420_000_000, "05-compute.html", (…,))], "flame", "Where the time went")

A block is a link to its line. What is too narrow to be seen is left out; its caller shows the gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trace_tools import formats
from trace_tools.rendering.charts.drawing import Drawing, colour, fitted
from trace_tools.rendering.time_tree import StatementTime

WIDTH, ROW = 960.0, 24.0
NARROWEST = 2.0  # pixels
LETTERS = 11.5
OPACITIES = (0.34, 0.22)  # of neighbours


@dataclass(frozen=True, slots=True)
class Block:
    """One part of the time, and what it was spent on."""

    name: str
    ns: int
    link: str | None
    tip: str
    inside: tuple[Block, ...] = ()


def blocks_of(spent: Iterable[StatementTime], page: str = "", depth: int = 6) -> tuple[Block, ...]:
    """Return statements as blocks that link to their lines on `page` ("" for the page itself)."""
    return tuple(
        Block(
            s.code,
            s.ns,
            f"{page}#{s.anchor}" if s.anchor else None,
            f"line {s.line}: {s.code}" + (f" ({s.executions:,} executions)" if s.executions > 1 else ""),
            blocks_of(s.inside, page, depth - 1) if depth > 1 else (),
        )
        for s in spent
    )


def flame(root: Block, prefix: str, title: str) -> str | None:
    """Draw a block over what it was spent on; None when nothing took any time."""
    if not root.ns or not any(block.ns for block in root.inside):
        return None
    icicle = _Icicle(root)
    icicle.draw(root, (0.0, WIDTH), 0, 0)
    return icicle.drawing.svg(prefix, title, _in_words(root))


def _width(block: Block, scale: float) -> float:
    return block.ns * scale


def _scaled(block: Block, scale: float) -> float:
    """Return the pixels per nanosecond inside a block: fewer where threads overlapped."""
    inside = sum(b.ns for b in block.inside)
    return scale if inside <= block.ns else scale * block.ns / inside


def _depth(block: Block, scale: float) -> int:
    inner = _scaled(block, scale)
    return 1 + max((_depth(b, inner) for b in block.inside if _width(b, inner) >= NARROWEST), default=0)


class _Icicle:
    """Draws a block and what is inside it, row by row."""

    def __init__(self, root: Block) -> None:
        self.drawing = Drawing(WIDTH, ROW * _depth(root, WIDTH / root.ns))
        self._total_ns = root.ns

    def draw(self, block: Block, span: tuple[float, float], depth: int, number: int) -> None:
        """Draw a block, the n-th in its caller, from `span` = (left, width)."""
        left, width = span
        share = f"{formats.duration(block.ns)}, {formats.percent(block.ns / self._total_ns)}"
        with self.drawing.linked(block.link, f"{block.tip} · {share}"):
            corner, size = (left, depth * ROW), (max(width - 1, 1), ROW - 1)
            self.drawing.rect(corner, size, fill=colour(depth), fill_opacity=OPACITIES[number % 2])
            self.drawing.text((left + 4, depth * ROW + 16), _label(block, width - 8), size=LETTERS)
        scale = _scaled(block, width / block.ns)
        for place, inner in enumerate(block.inside):
            wide = _width(inner, scale)
            if wide >= NARROWEST:
                self.draw(inner, (left, wide), depth + 1, place)
            left += wide


def _label(block: Block, width: float) -> str:
    """Write the name with its time where both fit."""
    both = f"{block.name} · {formats.duration(block.ns)}"
    return fitted(both if fitted(both, width, LETTERS) == both else block.name, width, LETTERS)


def _in_words(root: Block) -> str:
    longest: Sequence[Block] = sorted(root.inside, key=lambda block: -block.ns)[:6]
    parts = [f"{formats.one_line(b.name, 60)}: {formats.percent(b.ns / root.ns)}" for b in longest if b.ns]
    return f"{formats.duration(root.ns)} in all. The most of it: {'; '.join(parts)}."
