"""Read a process's journal into its runs, match them with one another, and choose a run of median duration.

process = read_process(folder / "pass-1.journal", [source])
[str(run.id) for run in process.runs]  # ["pass 1, cold", "pass 1, warm"]

runs = Runs(recorded)
runs.shown                                 the run that the trace shows
runs.steps_at(step, runs.warm)             the same step in each warm run that reached it
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from trace_tools.errors import TraceFileError
from trace_tools.source.statements import ParsedSource
from trace_tools.trace.model import Frame, Omitted, Step
from trace_tools.trace.records import COLD, COUNTED, WARM, Ending, ProcessId, RunId
from trace_tools.tracing.journal import NO_RECORD, Error, Failed, Line, Note, RunEnd, RunStart, read_journal

UNFINISHED = Ending("stopped")  # the ending of a run whose process was killed
PLACE = frozenset({"id", "frame", "statement", "line", "execution"})
SUMS = frozenset({"host_ns", "device_ns", "launch_ns", "queued_ns"})
LATEST = frozenset({"claim", "allocated_bytes", "meters", "raised"})


@dataclass(eq=False)
class RunRecord:
    """One run of the lecture, read from a journal."""

    id: RunId
    ending: Ending = UNFINISHED
    ns: int | None = None
    frames: dict[int, Frame] = field(default_factory=dict)
    steps: dict[int, Step] = field(default_factory=dict)
    omitted: list[Omitted] = field(default_factory=list)
    failed: set[int] = field(default_factory=set)  # steps whose claim failed
    refused: dict[str, int] = field(default_factory=dict)  # function → calls beyond the limit
    positions: dict[int, int] = field(default_factory=dict)  # of steps; see `Runs`
    call_positions: dict[int, int] = field(default_factory=dict)
    calls_at: dict[int, Frame] = field(default_factory=dict)  # by position
    steps_at: dict[int, Step] = field(default_factory=dict)  # by position
    omissions: set[tuple[int, int]] = field(default_factory=set)  # calls and statements in `omitted`

    @property
    def open_line(self) -> int | None:
        """The line of the innermost step that had not ended when the process was killed."""
        return next((s.line for s in reversed(self.steps.values()) if s.host_ns is None and not s.suspended), None)


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


def stored(path: Path, read: Callable[[str], Any] = json.loads) -> Any:
    """Read a file in a run's folder. Raises TraceFileError if the file is damaged."""
    try:
        return read(path.read_text(encoding="utf-8"))
    except NO_RECORD as error:
        raise TraceFileError(path.name, None, f"is damaged: {error}") from None


def read_process(path: Path, source: ParsedSource) -> ProcessRecord:
    """Read the journal of the process that its file is named after."""
    process = ProcessRecord(ProcessId.parse(path.stem), [], [], [])
    run, errors = RunRecord(RunId(process.id, "")), list[Error]()
    for line in read_journal(path):
        match line:
            case RunStart(name):
                run = RunRecord(RunId(process.id, name))
                process.runs.append(run)
            case RunEnd(ended, ns, refused):
                run.ending, run.ns, run.refused = Ending.parse(ended), ns, dict(refused)
                _assign(errors, run, source)
            case Note(name, content):
                setattr(process, name, [*getattr(process, name), *content] if isinstance(content, list) else content)
            case Error():
                errors.append(line)
            case _:
                _add(line, run)
    _assign(errors, run, source)
    return process


def _add(line: Line, run: RunRecord) -> None:
    match line:
        case Step():
            earlier = run.steps.get(line.id)
            run.steps[line.id] = line if earlier is None else added(earlier, line)
        case Frame():
            call = run.frames.get(line.frame)
            if call is not None:  # a further argument
                line = replace(call, arguments=[*(call.arguments or ()), *(line.arguments or ())])
            run.frames[line.frame] = line
        case Omitted():
            run.omitted.append(line)
        case Failed(step):
            run.failed.add(step)


def added(first: Step, second: Step) -> Step:
    """Add up two parts of a step."""
    changed: dict[str, Any] = {}
    for name in Step.__struct_fields__:
        one, other = getattr(first, name), getattr(second, name)
        if other and name not in PLACE:
            if not one or name in LATEST:
                changed[name] = other
            elif name in SUMS:
                changed[name] = [one[0] + other[0]]
            else:
                changed[name] = one + other if not isinstance(one, bool) else True
    return replace(first, **changed)


def _assign(errors: list[Error], run: RunRecord, source: ParsedSource) -> None:
    """Give each exception to the step that it left, which is the call's last step with a statement on that line."""
    steps: dict[int, list[Step]] = {error.error: [] for error in errors}
    for step in run.steps.values() if errors else ():
        if step.frame in steps:
            steps[step.frame].append(step)
    for error in errors:
        statements = source.numbered if error.error in run.frames else ()
        left = [
            (step.line, step.id)
            for step in steps[error.error]
            if step.id <= error.step
            and statements[step.statement].first_line <= error.line <= statements[step.statement].end_line
        ]
        if left:
            run.steps[max(left)[1]] = replace(run.steps[max(left)[1]], raised=error.raised)
    errors.clear()


# --- the same step in all runs --------------------------------------------------------------------


TOP = -1  # the caller of a call that no traced step made


class CallKey(NamedTuple):
    """Identifies the n-th call of its function in a step, in all runs."""

    caller: int  # position of the step that made the call, or TOP
    function: str
    number: int  # among the calls of this function in the step, from 1


class StepKey(NamedTuple):
    """Identifies the n-th execution of its statement in a call, in all runs."""

    call: int  # position of the call
    statement: int
    execution: int  # from 1


class Runs:
    """The runs of a trace. The same call, or step, has the same position in all of them."""

    def __init__(self, recorded: Sequence[RunRecord], floor_ns: int | None = None) -> None:
        """Take the runs of all passes, at least one with steps, and the device clock's reading for an empty step."""
        self.floor_ns = floor_ns
        self.counted = next((run for run in recorded if run.id.kind == COUNTED), None)
        self.cold = [run for run in recorded if run.id.kind == COLD and run.steps]
        warm = [run for run in recorded if run.id.kind == WARM]
        # A warm run that failed after a complete cold one has no valid times, but it judged claims.
        self.warm = [run for run in warm if run.ending.is_complete]
        self.timed = [run for run in recorded if run in self.cold or run in self.warm]
        self.judging = [*self.timed, *(run for run in warm if run not in self.warm)]
        # all; those whose samples come first; the cold runs, if these are the warm ones
        self.compared = (self.timed, self.warm or self.cold, self.cold if self.warm else [])
        self.keys: list[CallKey | StepKey] = []  # by position
        self._positions: dict[tuple[type, CallKey | StepKey], int] = {}  # with its type: tuples of two types are equal
        for run in (*self.judging, *([self.counted] if self.counted else [])):
            self._locate(run)
        self.complete = [run for run in self.timed if run.ending.is_complete]
        by_time = sorted(self.warm or self.complete or self.timed[:1], key=lambda run: run.ns or 0)
        self.shown = by_time[(len(by_time) - 1) // 2]

    def _position(self, key: CallKey | StepKey) -> int:
        position = self._positions.setdefault((type(key), key), len(self.keys))
        if position == len(self.keys):
            self.keys.append(key)
        return position

    def _locate(self, run: RunRecord) -> None:
        """Give each call and each step of a run its position."""
        steps_of: dict[int, list[Step]] = {}
        for step in run.steps.values():
            steps_of.setdefault(step.frame, []).append(step)
        calls: Counter[tuple[int, str]] = Counter()
        for _, call in sorted(run.frames.items()):  # callers before callees
            caller = TOP if call.of is None else run.positions[call.of]
            calls[caller, call.function] += 1
            position = self._position(CallKey(caller, call.function, calls[caller, call.function]))
            run.calls_at[position] = call
            run.call_positions[call.frame] = position
            for step in steps_of.get(call.frame, ()):
                at = self._position(StepKey(position, step.statement, step.execution))
                run.positions[step.id] = at
                run.steps_at[at] = step
        run.omissions = {(one.frame, one.statement) for one in run.omitted}

    def ran(self, position: int, run: RunRecord) -> bool:
        """Return whether a step happened in a run, or may have happened because a limit left it out."""
        while position not in run.steps_at:
            call, statement, _ = self.keys[position]
            if call in run.calls_at:
                return (run.calls_at[call].frame, statement) in run.omissions
            key = self.keys[call]
            assert isinstance(key, CallKey)
            if key.caller in run.steps_at or key.caller < 0:
                return key.function in run.refused
            position = key.caller
        return True

    def count_with(self, step: Step) -> int | None:
        """Return the number of complete timed runs with this step, if it did not run in all."""
        position = self.shown.positions[step.id]
        count = sum(self.ran(position, run) for run in self.complete)
        return None if count == len(self.complete) else count

    def steps_at(self, step: Step, runs: Iterable[RunRecord]) -> list[Step]:
        """Return the same step in each run that reached it."""
        position = self.shown.positions[step.id]
        return [run.steps_at[position] for run in runs if position in run.steps_at]

    def calls_at(self, call: Frame, runs: Iterable[RunRecord]) -> list[Frame]:
        """Return the same call in each run that reached it."""
        position = self.shown.call_positions[call.frame]
        return [run.calls_at[position] for run in runs if position in run.calls_at]
