"""Bound how much of one run is kept while it runs, however much the lecture executes, prints or allocates.

Each bound is defined here, once. `Retention` counts how much a run has spent of each bound. `Records` spend bytes, and
give them back when the limit leaves the records out. One step may spend a share of the remainder (`Bound.of_step` if
the run has spent 0 bytes), so that even a very long first output leaves room for all later ones and a run never reaches
its bound.

The destination of a step's records depends on whether the limit may still leave the step out. The first executions of
a statement in a call (half the limit) are certain: their records go to the destination of the call's records (the
records of the calling step, or the journal for `main`). A `LoopTail` keeps the last of the later executions. Nearly all
of them record only their time, and they dominate the cost of a loop with a million iterations. Such a step is therefore
three numbers in a ring, added when the step ends. As soon as a step records anything else (values, the calls it makes,
its output), it becomes a list in that ring instead (`pin`).
"""

from __future__ import annotations

import itertools
import json
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trace_tools.analysis.summaries import NOT_KEPT
from trace_tools.tracing.journal import FrameStart, Observation, Omission, Row, StepTime

STEPS = 100_000  # executions of statements kept per run
FEW = 2  # first and last executions kept per statement and call once a run has that many steps
FAILED = 100  # executions kept per run beyond the limit, because a claim failed in them
TEXT = 4_000  # characters of one warning


@dataclass(frozen=True, slots=True)
class Bound:
    """How many bytes of the journal one kind of observation may use."""

    of_run: int
    of_step: int


BOUNDS: Mapping[str, Bound] = {
    "stdout": Bound(4 << 20, 64 << 10),  # per step, in characters: the first half and the last half
    "warnings": Bound(1 << 20, 16 << 10),
    "narrative": Bound(16 << 20, 4 << 20),
    "measured": Bound(4 << 20, 32 << 10),
    "claim": Bound(1 << 20, 64 << 10),  # failed claims in unrecorded calls
    "values": Bound(8 << 20, 256 << 10),  # including arguments, both sides of claims, and errors
}
ROW = 32  # bytes of an observation in addition to its content
_SHORT = (int, float, bool)  # types whose values take no further bytes

Kept = tuple[int, int, float] | tuple[int, "Records"]  # execution, step and seconds; or execution and its records

encoded = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class Records(list[Row]):
    """Records on their way to the journal, with the amounts that they have spent."""

    steps = 0  # steps of the ended calls, or of all calls at the last count
    costs: dict[str, int] | None = None  # bytes of each kind
    left_out = False


class Retention:
    """Which executions and how many bytes of a run are kept, and the amounts that it has spent so far."""

    def __init__(self, limit: int, budget: int = STEPS, bounds: Mapping[str, Bound] = BOUNDS) -> None:
        self.limit = limit  # executions kept per call and statement, while there are steps left
        self.budget = budget  # steps kept in total
        self.steps = 0
        self.over_budget = False
        self.head = max(1, limit // 2)
        self.tail = max(1, limit - self.head)
        self.opened: dict[int, int] = {}  # calls kept, by function
        self.refused: Counter[int] = Counter()  # calls beyond the limits, by function
        self.claim_failed = False  # whether any claim has failed
        self.rescued = 0  # executions kept because a claim failed in them
        self.spent = dict.fromkeys(bounds, 0)  # bytes of each kind
        self._shares = {kind: (bound.of_run, bound.of_run // bound.of_step) for kind, bound in bounds.items()}

    def room(self, kind: str) -> int:
        """Return how many bytes a step that has not spent any may spend."""
        of_run, share = self._shares[kind]
        return (of_run - self.spent[kind]) // share

    def charge(self, records: Records, kind: str, amount: int) -> None:
        """Spend bytes of one kind; records of an execution that was left out cost nothing."""
        if not records.left_out:
            if records.costs is None:
                records.costs = {}
            records.costs[kind] = records.costs.get(kind, 0) + amount
            self.spent[kind] += amount

    def value(self, records: Records, plain: Any) -> Any:
        """Return a described value, or only its type and shape if it exceeds the remaining room."""
        size = ROW if type(plain.get("value")) in _SHORT else len(encoded(plain)) + ROW
        if size > self.room("values"):
            plain, size = _bare(plain), ROW
        self.charge(records, "values", size)
        return plain

    def charge_steps(self, records: Records, steps: int) -> None:
        """Spend steps, or refund them if negative; records of an execution that was left out cost nothing.

        Once the run has spent its budget, few executions of a statement are kept.
        """
        if records.left_out:
            return
        records.steps += steps
        self.steps += steps
        if (self.steps >= self.budget) is not self.over_budget:
            self.over_budget = not self.over_budget
            limit = min(self.limit, 2 * FEW) if self.over_budget else self.limit
            self.head = max(1, limit // 2)
            self.tail = max(1, limit - self.head)

    def give_back(self, records: Records) -> None:
        """Refund the amounts spent by these records, because the limit leaves them out."""
        self.charge_steps(records, -records.steps)
        records.left_out = True
        if records.costs:
            for kind, amount in records.costs.items():
                self.spent[kind] -= amount
            records.costs = None

    def hand_on(self, records: Records, to: Records) -> None:
        """Transfer the amounts spent by `records` to `to`, which they become part of."""
        steps, costs = records.steps, records.costs
        self.give_back(records)
        self.charge_steps(to, steps)
        for kind, amount in costs.items() if costs else ():
            self.charge(to, kind, amount)


class LoopTail:
    """The last executions of one statement in one call, after its head is full."""

    __slots__ = (
        "call", "count", "head", "kept", "out", "pinned", "rescued", "retention", "seconds", "statement",
    )  # fmt: skip

    def __init__(self, retention: Retention, call: int, statement: int, out: Records, head: int) -> None:
        self.retention = retention
        self.call = call
        self.statement = statement
        self.out = out  # destination of the call's records
        self.head = head
        self.count = head  # executions so far
        self.kept: deque[Kept] = deque(maxlen=retention.tail)
        self.pinned = 0  # number of entries in `kept` with a list of records
        self.rescued = 0  # number of executions beyond the limit that were kept because a claim failed in them
        self.seconds = 0.0  # total time of the executions without a list, including those left out

    def end_step(self, step: int, seconds: float) -> None:
        """Keep an execution that has recorded only its time."""
        if len(self.kept) == self.kept.maxlen:
            self.leave_out_oldest()  # so that its calls no longer count
        self.seconds += seconds
        self.kept.append((self.count, step, seconds))

    def pin(self) -> Records:
        """Keep the open execution with a list for its records."""
        if len(self.kept) == self.kept.maxlen:
            self.leave_out_oldest()
        records = Records()
        self.kept.append((self.count, records))
        self.pinned += 1
        return records

    def leave_out_oldest(self) -> None:
        """Leave out an execution with everything recorded in it, unless a claim failed in it (up to FAILED of these
        are kept).
        """
        retention, oldest = self.retention, self.kept.popleft()
        if len(oldest) == 3:
            return
        records = oldest[1]
        self.pinned -= 1
        if retention.claim_failed and retention.rescued < FAILED and any(map(_is_failed_claim, records)):
            retention.rescued += 1
            self.rescued += 1
            retention.hand_on(records, self.out)
            self.out += records
            return
        retention.give_back(records)
        for row in records:
            if row[0] is FrameStart:
                retention.opened[row[2]] -= 1
            elif row[0] is StepTime and row[2] == self.call:
                self.seconds += row[5] / 1e9

    def can_free_steps(self) -> bool:
        """Return whether leaving out executions would free steps: a kept execution before the last has made calls."""
        earlier = itertools.islice(self.kept, max(0, len(self.kept) - 1))
        return any(len(entry) == 2 and entry[1].steps for entry in earlier)

    def _last(self, *, is_open: bool) -> tuple[list[Kept], Row | None]:
        """Return the last executions, and a record of the executions left out before them.

        `is_open`: an execution is open and not pinned.
        """
        kept, seconds = list(self.kept), self.seconds  # a copy, because the lecture may be running
        if is_open and len(kept) == self.kept.maxlen and len(kept[0]) == 3:
            del kept[0]  # will be replaced by the open step
        first = kept[0][0] if kept else 0
        omitted = first - self.head - self.rescued - 1
        if omitted <= 0:
            return kept, None
        seconds -= sum(entry[2] for entry in kept if len(entry) == 3)
        return kept, (Omission, self.call, self.statement, omitted, round(1e9 * seconds), first)

    def _time(self, execution: int, step: int, seconds: float) -> Row:
        return (StepTime, step, self.call, self.statement, execution, round(1e9 * seconds))

    def final_rows(self, *, is_open: bool) -> Iterator[Row]:
        """Yield the records of the executions that the limit keeps, which are now certain."""
        kept, omission = self._last(is_open=is_open)
        for entry in kept:
            if len(entry) == 3:
                yield self._time(*entry)
            else:
                yield from entry[1]
                self.retention.hand_on(entry[1], self.out)
        if omission:
            yield omission


def _is_failed_claim(row: Row) -> bool:
    return row[0] is Observation and (row[2] == "left" or (row[2] == "claim" and row[3][1] == "passed over"))


def _bare(plain: Any) -> Any:
    """Return a reduced description of a value: its type and length, and for a tensor everything except its elements."""
    bare = {name: plain[name] for name in ("type", "length") if name in plain}
    if tensor := plain.get("tensor"):
        elements = ("elements", "corner", "corner_shape", "statistics")
        bare["tensor"] = {name: of_it for name, of_it in tensor.items() if name not in elements}
    if plain["type"] == "error":
        bare["text"] = plain["text"][:100]
    return {**bare, "note": NOT_KEPT}
