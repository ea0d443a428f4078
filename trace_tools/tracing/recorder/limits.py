"""Decide what of a run is kept, by a rule that a reader can predict.

Of a statement, each call keeps the first and the last N/2 executions; of a function, a run keeps 1,000 calls; and a run
keeps 100,000 lines and 64 MiB. Everything else is counted. The first executions are certain. Of the later ones, a
`Ring` keeps the last: nearly all are only their number and their time, and they dominate the cost of a loop.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import replace
from typing import Any

import msgspec

from trace_tools.trace.model import Frame, LeftOut, Narrative, Plot, Step
from trace_tools.tracing.journal import Journal

CALLS = 1000  # calls kept per function
LINES = 100_000  # lines kept per run
BYTES = 64 << 20  # of a run's lines
FEW = 2  # first and last executions kept per statement and call once a run is full
FAILED = 100  # executions kept per run beyond the limit, because a claim failed in them

# An execution in a ring: its number, its step, its seconds (None: not ended), other fields of `Step`, the lines of its
# calls.
Kept = tuple[int, int, "float | None", "dict[str, Any] | None", "Lines | None"]


class Lines(list[Any]):
    """Lines of calls in a step that later executions of its statement may replace."""

    left_out = False
    failed = False  # whether a claim failed in the step


class Ring:
    """The last executions of one statement in one call, after the first ones, which are certain."""

    __slots__ = ("called", "count", "first", "kept", "rescued", "seconds")

    def __init__(self, first: int, last: int) -> None:
        self.count = self.first = first  # executions so far; those that are certain
        self.kept: deque[Kept] = deque(maxlen=last)
        self.called = 0  # how many of these have lines
        self.rescued = 0  # executions that were kept because a claim failed in them
        self.seconds = 0.0  # of all executions in or beyond the ring

    def omitted(self) -> tuple[int, float]:
        """Return how many executions are left out, and their total time."""
        count = self.count - self.first - self.rescued - len(self.kept)
        return count, self.seconds - sum(entry[2] or 0 for entry in self.kept)


class Limits:
    """The counts of one run's kept lines and calls."""

    def __init__(self, journal: Journal, limit: int) -> None:
        self.journal = journal
        self.first = max(1, limit // 2)
        self.last = max(1, limit - self.first)
        self.most_calls = CALLS
        self.most_lines = LINES
        self.most_bytes = journal.bytes + BYTES
        self.lines = 0
        self.calls: Counter[str] = Counter()  # kept, by function
        self.refused: Counter[str] = Counter()
        self.rescued = 0

    @property
    def full(self) -> bool:
        """Whether the run has reached its cap, after which only calls of sections are kept."""
        return self.lines >= self.most_lines or self.journal.bytes > self.most_bytes

    def admits(self, function: str, into: Lines, *, is_section: bool) -> bool:
        """Return whether a call is kept, and count it."""
        kept = not into.left_out and self.calls[function] < self.most_calls and (is_section or not self.full)
        (self.calls if kept else self.refused)[function] += 1
        return kept

    def put(self, line: Any, into: Lines) -> None:
        """Add a line to its destination, unless that is already left out."""
        if not into.left_out:
            into.append(line)
            self.lines += 1
            if self.lines == self.most_lines:  # calls that are open go on
                self.first, self.last = min(self.first, FEW), min(self.last, FEW)

    def leave_out(self, lines: Lines, call: int) -> float:
        """Leave out the lines below an execution; return the time that they say the step itself took."""
        self.lines -= len(lines)
        lines.left_out = True
        seconds = 0.0
        for line in lines:
            if type(line) is Frame and line.arguments is None:
                self.calls[line.function] -= 1
            elif type(line) is Step and line.frame == call and line.host_ns:  # the end of a `with`
                seconds += line.host_ns[0] / 1e9
        return seconds


# --- what one step emits --------------------------------------------------------------------------


ROOMS = {"stdout": 32 << 10, "warnings": 16 << 10, "narrative": 4 << 20, "measured": 32 << 10}  # bytes per step
TEXT = 4_000  # characters of one warning
POINTS = 50_000  # of one plot, because 4 MiB of JSON hold about twice as many

size_of = msgspec.json.Encoder().encode


class Emitted:
    """The output and other items of one step: the first and last 32 KiB of output, and the first items."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.room = dict(ROOMS)
        self.first = 0  # printed characters that were passed on
        self.last = ""  # the last characters after these
        self.beyond = 0  # how many came after these
        self.left_out: Counter[str] = Counter()  # other items

    def has_room(self, kind: str, content: Any) -> bool:
        """Return whether an item is kept, and count it."""
        size = len(str(content)) if kind == "warnings" else len(size_of(content))
        if size > self.room[kind]:
            self.left_out[kind] += 1
            return False
        self.room[kind] -= size
        return True

    def printed(self, text: str) -> str:
        """Return the part of printed text that is certainly kept; of the rest, keep the end."""
        first = text[: self.room["stdout"]]
        self.room["stdout"] -= len(first)
        self.first += len(first)
        rest = text[len(first) :]
        self.beyond += len(rest)
        self.last = (self.last + rest[-ROOMS["stdout"] :])[-ROOMS["stdout"] :]
        return first

    def rest(self) -> dict[str, Any]:
        """Return what else the step has recorded, as fields of `Step`, because no more will follow."""
        left_out = [LeftOut(kind, count) for kind, count in self.left_out.items()]
        if self.beyond > len(self.last):
            left_out.append(LeftOut("stdout", self.beyond - len(self.last), self.first))
        fields: dict[str, Any] = {"left_out": left_out} if left_out else {}
        if self.last:
            fields["stdout"] = self.last
        self.last, self.beyond = "", 0
        self.left_out.clear()
        return fields


def thinned(narrative: Narrative) -> Narrative:
    """Return a plot of too many points with every n-th of them, which keeps its shape, and a count of the others."""
    if not isinstance(narrative, Plot):
        return narrative
    points = sum(len(series.x) for series in narrative.series)
    every = 1 + points // POINTS
    series = [replace(one, x=one.x[::every], y=one.y[::every]) for one in narrative.series]
    left_out = points - sum(len(one.x) for one in series)
    return replace(narrative, series=series, left_out=left_out) if left_out else narrative
