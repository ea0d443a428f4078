"""Records → a process's journal on disk, which survives the process.

A journal is a file of JSON lines, one record each; what has been written stays there whatever kills
the process. Beside it stands a tail: records that the limit may yet discard (the last executions in
loops still running) and the steps now open. The tail is started anew when it has grown, so that a
loop of any length leaves a journal of bounded size, and is removed when the run completes.

    journal = Journal(folder / "pass-1.journal")
    journal.write([["S", 0, 0, 3, 1, 1200]])
    list(read_journal(folder / "pass-1.journal"))  # [["S", 0, 0, 3, 1, 1200]]
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Record = Any  # a list or tuple: a letter, then its fields

TAIL_LIMIT_BYTES = 8 << 20

_as_json = json.JSONEncoder(separators=(",", ":")).encode  # `dumps` would make one for each record


class Journal:
    """Appends records; a full disk is noted in `trouble`, and the records wait for the next write."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()  # the lecture may go to another folder
        self.tail_path = self.path.with_suffix(".tail")
        self.trouble: str | None = None
        self._waiting = b""
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._tail = os.open(self.tail_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)

    def write(self, records: Iterable[Record]) -> None:
        """Append records for good."""
        self._waiting += _lines(records)
        if not self._waiting or self._file < 0:
            return
        try:
            written = os.write(self._file, self._waiting)
        except OSError as error:
            self.trouble = f"{self.path.name}: {error.strerror}"
            return
        self._waiting = self._waiting[written:]

    def write_tail(self, records: Iterable[Record]) -> bool:
        """Append records that may yet be discarded; return whether the tail has grown too long."""
        if self._tail < 0:
            return False
        try:
            os.write(self._tail, _lines(records))
        except OSError as error:
            self.trouble = f"{self.tail_path.name}: {error.strerror}"
        return os.fstat(self._tail).st_size > TAIL_LIMIT_BYTES

    def restart_tail(self, records: Iterable[Record]) -> None:
        """Replace the tail by `records`, in one rename."""
        fresh = self.tail_path.with_suffix(".tail-new")
        try:
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
            os.write(descriptor, _lines(records))
            os.replace(fresh, self.tail_path)
        except OSError as error:
            self.trouble = f"{self.tail_path.name}: {error.strerror}"
            return
        os.close(self._tail)
        self._tail = descriptor

    def close(self, *, complete: bool) -> None:
        """Close the files; the tail of a complete run is of no more use."""
        for descriptor in (self._file, self._tail):
            os.close(descriptor)
        self._file = self._tail = -1
        if complete:
            self.tail_path.unlink(missing_ok=True)

    def forget(self) -> None:
        """Write nothing more: in the child of a fork, the journal is its parent's."""
        self._file = self._tail = -1


def read_journal(path: Path) -> Iterator[Any]:
    """Yield the records of a journal or tail; an unfinished last line is left out."""
    if not path.exists():
        return
    with path.open("rb") as lines:
        for line in lines:
            try:
                yield json.loads(line)
            except ValueError:
                return  # the process was killed in the middle of a write


def _lines(records: Iterable[Record]) -> bytes:
    return b"".join(_as_json(record).encode() + b"\n" for record in records)
