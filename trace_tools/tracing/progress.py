"""Report the position of a process, which the worker sends through its pipe and the command shows.

    Progress("pass 1", "matmul", line=42, stalled_s=30).where        "matmul, line 42 for 30 s"

A worker sends a message at each new section, and each second without progress.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from os import fstat, write  # imported now, as the next one, because a lecture may replace them there
from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # who receives a message does not need it
    from trace_tools.tracing.recorder.recorder import Recorder

INTERVAL_S = 1.0  # between looks at the position
STALLED_S = 10  # after this time without a new line or step, it is reported


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a process is."""

    process: str  # "pass 1", "survey"
    section: str = ""  # a function that `main` calls, or a run: "cold"
    line: int | None = None  # line of the lecture
    stalled_s: int = 0  # seconds without a new line or step

    @property
    def where(self) -> str:
        """The section, and how long the process has made no progress."""
        stall = f"line {self.line} for {self.stalled_s} s" if self.line else f"nothing new for {self.stalled_s} s"
        return ", ".join(filter(None, (self.section, stall if self.stalled_s else "")))


class ProgressSender:
    """The write end of a worker's pipe. It never blocks the lecture."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._identity = fstat(pipe).st_ino
        self._section = ""  # sent last
        self._forked = False
        os.set_blocking(pipe, False)

    def enter(self, section: str) -> None:
        """Report a section, unless it was the last one reported."""
        if section != self._section and not self._forked:
            self._section = section
            self._send(section)

    def reporting(self, recorder: Recorder, path: str) -> Callable[[], None]:
        """Return a function that reports the lecture's position in this run while it stays the same."""
        position: tuple[int | None, Any] = (None, None)  # line, number of opened steps
        since = looked = monotonic()

        def report() -> None:
            nonlocal position, since, looked
            now = monotonic()
            if now - looked < INTERVAL_S:
                return
            looked = now
            steps = repr(recorder.sequence.__self__)  # type: ignore[attr-defined]  # "count(7)"
            if (current := (recorder.line(path), steps)) != position:
                position, since = current, now
            elif now - since >= STALLED_S:
                self._send(self._section, position[0], round(now - since))

        return report

    def forget(self) -> None:
        """Stop sending, in the child of a fork."""
        self._forked = True

    def _send(self, *message: Any) -> None:
        with contextlib.suppress(OSError):  # the tracer does not read fast enough
            if fstat(self._pipe).st_ino == self._identity:  # else the lecture closed the pipe, as a daemon does
                write(self._pipe, json.dumps(message).encode() + b"\n")
