"""A trace in a few lines, for the end of a run: what went wrong, where the time went, how quiet the machine was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from trace_tools import formats
from trace_tools.call_tree import Tree
from trace_tools.schema import Step, Trace
from trace_tools.summaries import claim_summary

LONGEST = 5
SHORTEST_NS = 100_000  # of a step whose times say something about the machine
NOISY = 0.10  # half the range between passes over the median, of a typical step


def problems(trace: Trace) -> list[str]:
    """Return a line for each thing that makes the exit code 1, in order of the lecture."""
    return [*_in_the_run(trace), *_in_the_steps(trace)]


def _in_the_run(trace: Trace) -> Iterator[str]:
    if not trace.run.complete:
        yield f"incomplete: {trace.run.ended}"


def _in_the_steps(trace: Trace) -> Iterator[str]:
    lecture, tree = trace.run.lecture, Tree(trace)
    for step in tree.by_id.values():
        where = f"{lecture}:{step.line}"
        claim, raised = step.claim, step.raised
        if claim is not None and not claim.held:
            sides, runs = claim_summary(claim), f" ({', '.join(claim.failed_runs)})" if claim.failed_runs else ""
            told = [claim.source, *([sides] if sides else []), *([claim.message] if claim.message else [])]
            yield f"{where}: claim failed: {': '.join(map(_short, told))}{runs}"
        elif raised is not None and tree.is_origin(step) and not tree.caught(step):
            yield f"{where}: {_short(f'{raised.type}: {raised.message}'.removesuffix(': '))}"
        for source, value in step.values or ():
            if value.type == "error":
                yield f"{where}: @inspect {source}: {value.text}"


def _short(text: str) -> str:
    return formats.one_line(text, 300)


def where_time_went(trace: Trace, seconds: Sequence[tuple[str, float]]) -> str:
    """Return the wall time of each process, and the sections that took longest."""
    processes = ", ".join(f"{name} {wall:.1f} s" for name, wall in seconds)
    longest = sorted(_sections(trace), key=lambda item: -item[1])[:LONGEST]
    sections = ", ".join(f"{name} {ns / 1e9:.1f} s" for name, ns in longest)
    return f"{processes}\none cold run: {sections}" if sections else processes


def _sections(trace: Trace) -> Iterator[tuple[str, int]]:
    """Yield each section and how long its first run took (ns)."""
    for step, frame in Tree(trace).section_calls():
        if step.cold_ns:
            yield frame.function, step.cold_ns[0]


def quiet(trace: Trace) -> str | None:
    """Say by how much the times of a typical step differ between passes, and what to do where that is much.

    None where there is one pass only, or no step takes long enough.
    """
    timed = (s.device_ns or s.host_ns or () for s in trace.steps if isinstance(s, Step) and not s.compiled)
    spreads = [(max(ns) - min(ns)) / 2 / median(ns) for ns in timed if len(ns) > 1 and median(ns) >= SHORTEST_NS]
    if not spreads:
        return None
    typical = median(spreads)
    found = f"times differ by ± {formats.percent(typical)} between passes (median of {len(spreads):,} steps)"
    if typical <= NOISY:
        return f"quiet: {found}"
    return (
        f"noisy: {found}: end what else runs here and trace again, or use more passes; "
        "`bench A B` compares two versions in spite of it"
    )
