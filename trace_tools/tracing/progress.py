"""The progress of a process: one message, from a worker through a pipe to the display.

message = Progress("pass 1", "matmul", line=42, stalled_s=30)
message.where                          "matmul, line 42 for 30 s"
Progress.read(message.to_json())       the same message

A process sends a message at each new section, and each second with the lecture's position (`ProgressSender`).
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from os import fstat, write  # imported now, because a lecture may replace them in `os`
from time import monotonic  # imported now, because a lecture may replace it in `time`
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:  # who receives a message needs neither
    from trace_tools.tracing.job import Job
    from trace_tools.tracing.recorder.recorder import Recorder

_encode = json.JSONEncoder().encode  # a lecture may replace `json.dumps`


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a process is. A worker sends this message at each new section, and each second."""

    process: str  # "pass 1", "survey"
    section: str = ""  # a function that `main` calls, or a run: "cold"
    line: int | None = None  # line of the lecture
    stalled_s: int = 0  # seconds without a new line or step

    @property
    def where(self) -> str:
        """The section, and how long the process has made no progress."""
        stall = f"line {self.line} for {self.stalled_s} s" if self.line else f"nothing new for {self.stalled_s} s"
        return ", ".join(filter(None, (self.section, stall if self.stalled_s else "")))

    def to_json(self) -> bytes:
        """Return the message as one line."""
        return _encode({name: getattr(self, name) for name in self.__slots__}).encode() + b"\n"

    @classmethod
    def read(cls, plain: object) -> Progress | None:
        """Return the message that a line of JSON or plain data holds, None for anything else."""
        try:
            return msgspec.convert(json.loads(plain) if isinstance(plain, bytes) else plain, cls)
        except (msgspec.ValidationError, ValueError, RecursionError):
            return None


INTERVAL_S = 1.0  # between reports of the position


class ProgressSender:
    """The write end of a process's progress pipe. It never blocks the lecture."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._pipe = fstat(job.progress).st_ino
        self._section = ""  # sent last
        self._forked = False
        os.set_blocking(job.progress, False)

    def enter(self, section: str) -> None:
        """Report a section, unless it was the last one reported."""
        if section != self._section and not self._forked:
            self._section = section
            self._send(Progress(self._job.name, section))

    def reporting(self, recorder: Recorder) -> Callable[[], None]:
        """Return a function that reports the lecture's position in this run, if a second has passed since."""
        position: tuple[int | None, Any] = (None, None)  # line, number of opened steps
        since = sent = monotonic()

        def report() -> None:
            nonlocal position, since, sent
            now = monotonic()
            if now - sent < INTERVAL_S:
                return
            sent = now
            steps = recorder.sequence.__self__.__reduce__()[1]  # type: ignore[attr-defined]
            if (current := (recorder.line(self._job.path), steps)) != position:
                position, since = current, now
            self._send(Progress(self._job.name, self._section, position[0], round(now - since)))

        return report

    def forget(self) -> None:
        """Stop sending, in the child of a fork."""
        self._forked = True

    def _send(self, message: Progress) -> None:
        with contextlib.suppress(OSError):  # the parent has stopped reading, or is stopped
            if fstat(self._job.progress).st_ino == self._pipe:  # else the lecture closed the pipe
                write(self._job.progress, message.to_json())
