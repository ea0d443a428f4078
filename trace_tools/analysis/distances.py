"""Compare the time of each step with its floor, sum the lost time by kind of operator, and estimate times elsewhere.

    steps = distances(trace)     # [Distance(step=7, seconds=2e-4, floor=Floor(1e-4, …), kind="matmul", …), …]
    held(steps)                  # 0.999: the share of steps that do not contradict the roof
    lost_by_kind(steps)          # [KindLost("matmul", steps=330, seconds=2.99, floor=1.2, median=2.76), …]

The roof was measured on the machine itself, so a floor above a time means that the roof is too low, unless a cache
served the step. The kind of a step is the kind that accounts for most of its floor, else "mixed". Lost time counts
only steps that call no function of the lecture, so that no time counts twice.

Times on a machine without a trace follow from its floors and the distances of traced machines:

    estimator = estimator_of([distances(cpu_trace, …), distances(gpu_trace, …)])
    estimator.ratios                     # {"matmul": 1.6, "elementwise": 3.1, …}: time over floor, by kind of operator
    estimator.half, estimator.most       # 1.4, 3.0: factors that half of its estimates are within, and nine in ten
    estimator.seconds(floor)             # 2.1e-05

The error is measured: each machine is left out in turn, and the times of its steps are estimated from the others. Only
steps count if their operators account for their time (`rates.why_no_rate`) and are heavy. A heavy operator has a floor
of at least a microsecond on the machine in question, so that launch overhead is not most of its time. Other steps get
no estimate. An estimator needs at least two machines, because the error is unknown with a single machine.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trace_tools.analysis.floors import Ceiling, Floor, floor_of, measured_ceiling
from trace_tools.analysis.rates import timing_of, why_no_rate
from trace_tools.trace.model import Frame, Step, Trace
from trace_tools.util import formats

MOSTLY = 0.8  # least share of a step's floor for its kind to count as the step's
MIXED = "mixed"
EXPECTED = 0.99  # least share of steps within a roof that was measured well


@dataclass(frozen=True, slots=True)
class Distance:
    """The time of one step in seconds, with its floor under the roof of the machine that ran it."""

    step: int  # its id
    seconds: float
    floor: Floor
    kind: str  # the kind of its operators, or "mixed"
    own: bool  # it called no function of the lecture, so its time is in no other step
    steady: bool  # its operators account for its time, as far as runs show (`rates.why_no_rate`)

    @property
    def ratio(self) -> float:
        """Time over floor: 1 is the roof."""
        return self.seconds / (self.floor.seconds or math.inf)

    @property
    def cached(self) -> bool:
        """Return whether the step was faster than its floor, and a cache explains that."""
        return self.ratio < 1 and self.seconds >= (self.floor.beyond_caches or 0.0)

    @property
    def above_roof(self) -> bool:
        """Return whether the step was faster than the machine's roof allows."""
        return self.ratio < 1 and not self.cached


@dataclass(frozen=True, slots=True)
class KindLost:
    """All steps of one kind: their number, the sums of their times and floors (seconds), and the median ratio."""

    kind: str
    steps: int
    seconds: float
    floor: float
    median: float  # median of time over floor

    @property
    def lost(self) -> float:
        """Seconds beyond the floors."""
        return self.seconds - self.floor


def distances(trace: Trace, ceiling: Ceiling | None = None) -> list[Distance]:
    """Return the distance of each step that has a floor and a time, under a ceiling or the machine's measured roof.

    Empty if the roof was not measured, or the trace does not record the work of operators.
    """
    ceiling = ceiling or measured_ceiling(trace.machine)
    if ceiling is None:
        return []
    callers = {event.of for event in trace.steps if isinstance(event, Frame)}
    result = []
    for step in trace.steps:
        if isinstance(step, Step) and (step.meters is not None or step.measured):
            floor = floor_of(step, ceiling)
            timing = timing_of(step, trace.machine)
            if floor.seconds and timing is not None and timing.clock != "launch" and not step.compiled:
                seconds = statistics.median(timing.samples_ns) / 1e9
                steady = timing.clock == "call" or why_no_rate(step, timing) is None
                own = step.id not in callers
                most = max(floor.kinds, key=floor.kinds.__getitem__)
                kind = most if floor.kinds[most] >= MOSTLY * sum(floor.kinds.values()) else MIXED
                distance = Distance(step.id, seconds, floor, kind, own, steady)
                result += [distance] if 0 < distance.ratio < math.inf else []  # otherwise the trace lacks a figure
    return result


def verdict(steps: Sequence[Distance]) -> str:
    """Report how many steps were slower than their floors, and classify the others."""
    cached, above = sum(step.cached for step in steps), sum(step.above_roof for step in steps)
    text = "{n} of {steps} took longer than their lower bounds".format(
        n=f"{len(steps) - cached - above:,}", steps=formats.plural(len(steps), "step")
    )
    if cached:
        text += "; {n} took less, perhaps thanks to a cache".format(n=f"{cached:,}")
    if above:
        text += "; {n} took less than the roof allows".format(n=f"{above:,}")
    if held(steps) < EXPECTED:
        text += "; the measured peak is too low, perhaps because the machine was busy (--survey measures it again)"
    return text + "."


def held(steps: Sequence[Distance]) -> float:
    """Return the share of steps that were not faster than the roof, or whose bytes a cache may have served."""
    return 1 - sum(step.above_roof for step in steps) / len(steps) if steps else 1.0


def lost_by_kind(steps: Iterable[Distance]) -> list[KindLost]:
    """Return the time beyond the floors by kind, largest first, counting only steps that contain no other step."""
    kinds: dict[str, list[Distance]] = defaultdict(list)
    for step in steps:
        if step.own:
            kinds[step.kind].append(step)
    by_kind = [
        KindLost(
            kind,
            len(of_kind),
            sum(step.seconds for step in of_kind),
            sum(step.floor.seconds or 0.0 for step in of_kind),
            statistics.median(step.ratio for step in of_kind),
        )
        for kind, of_kind in kinds.items()
    ]
    return sorted(by_kind, key=lambda kind: -kind.lost)


# --- estimates for a machine without a trace ------------------------------------------------------


LEAST_STEPS = 3  # fewest steps of a kind on a machine for a ratio
LEAST_TRIED = 10  # steps with a known and an estimated time


@dataclass(frozen=True, slots=True)
class Estimator:
    """Time over floor by kind of operator, and how far off its estimates were for machines that were left out."""

    ratios: Mapping[str, float]
    half: float  # half of the estimates are off by this factor or less
    most: float  # nine in ten estimates are off by this factor or less
    tried: int  # steps with a time estimated from other machines

    def seconds(self, floor: Floor) -> float | None:
        """Estimate the time of work with this floor; None if it is not heavy, or a kind of operator has no ratio."""
        return _scaled(floor, self.ratios)


def estimator_of(machines: Sequence[Sequence[Distance]]) -> Estimator | None:
    """Return an estimator fitted to the distances of machines; None if too few steps were estimated from other
    machines.
    """
    steady = [[step for step in steps if step.steady and step.floor.heavy] for steps in machines]
    errors = []
    for number, left_out in enumerate(steady):
        ratios = _ratios([steps for other, steps in enumerate(steady) if other != number])
        for step in left_out:
            estimate = _scaled(step.floor, ratios)
            if estimate and estimate < math.inf:
                errors.append(max(estimate / step.seconds, step.seconds / estimate))
    if len(errors) < LEAST_TRIED:
        return None
    errors.sort()
    return Estimator(_ratios(steady), statistics.median(errors), errors[math.ceil(0.9 * len(errors)) - 1], len(errors))


def _ratios(machines: Sequence[Sequence[Distance]]) -> dict[str, float]:
    """Return the ratio of time to floor for each kind: the median over a machine's steps, the geometric mean over
    machines.
    """
    medians: dict[str, list[float]] = defaultdict(list)
    for steps in machines:
        kinds: dict[str, list[float]] = defaultdict(list)
        for step in steps:
            kinds[step.kind].append(step.ratio)
        for kind, ratios in kinds.items():
            if kind != MIXED and len(ratios) >= LEAST_STEPS:
                medians[kind].append(statistics.median(ratios))
    return {kind: statistics.geometric_mean(ratios) for kind, ratios in medians.items()}


def _scaled(floor: Floor, ratios: Mapping[str, float]) -> float | None:
    if not floor.heavy or not floor.kinds.keys() <= ratios.keys():
        return None
    return sum(seconds * ratios[kind] for kind, seconds in floor.kinds.items())
