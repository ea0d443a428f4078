r"""Capture standard output: report what Python prints at once, and read all other output from a file.

`printing` makes a `sys.stdout` like plain Python's, redirected to a file, which passes printed text to a listener, in
the frame that prints. Below it, descriptor 1 is a file that receives the output of subprocesses, forked children, C
libraries and `os.write(1, …)`. At the end of each step, the recorder checks whether the file has grown.

    output = OutputFile(folder / "pass-1.stdout")
    os.system("echo hello")
    output.grown(), output.take()  # True, "hello\n"
"""

from __future__ import annotations

import codecs
import ctypes
import fcntl
import io
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

HIGH = 1000  # number that a lecture reaches only with that many open files
STDOUT = 1
CHUNK_BYTES = 1 << 20  # kept from the beginning, and from the end, of the output since the last read
LINE_BUFFERED = 1  # setvbuf


def out_of_the_way(descriptor: int) -> int:
    """Move a descriptor to a high number, so that the lecture's files get the numbers of plain Python."""
    with suppress(OSError):  # the system allows fewer
        moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, HIGH)
        os.close(descriptor)
        return moved
    return descriptor


class OutputFile:
    """Descriptor 1 as a file, from the creation of this object."""

    def __init__(self, path: Path, redact: Callable[[str], str] = str) -> None:
        self._redact = redact
        self._file = out_of_the_way(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600))
        self._taken = 0  # bytes
        self._taking = threading.Lock()
        self._decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        self._libc = ctypes.CDLL(None)
        self.connect()
        with suppress(ValueError, AttributeError):  # C libraries print whole lines, as to a terminal
            stdout = ctypes.c_void_p.in_dll(self._libc, "stdout")
            self._libc.setvbuf(stdout, None, LINE_BUFFERED, ctypes.c_size_t(0))

    def connect(self) -> None:
        """Point descriptor 1 to this file, because the run before may have closed or reused the descriptor."""
        os.dup2(self._file, STDOUT)

    def grown(self) -> bool:
        """Return whether new output has arrived. Takes a quarter of a microsecond, because it is called often."""
        return os.lseek(self._file, 0, os.SEEK_END) != self._taken

    def take(self) -> str:
        """Return the output since the last call; of more than 2 MiB, only the beginning and the end.

        Returns "" if another thread is in this method, or if a signal handler interrupted this thread in it.
        """
        if not self._taking.acquire(blocking=False):
            return ""
        try:
            start, end = self._taken, os.lseek(self._file, 0, os.SEEK_END)
            self._taken = end
            text = self._decode(os.pread(self._file, min(CHUNK_BYTES, end - start), start))
            if (left_out := end - start - 2 * CHUNK_BYTES) > 0:
                text += f"\n… {left_out:,} bytes more were printed …\n"
            last = max(start + CHUNK_BYTES, end - CHUNK_BYTES)
            return self._redact(text + self._decode(os.pread(self._file, max(0, end - last), last)))
        finally:
            self._taking.release()

    def finish(self) -> str:
        """Return the remaining output, including the buffers of C libraries."""
        self._libc.fflush(None)
        return self.take() if self.grown() else ""


class _Unbuffered(io.BufferedWriter):
    """Writes at once, so that bytes belong to the step that writes them."""

    def write(self, content: Any) -> int:
        written = super().write(content)
        self.flush()
        return written


class _Stdout(io.TextIOWrapper):
    """A stream to descriptor 1 that passes text to `listener` instead, except in the child of a fork."""

    mode = "w"
    listener: Callable[[str], None] | None = None
    process = 0

    def write(self, text: str) -> int:
        if self.closed or self.listener is None or os.getpid() != self.process or not isinstance(text, str):
            return super().write(text)  # which may raise
        self.listener(text.encode(self.encoding, self.errors or "strict").decode(self.encoding, "replace"))
        return len(text)


@contextmanager
def printing(listener: Callable[[str], None]) -> Iterator[None]:
    """Pass all text that is written to `sys.stdout` to `listener`."""
    before, original = sys.stdout, sys.__stdout__
    raw = io.FileIO(STDOUT, "wb", closefd=False)
    raw.name = "<stdout>"
    encoding, errors = getattr(original, "encoding", None), getattr(original, "errors", None)
    stream = _Stdout(_Unbuffered(raw), encoding or "utf-8", errors or "strict", newline="\n", write_through=True)
    stream.listener, stream.process = listener, os.getpid()
    sys.stdout = sys.__stdout__ = stream  # type: ignore[misc]
    try:
        yield
    finally:
        stream.listener = None  # code that kept the stream prints to the descriptor
        sys.stdout, sys.__stdout__ = before, original  # type: ignore[misc]
