"""Summarise a document: the line under a title, a machine's index, and the site's index.

meta(document)                  ["NVIDIA H200", "torch 2.13.0", "3 passes", "all 24 claims hold"]
index_parts(document)           the index of a machine, for both formats, as parts of a report
site_parts(machines)            the same of all machines
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from trace_tools.analysis.outcome import load_text
from trace_tools.analysis.summaries import claim_summary, tells_nothing_new
from trace_tools.machines.peaks import leading_peak, peak_of, ridge
from trace_tools.pages.document import (
    Block,
    ClaimLine,
    CodeListing,
    Document,
    Narration,
    Notice,
    Section,
    first_trouble,
    narratives,
    visible,
)
from trace_tools.pages.narration import reading_minutes
from trace_tools.pages.section_charts import index_figures
from trace_tools.presentation import prose
from trace_tools.presentation.report import Content, Grid, Part, Phrase
from trace_tools.trace.model import Ask, Explore, Machine, Peak, Plot, Process, Text
from trace_tools.util import formats

SETUP = "setup"  # the page of the code outside sections
FOOT = (
    f"{formats.SPREAD} A claim is an assert that was executed; ✓ means that it held in every run. Values that differ "
    "between runs are marked “varies”."
)


# --- the line under a page's title, and notices ---


def failed(claims: Sequence[ClaimLine]) -> int:
    """Return how many claims did not hold in every timed run."""
    return sum(not line.claim.held for line in claims)


def claims_text(claims: Sequence[ClaimLine]) -> str:
    """Summarise the results of claims."""
    if failures := failed(claims):
        return f"{formats.plural(failures, 'claim')} of {len(claims):,} failed"
    if len(claims) > 1:
        return f"all {len(claims):,} claims hold"
    return "its one claim holds" if claims else "no claims"


def meta(document: Document, section: Section | None = None) -> list[str]:
    """Return the parts of the line under a page's title."""
    if section is not None:
        return [reading(section), document.machine.name, claims_text(section.claims)]
    parts, torch = [document.machine.name], dict(document.versions).get("torch")
    if torch:
        parts.append(f"torch {torch}")
    if document.machine.cuda:  # "13.0", or "ROCm 6.4"
        cuda = document.machine.cuda
        parts.append(f"CUDA {cuda}" if cuda[:1].isdigit() else cuda)
    parts.append(formats.plural(document.run.passes, "pass").replace("passs", "passes"))
    return [*parts, claims_text(document.claims)]


def reading(section: Section) -> str:
    """Format the reading time of a section and of its deeper parts."""
    core, deeper = reading_minutes(section.blocks), reading_minutes(section.blocks, deeper=True)
    return f"{core}\u00a0min" + (f" +\u00a0{deeper}\u00a0deeper" if deeper else "")


def opening(section: Section) -> str:
    """Return the first sentence of a section's text, Markdown; "" if it has no text.

    A short label in bold before it, like "The question.", is left out, and then all is returned up to a question.
    With a link in it, it is plain text, because a link's title may have sentences of its own.
    """
    texts = [it.text for it in narratives(section.blocks) if isinstance(it, Text)] or [section.summary or ""]
    paragraph = next(filter(None, map(_first_paragraph, texts)), "")
    unlabelled = re.sub(r"\A\*\*(?:[^*\s]+ ?){1,3}(?:[.:]\*\*|\*\*:)\s+", "", paragraph)
    ends = "?" if unlabelled != paragraph and "?" in unlabelled else ".?!"
    words = prose.readable_text(unlabelled) if "](" in unlabelled else unlabelled
    sentence = re.split(rf"(?<=[{ends}])\s", words, maxsplit=1)[0]
    return sentence if len(sentence) <= LONGEST else _in_words(prose.readable_text(sentence))


def first_words(text: str) -> str:
    """Return the first paragraph of a Markdown text as plain text, cut to the length of a page's description."""
    return _in_words(prose.readable_text(_first_paragraph(text)))


def _first_paragraph(text: str) -> str:
    """Return the first paragraph or list item that is not a mere link, Markdown; "" for a text without."""
    paragraphs = (token for opening, token in pairwise(prose.parse(text)) if opening.type == "paragraph_open")
    ends = ((it.content, it.children[0].type, it.children[-1].type) for it in paragraphs if it.children)
    return next((content for content, *both in ends if both != ["link_open", "link_close"]), "")


LONGEST = 280  # characters of a sentence or a description


def _in_words(text: str) -> str:
    """Return a text on one line, cut between two words if it is longer than `LONGEST`."""
    line, cut = formats.one_line(text, len(text) + LONGEST), formats.one_line(text, LONGEST)
    return line if len(line) <= LONGEST else f"{cut[:-1].rpartition(' ')[0] or cut[:-1]} …"


def closing_words(section: Section) -> str | None:
    """Return the takeaway of a section, Markdown, without a heading in bold; None without a takeaway."""
    closing = (it.narrative for it in section.blocks if isinstance(it, Narration) and it.takeaway)
    text = "\n\n".join(it.text for it in closing if isinstance(it, Text) and it.text)
    return re.sub(r"\A\s*\*\*[^*\n]+\*\*\s*\n\n", "", text) or None


@dataclass(frozen=True, slots=True)
class Covered:
    """A figure, a text, or the code around a line, that is marked `@cover`."""

    kind: Literal["figure", "text", "code"]
    section: Section
    block: Block
    anchor: str = ""  # of the line


def covered(document: Document) -> Iterator[Covered]:
    """Yield the figures, texts and code that are marked `@cover`."""
    for section in document.sections:
        for block in visible(section.blocks):
            if isinstance(block, CodeListing):
                marked = (row for row in block.rows if "cover" in row.marks)
                yield from (Covered("code", section, _alone(block), row.anchor) for row in marked)
            elif isinstance(block, Narration) and block.cover and isinstance(block.narrative, Plot | Explore | Text):
                yield Covered("text" if isinstance(block.narrative, Text) else "figure", section, block)


def _alone(listing: CodeListing) -> CodeListing:
    """Return a listing with the notes next to its lines, without anchors, links to the page and blocks below lines."""
    return CodeListing(
        tuple(
            replace(row, anchor="", beside=tuple(note for note in row.beside if note.kind != "call"), under=())
            for row in listing.rows
        )
    )


def minutes(document: Document) -> tuple[int, int, int]:
    """Return the reading times of a lecture in minutes: its core, its deeper parts, and the summaries alone."""
    summaries = [Narration(Text(text=closing_words(section) or ""), 0) for section in document.sections]
    blocks = [block for section in document.sections for block in section.blocks]
    return reading_minutes(blocks), reading_minutes(blocks, deeper=True), reading_minutes(summaries)


def section_time(section: Section) -> str:
    """Format the time of a section, marked if only the host's clock measured it although a device worked."""
    if section.timing is None:
        return ""
    return formats.spread(section.timing.samples_ns) + (" (host)" if section.timing.clock == "launch" else "")


def section_notices(section: Section, document: Document) -> Iterator[Notice]:
    """Yield what failed in a section, for its page and the index."""
    link = document.link(section.slug, first_trouble(section.blocks) or "")
    if section.failure is not None:
        at = f" at line {section.failure.line}" if section.failure.line is not None else ""
        ended = f"“{section.title}” ended" if section.failure.survived else f"The run ended in “{section.title}”"
        yield Notice("failed", f"{ended} with {section.failure.type}{at}.", link)
    if failed(section.claims):
        yield Notice("failed", f"In “{section.title}”, {claims_text(section.claims)}.", link)


def document_notices(document: Document) -> Iterator[Notice]:
    """Yield the notices of a machine's index."""
    for section in document.sections:
        yield from section_notices(section, document)
    anchor = first_trouble(around(document))
    if anchor:
        yield Notice("failed", "Code outside the sections failed.", document.link(SETUP, anchor))


def around(document: Document) -> tuple[Block, ...]:
    """Return the code outside sections: the module's own, and `main` if it contains no text."""
    return document.setup if speaks(document) else (*document.setup, *document.opening)


def speaks(document: Document) -> bool:
    """Return whether `main` itself contains text, which is then shown on the index."""
    return any(isinstance(block, Narration) for block in document.opening)


# --- a machine's index ---


def index_parts(document: Document) -> Iterator[Content]:
    """Yield the index of a machine: sections, figures, the machine, the run, all claims."""
    rows = [
        [
            Phrase(
                f"{section.number} {section.title}",
                soft=f"ended with {section.failure.type}" if section.failure is not None else "",
                style="title",
                link=document.link(section.slug),
            ),
            Phrase(reading(section)),
            Phrase(claims_in_words(section.claims), link=f"#claims-{section.slug}" if section.claims else ""),
            Phrase(section_time(section), style="right"),
        ]
        for section in document.sections
    ]
    sections = Grid("index", ("section", "reading", "claims", "time"), rows, "Sections")
    yield Part("Sections", [sections], "sections")
    if figures := index_figures(document):
        yield Part("The run in figures", figures, "figures")
    columns = ("process", "ended", "first run", "second run", "peak memory", "remarks")
    peaks = [_cells(peak_texts(peak), right=(1,)) for peak in document.machine.peaks]
    processes = [_cells(_process_texts(process), right=(2, 3)) for process in document.run.processes]
    measured = Grid("index", ("peak", "rate", "source"), peaks, "Peaks")
    yield Part("The machine", [_facts(_machine_facts(document.machine)), measured], "machine")
    yield Part("The run", [_facts(run_facts(document)), Grid("index", columns, processes, "Processes")], "run")
    lists = [(s.slug, f"{s.number} {prose.readable_text(s.title)}", s.claims) for s in document.sections]
    lists.append((SETUP, "Outside the sections", document.claims_outside))
    claims = [
        Part(f"{title}: {claims_in_words(of)}", [_claims(document, slug, of)], f"claims-{slug}", folded=not failed(of))
        for slug, title, of in lists
        if of
    ]
    if claims:
        yield Part("All claims", claims, "claims")
    yield Phrase(FOOT, style="foot")


def claims_in_words(claims: Sequence[ClaimLine]) -> str:
    """Return the numbers of claims that held and that failed: "3 ✓ 1 ✗"; "" without claims."""
    numbers = ((len(claims) - failed(claims), "✓"), (failed(claims), "✗"))
    return " ".join(f"{number:,} {mark}" for number, mark in numbers if number)


def _claims(document: Document, slug: str, claims: Sequence[ClaimLine]) -> Grid:
    """Return claims with links to their lines, and their sides where these add information to the source."""
    rows = []
    for line in claims:
        sides = "" if tells_nothing_new(line.claim) else claim_summary(line.claim)
        judged = f"judged {line.judged} times" if line.judged > 1 else ""
        rows.append(
            [
                Phrase(
                    f"{'✓' if line.claim.held else '✗'} {line.line}",
                    code=formats.one_line(line.claim.source, 160),
                    soft=", ".join(filter(None, (sides, judged))),
                    style="" if line.claim.held else "bad",
                    link=document.link(slug, line.anchor),
                )
            ]
        )
    return Grid("list", ("",), rows)


def _leading_peaks(machine: Machine) -> tuple[Peak | None, Peak | None]:
    """Return the peaks of multiplication and of memory."""
    memory = peak_of(machine, "memory")
    return leading_peak(machine), memory if memory is not None and memory.per_second else None


def peak_texts(peak: Peak) -> tuple[str, str, str]:
    """Return a peak as texts: its name, its rate, its source."""
    unit = "B/s" if peak.name == "memory" else "OP/s" if peak.name.startswith("int") else "FLOP/s"
    rate = "not known" if peak.per_second is None else formats.quantity(peak.per_second, unit)
    return peak.name, rate, peak.source


def _facts(facts: Sequence[tuple[str, str]]) -> Grid:
    return Grid("facts", ("", ""), [_cells(fact) for fact in facts])


def _cells(texts: Sequence[str], right: Sequence[int] = ()) -> list[Phrase]:
    return [Phrase(text, style="right" if column in right else "") for column, text in enumerate(texts)]


def _machine_facts(machine: Machine) -> list[tuple[str, str]]:
    """Return the properties of a machine, without its peaks but with the ridge point of the leading ones."""
    leading, memory = _leading_peaks(machine)
    flops_per_byte = ridge(leading.per_second, memory.per_second) if leading and memory else None
    ridge_point = formats.quantity(flops_per_byte or 0, "FLOP/B", 3)

    def size(of: int | None) -> str | None:
        return formats.byte_size(of) if of is not None else None

    rows = [
        ("name", machine.name),
        ("emulated", "by software: no time was measured on a device" if machine.emulated else None),
        ("memory", size(machine.memory_bytes) if machine.memory_bytes != machine.ram_bytes else None),
        ("multiprocessors", machine.multiprocessors),
        ("compute capability", machine.compute_capability),
        ("L2 cache", size(machine.l2_bytes)),
        ("CPU cache", size(machine.cache_bytes)),
        ("driver", machine.driver),
        ("CUDA", machine.cuda),
        ("float32 matmul precision", machine.tf32),
        ("CPU", machine.cpu if machine.cpu != machine.name else None),
        ("cores", machine.cores),
        ("threads", machine.threads),
        ("RAM", size(machine.ram_bytes)),
        ("system", machine.os),
        (f"ridge point of {leading.name if leading else ''}", ridge_point if flops_per_byte else None),
    ]
    return [(name, str(fact)) for name, fact in rows if fact not in (None, "")]


def run_facts(document: Document) -> list[tuple[str, str]]:
    """Return how the trace was made, and the versions of the software."""
    run = document.run
    cold, warm = run.lasted("cold_ns"), run.lasted("warm_ns")
    first = f"; the first run {formats.duration(statistics.median(cold))}" if warm and cold else ""
    recorded = bool(run.processes)  # unknown if another tool wrote the trace
    runs = "once" if document.ran_once else "twice"
    rows = [
        ("lecture", run.lecture),
        ("started", run.started),
        ("ended", run.ended),
        ("whole lecture", formats.spread(warm or cold) + first if warm or cold else ""),
        ("passes", f"{run.passes}, each in its own process, which runs the lecture {runs}" if recorded else ""),
        ("seed", str(run.seed) if recorded else ""),
        ("commit", run.commit),
        *document.versions,
    ]
    return [(name, text) for name, text in rows if text]


def _process_texts(process: Process) -> tuple[str, str, str, str, str, str]:
    """Return a process as texts: name, end, time of the first and of the second run, memory, remarks."""
    notes = [*(process.notes or []), *([process.why_no_warm] if process.why_no_warm else [])]
    if load := load_text(process):
        notes.append(load)
    if process.floor_ns is not None:
        notes.append(f"an empty step takes {formats.duration(process.floor_ns)} on the device's clock")
    if process.restored:
        notes.append("restored between its runs: " + ", ".join(process.restored))
    cold, warm = (formats.duration(ns) if ns is not None else "–" for ns in (process.cold_ns, process.warm_ns))
    held = [(process.peak_ram_bytes, ""), (process.peak_device_bytes, " on the device")]
    memory = ", ".join(f"{formats.quantity(size, 'B', 3)}{where}" for size, where in held if size is not None)
    return process.name, process.ended, cold, warm, memory or "–", "; ".join(notes)


# --- the site's index ---


@dataclass(frozen=True, slots=True)
class MachineRow:
    """One machine, under a name, in the list of all machines; `folder` contains its pages."""

    name: str
    folder: str
    document: Document

    def link(self, page: str, anchor: str = "") -> str:
        """Return the address of one of its pages, from the site's first page."""
        return f"{self.folder}/{self.document.link(page, anchor)}"

    @property
    def notes(self) -> str:
        """The kinds of notices that concern the whole trace, such as "partial"."""
        kinds = (notice.kind for notice in self.document.notices)
        return ", ".join(kind for kind in kinds if kind in ("emulated", "partial", "stale"))

    @property
    def cells(self) -> list[Phrase]:
        """Its row in the table of machines."""
        document, versions = self.document, dict(self.document.versions)
        times = document.run.lasted("warm_ns") or document.run.lasted("cold_ns")
        peaks = [peak_texts(peak) for peak in _leading_peaks(document.machine) if peak is not None]
        used = next((name for name in ("torch", "python") if name in versions), "")
        return [
            Phrase(self.name, soft=self.notes, link=self.link("index")),
            Phrase(claims_in_words(document.claims)),
            Phrase(formats.duration(statistics.median(times)) if times else "not measured"),
            Phrase(", ".join(f"{rate} {name}" for name, rate, _ in peaks)),
            Phrase(f"{used} {versions[used]}" if used else ""),
            Phrase(f"{document.run.passes}"),
            Phrase(document.run.started[:10]),
        ]


def questions(document: Document) -> int:
    """Return how many questions a lecture asks."""
    return sum(isinstance(it, Ask) for section in document.sections for it in narratives(section.blocks))


def site_parts(machines: Sequence[MachineRow], report: str | None = None) -> Iterator[Content]:
    """Yield the table of machines, and a link to the `report` that compares them."""
    columns = ("machine", "claims", "whole lecture", "peaks", "with", "passes", "traced")
    parts: list[Content] = [
        Phrase("Every number was measured or computed on its machine. “trace-tools trace” makes these pages on yours."),
        Grid("index", columns, [machine.cells for machine in machines], "Machines"),
    ]
    if report is not None:
        parts.append(Phrase("Differences between the machines", link=report))
    yield Part("Machines", parts, "machines", folded=True)
