"""How far from its roof a lecture ran: the time of each step over its floor, by kind of operator; and what follows.

    found = distances(trace)     # [Distance(step=7, seconds=2e-4, floor=Floor(1e-4, …), kind="matmul", …), …]
    held(found)                  # 0.999: the share of steps that do not contradict the roof
    lost_by_kind(found)          # [KindLost("matmul", steps=330, seconds=2.99, floor=1.2, median=2.76), …]

The roof is the one that was measured of the machine itself, so a floor that is above a time says that the roof is too
low, unless a cache served the step. A step's kind is the one that most of its floor belongs to, else "mixed". Where
time was lost is asked of steps that call none of the lecture's functions: no time is in two of them.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trace_tools import formats
from trace_tools.floors import Ceiling, Floor, Kind, floor_of, measured_ceiling
from trace_tools.rates import timing_of, why_no_rate
from trace_tools.schema import Frame, Step, Trace

MOSTLY = 0.8  # of a step's floor: its kind
MIXED = "mixed"
EXPECTED = 0.99  # of the steps hold to a roof that was measured well


@dataclass(frozen=True, slots=True)
class Distance:
    """One step's time, in seconds, beside its floor under the roof of the machine that it ran on."""

    step: int  # its id
    seconds: float
    floor: Floor
    kind: str  # of operators, or "mixed"
    own: bool  # it called no function of the lecture: its time is in no other step
    steady: bool  # its time is that of its operators, as far as runs can tell (`rates.why_no_rate`)

    @property
    def ratio(self) -> float:
        """Time over floor: 1 is the roof."""
        return self.seconds / (self.floor.seconds or math.inf)

    @property
    def cached(self) -> bool:
        """Whether it was faster than its floor, and a cache explains that."""
        return self.ratio < 1 and self.seconds >= (self.floor.beyond_caches or 0.0)

    @property
    def above_roof(self) -> bool:
        """Whether it was faster than the machine is said to be."""
        return self.ratio < 1 and not self.cached


@dataclass(frozen=True, slots=True)
class KindLost:
    """All steps of one kind: how many, their time and their floors together (seconds), and what is usual."""

    kind: str
    steps: int
    seconds: float
    floor: float
    median: float  # of time over floor

    @property
    def lost(self) -> float:
        """Seconds beyond the floors."""
        return self.seconds - self.floor


def distances(trace: Trace, ceiling: Ceiling | None = None) -> list[Distance]:
    """Return the distance of each step that has a floor and a time, under a ceiling or the machine's measured roof.

    There are none where nobody measured the roof, or the trace does not say what operators did.
    """
    ceiling = ceiling or measured_ceiling(trace.machine)
    if ceiling is None:
        return []
    callers = {event.of for event in trace.steps if isinstance(event, Frame)}
    found = []
    for step in trace.steps:
        if isinstance(step, Step) and (step.meters is not None or step.measured):
            floor = floor_of(step, ceiling)
            timing = timing_of(step, trace.machine)
            if floor.seconds and timing is not None and timing.clock != "launch" and not step.compiled:
                seconds = statistics.median(timing.samples_ns) / 1e9
                steady = timing.clock == "call" or why_no_rate(step, timing) is None
                own = step.id not in callers
                one = Distance(step.id, seconds, floor, _kind(floor.kinds), own, steady)
                found += [one] if 0 < one.ratio < math.inf else []  # else a figure of the trace is none
    return found


def _kind(kinds: Mapping[Kind, float]) -> str:
    most = max(kinds, key=lambda kind: kinds[kind])
    return most if kinds[most] >= MOSTLY * sum(kinds.values()) else MIXED


def verdict(found: Sequence[Distance]) -> str:
    """Say how many steps were slower than their floors, and what became of the others."""
    cached, above = sum(one.cached for one in found), sum(one.above_roof for one in found)
    said = f"{len(found) - cached - above:,} of {formats.plural(len(found), 'step')} took longer than their floors"
    if cached:
        said += f"; {cached:,} took less, which a cache may have served"
    if above:
        said += f"; {above:,} took less than the roof allows"
    if held(found) < EXPECTED:
        said += ": it was measured too low, perhaps while the machine was busy (--survey measures it again)"
    return f"{said}."


def held(found: Sequence[Distance]) -> float:
    """Return the share of steps that were not faster than the roof, or whose bytes a cache may have served."""
    return 1 - sum(one.above_roof for one in found) / len(found) if found else 1.0


def lost_by_kind(found: Iterable[Distance]) -> list[KindLost]:
    """Return where time went beyond the floors, most first; of steps whose time is in no other."""
    kinds: dict[str, list[Distance]] = defaultdict(list)
    for one in found:
        if one.own:
            kinds[one.kind].append(one)
    lost = [
        KindLost(
            kind,
            len(of),
            sum(one.seconds for one in of),
            sum(one.floor.seconds or 0.0 for one in of),
            statistics.median(one.ratio for one in of),
        )
        for kind, of in kinds.items()
    ]
    return sorted(lost, key=lambda one: -one.lost)
