"""A trace in a few lines, for the end of a run: what went wrong, where the time went, how quiet the machine was."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
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
    lines = [] if trace.run.complete else [f"incomplete: {trace.run.ended}"]
    tree = Tree(trace)
    for step in tree.by_id.values():
        where = f"{trace.run.lecture}:{step.line}"
        claim, raised = step.claim, step.raised
        if claim is not None and not claim.held:
            parts = [
                formats.one_line(part, 300) for part in (claim.source, claim_summary(claim), claim.message) if part
            ]
            runs = f" ({', '.join(claim.failed_runs)})" if claim.failed_runs else ""
            lines.append(f"{where}: claim failed: {': '.join(parts)}{runs}")
        elif raised is not None and tree.is_origin(step) and not tree.caught(step):
            error = f"{raised.type}: {raised.message}".removesuffix(": ")
            lines.append(f"{where}: {formats.one_line(error, 300)}")
        for source, value in step.values or ():
            if value.type == "error":
                lines.append(f"{where}: @inspect {source}: {value.text}")
    return [formats.one_line(line, 1000) for line in lines]  # the trace may be a stranger's


def worth_telling(trace: Trace, path: Path) -> str | None:
    """Ask for a report where claims did not hold on this machine, or sections raised; None where all went well."""
    tree = Tree(trace)
    claims = sum(step.claim is not None and not step.claim.held for step in tree.by_id.values())
    raised = [s for s in tree.by_id.values() if s.raised is not None and tree.is_origin(s) and not tree.caught(s)]
    sections = sum(s.claim is None for s in raised)
    told = [formats.plural(claims, "claim") + " did not hold"] * bool(claims)
    told += [formats.plural(sections, "section") + " raised"] * bool(sections)
    return f"{' and '.join(told)} on {trace.machine.name}: attach {path} to a report" if told else None


def where_time_went(trace: Trace, seconds: Sequence[tuple[str, float]]) -> str:
    """Return the wall time of each process, and the sections whose first run took longest."""
    processes = ", ".join(f"{name} {wall:.1f} s" for name, wall in seconds)
    first = [(frame.function, step.cold_ns[0]) for step, frame in Tree(trace).section_calls() if step.cold_ns]
    longest = sorted(first, key=lambda item: -item[1])[:LONGEST]
    sections = ", ".join(f"{name} {ns / 1e9:.1f} s" for name, ns in longest)
    return f"{processes}\none cold run: {sections}" if sections else processes


def quiet(trace: Trace) -> str | None:
    """Say by how much the times of a typical step differ between passes, and what to do where that is much.

    None where there is one pass only, or no step takes long enough.
    """
    timed = (s.device_ns or s.host_ns or () for s in trace.steps if isinstance(s, Step) and not s.compiled)
    spreads = [(max(ns) - min(ns)) / 2 / median(ns) for ns in timed if len(ns) > 1 and median(ns) >= SHORTEST_NS]
    if not spreads:
        return None
    typical = median(spreads)
    differ = f"times differ by ± {formats.percent(typical)} between passes (median of {len(spreads):,} steps)"
    if typical <= NOISY:
        return f"quiet: {differ}"
    return (
        f"noisy: {differ}: end what else runs here and trace again, or use more passes; "
        "`bench A B` compares two versions in spite of it"
    )
