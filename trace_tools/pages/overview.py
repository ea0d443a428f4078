"""Summarise a document: the line under a title, a machine's index, and its row in the site's index.

meta(document)                             ["NVIDIA H200", "torch 2.13.0", "3 passes", "all 24 claims hold"]
list(key_figures(document))                [KeyFigure("567", "claims, all hold"), …]
MachineRow("AMD EPYC", "cpu", document)     one machine of the site's index
"""

from __future__ import annotations

import html
import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from markdown_it.token import Token
from markupsafe import Markup

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
    WithClaims,
    first_trouble,
    narratives,
    visible,
)
from trace_tools.pages.reading_time import reading_minutes
from trace_tools.presentation import prose
from trace_tools.presentation.formulas import mathml
from trace_tools.presentation.markdown_text import escape
from trace_tools.presentation.report import Grid, Part, Phrase
from trace_tools.trace.model import Explore, Machine, Peak, Plot, Process, Run, Text
from trace_tools.util import formats

Facts = list[tuple[str, str]]

SETUP = "setup"  # the page of the code outside sections
LABEL = 3  # most words of a label before a sentence
_FORMULA = Token("text", "", 0, content="\ue000")  # replaces a formula until a sentence is cut


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """A key figure of a run: a number, its label, and a note on its origin."""

    value: str
    label: str
    note: str = ""
    bad: bool = False


@dataclass(frozen=True, slots=True)
class ClaimList(WithClaims):
    """The claims of one page in the list of all claims."""

    slug: str
    title: str
    claims: tuple[ClaimLine, ...]


# --- the line under a page's title, and notices ---


def claims_text(held: int, failed: int) -> str:
    """Summarise the results of claims."""
    if failed:
        return "{claims} of {all} failed".format(claims=formats.plural(failed, "claim"), all=f"{held + failed:,}")
    if held > 1:
        return "all {n} claims hold".format(n=f"{held:,}")
    return "its one claim holds" if held else "no claims"


def meta(document: Document, section: Section | None = None) -> list[str]:
    """Return the parts of the line under a page's title."""
    counted: Document | Section = section if section is not None else document
    parts = [document.machine.name]
    if section is not None:
        return [reading(section), *parts, claims_text(counted.held, counted.failed)]
    torch = dict(document.versions).get("torch")
    if torch:
        parts.append(f"torch {formats.one_line(torch, 40)}")
    if document.machine.cuda:  # "13.0", or "ROCm 6.4"
        cuda = document.machine.cuda
        parts.append(f"CUDA {cuda}" if cuda[:1].isdigit() else cuda)
    parts.append(formats.plural(document.run.passes, "pass").replace("passs", "passes"))
    return [*parts, claims_text(counted.held, counted.failed)]


def reading(section: Section) -> str:
    """Format the reading time of a section and of its deeper parts."""
    core, deeper = reading_minutes(section.blocks), reading_minutes(section.blocks, deeper=True)
    minutes = f"{core} min"
    return minutes + (f" + {deeper} deeper" if deeper else "")


def opening_words(section: Section) -> str:
    """Return the first sentence of a section's text as plain text; "" if it has no text."""
    return _opening(section, lambda formula: formula, str)


def opening_html(section: Section) -> Markup:
    """Return that sentence with its formulas, as HTML."""
    return Markup(_opening(section, mathml, html.escape))


def opening_markdown(section: Section) -> str:
    """Return that sentence with its formulas, as Markdown."""
    return _opening(section, lambda formula: f"${formula}$", escape)


def _opening(section: Section, write: Callable[[str], str], escaped: Callable[[str], str]) -> str:
    """Return the first sentence of a section, cut to 280 characters; a formula counts as one and is never cut.

    A short label in bold before it, like "The question.", is left out, and then all is returned up to a question.
    """
    texts = [it.text for it in narratives(section.blocks) if isinstance(it, Text)] or [section.summary or ""]
    formulas: list[str] = []
    labelled: list[str] = []

    def words(token: Token) -> str:
        children = [child for child in token.children or [] if child.content or child.type != "text"]
        if [child.type for child in children[:3]] == ["strong_open", "text", "strong_close"] and children[3:]:
            label = children[1].content
            if label[-1] in ".:。：" and len(label.split()) <= LABEL:
                children = children[3:]
                labelled.append(label)
        formulas.extend(child.content for child in children if child.type.startswith("math"))
        return prose.plain(replace(token, children=[_FORMULA if it.type.startswith("math") else it for it in children]))

    paragraph = next(filter(None, (_first_paragraph(text, words) for text in texts)), "")
    is_question = labelled and "?" in paragraph
    ends = "?" if is_question else ".?!"
    sentence = _in_words(re.split(rf"(?<=[{ends}])\s", paragraph.lstrip(": "), maxsplit=1)[0])
    pieces = escaped(sentence).split(_FORMULA.content)
    return pieces[0] + "".join(write(formula) + piece for formula, piece in zip(formulas, pieces[1:], strict=False))


def first_words(text: str) -> str:
    """Return the first paragraph of a Markdown text as plain text, cut to the length of a page's description."""
    return _in_words(_first_paragraph(text))


def _first_paragraph(text: str, words: Callable[[Token], str] = prose.plain) -> str:
    """Return the first paragraph or list item; "" for a text with only headings, tables or code."""
    tokens = pairwise(prose.parse(text))
    return next((words(token) for opening, token in tokens if opening.type == "paragraph_open"), "")


def _in_words(text: str, limit: int = 280) -> str:
    """Return a text on one line, cut between two words if it is longer than `limit`."""
    line, cut = formats.one_line(text, len(text) + limit), formats.one_line(text, limit)
    return line if len(line) <= limit else f"{cut[:-1].rpartition(' ')[0] or cut[:-1]} …"


def closing_words(section: Section) -> str | None:
    """Return the takeaway of a section, Markdown, without a heading in bold; None without a takeaway."""
    closing = (it.narrative for it in section.blocks if isinstance(it, Narration) and it.takeaway)
    text = "\n\n".join(it.text for it in closing if isinstance(it, Text) and it.text)
    return re.sub(r"\A\s*\*\*[^*\n]+\*\*\s*\n\n", "", text) or None


@dataclass(frozen=True, slots=True)
class Cover:
    """The figure, and the code around a line, marked `@cover` for the first page; each with its section."""

    figure: tuple[Section, Narration] | None
    code: tuple[Section, CodeListing, str] | None  # the third is the anchor of the marked line

    @property
    def explored(self) -> dict[str, Explore]:
        """The figure by its id, if it has inputs."""
        it = self.figure[1] if self.figure is not None else None
        return {f"said-{it.number}": it.narrative} if it is not None and isinstance(it.narrative, Explore) else {}


def cover(document: Document) -> Cover:
    """Return the first figure and the first line of code that are marked `@cover`."""
    figure: tuple[Section, Narration] | None = None
    code: tuple[Section, CodeListing, str] | None = None
    for section in document.sections:
        for it in visible(section.blocks):
            if isinstance(it, Narration) and it.cover and isinstance(it.narrative, Plot | Explore):
                # on one page with its section, it needs a number of its own
                figure = figure or (section, replace(it, number=0) if document.one_page else it)
            elif code is None and isinstance(it, CodeListing):
                marked = next((row.anchor for row in it.rows if "cover" in row.marks), None)
                code = (section, _alone(it), marked) if marked is not None else None
    return Cover(figure, code)


def _alone(listing: CodeListing) -> CodeListing:
    """Return a listing with the notes next to its lines, without details, links, anchors and blocks below them."""
    rows = []
    for row in listing.rows:
        notes = (n for n in row.beside if n.kind == "held" or not (n.kind == "call" or n.collapsed))
        beside = tuple(replace(note, facts=(), collapsed=False) for note in notes)
        rows.append(replace(row, anchor="", marks=frozenset(), beside=beside, under=()))
    return CodeListing(tuple(rows))


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


def section_notices(section: Section) -> Iterator[Notice]:
    """Yield the notices of a section's page."""
    yield from (Notice("info", f"Left out of the trace: {line}.") for line in section.left_out)
    anchor = first_trouble(section.blocks)
    link = f"#{anchor}" if anchor else None
    if section.failure is not None:
        where = f" at line {section.failure.line}" if section.failure.line is not None else ""
        began = "This section ended" if section.failure.survived else "The run ended in this section"
        yield Notice("failed", f"{began} with {section.failure.type}{where}.", link)
    if section.failed:
        yield Notice("failed", f"On this page, {claims_text(section.held, section.failed)}.", link)


def document_notices(document: Document) -> Iterator[Notice]:
    """Yield the notices of a machine's index."""
    yield from (Notice("info", f"Left out of the trace: {line}.") for line in document.left_out)
    for section in document.sections:
        anchor = first_trouble(section.blocks)
        link = document.link(section.slug, anchor or "")
        if section.failure is not None:
            began = f"“{section.title}” ended" if section.failure.survived else f"The run ended in “{section.title}”"
            yield Notice("failed", f"{began} with {section.failure.type}.", link)
        if section.failed:
            yield Notice("failed", f"In “{section.title}”, {claims_text(section.held, section.failed)}.", link)
    anchor = first_trouble(around(document))
    if anchor:
        yield Notice("failed", "Code outside the sections failed.", document.link(SETUP, anchor))
    for line in document.violations:
        yield Notice("doubtful", f"This trace is not consistent: {line}.")


def around(document: Document) -> tuple[Block, ...]:
    """Return the code outside sections: the module's own, and `main` if it contains no text."""
    return document.setup if speaks(document) else (*document.setup, *document.opening)


def speaks(document: Document) -> bool:
    """Return whether `main` itself contains text, which is then shown on the index."""
    return any(isinstance(block, Narration) for block in document.opening)


def claim_texts(line: ClaimLine) -> tuple[str, str, bool]:
    """Return a claim's source, its two sides, and whether the sides add information to the source."""
    return formats.one_line(line.claim.source, 160), claim_summary(line.claim), not tells_nothing_new(line.claim)


# --- a machine's index ---


def claim_lists(document: Document) -> list[ClaimList]:
    """Return the claims of the lecture, page by page, without pages that have no claims."""
    lists = [ClaimList(s.slug, f"{s.number} {s.title}", s.claims) for s in document.sections]
    lists.append(ClaimList(SETUP, "Outside the sections", document.claims_outside))
    return [listed for listed in lists if listed.claims]


def key_figures(document: Document) -> Iterator[KeyFigure]:
    """Yield the key figures of a run: its claims, its time, its steps, the machine's peaks and their ridge point."""
    if document.failed:
        yield KeyFigure(f"{document.failed:,}", f"of {document.held + document.failed:,} claims failed", bad=True)
    elif document.held:
        label = "claims, all hold" if document.held > 1 else "claim, it holds"
        yield KeyFigure(f"{document.held:,}", label)
    cold, warm = _cold_runs(document.run), _warm_runs(document.run)
    if warm or cold:
        first = f"{formats.duration(statistics.median(cold))} in the first run" if warm and cold else ""
        yield KeyFigure(formats.spread(warm or cold), "for the whole lecture", first)
    yield KeyFigure(
        f"{document.steps:,}",
        "steps in {sections}".format(sections=formats.plural(len(document.sections), "section")),
    )
    leading, memory = leading_peak(document.machine), _bandwidth(document.machine)
    for peak in (leading, memory):
        if peak is not None:
            name, rate, source = peak_texts(peak)
            yield KeyFigure(rate, f"{name}, peak", source)
    ridge_point = ridge(leading.per_second, memory.per_second) if leading is not None and memory is not None else None
    if leading is not None and ridge_point is not None:
        yield KeyFigure(
            formats.quantity(ridge_point, "FLOP/B", 3),
            "ridge point",
            f"{leading.name} peak ÷ memory bandwidth",
        )


def _bandwidth(machine: Machine) -> Peak | None:
    memory = peak_of(machine, "memory")
    return memory if memory is not None and memory.per_second else None


def _cold_runs(run: Run) -> Sequence[int]:
    """Return the time of the first run of `main` in each process, in nanoseconds."""
    return run.lasted("cold_ns")


def _warm_runs(run: Run) -> Sequence[int]:
    """Return the time of the second, warm run of `main` in each process, in nanoseconds."""
    return run.lasted("warm_ns")


def peak_texts(peak: Peak) -> tuple[str, str, str]:
    """Return a peak as texts: its name, its rate, its source."""
    unit = "B/s" if peak.name == "memory" else "OP/s" if peak.name.startswith("int") else "FLOP/s"
    rate = "not known" if peak.per_second is None else formats.quantity(peak.per_second, unit)
    return peak.name, rate, peak.source


def machine_and_run(document: Document) -> tuple[Part, Part]:
    """Return the machine with its peaks, and how the trace was made, as parts of a page."""
    peaks = [_cells(peak_texts(peak), right=(1,)) for peak in document.machine.peaks]
    processes = [_cells(_process_texts(process), right=(2, 3)) for process in document.run.processes]
    measured = Grid("index", ("peak", "rate", "source"), peaks, "Peaks")
    columns = ("process", "ended", "first run", "second run", "peak memory", "remarks")
    return (
        Part("The machine", (_facts(_machine_facts(document.machine)), measured), "machine"),
        Part("The run", (_facts(run_facts(document)), Grid("index", columns, processes, "Processes")), "run"),
    )


def _facts(facts: Facts) -> Grid:
    return Grid("facts", ("", ""), [_cells(fact) for fact in facts])


def _cells(texts: Sequence[str], right: Sequence[int] = ()) -> list[Phrase]:
    return [Phrase(text, style="right" if column in right else "") for column, text in enumerate(texts)]


def _machine_facts(machine: Machine) -> Facts:
    """Return the properties of a machine, without its peaks."""

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
    ]
    return [(name, formats.one_line(str(fact), 200)) for name, fact in rows if fact not in (None, "")]


def run_facts(document: Document) -> Facts:
    """Return how the trace was made, and the versions of the software."""
    run = document.run
    recorded = bool(run.processes)  # unknown if another tool wrote the trace
    passes = (
        "{n}, each in its own process, which runs the lecture once"
        if document.ran_once
        else "{n}, each in its own process, which runs the lecture twice"
    )
    rows = [
        ("lecture", run.lecture),
        ("started", run.started),
        ("ended", run.ended),
        ("passes", passes.format(n=run.passes) if recorded else ""),
        ("seed", str(run.seed) if recorded else ""),
        ("commit", run.commit),
        *document.versions,
    ]
    return [(formats.one_line(name, 40), formats.one_line(text, 200)) for name, text in rows if text]


def _process_texts(process: Process) -> tuple[str, str, str, str, str, str]:
    """Return a process as texts: name, end, time of the first and of the second run, memory, remarks."""
    notes = [*(process.notes or []), *([process.why_no_warm] if process.why_no_warm else [])]
    if process.other_cores is not None and (load := load_text(process)):
        notes.append(load)
    if process.floor_ns is not None:
        sentence = "an empty step takes {time} on the device's clock"
        notes.append(sentence.format(time=formats.duration(process.floor_ns)))
    if process.restored:
        notes.append("restored between its runs: " + ", ".join(process.restored))
    cold, warm = (formats.duration(ns) if ns is not None else "–" for ns in (process.cold_ns, process.warm_ns))
    held = [(process.peak_ram_bytes, ""), (process.peak_device_bytes, " on the device")]
    memory = ", ".join(f"{formats.quantity(size, 'B', 3)}{where}" for size, where in held if size is not None)
    all_notes = formats.one_line("; ".join(notes), 300)
    return (
        process.name,
        process.ended,
        cold,
        warm,
        memory or "–",
        all_notes,
    )


# --- the site's index ---


@dataclass(frozen=True, slots=True)
class MachineRow:
    """One machine, under a name, in the list of all machines; `folder` contains its pages."""

    name: str
    folder: str
    document: Document

    def link(self, page: str, anchor: str = "") -> str:
        """Return the address of one of its pages, from the site's first page."""
        at = self.document.link(page, anchor)
        return at if self.document.one_page else f"{self.folder}/{at}"

    @property
    def used(self) -> tuple[str, str]:
        """The library that ran the lecture, with its version: torch, or else Python."""
        versions = dict(self.document.versions)
        return next(((name, versions[name]) for name in ("torch", "python") if name in versions), ("python", "–"))

    @property
    def duration(self) -> str:
        """The time of `main`: of the warm run if it ran twice."""
        times = _warm_runs(self.document.run) or _cold_runs(self.document.run)
        return formats.duration(statistics.median(times)) if times else "not measured"

    @property
    def peaks(self) -> list[tuple[str, str, str]]:
        """The peaks of multiplication and memory: name, rate, source."""
        machine = self.document.machine
        return [peak_texts(peak) for peak in (leading_peak(machine), _bandwidth(machine)) if peak is not None]

    @property
    def notes(self) -> list[str]:
        """The kinds of notices that concern the whole trace, such as "partial"."""
        return [notice.kind for notice in self.document.notices if notice.kind in ("emulated", "partial", "stale")]


@dataclass(frozen=True, slots=True)
class SectionRow:
    """One section in the list of all sections, with its page on each machine that ran it."""

    number: int
    title: str
    pages: tuple[tuple[str, str, int, int], ...]  # machine, address without its ending, claims held, failed
