"""A document → its facts at a glance: the line under a title, the machine's table, all claims.

meta(document, section)         ["NVIDIA H200", "torch 2.13.0", "3 passes", "all 24 claims hold"]
machine_overview(document)      what the machine's index shows
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trace_tools import formats
from trace_tools.rendering import folding
from trace_tools.rendering.claim_list import SectionClaims, claim_list
from trace_tools.rendering.document import Block, Document, Notice, Said, Section
from trace_tools.rendering.headline import Figure, cold_runs, figures, peak_texts, warm_runs
from trace_tools.schema import Machine, Process, Run

Facts = list[tuple[str, str]]

SETUP = "setup"  # the page of the code around the sections


@dataclass(frozen=True, slots=True)
class Overview:
    """What a machine's index shows beside the sections."""

    headline: Facts
    figures: list[Figure]
    machine: Facts
    peaks: list[tuple[str, str, str]]  # what, how much, from where
    run: Facts
    processes: list[tuple[str, str, str, str, str]]  # name, how it ended, first run, second, remarks
    claims: list[SectionClaims]


@dataclass(frozen=True, slots=True)
class SectionRow:
    """One section in the list of all sections, with its page on each machine that has it."""

    number: int
    title: str
    pages: tuple[tuple[str, str, int, int], ...]  # machine, address without its ending, claims held, failed


def claims_text(held: int, failed: int) -> str:
    """Say how the claims stand."""
    if failed:
        return f"{formats.plural(failed, 'claim')} of {held + failed:,} failed"
    return "no claims" if not held else f"all {held:,} claims hold" if held > 1 else "its one claim holds"


def meta(document: Document, section: Section | None = None) -> list[str]:
    """Return the parts of the line under a page's title."""
    counted: Document | Section = section if section is not None else document
    parts = [formats.one_line(document.machine.name, 60)]
    torch = dict(document.versions).get("torch")
    if torch:
        parts.append(f"torch {formats.one_line(torch, 40)}")
    if document.machine.cuda:
        parts.append(f"CUDA {formats.one_line(document.machine.cuda, 20)}")
    parts.append(formats.plural(document.run.passes, "pass").replace("passs", "passes"))
    if section is not None and section.timing is not None:
        parts.append(section_time(section))
    return [*parts, claims_text(counted.held, counted.failed)]


def section_time(section: Section) -> str:
    """Say how long a section took; where only the host's clock ran beside a device's work, say that."""
    if section.timing is None:
        return ""
    return formats.spread(section.timing.samples_ns) + (" (host)" if section.timing.clock == "launch" else "")


def section_notices(section: Section) -> Iterator[Notice]:
    """Yield what must not be overlooked on a section's page."""
    anchor = folding.first_trouble(section.blocks)
    link = f"#{anchor}" if anchor else None
    if section.failure is not None:
        where = f" at line {section.failure.line}" if section.failure.line is not None else ""
        yield Notice("failed", f"The run ended in this section with {section.failure.type}{where}.", link)
    if section.failed:
        yield Notice("failed", f"On this page, {claims_text(section.held, section.failed)}.", link)


def document_notices(document: Document) -> Iterator[Notice]:
    """Yield what must not be overlooked on a machine's index."""
    for section in document.sections:
        anchor = folding.first_trouble(section.blocks)
        link = f"{section.slug}.html" + (f"#{anchor}" if anchor else "")
        if section.failure is not None:
            yield Notice("failed", f"The run ended in “{section.title}” with {section.failure.type}.", link)
        if section.failed:
            yield Notice("failed", f"In “{section.title}”, {claims_text(section.held, section.failed)}.", link)
    anchor = folding.first_trouble(around(document))
    if anchor:
        yield Notice("failed", "Something failed around the sections.", f"{SETUP}.html#{anchor}")


def around(document: Document) -> tuple[Block, ...]:
    """Return the code around the sections: the module's own, and `main` where it says nothing to the reader."""
    return document.setup if speaks(document) else (*document.setup, *document.opening)


def speaks(document: Document) -> bool:
    """Whether `main` itself says something to the reader: that stands on the index."""
    return any(isinstance(block, Said) for block in document.opening)


def machine_overview(document: Document) -> Overview:
    """Return what a machine's index shows."""
    return Overview(
        headline=_headline(document),
        figures=list(figures(document)),
        machine=_machine(document.machine),
        peaks=[peak_texts(peak.name, peak.per_second, peak.source) for peak in document.machine.peaks],
        run=_run(document),
        processes=[_process(process) for process in document.run.processes],
        claims=list(claim_list(document, SETUP)),
    )


def _headline(document: Document) -> Facts:
    found = [("claims", claims_text(document.held, document.failed))]
    for name, times in (("first run", cold_runs(document)), ("second run", warm_runs(document))):
        if times:
            found.append((name, f"{formats.spread(times)} for all of `main()`".replace("`", "")))
    sections = formats.plural(len(document.sections), "section")
    return [*found, ("recorded", f"{formats.plural(document.steps, 'step')} in {sections}")]


def _machine(machine: Machine) -> Facts:
    sizes = [
        ("memory", machine.memory_bytes),
        ("L2 cache", machine.l2_bytes),
        ("RAM", machine.ram_bytes),
    ]
    known = {name: formats.byte_size(size) for name, size in sizes if size is not None}
    rows = [
        ("name", machine.name),
        ("memory", known.get("memory")),
        ("multiprocessors", _text(machine.multiprocessors)),
        ("compute capability", machine.compute_capability),
        ("L2 cache", known.get("L2 cache")),
        ("driver", machine.driver),
        ("CUDA", machine.cuda),
        ("float32 matmul precision", machine.tf32),
        ("CPU", machine.cpu),
        ("cores", _text(machine.cores)),
        ("threads", _text(machine.threads)),
        ("RAM", known.get("RAM")),
        ("system", machine.os),
    ]
    return [(name, formats.one_line(text, 200)) for name, text in rows if text]


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


def _run(document: Document) -> Facts:
    run = document.run
    rows = [
        ("lecture", run.lecture),
        ("started", run.started),
        ("ended", run.ended),
        ("passes", f"{run.passes}, each a process of its own that runs the lecture twice"),
        ("story", _story(run)),
        ("seed", str(run.seed)),
        ("commit", run.commit),
        *document.versions,
    ]
    return [(formats.one_line(name, 40), formats.one_line(text, 200)) for name, text in rows if text]


def _story(run: Run) -> str:
    """Say which of the timed runs the pages tell."""
    if run.story is None:
        return ""
    typical = f", the most typical of {formats.plural(run.timed_runs, 'run')}" if run.timed_runs else ""
    return f"values and prose are of {run.story}{typical}"


def _process(process: Process) -> tuple[str, str, str, str, str]:
    notes = [*(process.notes or []), *([process.why_no_warm] if process.why_no_warm else [])]
    if process.restored:
        notes.append("restored between its runs: " + ", ".join(process.restored))
    times = [formats.duration(ns) if ns is not None else "–" for ns in (process.cold_ns, process.warm_ns)]
    remarks = formats.one_line("; ".join(notes), 300)
    return formats.one_line(process.name, 40), formats.one_line(process.ended, 200), *_pair(times), remarks


def _pair(times: list[str]) -> tuple[str, str]:
    return times[0], times[1]
