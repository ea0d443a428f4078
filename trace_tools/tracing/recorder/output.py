"""Bound what one step emits: output, warnings, prose and measurements."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import msgspec

from trace_tools.trace.model import LeftOut, Narrative, Plot

ROOMS = {"stdout": 32 << 10, "warnings": 16 << 10, "narrative": 4 << 20, "measured": 32 << 10}  # bytes per step
TEXT = 4_000  # characters of one warning
POINTS = 50_000  # of one plot, because 4 MiB of JSON hold about twice as many

size_of = msgspec.json.Encoder().encode


class Emitted:
    """What one step has emitted. Of output, the first and the last 32 KiB are kept; of the rest, the first items."""

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
