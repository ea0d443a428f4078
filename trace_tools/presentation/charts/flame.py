"""Draw where time went as an icicle: each statement is as wide as its time, above the statements that it called.

    flame(StatementTime("matmul", 0, "", 1_420_000_000, 1, section.times))

A block links to its line. Blocks too narrow to see are omitted; their caller shows the gap.
"""

from __future__ import annotations

from trace_tools.analysis.rates import StatementTime
from trace_tools.presentation.charts.drawing import Drawing, colour, fitted
from trace_tools.util import formats

WIDTH, ROW = 960.0, 24.0
NARROWEST = 2.0  # pixels
LETTERS = 11.5
OPACITIES = (0.34, 0.22)  # opacities of neighbouring blocks


def flame(root: StatementTime, rows: int = 7) -> str:
    """Draw how a time was spent, in at most `rows` rows; "" if the time is 0.

    A block without a line is the lecture or a section. Its anchor is the page of the statements inside it: "" for the
    current page.
    """
    if not root.ns or not any(inner.ns for inner in root.inside):
        return ""
    drawing = Drawing(WIDTH, ROW * _depth(root, WIDTH, rows))

    def draw(time: StatementTime, left: float, width: float, depth: int, number: int, page: str) -> None:
        """Draw a block, the n-th of its caller, with its contents below."""
        took, tip, link = formats.duration(time.ns), time.code, time.anchor
        if time.line:
            times = f" ({time.executions:,} executions)" if time.executions > 1 else ""
            tip = f"line {time.line}: {time.code}{times}"
            link = f"{page}#{link}" if link else ""
        else:
            page = link.partition("#")[0]
        with drawing.linked(link or None, f"{tip} · {took}, {formats.percent(time.ns / root.ns)}"):
            box = {"x": left, "y": depth * ROW, "width": max(width - 1, 1), "height": ROW - 1}
            drawing.add("rect", **box, fill=colour(depth), fill_opacity=OPACITIES[number % 2])
            both, room = f"{time.code} · {took}", width - 8
            label = both if fitted(both, room, LETTERS) == both else fitted(time.code, room, LETTERS)
            drawing.text((left + 4, depth * ROW + 16), label, size=LETTERS)
        for n, (inner, wide) in enumerate(_widths(time, width)):
            if wide >= NARROWEST and depth + 1 < rows:
                draw(inner, left, wide, depth + 1, n, page)
            left += wide

    draw(root, 0.0, WIDTH, 0, 0, "")
    longest = sorted(root.inside, key=lambda inner: -inner.ns)[:6]
    parts = [f"{formats.one_line(t.code, 60)}: {formats.percent(t.ns / root.ns)}" for t in longest if t.ns]
    return drawing.svg(f"Where the time went: {formats.duration(root.ns)} in all. Most of it: {'; '.join(parts)}.")


def _widths(time: StatementTime, width: float) -> list[tuple[StatementTime, float]]:
    """Return the contents of a block with their widths in pixels; scaled down if threads overlapped."""
    scale = width / max(time.ns, sum(inner.ns for inner in time.inside), 1)
    return [(inner, inner.ns * scale) for inner in time.inside]


def _depth(time: StatementTime, width: float, rows: int) -> int:
    wide = [(inner, pixels) for inner, pixels in _widths(time, width) if pixels >= NARROWEST] if rows > 1 else []
    return 1 + max((_depth(inner, pixels, rows - 1) for inner, pixels in wide), default=0)
