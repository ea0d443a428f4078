"""A process's journal → the runs it recorded: frames, and steps with everything that belongs to them.

process = read_process("pass 1", folder / "pass-1.journal", source)
[run.name for run in process.runs]  # ["pass 1, cold", "pass 1, warm"]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trace_tools.statements import ParsedSource
from trace_tools.tracing.journal import read_journal

COMPLETE = "complete"
KILLED = "killed"


@dataclass
class Draft:
    """A step as one run recorded it."""

    seq: int
    frame: int
    statement: int
    execution: int
    ns: int | None = None
    device_ns: int | None = None
    allocated_bytes: int | None = None
    values: list[list[Any]] = field(default_factory=list)  # [source, unit, value]
    claim: list[Any] | None = None  # [statement, "held" or "raised" or "passed over", sides]
    left: bool = False  # the claim's error left its section
    measured: list[dict[str, Any]] = field(default_factory=list)  # of each call of `measure`
    harness: bool = False
    narrative: list[Any] = field(default_factory=list)
    stdout: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    meters: dict[str, Any] | None = None
    raised: dict[str, Any] | None = None
    compiled: bool = False


@dataclass
class FrameDraft:
    """A frame as one run recorded it."""

    id: int
    function: int
    of: int | None
    thread: str | None
    arguments: list[list[Any]] = field(default_factory=list)


@dataclass
class RunRecord:
    """One run of the lecture, read back from a journal."""

    name: str  # "pass 1, cold"
    status: str = KILLED
    ns: int | None = None
    frames: dict[int, FrameDraft] = field(default_factory=dict)
    steps: dict[int, Draft] = field(default_factory=dict)
    omitted: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    refused: list[tuple[int, int]] = field(default_factory=list)  # function's number, calls beyond those kept
    open_statement: int | None = None  # the innermost one, when the process was killed


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
    records: list[Any] = []
    for record in read_journal(path):
        match record:
            case ["run", run]:
                records = []
                process.runs.append(RunRecord(f"{name}, {run}"))
            case ["end", status, ns]:
                process.runs[-1].status, process.runs[-1].ns = status, ns
                _fill(process.runs[-1], records, source)
            case ["refused", *refused]:
                process.runs[-1].refused = [(function, calls) for function, calls in refused]
            case ["note", text]:
                process.notes.append(text)
            case ["restored", names]:
                process.restored.extend(names)
            case ["no warm", why]:
                process.why_no_warm = why
            case ["done", status]:
                process.done = status
            case _:
                records.append(record)
    if process.runs and process.runs[-1].status == KILLED:
        _fill(process.runs[-1], [*records, *_tail(path.with_suffix(".tail"), records)], source)
    return process


def _tail(path: Path, certain: Sequence[Any]) -> list[Any]:
    """Return what the tail adds: the last executions in frames that never closed, and the open steps."""
    kept: list[tuple[int, int, int, list[Any]]] = []  # frame, statement, execution, records
    opened: dict[int, Any] = {}  # by frame, the last one counts
    totals: dict[tuple[int, int], Any] = {}  # by frame and statement, likewise
    for record in read_journal(path):
        match record:
            case ["R", frame, statement, ring]:
                kept += [(frame, statement, execution, fresh) for execution, fresh in ring]
            case ["T", frame, statement, *_]:
                totals[frame, statement] = record
            case ["Q", _, frame, *_]:
                opened[frame] = record
    first = {place: record[5] for place, record in totals.items()}
    kept = [r for r in kept if r[2] >= first.get(r[:2], 0)]  # the others were left out after all
    everything = [*certain, *(record for r in kept for record in r[3])]
    closed = {record[1] for record in everything if record[0] == "E"}  # what they kept stands elsewhere, then
    there = {record[1] for record in everything if record[0] == "F"} - closed
    records = [record for r in kept if r[0] in there for record in r[3]]
    ended = {record[1] for record in [*certain, *records] if record[0] == "S"}
    still_open = [record for record in opened.values() if record[1] not in ended and record[2] in there]
    return [*records, *(record[:5] for record in totals.values() if record[1] in there), *still_open]


def _fill(run: RunRecord, records: Iterable[Any], source: ParsedSource) -> None:
    """Put the records in their places; those of a step come before the record that ends it."""
    content: dict[int, list[Any]] = {}
    exceptions = []
    for record in records:
        match record:
            case ["F", frame, function, of, thread]:
                run.frames[frame] = FrameDraft(frame, function, of, thread)
            case ["G", frame, *argument]:
                run.frames[frame].arguments.append(argument)
            case ["S", seq, frame, statement, execution, ns]:
                step = run.steps.setdefault(seq, Draft(seq, frame, statement, execution))
                step.ns = (step.ns or 0) + max(0, ns)
            case ["Q", seq, frame, statement, execution]:
                run.steps.setdefault(seq, Draft(seq, frame, statement, execution))
                run.open_statement = statement
            case ["T", frame, statement, count, ns]:
                run.omitted[frame, statement] = (count, ns)
            case ["X", *exception]:
                exceptions.append(exception)
            case ["E", _]:
                pass
            case [_, int(seq), *_]:
                content.setdefault(seq, []).append(record)
    for seq, step in run.steps.items():
        for record in content.get(seq, ()):
            _add(step, record)
    _place_exceptions(run, exceptions, source)


def _add(step: Draft, record: list[Any]) -> None:
    match record:
        case ["V", _, *value]:
            step.values.append(value)
        case ["C", _, *claim]:
            step.claim = claim
        case ["N", _, told]:
            step.narrative.append(told)
        case ["O", _, text]:
            step.stdout.append(text)
        case ["W", _, text]:
            step.warnings.append(text)
        case ["D", _, ns]:
            step.device_ns = ns
        case ["A", _, size]:
            step.allocated_bytes = size
        case ["M", _, meters]:
            step.meters = _added(step.meters, meters)
        case ["P", _, "compiled"]:
            step.compiled = True
        case ["P", _, "harness"]:
            step.harness = True
        case ["K", _, measured]:
            step.measured.append(measured)
        case ["L", _]:
            step.left = True


def _added(first: dict[str, Any] | None, second: dict[str, Any]) -> dict[str, Any]:
    """Add the meters of a step's two parts (a `with`'s entering and leaving)."""
    if first is None:
        return second
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


def _place_exceptions(run: RunRecord, exceptions: list[Any], source: ParsedSource) -> None:
    """Give each exception to the step it left: the frame's last one whose statement has its line."""
    by_frame: dict[int, list[Draft]] = {}
    for step in run.steps.values():
        by_frame.setdefault(step.frame, []).append(step)
    for frame, seq, line, raised in exceptions:
        candidates = [s for s in by_frame.get(frame, ()) if s.seq <= seq and _covers(source, s.statement, line)]
        if candidates:
            first_lines = {s.seq: source.statements[s.statement].line for s in candidates}
            max(candidates, key=lambda s: (first_lines[s.seq], s.seq)).raised = raised


def _covers(source: ParsedSource, statement: int, line: int) -> bool:
    found = source.statements[statement]
    return found.first_line <= line <= found.end_line
