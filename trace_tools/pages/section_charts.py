"""Draw the figures of a section or of a whole document: where time went, memory, rooflines.

    section_figures(section, document)     [PageFigure("time", "Where the time went", …), …]

The HTML writer embeds them; the Markdown writer stores them as files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from trace_tools.analysis.rates import WORTH_SAYING_NS, StatementTime
from trace_tools.pages.document import (
    Block,
    Document,
    Execution,
    Section,
    Stop,
    brief_code,
    prefix,
    rows_shown,
    salient,
)
from trace_tools.presentation import prose
from trace_tools.presentation.charts.flame import flame
from trace_tools.presentation.charts.memory import MemoryPoint, memory
from trace_tools.presentation.charts.roofline import RoofPoint, roof_of, roofline
from trace_tools.presentation.charts.storage import Views, window
from trace_tools.util import formats

TIME, MEMORY, ROOF = "Where the time went", "Memory, step by step", "Roofline"
UNDER = (
    " A roof is the smaller of the machine's peak and its bandwidth times FLOPs per byte. A point can be above its "
    "roof because it read from a cache (a small memory, faster than that bandwidth), needed fewer FLOPs than are "
    "counted, or computed in a format with another peak, or because the roof was measured too low."
)
NO_ROOF = " No peak of this machine is known, so no roof is drawn."
HOST = " On a device, the time of a statement without annotations is only its launch."


@dataclass(frozen=True, slots=True)
class PageFigure:
    """One figure of a page."""

    name: str  # name of its file and of its anchor
    title: str
    caption: str
    svg: str


def section_figures(section: Section, document: Document) -> list[PageFigure]:
    """Return a section's figures."""
    tree = StatementTime(prose.readable_text(section.title), 0, "", sum(t.ns for t in section.times), 1, section.times)
    time_caption = (
        "The width of a statement is its time in the only run (cold); its calls are below it."
        if document.ran_once
        else "The width of a statement is its time in a second run (warm); its calls are below it."
    )
    memory_caption = (
        "Bytes of tensors, counted in a run of its own. This is a lower bound, "
        "because temporary memory inside an operation is not seen."
    )
    roof_caption = "Statements whose FLOPs and bytes were counted."
    begin = prefix(section.number, one_page=document.one_page)
    return _figures(
        (TIME, time_caption + HOST * (document.machine.device != "cpu"), _where_time_went(tree, begin)),
        (MEMORY, memory_caption, memory(memory_points(section.stepping.stops), f"{begin}memory", MEMORY)),
        _under_the_roof(document, section_points(section), roof_caption, begin),
    )


def index_figures(document: Document) -> list[PageFigure]:
    """Return the figures of a machine's index: the time of all sections, and all points under the roofline."""
    sections = []
    for s in document.sections:
        name, ns = f"{s.number} {prose.readable_text(s.title)}", sum(time.ns for time in s.times)
        sections.append(StatementTime(name, 0, document.link(s.slug), ns, 1, s.times))
    tree = StatementTime("main", 0, "", sum(section.ns for section in sections), 1, tuple(sections))
    points = [point for s in document.sections for point in section_points(s, document.link(s.slug).partition("#")[0])]
    sections_caption = "The whole lecture, section by section, and its slowest lines."
    roof_caption = "All statements of the lecture whose FLOPs and bytes were counted."
    return _figures(
        (TIME, sections_caption, _where_time_went(tree, rows=5)),
        _under_the_roof(document, points, roof_caption),
    )


def _where_time_went(root: StatementTime, begin: str = "", rows: int = 7) -> str | None:
    """Draw where time went; None if it is too short to be worth a figure."""
    return flame(root, f"{begin}time", TIME, rows) if root.ns >= WORTH_SAYING_NS else None


def _figures(*drawn: tuple[str, str, str | None]) -> list[PageFigure]:
    """Return the figures that exist, from (title, caption, SVG)."""
    names = {TIME: "time", MEMORY: "memory", ROOF: "roofline"}
    return [PageFigure(names[title], title, caption, svg) for title, caption, svg in drawn if svg is not None]


def _under_the_roof(
    document: Document, points: Iterable[RoofPoint], caption: str, begin: str = ""
) -> tuple[str, str, str | None]:
    roof = roof_of("here", document.machine, points)
    # points far below a roofline do not justify a figure
    worth_drawing = any(not roof.is_far(point) for point in roof.points)
    drawn = roofline([roof], f"{begin}roofline", ROOF) if worth_drawing else None
    return ROOF, caption + (UNDER if roof.peaks or roof.bytes_per_second else NO_ROOF), drawn


def section_points(section: Section, page: str = "") -> Iterator[RoofPoint]:
    """Yield the points of inspected or measured statements that were timed and counted."""
    for row in rows_shown(section.blocks):
        code = brief_code(row.lines[0].text) if row.lines else ""
        annotated = any(e.step.annotated or e.step.measured for e in row.executions)
        for execution in salient(row.executions) if annotated else ():
            yield from roof_points(execution, formats.one_line(code, 60), f"{page}#{row.anchor}")


def memory_points(stops: Sequence[Stop]) -> list[MemoryPoint]:
    """Return the metered steps of a section without calls, in order; calls are represented by their own steps."""
    points = []
    for stop in stops:
        meters = stop.execution.step.meters
        if meters is not None and meters.live_bytes is not None and not stop.inside:
            peak = max(meters.peak_bytes or 0, meters.live_bytes)
            link = f"#{stop.anchor}" if stop.anchor else None
            points.append(MemoryPoint(stop.number, meters.live_bytes, peak, f"line {stop.line}", link))
    return points


def roof_points(execution: Execution, name: str, link: str | None) -> Iterator[RoofPoint]:
    """Yield the point of an execution, or the points of the calls that it measured, numbered if several.

    Statements that are not annotated, or not both timed and counted, have no point.
    """
    step = execution.step
    if step.annotated or step.measured:
        for rate in execution.rates:
            if rate.name == "FLOP/s" and rate.intensity and rate.per_second:
                number = f" ({rate.call})" if len(step.measured or ()) > 1 else ""
                yield RoofPoint(rate.intensity, rate.per_second, name + number, link, rate.peak)


def views_of(blocks: Sequence[Block]) -> Views:
    """Return, by storage, the distinct tensors inspected on a page, in order of appearance."""
    views: Views = {}
    for row in rows_shown(blocks):
        for name, value in (pair for execution in row.executions for pair in execution.values):
            tensor = value.tensor
            if tensor is None or tensor.storage is None:
                continue
            of_storage = views.setdefault(tensor.storage, [])
            if not any(name == other and window(tensor) == window(listed) for other, listed in of_storage):
                of_storage.append((name, tensor))
    return views
