"""Choose the figures of a section or of a whole document: where time went, memory, how near operations came to a roof.

section_figures(section, document)     [Bars("03-tensors-time", "“Strides” takes 61% of 7 ms", …), …]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from trace_tools.analysis.rates import Rate, StatementCost
from trace_tools.pages.document import Block, Document, Execution, Section, brief_code, rows_shown
from trace_tools.presentation import prose
from trace_tools.presentation.charts.measured import CostRow, memory_figure, roof_figure, rows_of, time_figure
from trace_tools.presentation.report import Bar, Bars
from trace_tools.util import formats

FAR = 1e-3  # operations below this share of their roof are far from any limit
HOST = " On a device, the time of a statement without annotations is only its launch."


def section_figures(section: Section, document: Document) -> list[Bars]:
    """Return a section's figures."""
    run = "the only run (cold)" if document.ran_once else "a second run (warm)"
    caption = f"Times are those of {run}; what a statement called is below it."
    time = time_figure(section.slug, rows_of(section.costs), caption + HOST * (document.machine.device != "cpu"))
    roof = roof_figure(section.slug, operations(section.blocks))
    return [*time, *memory_figure(section.slug, section.costs), *roof]


def index_figures(document: Document) -> list[Bars]:
    """Return the figures of a machine's index: the time of all sections, and all operations under their roofs."""
    rows: list[CostRow] = []
    bars: list[Bar] = []
    for s in document.sections:
        name, link = f"{s.number} {prose.readable_text(s.title)}", document.link(s.slug)
        page = link.partition("#")[0]
        rows.append((0, link, StatementCost(name, "", False, sum(cost.ns for cost in s.costs))))
        rows += rows_of(s.costs, page, 1)
        bars += operations(s.blocks, page)
    time = time_figure("index", rows, "The sections, and the slowest parts and lines of the whole lecture.")
    return [*time, *roof_figure("index", bars)]


def operations(blocks: Sequence[Block], page: str = "") -> Iterator[Bar]:
    """Yield how near its roof each inspected or measured operation came that was timed and counted."""
    for row in rows_shown(blocks):
        code, link = brief_code(row.lines[0].text) if row.lines else "", f"{page}#{row.anchor}"
        for execution in (e for e in row.salient if e.step.annotated or e.step.measured):
            for _, rates in groupby(execution.rates, key=lambda rate: rate.call):
                nearest = max(rates, key=lambda rate: rate.share or 0)
                share, intensity = nearest.share or 0.0, nearest.intensity
                if intensity and share >= FAR:
                    label = _operator(execution, nearest) if len(execution.step.measured or ()) > 1 else code
                    roof = "the bandwidth" if nearest.name == "B/s" else f"the {nearest.peak} peak"
                    soft = f"at {formats.number(intensity, 3).removesuffix('.0')} FLOP/byte, under {roof}"
                    yield Bar(label, share, formats.percent(share), soft, link)


def _operator(execution: Execution, rate: Rate) -> str:
    """Return the name of the operator that did most of the work of one of several measured calls."""
    work = (execution.step.measured or [])[(rate.call or 1) - 1].work or [("operation", None, 0, 0)]
    name, *_ = max(work, key=lambda it: it[3] if rate.name == "B/s" else it[2])
    return name.removeprefix("aten.").strip("_")
