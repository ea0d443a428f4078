"""A process's journal → the runs it recorded: frames, and steps with everything that belongs to them.

process = read_process("pass 1", folder / "pass-1.journal", source)
[run.name for run in process.runs]  # ["pass 1, cold", "pass 1, warm"]
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

from trace_tools.errors import TraceFileError
from trace_tools.file_format.structure import from_plain
from trace_tools.file_format.validation import check_step
from trace_tools.narrative import ANSWERS
from trace_tools.schema import Step
from trace_tools.statements import FUNCTIONS, ParsedSource
from trace_tools.tracing.instrument import MODULE_FRAME
from trace_tools.tracing.journal import (
    NO_RECORD,
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
    Refused,
    RunEnd,
    RunStart,
    StepError,
    StepTime,
    Unsettled,
    read_journal,
)

METERING, SHAKEN = "metering", "shaken"  # processes beside the passes
COLD, WARM = "cold", "warm"  # runs of a pass
CLOCKS_UP, CLOCKS_DOWN, OTHER_SEEDS = "clocks", "clocks inverted", "other device seeds"  # runs of the shaken process
COMPLETE, KILLED = "complete", "killed"  # how a run ended; else the exception's name and line


@dataclass(slots=True)
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
    left_out: list[list[Any]] = field(default_factory=list)  # [kind, how many, where in what was printed]
    meters: dict[str, Any] | None = None
    compiled: bool = False
    raised: dict[str, Any] | None = None


OBSERVED = frozenset(one.name for one in fields(Draft)) - {"seq", "frame", "statement", "execution", "ns", "place"}


@dataclass(slots=True)
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
    unreadable: int = 0  # records that the disk has damaged


def read_process(name: str, path: Path, source: ParsedSource, *, wary: bool = False) -> ProcessRecord:
    """Read one process's journal, and its tail if it was killed.

    A record that can't be one is left out and counted: its line is damaged, or it names a statement that isn't there.
    `wary` looks at what was observed, too, as the trace's own validation would: for a journal that makes no trace.
    """
    process = ProcessRecord(name, [], [], [])
    unreadable: list[int] = []
    possible = partial(_is_possible, source=source, timed=name != METERING, wary=wary)
    running = False  # between a run's start and its end
    records: list[Record] = []
    for record in read_journal(path, unreadable):
        match record:
            case RunStart(run):
                if running:  # its end was damaged
                    _fill(process.runs[-1], records, source)
                records, running = [], True
                process.runs.append(RunRecord(f"{name}, {run}"))
            case RunEnd(status, ns, refused) if running and possible(record):
                last = process.runs[-1]
                last.status, last.ns, last.refused = status, ns, dict(refused)
                _fill(last, records, source)
                running = False
            case Evaluated():
                pass  # for the processes beside the passes
            case ProcessNote(into, content) if possible(record):
                setattr(process, into, [*getattr(process, into), *content] if isinstance(content, list) else content)
            case _ if running and possible(record):
                records.append(record)
            case _:
                unreadable.append(0)
    if running:
        tail = [record for record in read_journal(path.with_suffix(".tail"), unreadable) if possible(record)]
        _fill(process.runs[-1], [*records, *_tail(tail, records)], source)
    process.unreadable = len(unreadable)
    return process


def _is_possible(record: Record, source: ParsedSource, *, timed: bool, wary: bool) -> bool:
    """Whether a record may be one of this lecture's: what it names is there."""

    def is_statement(number: int) -> bool:
        return 0 <= number < len(source.statements)

    match record:
        case FrameStart(function=number):
            return number == MODULE_FRAME or (
                is_statement(number) and isinstance(source.statements[number].node, FUNCTIONS)
            )
        case StepTime() | OpenStep():
            return is_statement(record.statement) and record.execution > 0
        case Omission(_, statement, omitted, ns):
            return is_statement(statement) and omitted > 0 and ns >= 0
        case LastExecutions(_, statement, executions):
            inner = partial(_is_possible, source=source, timed=timed, wary=wary)
            return is_statement(statement) and all(inner(one) for _, records in executions for one in records)
        case ProcessNote(into, content):
            several = into in ("notes", "restored")
            texts = content if several and isinstance(content, list) else [content]
            return (several or into in ("done", "why_no_warm")) and all(isinstance(text, str) for text in texts)
        case RunEnd() | Refused():
            plain: list[Any] = record.refused
            return all(isinstance(pair, list) and [*map(type, pair)] == [int, int] for pair in plain)
        case Unsettled(_, _, observations):
            return all(isinstance(one, list) and len(one) == 2 and one[0] in OBSERVED for one in observations)
        case Observation(_, "left_out", content):
            return isinstance(content, list) and [*map(type, content)] == [str, int, int]
        case Observation(_, field, content):
            return field in OBSERVED and (not wary or _is_sound(source, timed, field, content))
        case Argument(_, name, _, value):
            return not wary or _is_sound(source, timed, "values", [name, None, value])
        case StepError(raised=raised):
            return not wary or _is_sound(source, timed, "raised", raised)
    return True


def _is_sound(source: ParsedSource, timed: bool, field: str, content: Any) -> bool:
    """Whether a step that had only this observation would be a valid one."""
    try:
        match field:
            case "values":
                expression, unit, value = content
                plain: dict[str, Any] = {field: [[expression, {**value, "unit": unit}]]}
            case "claim":
                statement, how, sides = content
                if not isinstance(source.statements[statement].node, ast.Assert) or not isinstance(how, str):
                    return False
                plain = {"values": [["", side] for side in sides if side is not None]}
            case "measured":
                counts = {name: figure for name, figure in content.items() if name != "seconds"}
                plain = {field: [{"seconds": [content["seconds"]] if timed else [], **counts}]}
            case "narrative":
                plain = {field: [content]}
                if content.get("choice") and len(content["choice"]["sentences"]) != len(ANSWERS):
                    return False
            case "meters":
                plain = {field: {name: figure for name, figure in content.items() if figure != []}}
                content["operators"]  # may be empty, but is there
            case "left":
                return content is True
            case "device_ns" | "warnings":
                plain = {field: [content]}
            case _:
                plain = {field: content}
        check_step(from_plain(Step, {"id": 0, "frame": 0, "statement": 0, "line": 1, **plain}, field), source.text)
    except (TraceFileError, *NO_RECORD):
        return False
    return True


def _tail(tail: Iterable[Record], certain: Sequence[Record]) -> Iterator[Record]:
    """Yield what the tail adds: the last executions in frames that never closed, and the open steps."""
    kept: list[tuple[int, int, int, list[Record]]] = []  # frame, statement, execution, records
    opened: dict[int, OpenStep] = {}  # by frame, the last one counts
    omitted: dict[tuple[int, int], Omission] = {}  # by frame and statement, likewise
    said: dict[tuple[int, str], Unsettled] = {}  # by step and kind, likewise
    refused: list[Refused] = []
    for record in tail:
        match record:
            case LastExecutions(frame, statement, executions):
                kept += [(frame, statement, execution, fresh) for execution, fresh in executions]
            case Omission(frame, statement):
                omitted[frame, statement] = record
            case OpenStep(frame=frame):
                opened[frame] = record
            case Unsettled(step, kind):
                said[step, kind] = record
            case Refused():
                refused = [record]
    kept = [k for k in kept if k[:2] not in omitted or k[2] >= omitted[k[:2]].first]  # others were left out after all
    there_already = {r[1:4] for r in certain if isinstance(r, StepTime)}  # where a claim failed, it is kept after all
    kept = [k for k in kept if k[:3] not in there_already]
    everything = [*certain, *(record for k in kept for record in k[3])]
    closed = {record.frame for record in everything if isinstance(record, FrameEnd)}  # what they kept stands elsewhere
    there = {record.frame for record in everything if isinstance(record, FrameStart)} - closed
    records = [record for k in kept if k[0] in there for record in k[3]]
    ended = {record.step for record in [*certain, *records] if isinstance(record, StepTime)}
    yield from records
    yield from (record for record in omitted.values() if record.frame in there)
    yield from (record for record in opened.values() if record.step not in ended and record.frame in there)
    yield from refused
    settled = {(o.step, o.content[0]) for o in everything if isinstance(o, Observation) and o.field == "left_out"}
    for (step, kind), last in said.items():
        if (step, kind) not in settled:
            yield from (Observation(step, *observation) for observation in last.observations)


def _fill(run: RunRecord, records: Iterable[Record], source: ParsedSource) -> None:
    """Put the records in their places; what was observed of a step may stand before or after what ends it."""
    observations: list[Observation] = []
    errors: list[StepError] = []
    for record in records:
        match record:
            case FrameStart(frame, function, of, thread):
                run.frames[frame] = FrameDraft(frame, function, of, thread)
            case Argument(frame, argument, unit, value) if frame in run.frames:
                run.frames[frame].arguments.append([argument, unit, value])
            case StepTime(seq, frame, statement, execution, ns):
                step = run.steps.setdefault(seq, Draft(seq, frame, statement, execution))
                step.ns = (step.ns or 0) + max(0, ns)
            case OpenStep(seq, frame, statement, execution):
                run.steps.setdefault(seq, Draft(seq, frame, statement, execution))
                run.open_statement = statement
            case Omission(frame, statement, omitted, ns):
                run.omitted[frame, statement] = (omitted, ns)
            case Refused(functions):
                run.refused = dict(functions)
            case Observation():
                observations.append(record)
            case StepError():
                errors.append(record)
    for observation in observations:
        if observation.step in run.steps:
            step, content = run.steps[observation.step], observation.content
            if observation.field in ("values", "measured", "narrative", "stdout", "warnings", "left_out"):
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
