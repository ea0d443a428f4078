"""Standard output: what Python prints is told at once, what anything else prints is found in a file.

`printing` is a text stream like the one Python makes for a redirected standard output, down to descriptor 1; only
that what is written to it is told to a listener, in the frame that wrote it. Descriptor 1 itself is a file: what
subprocesses, forked children, C libraries and `os.write(1, …)` print arrives there, and the recorder looks at the end
of a step whether it has grown.

    output = OutputFile(folder / "pass-1.stdout")
    os.system("echo hello")
    output.grown(), output.take()  # True, "hello\\n"
"""

from __future__ import annotations

import codecs
import ctypes
import io
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from os import getpid, lseek, pread  # now: a lecture may put others in `os`
from pathlib import Path
from typing import Any

from trace_tools.tracing.own_file import OwnFile

STDOUT = 1
CHUNK_BYTES = 1 << 20  # of what has arrived since the last look, so much is kept of its beginning and of its end
PUNCH_HOLE = 0x02 | 0x01  # fallocate: give the blocks back, keep the size
LINE_BUFFERED = 1  # setvbuf


class OutputFile:
    """Descriptor 1 as a file, from when it is made; what was taken from it takes no room on disk."""

    def __init__(self, path: Path, redact: Callable[[str], str] = str) -> None:
        self._redact = redact
        self._file = OwnFile(path, os.O_RDWR | os.O_APPEND)
        self._reading = self._file.descriptor()
        self._taken = 0  # bytes
        self._taking = threading.Lock()
        self._decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        self._libc = ctypes.CDLL(None)
        self.connect()
        with suppress(ValueError, AttributeError):  # C libraries print whole lines, as they do to a terminal
            stdout = ctypes.c_void_p.in_dll(self._libc, "stdout")
            self._libc.setvbuf(stdout, None, LINE_BUFFERED, ctypes.c_size_t(0))

    def connect(self) -> None:
        """Make descriptor 1 this file, which the lecture may have closed or made another's."""
        os.dup2(self._file.descriptor(), STDOUT)

    def grown(self) -> bool:
        """Whether something was printed: a quarter of a microsecond, for it is asked often."""
        try:
            return lseek(self._reading, 0, os.SEEK_END) != self._taken
        except OSError:  # the lecture closed it
            with suppress(OSError):
                self._reading = self._file.descriptor()
            return False

    def take(self) -> str:
        """Return what was printed since the last time; of more than 2 MiB the beginning and the end.

        Nothing where another thread is at it, or this one, in which a signal handler now runs.
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
            left = end - self._taken - len(content)
            rest = pread(descriptor, min(CHUNK_BYTES, left), end - min(CHUNK_BYTES, left)) if left else b""
        except OSError:
            return ""
        give_back(descriptor, 0, end)
        self._taken = end
        text = self._decode(content)
        if left > len(rest):
            text += f"\n… {left - len(rest):,} bytes more were printed …\n"
        return self._redact(text + self._decode(rest))

    def finish(self) -> str:
        """Return what is left, what C libraries have not yet written among it."""
        self._libc.fflush(None)
        return self.take() if self.grown() else ""


def give_back(descriptor: int, start: int, end: int) -> None:
    """Give back the room that these bytes of a file take; to shorten it would lose what is written at this moment."""
    ctypes.CDLL(None).fallocate(descriptor, PUNCH_HOLE, ctypes.c_long(start), ctypes.c_long(end - start))


class _Told:
    """What stands under a text stream, and tells; a forked child's goes down to the descriptor."""

    listener: Callable[[bytes], None] | None = None
    process: int | None = None

    def write(self, content: Any) -> int:
        if self.closed or self.listener is None or getpid() != self.process:  # type: ignore[attr-defined]
            return super().write(content)  # type: ignore[misc, no-any-return]
        with memoryview(content) as view:
            told = view.tobytes()
        self.listener(told)
        return len(told)


class _ToldBuffer(_Told, io.BufferedWriter):
    pass


class _ToldFile(_Told, io.FileIO):
    """Likewise where Python's streams are unbuffered."""


@contextmanager
def printing(listener: Callable[[str], None]) -> Iterator[None]:
    """Tell `listener` what is written to `sys.stdout`, which is as plain Python's when that is redirected to a file."""
    before, original = sys.stdout, sys.__stdout__
    unbuffered = isinstance(getattr(original, "buffer", None), io.FileIO)
    raw = (_ToldFile if unbuffered else io.FileIO)(STDOUT, "wb", closefd=False)
    raw.name = "<stdout>"
    told = raw if isinstance(raw, _ToldFile) else _ToldBuffer(raw)
    stream = io.TextIOWrapper(
        told,
        encoding=getattr(original, "encoding", None) or "utf-8",
        errors=getattr(original, "errors", None) or "strict",
        newline="\n",
        write_through=True,
    )
    stream.mode = "w"  # type: ignore[misc]
    encoding = "utf-8"
    decoder: codecs.IncrementalDecoder = codecs.getincrementaldecoder(encoding)(errors="replace")

    def tell(content: bytes) -> None:
        nonlocal decoder, encoding
        with suppress(ValueError):  # the lecture has detached the stream
            if stream.encoding != encoding:  # the lecture may ask for another
                encoding = stream.encoding
                decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        if text := decoder.decode(content):
            listener(text)

    told.listener, told.process = tell, getpid()
    sys.stdout = sys.__stdout__ = stream  # type: ignore[misc]
    try:
        yield
    finally:
        told.listener = None  # whoever kept the stream prints to the descriptor
        sys.stdout, sys.__stdout__ = before, original  # type: ignore[misc]
