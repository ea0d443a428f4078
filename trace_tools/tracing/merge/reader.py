"""Read a process's journal into its runs: calls and steps, as in a trace of one run.

process = read_process(folder / "pass-1.journal", [source])
[str(run.id) for run in process.runs]  # ["pass 1, cold", "pass 1, warm"]
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from trace_tools.errors import TraceFileError
from trace_tools.source.statements import ParsedSource
from trace_tools.trace.identities import Ending, ProcessId, RunId
from trace_tools.trace.model import Frame, Omitted, Step
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
    positions: dict[int, int] = field(default_factory=dict)  # of steps; see `matching`
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
    """Give each exception to the step that it left: the call's last step with a statement on that line."""
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
