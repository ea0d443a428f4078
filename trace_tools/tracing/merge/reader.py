"""Read a process's journal into its runs: frames, and steps with all their observations.

process = read_process(folder / "pass-1.journal", source)
[str(run.id) for run in process.runs]  # ["pass 1, cold", "pass 1, warm"]
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

from trace_tools.errors import TraceFileError
from trace_tools.lecture.vocabulary import ANSWERS
from trace_tools.source.statements import FUNCTIONS, ParsedSource
from trace_tools.trace.identities import METERING, Ending, ProcessId, RunId
from trace_tools.trace.model import NOT_METERED, Step
from trace_tools.trace.structure import from_plain
from trace_tools.trace.validation import check_step
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
    Said,
    StepError,
    StepTime,
    Unsettled,
    read_journal,
)

JOURNAL = Path("journal")  # the source of the data in error messages
UNKNOWN = -2  # position of a step whose call is unknown, because its record is damaged
UNFINISHED = Ending("stopped")  # the ending of a run whose process was killed


@dataclass(slots=True)
class RecordedStep:
    """A step as recorded by one run. Lists are created on demand, because each of eight runs may have 100,000 steps."""

    seq: int
    frame: int
    statement: int
    execution: int
    ns: int | None = None
    position: int = UNKNOWN  # the same in all runs: see `trace.identities`
    # The following fields have the names of `Observation`s, which are added to a list or set.
    device_ns: int | None = None
    launch_ns: int | None = None
    queued_ns: int | None = None
    allocated_bytes: int | None = None
    values: Sequence[list[Any]] = ()  # [source, unit, value]
    claim: list[Any] | None = None  # [statement, "held" or "raised" or "passed over", sides]
    left: bool = False  # the claim's error left its section
    measured: Sequence[dict[str, Any]] = ()  # each call of `measure`: its seconds or counts
    harness: bool = False
    narrative: Sequence[Any] = ()
    stdout: Sequence[str] = ()
    warnings: Sequence[str] = ()
    left_out: Sequence[list[Any]] = ()  # [kind, count, position in the output]
    meters: dict[str, Any] | None = None
    compiled: bool = False
    graph: bool = False
    raised: dict[str, Any] | None = None

    def add(self, name: str, content: Any) -> None:
        """Add an observation to a list, or set it."""
        if name in SEVERAL:
            if items := getattr(self, name):
                items.append(content)
            else:
                setattr(self, name, [content])
        elif name == "meters" and self.meters is not None:
            self.meters = _added(self.meters, content)
        else:
            setattr(self, name, content)


OBSERVED = frozenset(one.name for one in fields(RecordedStep)) - {
    "seq",
    "frame",
    "statement",
    "execution",
    "ns",
    "position",
}
SEVERAL = frozenset({"values", "measured", "narrative", "stdout", "warnings", "left_out"})


@dataclass(slots=True)
class RecordedCall:
    """A call as recorded by one run."""

    id: int
    function: int
    of: int | None
    thread: str | None
    position: int = UNKNOWN  # as for a step
    arguments: list[list[Any]] = field(default_factory=list)


@dataclass(eq=False)
class RunRecord:
    """One run of the lecture, read from a journal."""

    id: RunId
    ending: Ending = UNFINISHED
    ns: int | None = None
    frames: dict[int, RecordedCall] = field(default_factory=dict)
    steps: dict[int, RecordedStep] = field(default_factory=dict)
    omitted: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)  # by frame and statement: count, ns
    refused: dict[int, int] = field(default_factory=dict)  # function's number → calls beyond the limit
    open_statement: int | None = None  # the innermost one, when the process was killed
    calls_at: dict[int, RecordedCall] = field(default_factory=dict)  # by number
    steps_at: dict[int, RecordedStep] = field(default_factory=dict)  # by number


@dataclass
class ProcessRecord:
    """One process: its runs and its notes."""

    id: ProcessId
    runs: list[RunRecord]
    notes: list[str]
    restored: list[str]
    done: str | None = None
    why_no_warm: str | None = None
    peak_ram_bytes: int | None = None
    peak_device_bytes: int | None = None
    floor_ns: int | None = None
    other_cores: float | None = None
    device_index: int | None = None
    unreadable: int = 0  # number of damaged records


def stored(path: Path, read: Callable[[str], Any] = json.loads) -> Any:
    """Read a file in a run's folder. Raises TraceFileError if the file is damaged."""
    try:
        return read(path.read_text(encoding="utf-8"))
    except NO_RECORD as error:
        raise TraceFileError(path.name, None, f"is damaged: {error}") from None


def read_process(
    path: Path, source: ParsedSource, *, strict: bool = False, interned: Said | None = None
) -> ProcessRecord:
    """Read the journal of the process that its file is named after, and its tail if the process was killed.

    An impossible record is left out and counted, because its line is damaged or names a statement that does not exist.
    `strict` also validates observations as strictly as the trace, for a journal that otherwise makes no valid trace.
    With `interned`, equal observations of several runs share one object, see `read_journal`.
    """
    process = ProcessRecord(ProcessId.parse(path.stem), [], [], [])
    unreadable: list[int] = []
    possible = partial(_is_possible, source=source, timed=process.id.kind != METERING, strict=strict)
    reading: _Reading | None = None  # between a run's start and its end
    for record in read_journal(path, unreadable, interned):
        match record:
            case RunStart(run):
                if reading:  # the record of its end was damaged
                    reading.finish(source)
                reading = _Reading(RunRecord(RunId(process.id, run)))
                process.runs.append(reading.run)
            case RunEnd(status, ns, refused) if reading and possible(record):
                last = reading.run
                last.ending, last.ns, last.refused = Ending.parse(str(status)), ns, dict(refused)
                reading.finish(source)
                reading = None
            case Evaluated():
                pass  # for the processes other than the passes
            case ProcessNote(into, content) if possible(record):
                setattr(process, into, [*getattr(process, into), *content] if isinstance(content, list) else content)
            case _ if reading and possible(record):
                reading.add(record)
            case _:
                unreadable.append(0)
    if reading:
        tail = [record for record in read_journal(path.with_suffix(".tail"), unreadable, interned) if possible(record)]
        for record in _tail(tail, reading):
            reading.add(record)
        reading.finish(source)
    process.unreadable = len(unreadable)
    return process


class _Reading:
    """A run that is being read: each record is assigned as soon as it is read, and not stored otherwise."""

    def __init__(self, run: RunRecord) -> None:
        self.run = run
        self.early: dict[int, list[Observation]] = {}  # by step: observations that precede the step's end
        self.errors: list[StepError] = []  # of steps that may end later
        self.ended: set[int] = set()  # ended frames: their records in the tail are ignored
        self.settled: set[tuple[int, str]] = set()  # pairs of step and kind with complete content

    def add(self, record: Record) -> None:
        """Add a record to the run; an observation may precede or follow the record that ends its step."""
        run = self.run
        match record:
            case StepTime(seq, frame, statement, execution, ns):
                step = run.steps.get(seq) or self._begun(seq, frame, statement, execution)
                step.ns = (step.ns or 0) + max(0, ns)
            case Observation(seq, name, content):
                if name == "left_out":
                    self.settled.add((seq, content[0]))
                if seq in run.steps:
                    run.steps[seq].add(name, content)
                else:
                    self.early.setdefault(seq, []).append(record)
            case FrameStart(frame, function, of, thread):
                run.frames[frame] = RecordedCall(frame, function, of, thread)
            case FrameEnd(frame):
                self.ended.add(frame)
            case Argument(frame, argument, unit, value) if frame in run.frames:
                run.frames[frame].arguments.append([argument, unit, value])
            case OpenStep(seq, frame, statement, execution):
                if seq not in run.steps:
                    self._begun(seq, frame, statement, execution)
                run.open_statement = statement
            case Omission(frame, statement, omitted, ns):
                run.omitted[frame, statement] = (omitted, ns)
            case Refused(functions):
                run.refused = dict(functions)
            case StepError():
                self.errors.append(record)

    def _begun(self, seq: int, frame: int, statement: int, execution: int) -> RecordedStep:
        step = self.run.steps[seq] = RecordedStep(seq, frame, statement, execution)
        for observation in self.early.pop(seq, ()):
            step.add(observation.field, observation.content)
        return step

    def finish(self, source: ParsedSource) -> None:
        """Assign each exception to the step that it left: the frame's last step with a statement on that line."""
        by_frame: dict[int, list[RecordedStep]] = {}
        for step in self.run.steps.values() if self.errors else ():
            by_frame.setdefault(step.frame, []).append(step)
        for error in self.errors:
            candidates = []
            for step in by_frame.get(error.frame, ()):
                statement = source.statements[step.statement]
                if step.seq <= error.step and statement.first_line <= error.line <= statement.end_line:
                    candidates.append((statement.line, step.seq))
            if candidates:
                self.run.steps[max(candidates)[1]].raised = error.raised


def _is_possible(record: Record, source: ParsedSource, *, timed: bool, strict: bool) -> bool:
    """Return whether a record may belong to this lecture: the statements, functions and fields that it names exist."""

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
            inner = partial(_is_possible, source=source, timed=timed, strict=strict)
            return is_statement(statement) and all(inner(one) for _, records in executions for one in records)
        case ProcessNote("peak_ram_bytes" | "peak_device_bytes" | "floor_ns" | "device_index", content):
            return isinstance(content, int) and content >= 0
        case ProcessNote("other_cores", content):
            return isinstance(content, float) and 0 <= content < math.inf
        case ProcessNote(into, content):
            is_list = into in ("notes", "restored")
            texts = content if is_list and isinstance(content, list) else [content]
            return (is_list or into in ("done", "why_no_warm")) and all(isinstance(text, str) for text in texts)
        case RunEnd() | Refused():
            plain: list[Any] = record.refused
            return all(isinstance(pair, list) and [*map(type, pair)] == [int, int] for pair in plain)
        case Unsettled(_, _, observations):
            return all(isinstance(one, list) and len(one) == 2 and one[0] in OBSERVED for one in observations)
        case Observation(_, "left_out", content):
            return isinstance(content, list) and [*map(type, content)] == [str, int, int]
        case Observation(_, field, content):
            return field in OBSERVED and (not strict or _is_sound(source, timed, field, content))
        case Argument(_, name, _, value):
            return not strict or _is_sound(source, timed, "values", [name, None, value])
        case StepError(raised=raised):
            return not strict or _is_sound(source, timed, "raised", raised)
    return True


def _is_sound(source: ParsedSource, timed: bool, field: str, content: Any) -> bool:
    """Return whether a step with only this observation would be valid."""
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
                content["operators"]  # required, but may be empty
            case "left":
                return content is True
            case "device_ns" | "launch_ns" | "queued_ns" | "warnings":
                plain = {field: [content]}
            case _:
                plain = {field: content}
        check_step(from_plain(Step, {"id": 0, "frame": 0, "statement": 0, "line": 1, **plain}, field), source.text)
    except (TraceFileError, *NO_RECORD):
        return False
    return True


def _tail(tail: Iterable[Record], certain: _Reading) -> Iterator[Record]:
    """Yield the records that the tail adds: the last executions in frames that never closed, and the open steps."""
    run = certain.run
    kept: list[tuple[int, int, int, list[Record]]] = []  # frame, statement, execution, records
    opened: dict[int, OpenStep] = {}  # by frame, the last one counts
    omitted: dict[tuple[int, int], Omission] = {}  # by frame and statement, likewise
    unsettled: dict[tuple[int, str], Unsettled] = {}  # by step and kind, likewise
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
                unsettled[step, kind] = record
            case Refused():
                refused = [record]
    # earlier executions were left out later
    kept = [k for k in kept if k[:2] not in omitted or k[2] >= omitted[k[:2]].first]
    recorded = {(step.frame, step.statement, step.execution) for step in run.steps.values()}
    kept = [k for k in kept if k[:3] not in recorded]  # in the journal already because a claim failed
    fresh = [record for k in kept for record in k[3]]
    # their executions are recorded elsewhere
    closed = certain.ended | {record.frame for record in fresh if isinstance(record, FrameEnd)}
    open_frames = {*run.frames, *(record.frame for record in fresh if isinstance(record, FrameStart))} - closed
    records = [record for k in kept if k[0] in open_frames for record in k[3]]
    ended = {*run.steps, *(record.step for record in records if isinstance(record, StepTime))}
    settled = {(o.step, o.content[0]) for o in fresh if isinstance(o, Observation) and o.field == "left_out"}
    settled |= certain.settled
    yield from records
    yield from (record for record in omitted.values() if record.frame in open_frames)
    yield from (record for record in opened.values() if record.step not in ended and record.frame in open_frames)
    yield from refused
    for (step, kind), last in unsettled.items():
        if (step, kind) not in settled:
            yield from (Observation(step, *observation) for observation in last.observations)


def _added(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Add the meters of a step's two parts (entering and leaving a `with`)."""
    for part in (first, second):
        if part.get("why") == NOT_METERED:
            return part
    total = {**first, **second}
    total["meta_flops"] = (first.get("meta_flops") or 0) + (second.get("meta_flops") or 0) or None
    for name in ("flops", "bytes_read", "bytes_written"):
        if first.get(name) is not None and second.get(name) is not None:
            total[name] = first[name] + second[name]
    total["device_operators"] = (first.get("device_operators") or 0) + (second.get("device_operators") or 0) or None
    counts = dict(first.get("operators") or [])
    for operator, count in second.get("operators") or []:
        counts[operator] = counts.get(operator, 0) + count
    total["operators"] = sorted([name, count] for name, count in counts.items())
    groups: dict[tuple[str, int], dict[str, Any]] = {}  # of ranks that communicate, by operation and number of ranks
    for collective in (*(first.get("collectives") or ()), *(second.get("collectives") or ())):
        sums = groups.setdefault((collective["operation"], collective["ranks"]), {})
        for name, figure in collective.items():
            counted = name in ("calls", "bytes", "waited_ns", "moved_ns") and name in sums
            sums[name] = sums[name] + figure if counted else figure
    total["collectives"] = [groups[group] for group in sorted(groups)]
    work: dict[tuple[str, str | None], list[int]] = {}
    for operator, dtype, flops, moved in (*(first.get("work") or ()), *(second.get("work") or ())):
        done = work.setdefault((operator, dtype), [0, 0])
        done[0], done[1] = done[0] + flops, done[1] + moved
    total["work"] = [[*of, *done] for of, done in work.items()]
    total["uncounted"] = sorted({*(first.get("uncounted") or ()), *(second.get("uncounted") or ())})
    total["dtype"] = first.get("dtype") if first.get("dtype") == second.get("dtype") else None
    total["peak_bytes"] = max(first.get("peak_bytes") or 0, second.get("peak_bytes") or 0)
    return total
