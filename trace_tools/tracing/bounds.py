"""How much of one run is kept while it runs, however much the lecture executes, prints, says or makes.

Every bound is named here, once. What a run has spent of each is in its `Account`; it is spent by `Records`, which give
it back when the limit leaves them out. One step may spend a share of what is left (`Bound.of_step`, when nothing has
been spent): the first to say too much leaves room to all that come after it, and a run never comes to its bound.

    account = Account()
    printed = Telling(account, records, step=3, field="stdout")
    printed.add("x" * 10_000_000)  # the first 32 KiB are a record now
    printed.settle()               # the last 32 KiB, too, and how many characters were left out
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from trace_tools.file_format.structure import to_plain
from trace_tools.schema import Answer, Narrative, Series
from trace_tools.summaries import NOT_KEPT
from trace_tools.tracing.journal import Observation, Row, Unsettled

LINE = 8_000  # characters of a line that is not broken in two
STEPS = 100_000  # executions of statements kept of one run
FEW = 2  # first and last executions that are kept of a statement in a call once a run has as many steps
FAILED = 100  # executions kept of one run, because a claim failed in them, that the limit would leave out
TEXT = 4_000  # characters of one warning


@dataclass(frozen=True, slots=True)
class Bound:
    """How many bytes of the journal are kept of one kind of observation."""

    of_run: int
    of_step: int


BOUNDS: Mapping[str, Bound] = {
    "stdout": Bound(4 << 20, 64 << 10),  # of a step, in characters: the first half and the last half
    "warnings": Bound(1 << 20, 16 << 10),
    "narrative": Bound(16 << 20, 4 << 20),
    "measured": Bound(4 << 20, 32 << 10),
    "claim": Bound(1 << 20, 64 << 10),  # those that failed in calls that are not recorded
    "values": Bound(8 << 20, 256 << 10),  # with arguments, both sides of claims and what was raised
}
_ROW = 32  # bytes that an observation takes besides its content
_SHORT = (int, float, bool)  # values that take no more

_encoded = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class Records(list[Row]):
    """Records on their way to the journal, with what they have spent."""

    steps = 0  # of calls that have ended, or as far as they have been counted
    costs: dict[str, int] | None = None  # bytes of each kind
    left_out = False


class Account:
    """What a run has spent: steps, and bytes of each kind in `bounds`."""

    def __init__(self, bounds: Mapping[str, Bound] = BOUNDS) -> None:
        self._shares = {kind: (bound.of_run, bound.of_run // bound.of_step) for kind, bound in bounds.items()}
        self.steps = 0
        self.spent = dict.fromkeys(bounds, 0)

    def room(self, kind: str) -> int:
        """Return how much a step that has said nothing may spend."""
        of_run, share = self._shares[kind]
        return (of_run - self.spent[kind]) // share

    def charge_steps(self, records: Records, steps: int) -> None:
        """Spend steps; what is recorded of an execution that has been left out costs nothing."""
        if not records.left_out:
            records.steps += steps
            self.steps += steps

    def charge(self, records: Records, kind: str, amount: int) -> None:
        """Spend bytes of one kind, likewise."""
        if not records.left_out:
            if records.costs is None:
                records.costs = {}
            records.costs[kind] = records.costs.get(kind, 0) + amount
            self.spent[kind] += amount

    def give_back(self, records: Records) -> None:
        """Take back what these have spent: the limit leaves them out."""
        self.steps -= records.steps
        records.steps = 0
        records.left_out = True
        if records.costs:
            for kind, amount in records.costs.items():
                self.spent[kind] -= amount
            records.costs = None

    def hand_on(self, records: Records, to: Records) -> None:
        """Let `to` have what these have spent: they become part of it."""
        steps, costs = records.steps, records.costs
        self.give_back(records)
        self.charge_steps(to, steps)
        for kind, amount in costs.items() if costs else ():
            self.charge(to, kind, amount)

    def value(self, records: Records, plain: Any) -> Any:
        """Return a described value, or as much of it as there is room for: its type and its shape."""
        size = _ROW if type(plain.get("value")) in _SHORT else len(_encoded(plain)) + _ROW
        if size > self.room("values"):
            plain, size = _bare(plain), _ROW
        self.charge(records, "values", size)
        return plain


def _bare(plain: Any) -> Any:
    """Return what is left of a value: what it is, and of a tensor what it is without its elements."""
    bare = {name: plain[name] for name in ("type", "length") if name in plain}
    if tensor := plain.get("tensor"):
        elements = ("elements", "corner", "corner_shape", "statistics")
        bare["tensor"] = {name: of_it for name, of_it in tensor.items() if name not in elements}
    if plain["type"] == "error":
        bare["text"] = plain["text"][:100]
    return {**bare, "note": NOT_KEPT}


class Telling:
    """What one step says of one kind, of which it may say any amount: what is printed, warnings, prose, measurements.

    Of what is printed a reader wants the first lines and the last; the last are a record once no more can come, or
    when the process is killed, from the tail of its journal. Of the other kinds the first are kept.
    """

    __slots__ = ("account", "beyond", "field", "first", "half", "last", "left_out", "records", "room", "step")

    def __init__(self, account: Account, records: Records, step: int, field: str) -> None:
        self.account = account
        self.records = records
        self.step = step
        self.field = field
        self.room = account.room(field)
        self.half = self.room = max(0, self.room // 2) if field == "stdout" else self.room
        self.first = 0  # characters printed that are a record
        self.beyond = 0  # characters printed after them,
        self.last: list[str] = []  # and those of them that are kept
        self.left_out = 0  # warnings, calls, measurements

    @property
    def unsettled(self) -> bool:
        """Whether there is something that is no record yet."""
        return bool(self.beyond or self.left_out)

    def add(self, content: Any) -> None:
        """Record what is said, or keep it as the last so far, or count it."""
        if self.field == "stdout":
            self._print(content)
            return
        size = len(_encoded(content)) + _ROW
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
            if (
                len(first) < len(text) and len(first) - line < LINE
            ):  # the rest may come after what another thread prints
                self.half += len(first) - line
                first = first[:line]
            if first:
                self.first += len(first)
                self._record(first, len(_encoded(first)) + _ROW)
            text = text[len(first) :]
        if text:
            if not self.beyond:
                self.account.charge(self.records, self.field, self.half)
            self.beyond += len(text)
            self.last.append(text[-self.half :] if self.half else "")
            if len(self.last) > 1000 or len(text) > self.half:
                self.last = [self._last()]

    def _last(self) -> str:
        return "".join(self.last)[-self.half :] if self.half else ""

    def _record(self, content: Any, size: int) -> None:
        self.account.charge(self.records, self.field, size)
        self.records.append((Observation, self.step, self.field, content))

    def row(self) -> Row:
        """Return what is no record yet as the tail has it."""
        return (Unsettled, self.step, self.field, [row[2:] for row in self.rest()])

    def settle(self) -> None:
        """Make records of what is none yet: no more will be said."""
        if self.unsettled:
            self.records += self.rest()
            self.beyond = self.left_out = 0

    def rest(self) -> Iterator[Row]:
        """Yield what is no record yet."""
        left_out = self.left_out
        if self.beyond:
            last = self._last()
            yield (Observation, self.step, self.field, last)
            left_out = self.beyond - len(last)
        if left_out:
            yield (Observation, self.step, "left_out", (self.field, left_out, self.first))


# --- prose --------------------------------------------------------------------------------------------------------


def shortened(told: Narrative, most: int = BOUNDS["narrative"].of_step // 2) -> Narrative:
    """Return a narrative call within about `most` bytes, saying what was cut: rows, points, or characters.

    It is cut before anything makes copies of it. A plot keeps every n-th point, so that its form stays.
    """
    left_out = 0
    changed: dict[str, Any] = {}
    for name in ("text", "title", "url", "authors", "date", "x_label", "y_label"):
        text = getattr(told, name)
        if text is not None and len(text) > most:
            changed[name] = text[:most]
            left_out += len(text) - most
    if told.svg is not None and len(told.svg) > most:
        changed["svg"] = None
        left_out += len(told.svg)
    if told.answer is not None and (size := len(_encoded(to_plain(told.answer)))) > most:
        value = told.answer.value[: most // 2] if isinstance(told.answer.value, str) else told.answer.value
        changed["answer"] = bare = Answer(value, unit=(told.answer.unit or "")[:100] or None, within=told.answer.within)
        left_out += size - len(_encoded(to_plain(bare)))
    if told.rows:
        size, kept = 0, 0
        for row in told.rows:
            size += len(_encoded(row))
            if size > most:
                break
            kept += 1
        if kept < len(told.rows):
            changed["rows"] = told.rows[:kept]
            left_out += len(told.rows) - kept
    if told.series:
        points = sum(len(series.x) for series in told.series)
        size = sum(len(_encoded(to_plain(_thinned(series, 1 + points // 1000)))) for series in told.series)
        every = 1 + size * (1 + points // 1000) // most
        if every > 1:
            changed["series"] = thin = [_thinned(series, every) for series in told.series]
            left_out += points - sum(len(series.x) for series in thin)
    return replace(told, **changed, left_out=left_out) if left_out else told


def _thinned(series: Series, every: int) -> Series:
    return replace(series, x=series.x[::every], y=series.y[::every])
