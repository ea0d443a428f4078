"""The progress of a process: one message, from a worker through pipes, nodes and machines to the display.

message = Progress("pass 1", "matmul", line=42, stalled_s=30)
message.where                          "matmul, line 42 for 30 s"
Progress.read(message.to_json())       the same message
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from trace_tools.util.structs import Unlike, converted

_encode = json.JSONEncoder().encode  # a lecture may replace `json.dumps`


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a process is. A worker sends one at each new section, and one each second."""

    process: str  # "pass 1", "metering"
    section: str = ""  # a function that `main` calls, or a run: "cold"
    line: int | None = None  # of the lecture
    stalled_s: int = 0  # seconds without a new line or step
    rank: int | None = None
    waits_in: str | None = None  # function of torch.distributed in which the rank waits for others

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
            made: Progress = converted(json.loads(plain) if isinstance(plain, bytes) else plain, cls)
        except (Unlike, ValueError, RecursionError):
            return None
        return made
