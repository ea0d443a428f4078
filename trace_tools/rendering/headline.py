"""A document → the numbers that a reader wants to see first, of one machine and in the list of all.

list(figures(document))                    [Figure("567", "claims, all of them hold"), Figure("6.9 s ± 2.3%", …), …]
machine_row(document, "cpu", "AMD EPYC")   one machine of the site's index
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trace_tools import formats
from trace_tools.rates import leading_peak, peak_of, ridge
from trace_tools.rendering.document import Document
from trace_tools.schema import Machine, Peak


@dataclass(frozen=True, slots=True)
class Figure:
    """One number that a reader wants to see first, what it counts, and what stands behind it."""

    value: str
    label: str
    note: str = ""
    bad: bool = False


@dataclass(frozen=True, slots=True)
class MachineRow:
    """One machine in the list of all machines."""

    name: str
    folder: str
    torch: str
    traced: str  # the day
    passes: int
    held: int
    failed: int
    duration: str
    peaks: tuple[tuple[str, str], ...]  # multiplication and memory: what, how fast
    notes: tuple[str, ...]


def figures(document: Document) -> Iterator[Figure]:
    """Yield what a reader wants to see first: do the claims hold, how long did it take, how fast is the machine."""
    if document.failed:
        yield Figure(f"{document.failed:,}", f"of {document.held + document.failed:,} claims failed", bad=True)
    elif document.held:
        yield Figure(f"{document.held:,}", "claims, all of them hold" if document.held > 1 else "claim, it holds")
    cold, warm = cold_runs(document), warm_runs(document)
    if warm or cold:
        first = f"{formats.duration(statistics.median(cold))} the first time" if warm and cold else ""
        yield Figure(formats.spread(warm or cold), "for the whole lecture", first)
    yield Figure(f"{document.steps:,}", f"steps in {formats.plural(len(document.sections), 'section')}")
    leading, memory = leading_peak(document.machine), _bandwidth(document.machine)
    for peak in (leading, memory):
        if peak is not None:
            name, rate, source = peak_texts(peak.name, peak.per_second, peak.source)
            yield Figure(rate, f"{name}, at most", source)
    meet = ridge(leading.per_second, memory.per_second) if leading is not None and memory is not None else None
    if leading is not None and meet is not None:
        yield Figure(formats.quantity(meet, "FLOP/B", 3), "where the roofs meet", f"{leading.name} over memory")


def _bandwidth(machine: Machine) -> Peak | None:
    memory = peak_of(machine, "memory")
    return memory if memory is not None and memory.per_second else None


def machine_row(document: Document, folder: str, name: str) -> MachineRow:
    """Return what the list of all machines says of one, under a name; `folder` is where its pages lie."""
    peaks = (peak for peak in (leading_peak(document.machine), _bandwidth(document.machine)) if peak is not None)
    return MachineRow(
        name=name,
        folder=folder,
        torch=dict(document.versions).get("torch", "–"),
        traced=formats.one_line(document.run.started[:10], 10),
        passes=document.run.passes,
        held=document.held,
        failed=document.failed,
        duration=run_time(document),
        peaks=tuple(peak_texts(peak.name, peak.per_second, peak.source)[:2] for peak in peaks),
        notes=tuple(notice.kind for notice in document.notices if notice.kind in ("partial", "stale")),
    )


def run_time(document: Document) -> str:
    """Say how long `main` took: warm where it was run twice."""
    times = warm_runs(document) or cold_runs(document)
    return formats.duration(statistics.median(times)) if times else "not measured"


def cold_runs(document: Document) -> Sequence[int]:
    """Return how long `main` took in each process at first, in nanoseconds."""
    return [p.cold_ns for p in document.run.processes if p.cold_ns is not None and p.name.startswith("pass")]


def warm_runs(document: Document) -> Sequence[int]:
    """Return how long it took once more, in nanoseconds."""
    return [p.warm_ns for p in document.run.processes if p.warm_ns is not None and p.name.startswith("pass")]


def peak_texts(name: str, per_second: float | None, source: str) -> tuple[str, str, str]:
    """Return a peak as texts: what, how much, from where."""
    unit = "B/s" if name == "memory" else "OP/s" if name.startswith("int") else "FLOP/s"
    rate = "not known" if per_second is None else formats.quantity(per_second, unit)
    return formats.one_line(name, 40), rate, formats.one_line(source, 200)
