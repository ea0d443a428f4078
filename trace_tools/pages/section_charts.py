"""Draw the figures of a section or of a whole document: where time went, memory, rooflines.

    section_figures(section, document)     [Chart("03-tensors-time", "Where the time went", …), …]

The HTML writer embeds them; the Markdown writer stores them as files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from trace_tools.analysis.rates import WORTH_SHOWING_NS, StatementTime
from trace_tools.pages.document import (
    Block,
    Call,
    Document,
    Section,
    Stop,
    brief_code,
    rows_shown,
    visible,
)
from trace_tools.presentation import prose
from trace_tools.presentation.charts.flame import flame
from trace_tools.presentation.charts.memory import MemoryPoint, memory
from trace_tools.presentation.charts.roofline import RoofPoint, roof_of, roofline
from trace_tools.presentation.report import Chart
from trace_tools.util import formats

LEAST_POINTS = 3  # fewer under a roofline show nothing that the notes do not say
UNDER = " A roof is the smaller of the machine's peak and its bandwidth times FLOPs per byte."
ABOVE = (
    " A point can be above it because it read from a cache (a small memory, faster than that bandwidth), needed fewer "
    "FLOPs than are counted, or computed in a format with another peak, or because the roof was measured too low."
)
NO_ROOF = " No peak of this machine is known, so no roof is drawn."
HOST = " On a device, the time of a statement without annotations is only its launch."


def section_figures(section: Section, document: Document) -> list[Chart]:
    """Return a section's figures."""
    parts = (it for it in visible(section.blocks) if isinstance(it, Call) and it.shown == "part")
    titles = {f"{part.name}()": prose.readable_text(part.title) for part in parts}
    times = tuple(replace(time, code=titles.get(time.code, time.code)) for time in section.times)
    tree = StatementTime(prose.readable_text(section.title), 0, "", sum(t.ns for t in times), 1, times)
    run = "the only run (cold)" if document.ran_once else "a second run (warm)"
    time_caption = f"The width of a statement is its time in {run}; its calls are below it."
    memory_caption = (
        "The area is the bytes of tensors alive after each step; a line above it is the peak during one. They were "
        "counted in a run of its own, and are a lower bound: temporary memory inside an operation is not seen."
    )
    codes = {line.number: brief_code(line.text) for row in rows_shown(section.blocks) for line in row.lines}
    memories = memory_points(section.stepping.stops, codes)
    most = max(memories, key=lambda point: point.peak_bytes, default=None)
    title = f"Tensors take at most {formats.byte_size(most.peak_bytes, 3)}, at {most.name}" if most else ""
    figures = (
        _where_time_went(tree, section.slug, time_caption + HOST * (document.machine.device != "cpu")),
        Chart(f"{section.slug}-memory", title, memory(memories), memory_caption),
        _under_the_roof(document, section_points(section.blocks), section.slug, "Statements"),
    )
    return [figure for figure in figures if figure.svg]


def index_figures(document: Document) -> list[Chart]:
    """Return the figures of a machine's index: the time of all sections, and all points under the roofline."""
    sections = []
    for s in document.sections:
        name, ns = f"{s.number} {prose.readable_text(s.title)}", sum(time.ns for time in s.times)
        sections.append(StatementTime(name, 0, document.link(s.slug), ns, 1, s.times))
    tree = StatementTime("main", 0, "", sum(section.ns for section in sections), 1, tuple(sections))
    points = [
        point for s in document.sections for point in section_points(s.blocks, document.link(s.slug).partition("#")[0])
    ]
    caption = "The whole lecture, section by section, and its slowest lines."
    time = _where_time_went(tree, "index", caption, rows=5)
    roof = _under_the_roof(document, points, "index", "All statements of the lecture")
    return [figure for figure in (time, roof) if figure.svg]


def _where_time_went(root: StatementTime, page: str, caption: str, rows: int = 7) -> Chart:
    """Draw where time went, if it is long enough to be worth a figure."""
    longest = max(root.inside, key=lambda time: time.ns, default=root)
    share, whole = formats.percent(longest.ns / max(root.ns, 1)), formats.duration(root.ns)
    title = f"“{formats.one_line(longest.code, 60)}” takes {share} of {whole}"
    return Chart(f"{page}-time", title, flame(root, rows) if root.ns >= WORTH_SHOWING_NS else "", caption)


def _under_the_roof(document: Document, points: Iterable[RoofPoint], page: str, what: str) -> Chart:
    """Draw points under the roofline; few of them, or points far below it, do not justify a figure."""
    roof = roof_of("here", document.machine, points)
    enough = len({formats.number(point.intensity, 2) for point in roof.points}) >= LEAST_POINTS
    shares = sorted((p.flops_per_second / over, p.name) for p in roof.points if (over := roof.over(p)))
    ends = [f"“{formats.one_line(code, 40)}” {formats.percent(share)}" for share, code in (shares[-1:] + shares[:1])]
    under = UNDER + ABOVE * (shares[-1][0] > 1) if shares else NO_ROOF
    title = f"{ends[0]} of its roof, {ends[1]}" if shares else "Roofline"
    caption = f"{what} whose FLOPs and bytes were counted.{under}"
    return Chart(f"{page}-roofline", title, roofline([roof]) if enough else "", caption)


def section_points(blocks: Sequence[Block], page: str = "") -> Iterator[RoofPoint]:
    """Yield the points of inspected or measured statements that were timed and counted.

    The calls that a statement measured are numbered if there are several.
    """
    for row in rows_shown(blocks):
        name, link = formats.one_line(brief_code(row.lines[0].text) if row.lines else "", 60), f"{page}#{row.anchor}"
        for execution in (e for e in row.salient if e.step.annotated or e.step.measured):
            for rate in execution.rates:
                if rate.name == "FLOP/s" and rate.intensity and rate.per_second:
                    number = f"{rate.call}: " if len(execution.step.measured or ()) > 1 else ""
                    yield RoofPoint(rate.intensity, rate.per_second, number + name, link, rate.peak)


def memory_points(stops: Sequence[Stop], codes: Mapping[int, str]) -> list[MemoryPoint]:
    """Return the metered steps of a section without calls, in order; calls are represented by their own steps.

    `codes` are the lines of the page by their numbers.
    """
    points = []
    for number, stop in enumerate(stops, start=1):
        meters = stop.step.meters
        if meters is not None and meters.live_bytes is not None and not stop.inside:
            peak = max(meters.peak_bytes or 0, meters.live_bytes)
            link = f"#{stop.anchor}" if stop.anchor else None
            name = formats.one_line(codes.get(stop.line, f"line {stop.line}"), 32)
            points.append(MemoryPoint(number, meters.live_bytes, peak, name, link))
    return points
