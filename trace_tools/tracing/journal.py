"""Records → a process's journal on disk, which survives the process.

A journal is a file of JSON lines, one record each; what has been written stays there whatever kills
the process. Beside it stands a tail: records that the limit may yet discard (the last executions in
loops still running) and the steps now open. The tail is started anew when it has grown, so that a
loop of any length leaves a journal of bounded size, and is removed when the run completes.

    journal = Journal(folder / "pass-1.journal")
    journal.write([(StepTime, 0, 0, 3, 1, 1200)])  # the line ["S",0,0,3,1,1200]
    list(read_journal(folder / "pass-1.journal"))  # [StepTime(step=0, frame=0, statement=3, execution=1, ns=1200)]
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from os import fstat, ftruncate, replace, write  # now: a lecture may put others in `os`
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from trace_tools.tracing.own_file import OwnFile

FAILED = ".failed"  # of a file beside the journal of a rank, made when an exception ended it
TAIL_LIMIT_BYTES = 8 << 20

# --- the records --------------------------------------------------------------------------------------------------

Row = tuple[Any, ...]  # a record as the probes note it: its class, then its fields
# An object would take four times as long to make as the tuple, and most are left out before they are ever written.


class RunStart(NamedTuple):
    """The records after it are of this run: "cold"."""

    name: str


class RunEnd(NamedTuple):
    """A run is over; `refused` are functions called more often than calls are kept, each with how often that was."""

    status: str
    ns: int
    refused: list[tuple[int, int]]


class Evaluated(NamedTuple):
    """How often a run evaluated an assert, and which evaluations raised: ranges; see `claims.Evaluations`."""

    statement: int
    evaluations: int
    raised: list[tuple[int, int]]
    measured: bool | None  # whether it raised under `measure`; None where it was not evaluated there


class ProcessNote(NamedTuple):
    """What a process has to say beside its runs, for a field of `runs.ProcessRecord`."""

    field: str
    content: Any


class FrameStart(NamedTuple):
    """A call of a lecture function: `of` is the step that made it, `thread` the name where that is in another one."""

    frame: int
    function: int
    of: int | None
    thread: str | None


class FrameEnd(NamedTuple):
    """A call is over that had executions in the tail: what it kept of them is certain now, and stands elsewhere."""

    frame: int


class Argument(NamedTuple):
    """An argument that the `def` line asks for."""

    frame: int
    source: str
    unit: str | None
    value: Any


class StepTime(NamedTuple):
    """A step is over, or a part of it: a `with` has two, entering and leaving."""

    step: int
    frame: int
    statement: int
    execution: int
    ns: int


class Observation(NamedTuple):
    """What was observed of a step, for a field of `runs.Draft`; it may stand before the step's `StepTime` or after."""

    step: int
    field: str
    content: Any


class StepError(NamedTuple):
    """An exception left a statement of a frame whose last step is `step`."""

    frame: int
    step: int
    line: int
    raised: dict[str, Any]


class Omission(NamedTuple):
    """What the limit left out of one statement's executions in one frame, and the first one kept after it."""

    frame: int
    statement: int
    omitted: int
    ns: int
    first: int


class LastExecutions(NamedTuple):
    """In the tail: what executions beyond the head have recorded since it was last written."""

    frame: int
    statement: int
    executions: list[tuple[int, list[Any]]]  # which one, and its records


class OpenStep(NamedTuple):
    """In the tail: a step that is not over."""

    step: int
    frame: int
    statement: int
    execution: int


class Unsettled(NamedTuple):
    """In the tail: what was said last in a step that may say more, each time as it is then, and what was left out."""

    step: int
    kind: str
    observations: list[list[Any]]  # field and content of each


class Refused(NamedTuple):
    """In the tail: `RunEnd.refused`, as it is then."""

    refused: list[tuple[int, int]]


Record = (
    RunStart | RunEnd | Evaluated | ProcessNote | FrameStart | FrameEnd | Argument | StepTime | Observation | StepError
    | Omission | LastExecutions | OpenStep | Unsettled | Refused
)  # fmt: skip

KINDS: dict[str, Any] = {  # the first member of a record's line → its class
    "run": RunStart, "end": RunEnd, "claim": Evaluated, "process": ProcessNote, "F": FrameStart, "E": FrameEnd,
    "G": Argument, "S": StepTime, "O": Observation, "X": StepError, "T": Omission, "R": LastExecutions, "Q": OpenStep,
    "U": Unsettled, "N": Refused,
}  # fmt: skip
_LETTERS = {kind: letter for letter, kind in KINDS.items()}

_as_json = json.JSONEncoder(  # `dumps` would make one for each record
    separators=(",", ":"), default=_LETTERS.__getitem__, check_circular=False
).encode


def _types(hint: Any) -> frozenset[type] | None:
    """Return the types that a field of this hint may have in a file; None for any."""
    members = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    return None if Any in members else frozenset(get_origin(member) or member for member in members)


_FORMS = {kind: [_types(hint) for hint in get_type_hints(kind).values()] for kind in _LETTERS}

# What reading a damaged line may raise.
NO_RECORD = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


def _record(plain: Any) -> Record:
    """Return the record that a line holds. Raises one of `NO_RECORD` where that is none."""
    kind, fields = KINDS[plain[0]], plain[1:]
    for value, types in zip(fields, _FORMS[kind], strict=True):
        if types is not None and type(value) not in types:
            raise TypeError(f"found {type(value).__name__}")
    if kind is LastExecutions:
        fields[2] = [(execution, [_record(row) for row in rows]) for execution, rows in fields[2]]
    record: Record = kind(*fields)
    return record


# --- the file -----------------------------------------------------------------------------------------------------


class Journal:
    """Appends records; a full disk is noted in `trouble`, and the records wait for the next write."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.tail_path = self.path.with_suffix(".tail")
        self.trouble: str | None = None
        self._started_bytes = 0  # of the tail, when it was last started anew
        self._waiting = b""
        self._writes = True
        self.tail_path.unlink(missing_ok=True)
        self._file, self._tail = OwnFile(self.path), OwnFile(self.tail_path)

    def write(self, rows: Iterable[Row]) -> None:
        """Append records for good."""
        if not self._writes:
            return
        self._waiting += _lines(rows)
        if not self._waiting:
            return
        self._waiting = self._waiting[self._append(self._file, self._waiting) :]

    def write_tail(self, rows: Iterable[Row]) -> bool:
        """Append records that may yet be discarded; return whether the tail has grown too long."""
        if not self._writes:
            return False
        self._append(self._tail, _lines(rows))
        try:
            return fstat(self._tail.descriptor()).st_size > TAIL_LIMIT_BYTES + self._started_bytes
        except OSError as error:
            self.trouble = f"{self.tail_path.name}: {error.strerror}"
            return False

    def restart_tail(self, rows: Iterable[Row]) -> None:
        """Replace the tail by `rows`, in one rename."""
        if not self._writes:
            return
        new = self.tail_path.with_suffix(".tail-new")
        try:
            new.unlink(missing_ok=True)
            fresh, content = OwnFile(new), _lines(rows)
            if self._append(fresh, content) < len(content):
                fresh.close()
                return
            self._started_bytes = len(content)
            replace(new, self.tail_path)
        except OSError as error:
            self.trouble = f"{self.tail_path.name}: {error.strerror}"
            return
        self._tail.close()
        fresh.path = self.tail_path
        self._tail = fresh

    def _append(self, file: OwnFile, content: bytes) -> int:
        """Append all of it, or as many whole lines as there is room for; return how many bytes that was.

        What ended it is noted. Half a line would spoil the next one.
        """
        written = 0
        try:
            descriptor = file.descriptor()
            size = fstat(descriptor).st_size
            while written < len(content):
                written += write(descriptor, content[written:])
        except OSError as error:
            self.trouble = f"{file.path.name}: {error.strerror}"
            written, torn = content.rfind(b"\n", 0, written) + 1, written
            if written < torn:
                ftruncate(descriptor, size + written)
        return written

    def close(self, *, complete: bool) -> None:
        """Close the files; the tail of a complete run is of no more use."""
        for file in (self._file, self._tail):
            file.close()
        self._writes = False
        if complete:
            self.tail_path.unlink(missing_ok=True)

    def forget(self) -> None:
        """Write nothing more: in the child of a fork, the journal is its parent's."""
        self._writes = False
        self._waiting = b""


def rank_folder(folder: Path, rank: int) -> Path:
    """Return where the journals of one rank lie in a run's folder."""
    return folder / f"rank-{rank}"


def journals(folder: Path, pattern: str = "*.journal") -> list[Path]:
    """Return the journals in a run's folder, those of all ranks."""
    return [*folder.glob(pattern), *folder.glob(f"rank-*/{pattern}")]


Said = dict[bytes, Observation]  # what is observed, as the journal has it → the first record that did
_SAID = 1 << 18  # of which so many are remembered


def read_journal(path: Path, unreadable: list[int] | None = None, said: Said | None = None) -> Iterator[Record]:
    """Yield the records of a journal or tail; the numbers of lines that hold none are added to `unreadable`.

    A last line without its end is none of these: the process was killed in the middle of a write.

    All runs of a lecture observe nearly the same. With `said`, one for all of their journals, what was observed before
    is neither parsed again nor there twice: both records hold one object, which nobody may change.
    """
    if not path.exists():
        return
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                return
            step, observed = b"", b""
            if said is not None and line.startswith(b'["O",'):
                step, _, observed = line[5:].partition(b",")
                if (known := said.get(observed)) is not None and step.isdigit() and (step[:1] != b"0" or step == b"0"):
                    yield known._replace(step=int(step))
                    continue
            try:
                record = _record(json.loads(line))
            except NO_RECORD:
                if unreadable is not None:
                    unreadable.append(number)
                continue
            if said is not None and isinstance(record, Observation) and len(said) < _SAID:
                said[observed] = record
            yield record


def read_evaluated(path: Path) -> Iterator[Evaluated]:
    """Yield what a journal says of asserts; no other line is parsed, of which there may be a million."""
    with path.open("rb") as lines:
        yield from (Evaluated(*json.loads(line)[1:]) for line in lines if line.startswith(b'["claim",'))


def _lines(rows: Iterable[Row]) -> bytes:
    return b"".join(_as_json(row).encode() + b"\n" for row in rows)
