"""Summarise how a run went: activity, errors, time spent, noise, impossible figures, and load by other processes.

    >>> violations(trace)
    ['2 annotated steps ended with less memory allocated than their tensors hold: worst at line 40, 1 MiB and 4 MiB']
    >>> load_text(Process("pass 1", "complete", other_cores=0.97))
    'other processes used 0.97 cores'

Violations do not end a run. The records are kept, and the reader knows which figures not to believe.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from trace_tools.analysis.rates import rates_of, timing_of
from trace_tools.analysis.summaries import claim_summary
from trace_tools.machines.accelerators import FLOOR_NS
from trace_tools.machines.host import LOADED_CORES
from trace_tools.machines.peaks import peak_of
from trace_tools.source.statements import parse_source, sections
from trace_tools.trace.model import Machine, Process, Run, Step, Trace
from trace_tools.trace.records import PASS, RECORDING, ProcessId
from trace_tools.trace.tree import Tree
from trace_tools.util import formats

ACTIVITIES = {  # of the processes of a trace, except the passes
    "survey": "measuring this machine",
    "describe": "looking at this machine",
}
EXITS = ("SystemExit", "KeyboardInterrupt")  # exceptions that end a run in spite of `--keep-going`
SECTIONS_SHOWN = 5  # of the slowest
SHORTEST_S = 0.1  # shorter times are left out
SHORTEST_NS = 100_000  # least time of a step that shows the noise of the machine
NOISY = 0.10  # half the range between passes over the median, of a typical step


def activity(process: str, passes: int | None = None) -> str:
    """Return the activity of a process of a trace, for a reader: "pass 1 of 3", "measuring this machine"."""
    if passes is not None and ProcessId.parse(process).kind == PASS:
        return f"{process} of {passes}"
    return ACTIVITIES.get(process, process)


def problems(trace: Trace, folder: Path = Path(), *, code: bool = False) -> list[str]:
    """Return a line for each problem that makes the exit code 1, in order; `folder` has the lecture's files.

    With `code`, the statement that raised follows its error.
    """
    lines = [] if trace.run.complete else [f"incomplete: {trace.run.ended}"]
    tree, file = Tree(trace), trace.source
    for step in tree.by_id.values():
        where = f"{folder / file.path}:{step.line}"
        claim, raised = step.claim, step.raised
        if claim is not None and not claim.held:
            parts = filter(None, (claim.source, claim_summary(claim), claim.message))
            runs = f" ({', '.join(claim.failed_runs)})" if claim.failed_runs else ""
            lines.append(f"{where}: claim failed: {': '.join(parts)}{runs}")
        elif raised is not None and tree.is_origin(step) and not tree.caught(step):
            lines.append(f"{where}: {raised.type}: {raised.message}".removesuffix(": "))
            if code:
                lines += [f"    {line.strip()}" for line in file.text.splitlines()[step.line - 1 : step.line]]
        for source, value in step.values or ():
            if value.type == "error":
                lines.append(f"{where}: @inspect {source}: {value.text}")
    # recorded text may be long, or contain control characters
    return [("    " if line.startswith("    ") else "") + formats.one_line(line, 1000) for line in lines]


def what_was_kept(trace: Trace, path: Path) -> list[str]:
    """Report how an unfinished run ended, which part was kept, and what helps; empty for a finished run."""
    if trace.run.complete:
        return []
    ended = trace.run.ended
    for process, does in ACTIVITIES.items():
        ended = ended.replace(f"({process})", f"({does})")
    tree = Tree(trace)
    began = len({frame.function for _, frame in tree.section_calls()})
    total = len(sections(parse_source(trace.source.text, trace.run.lecture)))
    reached = f"; {began} of {formats.plural(total, 'section')} began" if total and trace.run.only is None else ""
    lines = [f"incomplete: {ended}", f"{formats.plural(len(tree.by_id), 'step')} kept in {path}{reached}"]
    notes = [note for process in trace.run.processes for note in process.notes or ()]
    advice = "`# @stepover` on a line leaves out the calls that it makes"
    lines += [f"{note}; {advice}" for note in notes if note.startswith(RECORDING)]
    exception = trace.run.ending.detail  # if the run ended in another way, no exception has this name
    last = [s for s in tree.by_id.values() if s.raised and s.raised.type == exception and not tree.caught(s)]
    in_section = any(tree.section_of[step.frame] is not None for step in last)
    if in_section and began < total and exception not in EXITS and not trace.run.keep_going:
        lines.append("--keep-going records an error and runs the sections after it")
    return [formats.one_line(line, 1000) for line in lines]


def where_time_went(trace: Trace, seconds: Sequence[tuple[str, float]]) -> list[str]:
    """Return a line for the wall time, of all passes and of each other part, and a line for the slowest sections.

    Times below a tenth of a second are left out.
    """
    passes = [wall for name, wall in seconds if ProcessId.parse(name).kind == PASS]
    processes = [("1 pass" if len(passes) == 1 else f"{len(passes)} passes", sum(passes))]
    processes += [(activity(name), wall) for name, wall in seconds if ProcessId.parse(name).kind != PASS]
    first = [(frame.function, step.cold_ns[0] / 1e9) for step, frame in Tree(trace).section_calls() if step.cold_ns]
    slowest = sorted(first, key=lambda item: -item[1])[:SECTIONS_SHOWN]
    listed = [(f"time {sum(wall for _, wall in seconds):.1f} s", processes), ("slowest sections, first run", slowest)]
    lines = [(title, [f"{name} {wall:.1f} s" for name, wall in parts if wall >= SHORTEST_S]) for title, parts in listed]
    return [f"{title}: {', '.join(parts)}" for title, parts in lines if parts]


def noise_text(trace: Trace) -> str | None:
    """Report how much the times of a typical step differ between passes, and what to do if the difference is large.

    A machine is not called quiet if a pass ran under a load: between passes under the same load times may differ by
    little, and all of them may be wrong. Needs two passes, and a step that lasts long enough.
    """
    times = (s.device_ns or s.host_ns or () for s in trace.steps if isinstance(s, Step) and not s.compiled)
    spreads = [formats.half_range(ns) for ns in times if len(ns) > 1 and median(ns) >= SHORTEST_NS]
    if not spreads:
        return None
    typical = median(spreads)
    differ = f"times differ by ± {formats.percent(typical)} between passes (median of {len(spreads):,} steps)"
    heaviest = max(timed(trace.run), key=lambda process: process.other_cores or 0.0, default=None)
    load = f"{words} in {heaviest.name}" if heaviest is not None and (words := load_text(heaviest)) else None
    if load is None and typical <= NOISY:
        return f"quiet: {differ}"
    causes = ["noisy"] * (typical > NOISY) + [f"under load ({load})"] * (load is not None)
    return f"{', '.join(causes)}: {differ}. Stop other programs and trace again, or use more --passes"


# --- impossible figures ---------------------------------------------------------------------------


CLOCKS = 1.02  # limit of the device's time over the host's
# Limits of a rate over its peak. Cards for players exceed the clock of their datasheet while they are cool.
OVER, OVER_CLOCKED, CLOCKED_HIGHER = 1.05, 1.25, ("GeForce", "TITAN")


def violations(trace: Trace) -> list[str]:
    """Return a line for each kind of violation, with the step that is furthest off."""
    promised = {peak.name: peak.per_second for peak in trace.machine.peaks if not peak.measured and peak.per_second}
    lines, most = [], OVER_CLOCKED if any(word in trace.machine.name for word in CLOCKED_HIGHER) else OVER
    for peak in trace.machine.peaks:
        sheet = promised.get(peak.name)
        if peak.measured and peak.per_second and sheet and peak.per_second > most * sheet:
            lines.append(f"the measured {peak.name} peak is {peak.per_second / sheet:.2f} times the datasheet's")
    found: dict[str, list[tuple[float, int, str]]] = {}
    for step in (event for event in trace.steps if isinstance(event, Step)):
        if not (step.meters or step.measured or step.device_ns):
            continue
        for problem, excess, words in _impossible(step, trace.machine, most):
            found.setdefault(problem, []).append((excess, step.line, words))
    for problem, violating in found.items():
        _, line, words = max(violating)
        lines.append(f"{formats.plural(len(violating), 'annotated step')} {problem}: worst at line {line}, {words}")
    return lines


def _impossible(step: Step, machine: Machine, over_datasheet: float) -> Iterator[tuple[str, float, str]]:
    """Yield each problem of a step's figures, by how much the figure is wrong, and its description."""
    if machine.device != "cpu":
        # The host's time of an annotated step includes the wait for the device.
        pairs = zip(step.device_ns or (), step.host_ns or (), strict=False)
        longer = [(device / max(host, 1), device, host) for device, host in pairs if device > CLOCKS * host + FLOOR_NS]
        if longer:
            excess, *both = max(longer)
            words = " and ".join(map(formats.duration, both))
            yield "took longer on the device than on the host, which waited for it", excess, words
        # The allocator allocates every storage, and rounds up.
        alive, allocated = step.meters.live_bytes if step.meters is not None else None, step.allocated_bytes
        if alive is not None and allocated is not None and allocated < alive:
            words = f"{formats.quantity(allocated, 'B', 3)} and {formats.quantity(alive, 'B', 3)}"
            yield "ended with less memory allocated than their tensors hold", alive - allocated, words
    # Of FLOPs only, because bytes in a cache may move faster than memory allows.
    for rate in rates_of(step, timing_of(step, machine), machine):
        peak = peak_of(machine, rate.peak) if rate.peak is not None else None
        most = OVER if peak is None or peak.measured else over_datasheet
        if rate.name == "FLOP/s" and rate.share is not None and rate.share > most:
            words = f"{formats.percent(rate.share)} of the {rate.peak} peak, {rate.above}"
            yield "had a rate that is too high", rate.share, words
            return


# --- load by other processes ----------------------------------------------------------------------


def timed(run: Run) -> list[Process]:
    """Return the processes that have times in the trace."""
    return [process for process in run.processes if process.id.kind == PASS]


def is_loaded(process: Process) -> bool:
    """Return whether other processes used so much of the machine that they may have slowed this one."""
    return (process.other_cores or 0.0) >= LOADED_CORES


def load_text(process: Process) -> str | None:
    """Describe the load during a process, if the system reports one."""
    return f"other processes used {formats.number(process.other_cores or 0.0, 2)} cores" if is_loaded(process) else None


def is_run_loaded(run: Run) -> bool:
    """Return whether at least half of the timed processes ran under load."""
    loaded = [*map(is_loaded, timed(run))]
    return bool(loaded) and 2 * sum(loaded) >= len(loaded)


def others_share(trace: Trace) -> float:
    """Return which share of the machine's cores other processes used, as the median over timed processes."""
    used = [process.other_cores or 0.0 for process in timed(trace.run)]
    return median(used or [0.0]) / (trace.machine.cores or 1)


def loaded_passes(run: Run, count: int) -> list[bool]:
    """Return for each of `count` durations, one per pass, whether it was measured under load.

    If some pass has no duration, the durations can't be assigned to passes; then all count as loaded if any pass was.
    """
    loaded = {process.id.pass_ for process in timed(run) if is_loaded(process)}
    if count != run.passes:
        return [bool(loaded)] * count
    return [number in loaded for number in range(1, count + 1)]
