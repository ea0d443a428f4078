r"""Capture standard output: report Python's output at once, and read all other output from a file.

`printing` is a text stream like the one that Python makes for a redirected standard output, down to descriptor 1. In
addition, it passes everything written to it to a listener, in the frame that wrote it. Descriptor 1 itself is a file
that receives the output of subprocesses, forked children, C libraries and `os.write(1, …)`. At the end of each step,
the recorder checks whether the file has grown.

    output = OutputFile(folder / "pass-1.stdout")
    os.system("echo hello")
    output.grown(), output.take()  # True, "hello\n"

An `OwnFile` stays writable even if the lecture closes descriptors that it does not own, as a daemon does:

    file = OwnFile(folder / "pass-1.journal")
    os.closerange(3, 4096)
    os.write(file.descriptor(), b"…")

The descriptor has a high number, so that the lecture's own files get the same numbers as in plain Python, and a closed
number is hardly ever reused. Before each use, the object checks that the number still refers to this file. If it does
not, the object opens the file again by its path and leaves the file that now has the number alone.
"""

from __future__ import annotations

import codecs
import ctypes
import fcntl
import io
import os
import resource
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from os import (  # bound now: a lecture may replace these in `os`  # bound now: a lecture may replace these in `os`
    close,
    fstat,
    getpid,
    lseek,
    pread,
)
from os import open as open_file
from pathlib import Path
from typing import Any

HIGH = 1000  # number that a lecture reaches only with that many open files
ROOM = 8  # distance below the system's limit, if that is lower


class OwnFile:
    """An open file that is reopened by its path if necessary. Raises OSError if it cannot be opened."""

    def __init__(self, path: Path, flags: int = os.O_WRONLY | os.O_APPEND) -> None:
        self.path = path.absolute()  # absolute: the lecture may change the working directory
        self._flags = flags
        self._open(flags | os.O_CREAT)

    def _open(self, flags: int) -> None:
        self._number = out_of_the_way(open_file(self.path, flags, 0o600))
        self._identity = _identity(self._number)

    @property
    def is_open(self) -> bool:
        """Return whether the number still refers to this file."""
        try:
            return _identity(self._number) == self._identity
        except OSError:
            return False

    def descriptor(self) -> int:
        """Return a descriptor of this file, and never of another file."""
        if not self.is_open:
            self._open(self._flags)
        return self._number

    def close(self) -> None:
        """Close the file, unless its number now refers to another file."""
        if self.is_open:
            close(self._number)


def out_of_the_way(descriptor: int) -> int:
    """Move a descriptor to a high number, if one is free; return the number."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    high = HIGH if soft == resource.RLIM_INFINITY or soft > HIGH + ROOM else soft - ROOM
    if high <= descriptor:
        return descriptor
    with suppress(OSError):
        moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, high)
        close(descriptor)
        return moved
    return descriptor


def _identity(descriptor: int) -> tuple[int, int]:
    status = fstat(descriptor)
    return status.st_dev, status.st_ino


STDOUT = 1
CHUNK_BYTES = 1 << 20  # kept from the beginning, and from the end, of the output since the last read
PUNCH_HOLE = 0x02 | 0x01  # fallocate: free the blocks, keep the size
LINE_BUFFERED = 1  # setvbuf


class OutputFile:
    """Descriptor 1 as a file, from the creation of this object; output that was taken uses no disk space."""

    def __init__(self, path: Path, redact: Callable[[str], str] = str) -> None:
        self._redact = redact
        self._file = OwnFile(path, os.O_RDWR | os.O_APPEND)
        self._reading = self._file.descriptor()
        self._taken = 0  # bytes
        self._taking = threading.Lock()
        self._decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        self._libc = ctypes.CDLL(None)
        self.connect()
        with suppress(ValueError, AttributeError):  # C libraries print whole lines, as to a terminal
            stdout = ctypes.c_void_p.in_dll(self._libc, "stdout")
            self._libc.setvbuf(stdout, None, LINE_BUFFERED, ctypes.c_size_t(0))

    def connect(self) -> None:
        """Point descriptor 1 to this file, because the lecture may have closed or reused the descriptor."""
        os.dup2(self._file.descriptor(), STDOUT)

    def grown(self) -> bool:
        """Return whether new output has arrived. Takes a quarter of a microsecond, because it is called often."""
        try:
            return lseek(self._reading, 0, os.SEEK_END) != self._taken
        except OSError:  # the lecture closed the file
            with suppress(OSError):
                self._reading = self._file.descriptor()
            return False

    def take(self) -> str:
        """Return the output since the last call; of more than 2 MiB, only the beginning and the end.

        Returns "" if another thread is in this method, or if a signal handler interrupted this thread in it.
        """
        if not self._taking.acquire(blocking=False):
            return ""
        try:
            return self._take()
        finally:
            self._taking.release()

    def _take(self) -> str:
        try:
            descriptor = self._reading = self._file.descriptor()
            end = lseek(descriptor, 0, os.SEEK_END)
            content = pread(descriptor, min(CHUNK_BYTES, end - self._taken), self._taken)
            remaining = end - self._taken - len(content)
            size = min(CHUNK_BYTES, remaining)
            last = pread(descriptor, size, end - size) if size else b""
        except OSError:
            return ""
        give_back(descriptor, 0, end)
        self._taken = end
        text = self._decode(content)
        if remaining > len(last):
            text += f"\n… {remaining - len(last):,} bytes more were printed …\n"
        return self._redact(text + self._decode(last))

    def finish(self) -> str:
        """Return the remaining output, including output that C libraries have buffered."""
        self._libc.fflush(None)
        return self.take() if self.grown() else ""


def give_back(descriptor: int, start: int, end: int) -> None:
    """Free the disk blocks of these bytes of a file; truncating could lose bytes that are being written."""
    ctypes.CDLL(None).fallocate(descriptor, PUNCH_HOLE, ctypes.c_long(start), ctypes.c_long(end - start))


class _Reporting:
    """Layer below a text stream that reports its content; in a forked child, content goes to the descriptor."""

    listener: Callable[[bytes], None] | None = None
    process: int | None = None

    def write(self, content: Any) -> int:
        if self.closed or self.listener is None or getpid() != self.process:  # type: ignore[attr-defined]
            return super().write(content)  # type: ignore[misc, no-any-return]
        with memoryview(content) as view:
            written = view.tobytes()
        self.listener(written)
        return len(written)


class _ReportingBuffer(_Reporting, io.BufferedWriter):
    pass


class _ReportingFile(_Reporting, io.FileIO):
    """The same layer for unbuffered streams."""


@contextmanager
def printing(listener: Callable[[str], None]) -> Iterator[None]:
    """Pass everything written to `sys.stdout` to `listener`; the stream looks like plain Python's, redirected to a
    file.
    """
    before, original = sys.stdout, sys.__stdout__
    unbuffered = isinstance(getattr(original, "buffer", None), io.FileIO)
    raw = (_ReportingFile if unbuffered else io.FileIO)(STDOUT, "wb", closefd=False)
    raw.name = "<stdout>"
    layer = raw if isinstance(raw, _ReportingFile) else _ReportingBuffer(raw)
    stream = io.TextIOWrapper(
        layer,
        encoding=getattr(original, "encoding", None) or "utf-8",
        errors=getattr(original, "errors", None) or "strict",
        newline="\n",
        write_through=True,
    )
    stream.mode = "w"  # type: ignore[misc]
    encoding = "utf-8"
    decoder: codecs.IncrementalDecoder = codecs.getincrementaldecoder(encoding)(errors="replace")

    def report(content: bytes) -> None:
        nonlocal decoder, encoding
        with suppress(ValueError):  # the lecture has detached the stream
            if stream.encoding != encoding:  # the lecture may choose another encoding
                encoding = stream.encoding
                decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        if text := decoder.decode(content):
            listener(text)

    layer.listener, layer.process = report, getpid()
    sys.stdout = sys.__stdout__ = stream  # type: ignore[misc]
    try:
        yield
    finally:
        layer.listener = None  # code that kept the stream prints to the descriptor
        sys.stdout, sys.__stdout__ = before, original  # type: ignore[misc]
