"""A section or a whole document → the figures of its page: where time went, memory, rooflines.

    section_figures(section, document, others)     [PageFigure("time", "Where the time went", …), …]

Both writers show these, one in the page, the other as files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from trace_tools import formats
from trace_tools.distances import verdict
from trace_tools.rendering import prose
from trace_tools.rendering.charts.distances import distance
from trace_tools.rendering.charts.flame import flame
from trace_tools.rendering.charts.memory import memory, memory_points
from trace_tools.rendering.charts.roofline import Roof, RoofPoint, roof_of, roof_points, roofline
from trace_tools.rendering.document import Document, Execution, Section, brief_code, rows_shown, salient
from trace_tools.rendering.time_tree import StatementTime

TIME, MEMORY, ROOF = "Where the time went", "Memory, step by step", "Under the roof"
FAR = "How far from the roof this lecture runs"
UNDER = (
    " A roof is the smaller of the machine's peak and its bandwidth times FLOPs per byte. A point above its roof read "
    "from a cache (a small memory, faster than that bandwidth), or computed in a format that has another peak."
)
NO_ROOF = " No peak of this machine is known: there is no roof over them."
HOST = " On a device, an unannotated statement's time is only its launch."


@dataclass(frozen=True, slots=True)
class PageFigure:
    """One figure of a page."""

    name: str  # of its file, and of its anchor
    title: str
    caption: str
    svg: str


def section_figures(section: Section, document: Document, others: Sequence[Roof] = ()) -> list[PageFigure]:
    """Return a section's figures; `others` are the roofs of the other machines with this section's steps."""
    where = StatementTime(section.title, 0, "", sum(t.ns for t in section.times), 1, section.times)
    of_run = "the only run (cold)" if document.ran_once else "a second run (warm)"
    wide = f"A statement is as wide as its time in {of_run}; below it is what it called."
    alive = (
        "Bytes of tensors, counted in a process of its own: at least this much, "
        "since what an operation needs meanwhile is not seen."
    )
    under = "Each statement whose FLOPs and bytes were counted."
    return _figures(
        (TIME, wide + HOST * (document.machine.device != "cpu"), flame(where, "time", TIME)),
        (MEMORY, alive, memory(memory_points(section.stepping.stops), "memory", MEMORY)),
        _under_the_roof(document, section_points(section), others, under),
    )


def index_figures(document: Document, others: Sequence[Roof] = ()) -> list[PageFigure]:
    """Return the figures of a machine's index: the time of all sections, and every point under the roof."""
    sections = []
    for s in document.sections:
        name, ns = f"{s.number} {prose.plain_text(s.title)}", sum(time.ns for time in s.times)
        sections.append(StatementTime(name, 0, f"{s.slug}.html", ns, 1, s.times))
    where = StatementTime("main", 0, "", sum(section.ns for section in sections), 1, tuple(sections))
    points = [point for s in document.sections for point in section_points(s, f"{s.slug}.html")]
    whole = "The whole lecture, section by section, and the lines that took the most."
    under = "Every statement of the lecture whose FLOPs and bytes were counted."
    far = (
        "Time over floor: what the roof that was measured here allows each operator, summed. A box holds the middle "
        "half of the statements that call no function of the lecture's, its line eight in ten of them; short ones are "
        "far from any roof, since starting an operator takes longer than running it. A fill writes zeros or draws "
        f"random numbers. {verdict(document.distances)}"
    )
    return _figures(
        (TIME, whole, flame(where, "time", TIME, rows=5)),
        _under_the_roof(document, points, others, under),
        (FAR, far, distance(document.distances, "distance", FAR)),
    )


def _figures(*drawn: tuple[str, str, str | None]) -> list[PageFigure]:
    """Return those that there was something to draw for, of (title, caption, SVG)."""
    names = {TIME: "time", MEMORY: "memory", ROOF: "roofline", FAR: "distance"}
    return [PageFigure(names[title], title, caption, svg) for title, caption, svg in drawn if svg is not None]


def _under_the_roof(
    document: Document, points: Iterable[RoofPoint], others: Sequence[Roof], caption: str
) -> tuple[str, str, str | None]:
    roofs = [roof_of("here", document.machine, points), *others]
    near = any(not roof.is_far(point) for roof in roofs for point in roof.points)  # what is far says nothing of a roof
    known = any(roof.peaks or roof.bytes_per_second for roof in roofs)
    return ROOF, caption + (UNDER if known else NO_ROOF), roofline(roofs, "roofline", ROOF) if near else None


def section_points(
    section: Section, page: str = "", there: Callable[[Execution], Execution | None] = lambda here: here
) -> Iterator[RoofPoint]:
    """Yield the place of what was inspected or measured, timed and counted; `there` is an execution elsewhere."""
    for row in rows_shown(section.blocks):
        code = brief_code(row.lines[0].text) if row.lines else ""
        asked = any(e.step.annotated or e.step.measured for e in row.executions)
        for here in salient(row.executions) if asked else ():
            execution = there(here)
            if execution is not None:
                yield from roof_points(execution, formats.one_line(code, 60), f"{page}#{row.anchor}")
