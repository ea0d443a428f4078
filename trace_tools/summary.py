"""A trace in a few lines, for the end of a run: what went wrong, and where the time went."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trace_tools.call_tree import Tree
from trace_tools.schema import Step, Trace

LONGEST = 5


def problems(trace: Trace) -> list[str]:
    """Return a line for each thing that makes the exit code 1, in order of the lecture."""
    return [*_in_the_run(trace), *_in_the_steps(trace)]


def _in_the_run(trace: Trace) -> Iterator[str]:
    if not trace.run.complete:
        yield f"incomplete: {trace.run.ended}"


def _in_the_steps(trace: Trace) -> Iterator[str]:
    lecture = trace.run.lecture
    for step in trace.steps:
        if not isinstance(step, Step):
            continue
        if step.claim is not None and not step.claim.held:
            runs = f" ({', '.join(step.claim.failed_runs)})" if step.claim.failed_runs else ""
            yield f"{lecture}:{step.line}: claim failed: {step.claim.source}{runs}"
        for source, value in step.values or ():
            if value.type == "error":
                yield f"{lecture}:{step.line}: @inspect {source}: {value.text}"


def where_time_went(trace: Trace, seconds: Sequence[tuple[str, float]]) -> str:
    """Return the wall time of each process, and the functions called by main that took longest."""
    processes = ", ".join(f"{name} {wall:.1f} s" for name, wall in seconds)
    longest = sorted(_sections(trace), key=lambda item: -item[1])[:LONGEST]
    sections = ", ".join(f"{name} {ns / 1e9:.1f} s" for name, ns in longest)
    return f"{processes}\none cold run: {sections}" if sections else processes


def _sections(trace: Trace) -> Iterator[tuple[str, int]]:
    """Yield each section and how long its first run took (ns)."""
    for step, frame in Tree(trace).section_calls():
        if step.cold_ns:
            yield frame.function, step.cold_ns[0]
