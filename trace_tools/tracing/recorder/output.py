"""Bound the content that the steps of a run emit: output, warnings, prose and measurements.

printed = Emission(Retention(100), records, step=3, kind="stdout")
printed.add("x" * 10_000_000)  # the first 32 KiB are a record now
printed.settle()               # now also the last 32 KiB, and the number of characters left out
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

from trace_tools.trace.model import Answer, Ask, Narrative, Plot, Series, Table
from trace_tools.trace.structure import to_plain
from trace_tools.tracing.isolation.output_capture import OutputFile
from trace_tools.tracing.journal import Observation, Row
from trace_tools.tracing.recorder.retention import BOUNDS, ROW, Records, Retention, encoded

LINE = 8_000  # longest line that is not cut


class Emission:
    """One step's content of one kind, of unlimited length: output, warnings, prose or measurements.

    Readers want the first and last lines of output. The last lines become a record when no more can follow. For the
    other kinds, the first items are kept.
    """

    __slots__ = (
        "beyond", "first", "half", "kind", "last", "left_out", "records", "retention", "room", "step",
    )  # fmt: skip

    def __init__(self, retention: Retention, records: Records, step: int, kind: str) -> None:
        self.retention = retention
        self.records = records
        self.step = step
        self.kind = kind
        self.room = retention.room(kind)
        self.half = self.room = max(0, self.room // 2) if kind == "stdout" else self.room
        self.first = 0  # printed characters that are already recorded
        self.beyond = 0  # characters printed after the first ones
        self.last: list[str] = []  # the part of the later characters that is kept
        self.left_out = 0  # number of warnings, calls or measurements

    @property
    def unsettled(self) -> bool:
        """Return whether some content is not yet a record."""
        return bool(self.beyond or self.left_out)

    def add(self, content: Any) -> None:
        """Record the content, or keep it as the latest so far, or count it as left out."""
        if self.kind == "stdout":
            self._print(content)
            return
        size = len(encoded(content)) + ROW
        if size > self.room:
            self.left_out += 1
            return
        self.room -= size
        self._record(content, size)

    def _print(self, text: str) -> None:
        if self.room:
            first = text[: self.room]
            self.room -= len(first)
            line = first.rfind("\n") + 1
            if len(first) < len(text) and len(first) - line < LINE:  # the rest may follow output of another thread
                self.half += len(first) - line
                first = first[:line]
            if first:
                self.first += len(first)
                self._record(first, len(encoded(first)) + ROW)
            text = text[len(first) :]
        if text:
            if not self.beyond:
                self.retention.charge(self.records, self.kind, self.half)
            self.beyond += len(text)
            self.last.append(text[-self.half :] if self.half else "")
            if len(self.last) > 1000 or len(text) > self.half:
                self.last = [self._last()]

    def _last(self) -> str:
        return "".join(self.last)[-self.half :] if self.half else ""

    def _record(self, content: Any, size: int) -> None:
        self.retention.charge(self.records, self.kind, size)
        self.records.append((Observation, self.step, self.kind, content))

    def settle(self) -> None:
        """Turn the remaining content into records, because no more will follow."""
        if self.unsettled:
            self.records += self.unrecorded_rows()
            self.beyond = self.left_out = 0

    def unrecorded_rows(self) -> Iterator[Row]:
        """Yield records for the content that is not yet recorded."""
        left_out = self.left_out
        if self.beyond:
            last = self._last()
            yield (Observation, self.step, self.kind, last)
            left_out = self.beyond - len(last)
        if left_out:
            yield (Observation, self.step, "left_out", (self.kind, left_out, self.first))


class Output:
    """The emissions of one run that may continue, and the output that bypasses Python."""

    def __init__(self, file: OutputFile | None, retention: Retention, pending: Records) -> None:
        self.file = file  # descriptor 1
        self.retention = retention
        self.pending = pending
        self.has_grown: Callable[[], bool] = file.grown if file else bool
        self.unsettled: dict[int, Emission] = {}  # by id
        self.during_step: Emission | None = None  # output that bypassed Python in a long statement

    def take(self) -> str:
        """Return the output that bypassed Python since the last call."""
        return self.file.take() if self.file else ""

    def add(self, emission: Emission, content: Any) -> None:
        """Add content to an emission."""
        emission.add(content)
        if emission.unsettled:
            self.unsettled[id(emission)] = emission

    def settle(self, emission: Emission) -> None:
        """Turn the rest of an emission into records, because no more will follow."""
        emission.settle()
        self.unsettled.pop(id(emission), None)

    def take_during(self, step: int) -> None:
        """Record output that bypassed Python in a long step, from the watching thread.

        A step that was not open at the last check reads its output itself when it ends. The step checked here may end
        at any moment, so it is not modified: an observation may precede or follow the end of its step.
        """
        if self.during_step is None or self.during_step.step != step:
            self.during_step = Emission(self.retention, self.pending, step, "stdout")
        elif text := self.take():
            self.add(self.during_step, text)

    def finish(self, step: int) -> None:
        """Record the remaining output that bypassed Python, including output that C libraries have buffered."""
        if self.file is not None and (text := self.file.finish()):
            self.add(Emission(self.retention, self.pending, step, "stdout"), text)

    def settle_all(self) -> None:
        """Record the rest of the emissions of calls that have not ended, and of threads."""
        for emission in list(self.unsettled.values()):
            self.pending += emission.unrecorded_rows()
        self.unsettled.clear()


def shortened(narrative: Narrative, most: int = BOUNDS["narrative"].of_step // 2) -> Narrative:
    """Return a narrative call shortened to about `most` bytes, with a count of the rows, points or characters left out.

    It is shortened before any code copies it. A plot keeps every n-th point, so that its shape is preserved.
    """
    left_out = narrative.left_out or 0
    changed: dict[str, Any] = {}
    for name in (one.name for one in fields(narrative)):
        text = getattr(narrative, name)
        if isinstance(text, str) and len(text) > most:
            changed[name] = text[:most] if name not in ("svg", "narrow") else None
            left_out += len(text) - len(changed[name] or "")
    if isinstance(narrative, Ask) and (size := len(encoded(to_plain(narrative.answer)))) > most:
        answer = narrative.answer
        value = answer.value[: most // 2] if isinstance(answer.value, str) else answer.value
        changed["answer"] = bare = Answer(value, unit=(answer.unit or "")[:100] or None, within=answer.within)
        left_out += size - len(encoded(to_plain(bare)))
    if isinstance(narrative, Table):
        size, kept = 0, 0
        for row in narrative.rows:
            size += len(encoded(row))
            if size > most:
                break
            kept += 1
        if kept < len(narrative.rows):
            changed["rows"] = narrative.rows[:kept]
            left_out += len(narrative.rows) - kept
    if isinstance(narrative, Plot):
        points = sum(len(series.x) for series in narrative.series)
        size = sum(len(encoded(to_plain(_thinned(series, 1 + points // 1000)))) for series in narrative.series)
        every = 1 + size * (1 + points // 1000) // most
        if every > 1:
            changed["series"] = thin = [_thinned(series, every) for series in narrative.series]
            left_out += points - sum(len(series.x) for series in thin)
    return replace(narrative, **changed, left_out=left_out) if left_out else narrative


def _thinned(series: Series, every: int) -> Series:
    return replace(series, x=series.x[::every], y=series.y[::every])
