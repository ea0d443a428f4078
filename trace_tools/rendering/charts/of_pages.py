"""A section or a whole document → the figures of its page: where time went, memory, rooflines.

    section_figures(section, document, others)     [Drawn("time", "Where the time went", "…", "<svg …>"), …]

Both writers show these, one in the page, the other as files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from trace_tools import formats
from trace_tools.rendering import prose
from trace_tools.rendering.charts.flame import Block, blocks_of, flame
from trace_tools.rendering.charts.memory import memory, memory_points
from trace_tools.rendering.charts.roofline import Roof, RoofPoint, roof_of, roof_points, roofline
from trace_tools.rendering.document import Document, Execution, Section, rows_shown, salient

ABOVE = " A point above its roof was served by a cache, or is of a type with another peak."
HOST = " On a device, an unannotated statement's time is only its launch."


@dataclass(frozen=True, slots=True)
class Drawn:
    """One figure of a page."""

    name: str  # of its file, and of its anchor
    title: str
    caption: str
    svg: str


def section_figures(section: Section, document: Document, others: Sequence[Roof] = ()) -> list[Drawn]:
    """Return a section's figures; `others` are the roofs of the other machines with this section's steps."""
    host = HOST if document.machine.device != "cpu" else ""
    found = []
    root = Block(section.title, sum(s.ns for s in section.times), None, section.title, blocks_of(section.times))
    drawn = flame(root, "time", "Where the time went")
    if drawn:
        text = f"A statement is as wide as its time, warm; below it is what it called.{host}"
        found.append(Drawn("time", "Where the time went", text, drawn))
    drawn = memory(memory_points(section.stepping.stops), "memory")
    if drawn:
        text = "Bytes of tensors, counted in a process of its own: at least this much, workspaces not among it."
        found.append(Drawn("memory", "Memory, step by step", text, drawn))
    roofs = [roof_of("here", document.machine, section_points(section)), *others]
    drawn = roofline(roofs, "roofline", "Under the roof")
    if drawn and any(roof.points for roof in roofs):
        text = (
            "Each inspected or measured statement whose FLOPs and bytes were counted, under what its machine could do "
            "at most." + ABOVE
        )
        found.append(Drawn("roofline", "Under the roof", text, drawn))
    return found


def index_figures(document: Document, others: Sequence[Roof] = ()) -> list[Drawn]:
    """Return the figures of a machine's index: the time of all sections, and every point under the roof."""
    found = []
    drawn = flame(_whole(document), "time", "Where the time went")
    if drawn:
        text = "The whole lecture, section by section, and the lines that took the most."
        found.append(Drawn("time", "Where the time went", text, drawn))
    points = [point for s in document.sections for point in section_points(s, f"{s.slug}.html")]
    roofs = [roof_of("here", document.machine, points), *others]
    drawn = roofline(roofs, "roofline", "Under the roof")
    if drawn and any(roof.points for roof in roofs):
        text = "Every inspected or measured statement of the lecture whose FLOPs and bytes were counted." + ABOVE
        found.append(Drawn("roofline", "Under the roof", text, drawn))
    return found


def _whole(document: Document) -> Block:
    sections = tuple(
        Block(
            f"{s.number} {prose.plain_text(s.title)}",
            sum(t.ns for t in s.times),
            f"{s.slug}.html",
            f"{s.number} {prose.plain_text(s.title)}",
            blocks_of(s.times, f"{s.slug}.html", depth=3),
        )
        for s in document.sections
    )
    return Block("main", sum(block.ns for block in sections), None, "the lecture", sections)


def section_points(
    section: Section, page: str = "", there: Callable[[Execution], Execution | None] = lambda here: here
) -> Iterator[RoofPoint]:
    """Yield the place of what was inspected or measured, timed and counted; `there` is an execution elsewhere."""
    for row in rows_shown(section.blocks):
        code = row.lines[0].text.strip() if row.lines else ""
        asked = any(e.step.annotated or e.step.measured for e in row.executions)
        for here in salient(row.executions) if asked else ():
            execution = there(here)
            if execution is not None:
                yield from roof_points(execution, formats.one_line(code, 60), f"{page}#{row.anchor}")
