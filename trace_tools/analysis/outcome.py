"""Summarise a run in a few lines for the terminal: activity, errors, time spent, and noise."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from trace_tools.analysis.summaries import claim_summary
from trace_tools.machines.loads import loads_text
from trace_tools.source.statements import parse_source, sections
from trace_tools.trace.identities import METERING, PASS, PERTURBED, ProcessId
from trace_tools.trace.model import Step, Trace
from trace_tools.trace.tree import Tree
from trace_tools.util import formats

ACTIVITIES = {  # of the processes of a trace, except the passes
    "survey": "measuring this machine",
    "describe": "looking at this machine",
    METERING: "counting FLOPs and bytes",
    PERTURBED: "checking what depends on clocks",
}
EXITS = ("SystemExit", "KeyboardInterrupt")  # exceptions that end a run in spite of `--keep-going`
LONGEST = 5
SHORTEST_S = 0.1  # that is worth a word
SHORTEST_NS = 100_000  # of a step long enough to show the noise of the machine
NOISY = 0.10  # half the range between passes over the median, of a typical step


def activity(process: str, passes: int | None = None) -> str:
    """Return the activity of a process of a trace, for a reader: "pass 1 of 3", "measuring this machine"."""
    if passes is not None and ProcessId.parse(process).kind == PASS:
        return f"{process} of {passes}"
    return ACTIVITIES.get(process, process)


def problems(trace: Trace, *, code: bool = False) -> list[str]:
    """Return a line for each thing that makes the exit code 1, in order of the lecture.

    With `code`, the statement that raised follows its error.
    """
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
            if code:
                text = trace.sources[tree.frames[step.frame].source].text.splitlines()
                lines += [f"    {line.strip()}" for line in text[step.line - 1 : step.line]]
        for source, value in step.values or ():
            if value.type == "error":
                lines.append(f"{where}: @inspect {source}: {value.text}")
    return [
        ("    " if line.startswith("    ") else "") + formats.one_line(line, 1000) for line in lines
    ]  # of a stranger


def what_was_kept(trace: Trace, path: Path) -> list[str]:
    """Report how an unfinished run ended, which part was kept, and which option helps; empty for a finished run."""
    if trace.run.complete:
        return []
    ended = trace.run.ended
    for process, does in ACTIVITIES.items():
        ended = ended.replace(f"({process})", f"({does})")
    tree = Tree(trace)
    began = len({frame.function for _, frame in tree.section_calls()})
    total = len(sections(parse_source(trace.sources[0].text, trace.run.lecture))) if trace.sources else 0
    reached = f"; {began} of {formats.plural(total, 'section')} began" if total and trace.run.only is None else ""
    lines = [f"incomplete: {ended}", f"{formats.plural(len(tree.by_id), 'step')} kept in {path}{reached}"]
    exception = trace.run.ending.detail  # of another kind of ending, the name of no exception
    last = [s for s in tree.by_id.values() if s.raised and s.raised.type == exception and not tree.caught(s)]
    in_section = any(tree.section_of[step.frame] is not None for step in last)
    if in_section and exception not in EXITS and not trace.run.keep_going:
        lines.append("--keep-going records an error and runs the sections after it")
    return [formats.one_line(line, 1000) for line in lines]


def worth_telling(trace: Trace, path: Path) -> str | None:
    """Ask for a report if claims failed on this machine or sections raised; None otherwise."""
    tree = Tree(trace)
    claims = sum(step.claim is not None and not step.claim.held for step in tree.by_id.values())
    raised = [s for s in tree.by_id.values() if s.raised is not None and tree.is_origin(s) and not tree.caught(s)]
    sections_raised = sum(s.claim is None for s in raised)
    failed = [formats.plural(claims, "claim") + " failed"] * bool(claims)
    failed += [formats.plural(sections_raised, "section") + " raised"] * bool(sections_raised)
    report = f"on {trace.machine.name}; to report this, attach {path}"
    return f"{' and '.join(failed)} {report}" if failed else None


def where_time_went(trace: Trace, seconds: Sequence[tuple[str, float]]) -> list[str]:
    """Return a line for the wall time of all passes and of each other process, and a line for the slowest sections.

    Times below a tenth of a second are left out.
    """
    passes = [wall for name, wall in seconds if ProcessId.parse(name).kind == PASS]
    others = [(activity(name), wall) for name, wall in seconds if ProcessId.parse(name).kind != PASS]
    processes = [("1 pass" if len(passes) == 1 else f"{len(passes)} passes", sum(passes)), *others]
    first = [(frame.function, step.cold_ns[0] / 1e9) for step, frame in Tree(trace).section_calls() if step.cold_ns]
    slowest = sorted(first, key=lambda item: -item[1])[:LONGEST]
    listed = [("time", processes), ("slowest sections, first run", slowest)]
    lines = [(title, [f"{name} {wall:.1f} s" for name, wall in of if wall >= SHORTEST_S]) for title, of in listed]
    return [f"{title}: {', '.join(parts)}" for title, parts in lines if parts]


def quiet(trace: Trace) -> str | None:
    """Report how much the times of a typical step differ between passes, and what to do if the difference is large.

    A machine is not called quiet if a pass ran under a load: between passes under the same load times may differ by
    little, and all of them may be wrong. None with a single pass, or if no step takes long enough.
    """
    timed = (s.device_ns or s.host_ns or () for s in trace.steps if isinstance(s, Step) and not s.compiled)
    spreads = [(max(ns) - min(ns)) / 2 / median(ns) for ns in timed if len(ns) > 1 and median(ns) >= SHORTEST_NS]
    if not spreads:
        return None
    typical = median(spreads)
    differ = f"times differ by ± {formats.percent(typical)} between passes (median of {len(spreads):,} steps)"
    load = loads_text(trace.run)
    if load is None and typical <= NOISY:
        return f"quiet: {differ}"
    causes = ["noisy"] * (typical > NOISY) + [f"under load ({load})"] * (load is not None)
    return (
        f"{', '.join(causes)}: {differ}. Stop other programs and trace again, or use more --passes; "
        "`trace-tools bench` can compare two versions on a busy machine"
    )
