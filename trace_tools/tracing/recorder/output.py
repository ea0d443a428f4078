"""Bound what one step emits: output, warnings, prose and measurements."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import msgspec

from trace_tools.trace.model import LeftOut, Narrative, Plot, Series, Table

ROOMS = {"stdout": 32 << 10, "warnings": 16 << 10, "narrative": 4 << 20, "measured": 32 << 10}  # bytes per step
TEXT = 4_000  # characters of one warning
LINE = 8_000  # longest line that is not cut
NARRATIVE = ROOMS["narrative"] // 2  # bytes of one narrative call

size_of = msgspec.json.Encoder().encode


class Emitted:
    """What one step has emitted. Of output, the first and the last 32 KiB are kept; of the rest, the first items."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.room = dict(ROOMS)
        self.half = ROOMS["stdout"]  # characters kept of the end
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
        line = first.rfind("\n") + 1
        if len(first) < len(text) and len(first) - line < LINE:  # the rest may follow output of another thread
            self.half += len(first) - line
            first = first[:line]
        self.first += len(first)
        rest = text[len(first) :]
        self.beyond += len(rest)
        self.last = (self.last + rest[-self.half :])[-self.half :] if rest else self.last
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


def shortened(narrative: Narrative, most: int = NARRATIVE) -> Narrative:
    """Return a narrative call shortened to about `most` bytes, with a count of the rows, points or characters left out.

    It is shortened before any code copies it. A plot keeps every n-th point, so that its shape is preserved.
    """
    left_out = narrative.left_out or 0
    changed: dict[str, Any] = {}
    for name in narrative.__struct_fields__:
        text = getattr(narrative, name)
        if isinstance(text, str) and len(text) > most:
            changed[name] = text[:most] if name not in ("svg", "narrow") else None
            left_out += len(text) - len(changed[name] or "")
    if isinstance(narrative, Table):
        size, rows = 0, []
        for row in narrative.rows:
            size += len(size_of(row))
            if size > most:
                break
            rows.append(row)
        changed["rows"] = rows
        left_out += len(narrative.rows) - len(rows)
    if isinstance(narrative, Plot):
        points = sum(len(series.x) for series in narrative.series)
        every = 1 + 40 * points // most
        changed["series"] = thin = [_thinned(series, every) for series in narrative.series]
        left_out += points - sum(len(series.x) for series in thin)
    return replace(narrative, **changed, left_out=left_out) if left_out else narrative


def _thinned(series: Series, every: int) -> Series:
    return replace(series, x=series.x[::every], y=series.y[::every])
