"""Read a process's journal into its runs: frames, and steps with all their observations.

process = read_process(folder / "pass-1.journal", source)
[str(run.id) for run in process.runs]  # ["pass 1, cold", "pass 1, warm"]
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trace_tools.errors import TraceFileError
from trace_tools.source.statements import ParsedSource
from trace_tools.trace.identities import Ending, ProcessId, RunId
from trace_tools.trace.model import NOT_METERED
from trace_tools.tracing.journal import (
    NO_RECORD,
    Argument,
    FrameStart,
    Observation,
    Omission,
    OpenStep,
    ProcessNote,
    Record,
    RunEnd,
    RunStart,
    Said,
    StepError,
    StepTime,
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
    unreadable: int = 0  # number of damaged records


def stored(path: Path, read: Callable[[str], Any] = json.loads) -> Any:
    """Read a file in a run's folder. Raises TraceFileError if the file is damaged."""
    try:
        return read(path.read_text(encoding="utf-8"))
    except NO_RECORD as error:
        raise TraceFileError(path.name, None, f"is damaged: {error}") from None


def read_process(path: Path, source: ParsedSource, *, interned: Said | None = None) -> ProcessRecord:
    """Read the journal of the process that its file is named after.

    A damaged line is left out and counted. With `interned`, equal observations of several runs share one object, see
    `read_journal`.
    """
    process = ProcessRecord(ProcessId.parse(path.stem), [], [], [])
    unreadable: list[int] = []
    reading: _Reading | None = None  # between a run's start and its end
    for record in read_journal(path, unreadable, interned):
        match record:
            case RunStart(run):
                if reading:  # the record of its end was damaged
                    reading.finish(source)
                reading = _Reading(RunRecord(RunId(process.id, run)))
                process.runs.append(reading.run)
            case RunEnd(status, ns, refused) if reading:
                last = reading.run
                last.ending, last.ns, last.refused = Ending.parse(str(status)), ns, dict(refused)
                reading.finish(source)
                reading = None
            case ProcessNote(into, content):
                setattr(process, into, [*getattr(process, into), *content] if isinstance(content, list) else content)
            case _ if reading:
                reading.add(record)
            case _:
                unreadable.append(0)
    if reading:
        reading.finish(source)
    process.unreadable = len(unreadable)
    return process


class _Reading:
    """A run that is being read: each record is assigned as soon as it is read, and not stored otherwise."""

    def __init__(self, run: RunRecord) -> None:
        self.run = run
        self.early: dict[int, list[Observation]] = {}  # by step: observations that precede the step's end
        self.errors: list[StepError] = []  # of steps that may end later

    def add(self, record: Record) -> None:
        """Add a record to the run; an observation may precede or follow the record that ends its step."""
        run = self.run
        match record:
            case StepTime(seq, frame, statement, execution, ns):
                step = run.steps.get(seq) or self._begun(seq, frame, statement, execution)
                step.ns = (step.ns or 0) + max(0, ns)
            case Observation(seq, name, content):
                if seq in run.steps:
                    run.steps[seq].add(name, content)
                else:
                    self.early.setdefault(seq, []).append(record)
            case FrameStart(frame, function, of, thread):
                run.frames[frame] = RecordedCall(frame, function, of, thread)
            case Argument(frame, argument, unit, value) if frame in run.frames:
                run.frames[frame].arguments.append([argument, unit, value])
            case OpenStep(seq, frame, statement, execution):
                if seq not in run.steps:
                    self._begun(seq, frame, statement, execution)
                run.open_statement = statement
            case Omission(frame, statement, omitted, ns):
                run.omitted[frame, statement] = (omitted, ns)
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
            counted = name in ("calls", "bytes") and name in sums
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
