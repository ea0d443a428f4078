"""A process's journal → the runs it recorded: frames, and steps with everything that belongs to them.

process = read_process("pass 1", folder / "pass-1.journal", source)
[run.name for run in process.runs]  # ["pass 1, cold", "pass 1, warm"]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trace_tools.statements import ParsedSource
from trace_tools.tracing.journal import (
    Argument,
    Evaluated,
    FrameEnd,
    FrameStart,
    LastExecutions,
    Observation,
    Omission,
    OpenStep,
    ProcessNote,
    Record,
    RunEnd,
    RunStart,
    StepError,
    StepTime,
    read_journal,
)

METERING, SHAKEN = "metering", "shaken"  # processes beside the passes
COLD, WARM = "cold", "warm"  # runs of a pass
CLOCKS_UP, CLOCKS_DOWN, OTHER_SEEDS = "clocks", "clocks inverted", "other device seeds"  # runs of the shaken process
COMPLETE, KILLED = "complete", "killed"  # how a run ended; else the exception's name and line


@dataclass
class Draft:
    """A step as one run recorded it."""

    seq: int
    frame: int
    statement: int
    execution: int
    ns: int | None = None
    place: int = -2  # the same of the same step in all runs, see `merge.Runs`; -2 where the call is not known
    # From here on, what `Observation`s name: added to a list, or set.
    device_ns: int | None = None
    allocated_bytes: int | None = None
    values: list[list[Any]] = field(default_factory=list)  # [source, unit, value]
    claim: list[Any] | None = None  # [statement, "held" or "raised" or "passed over", sides]
    left: bool = False  # the claim's error left its section
    measured: list[dict[str, Any]] = field(default_factory=list)  # each call of `measure`: its seconds or counts
    harness: bool = False
    narrative: list[Any] = field(default_factory=list)
    stdout: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    meters: dict[str, Any] | None = None
    compiled: bool = False
    raised: dict[str, Any] | None = None


@dataclass
class FrameDraft:
    """A frame as one run recorded it."""

    id: int
    function: int
    of: int | None
    thread: str | None
    place: int = -2  # likewise
    arguments: list[list[Any]] = field(default_factory=list)


@dataclass(eq=False)
class RunRecord:
    """One run of the lecture, read back from a journal."""

    name: str  # "pass 1, cold"
    status: str = KILLED
    ns: int | None = None
    frames: dict[int, FrameDraft] = field(default_factory=dict)
    steps: dict[int, Draft] = field(default_factory=dict)
    omitted: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)  # by frame and statement: count, ns
    refused: dict[int, int] = field(default_factory=dict)  # function's number → calls beyond those kept
    open_statement: int | None = None  # the innermost one, when the process was killed
    calls_at: dict[int, FrameDraft] = field(default_factory=dict)  # by place
    steps_at: dict[int, Draft] = field(default_factory=dict)  # by place


@dataclass
class ProcessRecord:
    """One process: its runs, and what it noted."""

    name: str
    runs: list[RunRecord]
    notes: list[str]
    restored: list[str]
    done: str | None = None
    why_no_warm: str | None = None


def read_process(name: str, path: Path, source: ParsedSource) -> ProcessRecord:
    """Read one process's journal, and its tail if it was killed."""
    process = ProcessRecord(name, [], [], [])
    records: list[Record] = []
    for record in read_journal(path):
        match record:
            case RunStart(run):
                records = []
                process.runs.append(RunRecord(f"{name}, {run}"))
            case RunEnd(status, ns, refused):
                last = process.runs[-1]
                last.status, last.ns, last.refused = status, ns, dict(refused)
                _fill(last, records, source)
            case Evaluated():
                pass  # for the processes beside the passes
            case ProcessNote(into, content):
                setattr(process, into, [*getattr(process, into), *content] if isinstance(content, list) else content)
            case _:
                records.append(record)
    if process.runs and process.runs[-1].status == KILLED:
        _fill(process.runs[-1], [*records, *_tail(path.with_suffix(".tail"), records)], source)
    return process


def _tail(path: Path, certain: Sequence[Record]) -> Iterator[Record]:
    """Yield what the tail adds: the last executions in frames that never closed, and the open steps."""
    kept: list[tuple[int, int, int, list[Record]]] = []  # frame, statement, execution, records
    opened: dict[int, OpenStep] = {}  # by frame, the last one counts
    omitted: dict[tuple[int, int], Omission] = {}  # by frame and statement, likewise
    for record in read_journal(path):
        match record:
            case LastExecutions(frame, statement, executions):
                kept += [(frame, statement, execution, fresh) for execution, fresh in executions]
            case Omission(frame, statement):
                omitted[frame, statement] = record
            case OpenStep(frame=frame):
                opened[frame] = record
    kept = [k for k in kept if k[:2] not in omitted or k[2] >= omitted[k[:2]].first]  # others were left out after all
    everything = [*certain, *(record for k in kept for record in k[3])]
    closed = {record.frame for record in everything if isinstance(record, FrameEnd)}  # what they kept stands elsewhere
    there = {record.frame for record in everything if isinstance(record, FrameStart)} - closed
    records = [record for k in kept if k[0] in there for record in k[3]]
    ended = {record.step for record in [*certain, *records] if isinstance(record, StepTime)}
    yield from records
    yield from (record for record in omitted.values() if record.frame in there)
    yield from (record for record in opened.values() if record.step not in ended and record.frame in there)


def _fill(run: RunRecord, records: Iterable[Record], source: ParsedSource) -> None:
    """Put the records in their places; what was observed of a step may stand before or after what ends it."""
    observations: list[Observation] = []
    errors: list[StepError] = []
    for record in records:
        match record:
            case FrameStart(frame, function, of, thread):
                run.frames[frame] = FrameDraft(frame, function, of, thread)
            case Argument(frame, argument, unit, value):
                run.frames[frame].arguments.append([argument, unit, value])
            case StepTime(seq, frame, statement, execution, ns):
                step = run.steps.setdefault(seq, Draft(seq, frame, statement, execution))
                step.ns = (step.ns or 0) + max(0, ns)
            case OpenStep(seq, frame, statement, execution):
                run.steps.setdefault(seq, Draft(seq, frame, statement, execution))
                run.open_statement = statement
            case Omission(frame, statement, omitted, ns):
                run.omitted[frame, statement] = (omitted, ns)
            case Observation():
                observations.append(record)
            case StepError():
                errors.append(record)
    for observation in observations:
        if observation.step in run.steps:
            step, content = run.steps[observation.step], observation.content
            if observation.field in ("values", "measured", "narrative", "stdout", "warnings"):
                getattr(step, observation.field).append(content)
            elif observation.field == "meters" and step.meters is not None:
                step.meters = _added(step.meters, content)
            else:
                setattr(step, observation.field, content)
    _place_errors(run, errors, source)


def _added(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Add the meters of a step's two parts (a `with`'s entering and leaving)."""
    both = {**first, **second}
    for name in ("flops", "bytes_read", "bytes_written"):
        if first.get(name) is not None and second.get(name) is not None:
            both[name] = first[name] + second[name]
    counts = dict(first.get("operators") or [])
    for operator, count in second.get("operators") or []:
        counts[operator] = counts.get(operator, 0) + count
    both["operators"] = sorted([name, count] for name, count in counts.items())
    both["uncounted"] = sorted({*(first.get("uncounted") or ()), *(second.get("uncounted") or ())})
    both["dtype"] = first.get("dtype") if first.get("dtype") == second.get("dtype") else None
    both["peak_bytes"] = max(first.get("peak_bytes") or 0, second.get("peak_bytes") or 0)
    return both


def _place_errors(run: RunRecord, errors: Sequence[StepError], source: ParsedSource) -> None:
    """Give each exception to the step it left: the frame's last one whose statement has its line."""
    by_frame: dict[int, list[Draft]] = {}
    for step in run.steps.values() if errors else ():
        by_frame.setdefault(step.frame, []).append(step)
    for error in errors:
        candidates = []
        for step in by_frame.get(error.frame, ()):
            statement = source.statements[step.statement]
            if step.seq <= error.step and statement.first_line <= error.line <= statement.end_line:
                candidates.append((statement.line, step.seq))
        if candidates:
            run.steps[max(candidates)[1]].raised = error.raised
