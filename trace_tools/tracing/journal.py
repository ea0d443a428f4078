"""Write what happens in a process to its journal, which survives the process, and read it.

A journal is a file of JSON lines. A line is a part of an event of the trace (`model.Frame`, `model.Step`,
`model.Omitted`), as one run recorded it; most steps have one part, and the reader adds up the parts of a step. The
other lines name the run of the events, and add facts that are known only later. Written lines stay, whatever kills the
process.

    journal = Journal(folder / "pass-1.journal")
    journal.write([Step(id=7, frame=0, statement=3, line=12, host_ns=[1200])])
    list(read_journal(folder / "pass-1.journal"))  # the Step again
"""

from __future__ import annotations

import _thread
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from trace_tools.errors import TraceFileError
from trace_tools.trace.model import Frame, Omitted, Raised, Step
from trace_tools.trace.records import Struct
from trace_tools.tracing.isolation.output_capture import out_of_the_way


class RunStart(Struct, frozen=True):
    """The following events belong to this run: "cold"."""

    run: str


class RunEnd(Struct, frozen=True):
    """A run has ended. `refused`: functions with more calls than are kept, each with the number left out."""

    end: str
    ns: int
    refused: list[tuple[str, int]]


class Note(Struct, frozen=True):
    """A fact about a process rather than a run, for a field of `reader.ProcessRecord`."""

    note: str
    content: Any


class Error(Struct, frozen=True):
    """An exception left a line of a call, in its last step on that line up to `step`."""

    error: int  # the call
    step: int
    line: int
    raised: Raised


class Failed(Struct, frozen=True):
    """The claim of a step has failed: its error left the section, or would have left it."""

    failed: int  # the step


Line = Frame | Step | Omitted | RunStart | RunEnd | Note | Error | Failed
KINDS = {Frame: "frame", Step: "id", Omitted: "omitted", RunStart: "run", RunEnd: "end", Note: "note", Error: "error",
         Failed: "failed"}  # fmt: skip
_DECODERS: dict[bytes, tuple[Any, Callable[[bytes], Line]]] = {  # by first key
    name.encode(): (kind, msgspec.json.Decoder(kind).decode) for kind, name in KINDS.items()
}

# Errors that reading a damaged line may raise.
NO_RECORD = (ValueError, TypeError, LookupError, AttributeError, RecursionError)

_encoder = msgspec.json.Encoder()


def encoded(lines: list[Any]) -> bytes:
    """Return lines as JSON. msgspec writes `null` for nan and infinity, and refuses half a surrogate pair: such lines
    are written by `json`.
    """
    try:
        text = _encoder.encode_lines(lines)
        if b"null" not in text:
            return text
    except UnicodeEncodeError:
        pass
    if len(lines) > 1:
        half = len(lines) // 2
        return encoded(lines[:half]) + encoded(lines[half:])
    return json.dumps(msgspec.to_builtins(lines[0]), separators=(",", ":")).encode() + b"\n"


def decoded(line: bytes) -> Line:
    """Return the record in a line. Raises one of `NO_RECORD` if the line is damaged."""
    kind, decode = _DECODERS[line[2 : line.index(b'"', 2)]]
    try:
        return decode(line)
    except msgspec.DecodeError:
        record: Line = msgspec.convert(json.loads(line), kind)
        return record


class Journal:
    """Appends lines. A full disk is noted in `failed`, and the lines wait for the next write."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.failed = False
        self.bytes = 0
        self._waiting = b""
        self._writes = True
        self._file = out_of_the_way(os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))

    def write(self, lines: list[Any]) -> None:
        """Append lines. Part of a line on a full disk is removed again, because it would damage the next one."""
        if not self._writes or not (lines or self._waiting):
            return
        content, written = self._waiting + encoded(lines), 0
        try:
            size = os.fstat(self._file).st_size
            while written < len(content):
                written += os.write(self._file, content[written:])
        except OSError:
            self.failed = True
            written, torn = content.rfind(b"\n", 0, written) + 1, written
            if written < torn:
                os.ftruncate(self._file, size + written)
        self.bytes += written
        self._waiting = content[written:]

    def close(self) -> None:
        """Close the file."""
        if self._writes:
            os.close(self._file)
        self._writes = False

    def forget(self) -> None:
        """Stop writing, in the child of a fork, because the journal belongs to its parent."""
        self._writes = False


def read_journal(path: Path) -> Iterator[Line]:
    """Yield the lines of a journal. Raises TraceFileError for a damaged line.

    A last line without a newline is skipped, because the process was killed during a write.
    """
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                return
            try:
                yield decoded(line)
            except NO_RECORD as error:
                raise TraceFileError(path.name, f"line {number}", "is damaged") from error


# --- threads of the tools -------------------------------------------------------------------------
# The system delivers a signal to any thread that does not block it: one that a lecture blocks and waits for would reach
# a thread of ours, and end the lecture.


# Except the signals of a thread's own faults, which `faulthandler` reports at once.
SIGNALS = signal.valid_signals() - {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}


class unsignalled:  # a context manager
    """Block signals in the block, and in the threads that start in it, which inherit the mask.

    Not a generator: another thread may get a signal, and its handler then raises between the generator's `yield` and
    the block. Signals stayed blocked while the error lived, and the lecture waited forever for its next alarm.
    """

    def __enter__(self) -> None:
        self._before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # in it, a handler may raise
        except BaseException:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._before)
            raise

    def __exit__(self, *_: object) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)


def start_apart(function: Callable[[], object]) -> None:
    """Call a function in a new thread, which Python's own list of threads lacks."""
    with unsignalled():
        _thread.start_new_thread(function, ())
