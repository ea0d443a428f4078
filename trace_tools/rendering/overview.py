"""A document → its facts at a glance: the line under a title, what a machine's index shows, its row in the site's.

meta(document)                             ["NVIDIA H200", "torch 2.13.0", "3 passes", "all 24 claims hold"]
list(key_figures(document))                [KeyFigure("567", "claims, all of them hold"), …]
MachineRow("AMD EPYC", "cpu", document)     one machine of the site's index
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trace_tools import formats
from trace_tools.claim_kinds import tally
from trace_tools.floors import NO_WORK
from trace_tools.ranks import whole_runs
from trace_tools.rates import leading_peak, peak_of, ridge
from trace_tools.rendering import prose
from trace_tools.rendering.document import (
    Block,
    Call,
    ClaimLine,
    Document,
    Narration,
    Notice,
    Section,
    WithClaims,
    first_trouble,
    reading_minutes,
    visible,
)
from trace_tools.schema import Machine, Narrative, Peak, Process, Run
from trace_tools.summaries import claim_summary, tells_nothing_new

Facts = list[tuple[str, str]]

SETUP = "setup"  # the page of the code around the sections


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """One number that a reader wants to see first, what it counts, and what stands behind it."""

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


# --- a page's own line, and what must not be overlooked on it ---


def claims_text(held: int, failed: int) -> str:
    """Say how the claims stand."""
    if failed:
        return f"{formats.plural(failed, 'claim')} of {held + failed:,} failed"
    return "no claims" if not held else f"all {held:,} claims hold" if held > 1 else "its one claim holds"


def meta(document: Document, section: Section | None = None) -> list[str]:
    """Return the parts of the line under a page's title."""
    counted: Document | Section = section if section is not None else document
    parts = [formats.one_line(document.machine.name, 60)]
    run, ranks = document.run, []
    if run.ranks is not None:
        of_nodes = f" on {len(run.nodes)} nodes" if run.nodes else ""
        ranks = [f"{formats.plural(run.ranks, 'rank')}{of_nodes}, the slowest one's times"]
    if section is not None:
        return [reading(section), *parts, claims_text(counted.held, counted.failed), *ranks]
    torch = dict(document.versions).get("torch")
    if torch:
        parts.append(f"torch {formats.one_line(torch, 40)}")
    if document.machine.cuda:  # "13.0", or "ROCm 6.4"
        cuda = formats.one_line(document.machine.cuda, 20)
        parts.append(f"CUDA {cuda}" if cuda[:1].isdigit() else cuda)
    parts.append(formats.plural(document.run.passes, "pass").replace("passs", "passes"))
    return [*parts, *ranks, claims_text(counted.held, counted.failed)]


def reading(section: Section) -> str:
    """Say how long a section takes to read, and its deeper parts."""
    core, deeper = reading_minutes(section.blocks), reading_minutes(section.blocks, deeper=True)
    return f"{core} min" + (f" + {deeper} deeper" if deeper else "")


def opening_words(section: Section) -> str:
    """Return the sentence with which a section's text begins, as plain text; "" where it has none."""
    told = next((it.narrative.text for it in _texts(section.blocks)), section.summary) or ""
    return _in_words(re.split(r"(?<=[.?!])\s", _first_paragraph(told), maxsplit=1)[0])


def first_words(told: str) -> str:
    """Return the first paragraph of a Markdown text as plain text, cut to what others show of a page."""
    return _in_words(_first_paragraph(told))


def _first_paragraph(told: str) -> str:
    return prose.plain_text(told.partition("\n\n")[0])


def _in_words(text: str, limit: int = 280) -> str:
    """Return a text on one line, cut between two words where it is longer."""
    whole, cut = formats.one_line(text, len(text) + limit), formats.one_line(text, limit)
    return whole if len(whole) <= limit else f"{cut[:-1].rpartition(' ')[0] or cut[:-1]} …"


def closing_words(section: Section) -> str | None:
    """Return what a section says after its last part, Markdown: its summary."""
    parts = [at for at, block in enumerate(section.blocks) if isinstance(block, Call) and block.shown == "part"]
    said = [it.narrative.text for it in section.blocks[parts[-1] + 1 :] if it in _texts((it,))] if parts else []
    return "\n\n".join(text for text in said if text) or None


def _texts(blocks: Sequence[Block]) -> list[Narration]:
    return [it for it in visible(blocks) if isinstance(it, Narration) and it.narrative.kind == "text"]


def cover(document: Document) -> tuple[Section, Narration] | None:
    """Return the figure that the lecture wants on its first page, with its section."""
    for section in document.sections:
        for it in visible(section.blocks):
            if isinstance(it, Narration) and it.cover and it.narrative.kind == "plot":
                return section, it
    return None


def minutes(document: Document) -> tuple[int, int, int]:
    """Return how long a lecture takes to read: its core, what is deeper, and the summaries alone."""
    summaries = [Narration(Narrative("text", text=closing_words(section)), 0) for section in document.sections]
    blocks = [block for section in document.sections for block in section.blocks]
    return reading_minutes(blocks), reading_minutes(blocks, deeper=True), reading_minutes(summaries)


def section_time(section: Section) -> str:
    """Say how long a section took; where only the host's clock ran beside a device's work, say that."""
    if section.timing is None:
        return ""
    return formats.spread(section.timing.samples_ns) + (" (host)" if section.timing.clock == "launch" else "")


def section_notices(section: Section) -> Iterator[Notice]:
    """Yield what must not be overlooked on a section's page."""
    anchor = first_trouble(section.blocks)
    link = f"#{anchor}" if anchor else None
    if section.failure is not None:
        where = f" at line {section.failure.line}" if section.failure.line is not None else ""
        began = "This section ended" if section.failure.survived else "The run ended in this section"
        yield Notice("failed", f"{began} with {section.failure.type}{where}.", link)
    if section.failed:
        yield Notice("failed", f"On this page, {claims_text(section.held, section.failed)}.", link)


def document_notices(document: Document) -> Iterator[Notice]:
    """Yield what must not be overlooked on a machine's index."""
    for section in document.sections:
        anchor = first_trouble(section.blocks)
        link = f"{section.slug}.html" + (f"#{anchor}" if anchor else "")
        if section.failure is not None:
            began = f"“{section.title}” ended" if section.failure.survived else f"The run ended in “{section.title}”"
            yield Notice("failed", f"{began} with {section.failure.type}.", link)
        if section.failed:
            yield Notice("failed", f"In “{section.title}”, {claims_text(section.held, section.failed)}.", link)
    anchor = first_trouble(around(document))
    if anchor:
        yield Notice("failed", "Something failed around the sections.", f"{SETUP}.html#{anchor}")
    for line in document.violations:
        yield Notice("doubtful", f"Not everything here can be right: {line}.")
    if document.why_no_floors == NO_WORK:
        yield Notice("info", f"There are no floors on these pages: {NO_WORK}.")


def around(document: Document) -> tuple[Block, ...]:
    """Return the code around the sections: the module's own, and `main` where it says nothing to the reader."""
    return document.setup if speaks(document) else (*document.setup, *document.opening)


def speaks(document: Document) -> bool:
    """Whether `main` itself says something to the reader: that stands on the index."""
    return any(isinstance(block, Narration) for block in document.opening)


def claim_texts(line: ClaimLine) -> tuple[str, str, bool]:
    """Return a claim's source, its sides as they were, and whether these say more."""
    return formats.one_line(line.claim.source, 160), claim_summary(line.claim), not tells_nothing_new(line.claim)


# --- a machine's index ---


def claim_lists(document: Document) -> list[ClaimList]:
    """Return the claims of the lecture, page by page; of pages without any, nothing."""
    lists = [ClaimList(s.slug, f"{s.number} {s.title}", s.claims) for s in document.sections]
    lists.append(ClaimList(SETUP, "Outside the sections", document.claims_outside))
    return [listed for listed in lists if listed.claims]


def claim_kinds_text(document: Document) -> str:
    """Say what stands behind the claims; "" where there are none."""
    return tally(line.kind for listed in claim_lists(document) for line in listed.claims)


def headline(document: Document) -> Iterator[tuple[str, str]]:
    """Yield in words how the claims stand, how long `main` took, and what was recorded."""
    yield "claims", claims_text(document.held, document.failed)
    if kinds := claim_kinds_text(document):
        yield "what stands behind them", kinds
    for name, times in (("first run", _cold_runs(document.run)), ("second run", _warm_runs(document.run))):
        if times:
            yield name, f"{formats.spread(times)} for all of main()"
    sections = formats.plural(len(document.sections), "section")
    yield "recorded", f"{formats.plural(document.steps, 'step')} in {sections}"


def key_figures(document: Document) -> Iterator[KeyFigure]:
    """Yield what a reader wants to see first: do the claims hold, how long did it take, how fast is the machine."""
    if document.failed:
        yield KeyFigure(f"{document.failed:,}", f"of {document.held + document.failed:,} claims failed", bad=True)
    elif document.held:
        label = "claims, all of them hold" if document.held > 1 else "claim, it holds"
        yield KeyFigure(f"{document.held:,}", label, claim_kinds_text(document))
    cold, warm = _cold_runs(document.run), _warm_runs(document.run)
    if warm or cold:
        first = f"{formats.duration(statistics.median(cold))} the first time" if warm and cold else ""
        yield KeyFigure(formats.spread(warm or cold), "for the whole lecture", first)
    yield KeyFigure(f"{document.steps:,}", f"steps in {formats.plural(len(document.sections), 'section')}")
    leading, memory = leading_peak(document.machine), _bandwidth(document.machine)
    for peak in (leading, memory):
        if peak is not None:
            name, rate, source = peak_texts(peak)
            yield KeyFigure(rate, f"{name}, at most", source)
    meet = ridge(leading.per_second, memory.per_second) if leading is not None and memory is not None else None
    if leading is not None and meet is not None:
        yield KeyFigure(formats.quantity(meet, "FLOP/B", 3), "where the roofs meet", f"{leading.name} over memory")


def _bandwidth(machine: Machine) -> Peak | None:
    memory = peak_of(machine, "memory")
    return memory if memory is not None and memory.per_second else None


def _cold_runs(run: Run) -> Sequence[int]:
    """Return how long `main` took in each process at first, in nanoseconds."""
    return whole_runs(run, "cold_ns")


def _warm_runs(run: Run) -> Sequence[int]:
    """Return how long it took once more, in nanoseconds."""
    return whole_runs(run, "warm_ns")


def peak_texts(peak: Peak) -> tuple[str, str, str]:
    """Return a peak as texts: what, how much, from where."""
    unit = "B/s" if peak.name == "memory" else "OP/s" if peak.name.startswith("int") else "FLOP/s"
    rate = "not known" if peak.per_second is None else formats.quantity(peak.per_second, unit)
    return formats.one_line(peak.name, 40), rate, formats.one_line(peak.source, 200)


def machine_facts(machine: Machine) -> Facts:
    """Return what is known of a machine besides its peaks."""

    def size(of: int | None) -> str | None:
        return formats.byte_size(of) if of is not None else None

    rows = [
        ("name", machine.name),
        ("emulated", "by software: no time here was measured on a device" if machine.emulated else None),
        ("memory", size(machine.memory_bytes) if machine.memory_bytes != machine.ram_bytes else None),
        ("multiprocessors", machine.multiprocessors),
        ("compute capability", machine.compute_capability),
        ("L2 cache", size(machine.l2_bytes)),
        ("CPU's cache", size(machine.cache_bytes)),
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
    """Return how the trace was made, and by which versions."""
    run = document.run
    story = ""
    if run.story is not None:
        typical = f", the most typical of {formats.plural(run.timed_runs, 'run')}" if run.timed_runs else ""
        story = f"values and prose are of {run.story}{typical}"
    known = bool(run.processes)  # of a trace that another tool wrote, how it was made is not
    rows = [
        ("lecture", run.lecture),
        ("started", run.started),
        ("ended", run.ended),
        ("passes", f"{run.passes}, each a process of its own that runs the lecture twice" if known else ""),
        ("ranks", _ranks_in_words(run)),
        ("story", story),
        ("seed", str(run.seed) if known else ""),
        ("commit", run.commit),
        *document.versions,
    ]
    return [(formats.one_line(name, 40), formats.one_line(text, 200)) for name, text in rows if text]


def _ranks_in_words(run: Run) -> str:
    """Say how many ranks a pass was, and where they ran."""
    if run.ranks is None:
        return ""
    if not run.nodes:
        return str(run.ranks)
    there = run.nodes if len({*run.nodes}) > 1 else run.nodes[:1]
    return f"{run.ranks}, {run.ranks // len(run.nodes)} on each of {len(run.nodes)} nodes: {', '.join(there)}"


def process_texts(process: Process) -> tuple[str, str, str, str, str, str]:
    """Return a process as texts: its name, how it ended, its first run and its second, its memory, remarks."""
    notes = [*(process.notes or []), *([process.why_no_warm] if process.why_no_warm else [])]
    if process.restored:
        notes.append("restored between its runs: " + ", ".join(process.restored))
    cold, warm = (formats.duration(ns) if ns is not None else "–" for ns in (process.cold_ns, process.warm_ns))
    held = [(process.peak_ram_bytes, ""), (process.peak_device_bytes, " on the device")]
    memory = ", ".join(f"{formats.quantity(size, 'B', 3)}{where}" for size, where in held if size is not None)
    remarks = formats.one_line("; ".join(notes), 300)
    name = process.name if process.rank is None else f"{process.name}, rank {process.rank}"
    return formats.one_line(name, 40), formats.one_line(process.ended, 200), cold, warm, memory or "–", remarks


# --- the site's index ---


@dataclass(frozen=True, slots=True)
class MachineRow:
    """One machine in the list of all machines, under a name; `folder` is where its pages lie."""

    name: str
    folder: str
    document: Document

    @property
    def torch(self) -> str:
        """The version that ran."""
        return dict(self.document.versions).get("torch", "–")

    @property
    def duration(self) -> str:
        """How long `main` took: warm where it was run twice."""
        times = _warm_runs(self.document.run) or _cold_runs(self.document.run)
        return formats.duration(statistics.median(times)) if times else "not measured"

    @property
    def peaks(self) -> list[tuple[str, str, str]]:
        """Of multiplication and memory: what, how fast, from where."""
        machine = self.document.machine
        return [peak_texts(peak) for peak in (leading_peak(machine), _bandwidth(machine)) if peak is not None]

    @property
    def notes(self) -> list[str]:
        """What is wrong with its trace as a whole."""
        return [notice.kind for notice in self.document.notices if notice.kind in ("emulated", "partial", "stale")]


@dataclass(frozen=True, slots=True)
class SectionRow:
    """One section in the list of all sections, with its page on each machine that has it."""

    number: int
    title: str
    pages: tuple[tuple[str, str, int, int], ...]  # machine, address without its ending, claims held, failed
