"""Estimate times on a machine without a trace, from its floors and from the distances of traced machines.

    estimator = estimator_of([distances(cpu_trace, …), distances(gpu_trace, …)])
    estimator.ratios                     # {"matmul": 1.6, "elementwise": 3.1, …}: time over floor, by kind of operator
    estimator.half, estimator.most       # 1.4, 3.0: factors that half of its estimates are within, and nine in ten
    estimator.seconds(floor)             # 2.1e-05

The error is measured: each machine is left out in turn, and the times of its steps are estimated from the others. Only
steps count if their operators account for their time (`rates.why_no_rate`) and are heavy: each has a floor of at least
a microsecond on the machine in question, so that launch overhead is not most of the time. Other steps get no estimate.
An estimator needs at least two machines, because the error is unknown with a single machine.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trace_tools.analysis.distances import MIXED, Distance
from trace_tools.analysis.floors import Floor

LEAST_STEPS = 3  # of a kind on a machine, for its ratio there
LEAST_TRIED = 10  # steps with a known and an estimated time


@dataclass(frozen=True, slots=True)
class Estimator:
    """Time over floor by kind of operator, and how far off its estimates were for machines that were left out."""

    ratios: Mapping[str, float]
    half: float  # the factor that half of the estimates are off by, or less
    most: float  # that nine in ten are
    tried: int  # steps with a time estimated from other machines

    def seconds(self, floor: Floor) -> float | None:
        """Estimate the time of work with this floor; None if it is not heavy, or a kind of operator has no ratio."""
        return _scaled(floor, self.ratios)


def estimator_of(machines: Sequence[Sequence[Distance]]) -> Estimator | None:
    """Return an estimator fitted to the distances of machines; None if too few steps were estimated from other
    machines.
    """
    steady = [[one for one in of_machine if one.steady and one.floor.heavy] for of_machine in machines]
    errors = []
    for number, left_out in enumerate(steady):
        ratios = _ratios([of_machine for other, of_machine in enumerate(steady) if other != number])
        for one in left_out:
            estimate = _scaled(one.floor, ratios)
            if estimate and estimate < math.inf:
                errors.append(max(estimate / one.seconds, one.seconds / estimate))
    if len(errors) < LEAST_TRIED:
        return None
    errors.sort()
    return Estimator(_ratios(steady), statistics.median(errors), errors[math.ceil(0.9 * len(errors)) - 1], len(errors))


def _ratios(machines: Sequence[Sequence[Distance]]) -> dict[str, float]:
    """Return the ratio of time to floor for each kind: the median over a machine's steps, the geometric mean over
    machines.
    """
    medians: dict[str, list[float]] = defaultdict(list)
    for distances in machines:
        kinds: dict[str, list[float]] = defaultdict(list)
        for one in distances:
            kinds[one.kind].append(one.ratio)
        for kind, ratios in kinds.items():
            if kind != MIXED and len(ratios) >= LEAST_STEPS:
                medians[kind].append(statistics.median(ratios))
    return {kind: statistics.geometric_mean(of) for kind, of in medians.items()}


def _scaled(floor: Floor, ratios: Mapping[str, float]) -> float | None:
    if not floor.heavy or not floor.kinds.keys() <= ratios.keys():
        return None
    return sum(seconds * ratios[kind] for kind, seconds in floor.kinds.items())
