"""Write records to a process's journal on disk, which survives the process, and read them.

A journal is a file of JSON lines, one record each; written records stay, whatever kills the process. The last
executions in loops that still run are not yet written, because the limit may discard them; a kill loses them.

    journal = Journal(folder / "pass-1.journal")
    journal.write([(StepTime, 0, 0, 3, 1, 1200)])  # the line ["S",0,0,3,1,1200]
    list(read_journal(folder / "pass-1.journal"))  # [StepTime(step=0, frame=0, statement=3, execution=1, ns=1200)]
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from os import fstat, ftruncate, write  # imported now, because a lecture may replace them in `os`
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from trace_tools.tracing.isolation.output_capture import OwnFile

# --- the records --------------------------------------------------------------------------------------------------

Row = tuple[Any, ...]  # a record as the probes make it: its class, then its fields
# A tuple, because an object takes four times as long to create, and most records are dropped before they are written.


class RunStart(NamedTuple):
    """The following records belong to this run: "cold"."""

    name: str


class RunEnd(NamedTuple):
    """A run has ended. `refused`: functions with more calls than are kept, each with the number left out."""

    status: str
    ns: int
    refused: list[tuple[int, int]]


class ProcessNote(NamedTuple):
    """A fact about a process rather than a run, for a field of `reader.ProcessRecord`."""

    field: str
    content: Any


class FrameStart(NamedTuple):
    """A call of a lecture function. `of`: the calling step; `thread`: the name of its thread, if that differs."""

    frame: int
    function: int
    of: int | None
    thread: str | None


class Argument(NamedTuple):
    """An argument that a directive on the `def` line inspects."""

    frame: int
    source: str
    unit: str | None
    value: Any


class StepTime(NamedTuple):
    """A step, or a part of it, has ended; a `with` has two parts, entering and leaving."""

    step: int
    frame: int
    statement: int
    execution: int
    ns: int


class Observation(NamedTuple):
    """An observation of a step, for a field of `RecordedStep`; it may precede or follow the step's `StepTime`."""

    step: int
    field: str
    content: Any


class StepError(NamedTuple):
    """An exception left a statement of a frame; `step` is the frame's last step."""

    frame: int
    step: int
    line: int
    raised: dict[str, Any]


class Omission(NamedTuple):
    """The number of a statement's executions in one frame that the limit omitted, and the first one kept after them."""

    frame: int
    statement: int
    omitted: int
    ns: int
    first: int


class OpenStep(NamedTuple):
    """A step that had not ended when the run ended."""

    step: int
    frame: int
    statement: int
    execution: int


Record = (
    RunStart | RunEnd | ProcessNote | FrameStart | Argument | StepTime | Observation | StepError
    | Omission | OpenStep
)  # fmt: skip

KINDS: dict[str, Any] = {  # first item of a line → class of the record
    "run": RunStart, "end": RunEnd, "process": ProcessNote, "F": FrameStart, "G": Argument,
    "S": StepTime, "O": Observation, "X": StepError, "T": Omission, "Q": OpenStep,
}  # fmt: skip
_LETTERS = {kind: letter for letter, kind in KINDS.items()}

_as_json = json.JSONEncoder(  # `dumps` would create one for each record
    separators=(",", ":"), default=_LETTERS.__getitem__, check_circular=False
).encode


def _types(hint: Any) -> frozenset[type] | None:
    """Return the types that a field with this hint may have in a file, or None for any type."""
    members = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    return None if Any in members else frozenset(get_origin(member) or member for member in members)


_FORMS = {kind: [_types(hint) for hint in get_type_hints(kind).values()] for kind in _LETTERS}

# Errors that reading a damaged line may raise.
NO_RECORD = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


def _record(plain: Any) -> Record:
    """Return the record in a parsed line. Raises one of `NO_RECORD` if the line is damaged."""
    kind, fields = KINDS[plain[0]], plain[1:]
    for value, types in zip(fields, _FORMS[kind], strict=True):
        if types is not None and type(value) not in types:
            raise TypeError(f"found {type(value).__name__}")
    record: Record = kind(*fields)
    return record


# --- the file -----------------------------------------------------------------------------------------------------


class Journal:
    """Appends records. A full disk is noted in `trouble`, and the records wait for the next write."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.trouble: str | None = None
        self._waiting = b""
        self._writes = True
        self._file = OwnFile(self.path)

    def write(self, rows: Iterable[Row]) -> None:
        """Append records."""
        if not self._writes:
            return
        self._waiting += _lines(rows)
        if not self._waiting:
            return
        self._waiting = self._waiting[self._append(self._file, self._waiting) :]

    def _append(self, file: OwnFile, content: bytes) -> int:
        """Append as many whole lines as fit on the disk; return the number of bytes written.

        An error is noted in `trouble`. Part of a line is removed again, because it would damage the next one.
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

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        self._writes = False

    def forget(self) -> None:
        """Stop writing, in the child of a fork: the journal belongs to its parent."""
        self._writes = False
        self._waiting = b""


def journals(folder: Path) -> list[Path]:
    """Return the journals in a run's folder."""
    return [*folder.glob("*.journal")]


Said = dict[bytes, Observation]  # text of an observation in a journal → its first record
_MOST_OBSERVATIONS = 1 << 18  # most observations remembered


def read_journal(path: Path, unreadable: list[int] | None = None, cache: Said | None = None) -> Iterator[Record]:
    """Yield the records of a journal or tail; add the numbers of damaged lines to `unreadable`.

    A last line without a newline is skipped: the process was killed during a write.

    All runs of a lecture observe nearly the same. With `cache`, shared by all their journals, an observation that was
    read before is neither parsed nor stored again: both records share one object, which must not be modified.
    """
    if not path.exists():
        return
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                return
            step, observed = b"", b""
            if cache is not None and line.startswith(b'["O",'):
                step, _, observed = line[5:].partition(b",")
                if (first := cache.get(observed)) is not None and step.isdigit() and (step[:1] != b"0" or step == b"0"):
                    yield first._replace(step=int(step))
                    continue
            try:
                record = _record(json.loads(line))
            except NO_RECORD:
                if unreadable is not None:
                    unreadable.append(number)
                continue
            if cache is not None and isinstance(record, Observation) and len(cache) < _MOST_OBSERVATIONS:
                cache[observed] = record
            yield record


def _lines(rows: Iterable[Row]) -> bytes:
    return b"".join(_as_json(row).encode() + b"\n" for row in rows)
