"""Floors on a machine that nobody has, and how far from theirs the machines ran that were traced → an estimate.

    estimator = estimator_of([distances(cpu_trace, …), distances(gpu_trace, …)])
    estimator.ratios                     # {"matmul": 1.6, "elementwise": 3.1, …}: time over floor, by kind of operator
    estimator.half, estimator.most       # 1.4, 3.0: factors that half of its estimates are within, and nine in ten
    estimator.seconds(floor)             # 2.1e-05

The error is measured: each machine is left out in turn, and the times of its steps are estimated from the others. Only
steps take part whose own time is that of their operators (`rates.why_no_rate`), and whose operators are heavy: with a
floor of a microsecond each on the machine in question, so that starting them is not most of their time. Of no others is
there an estimate, and none without two machines, since then nobody knows how far it is off.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trace_tools.distances import MIXED, Distance
from trace_tools.floors import Floor

LEAST_STEPS = 3  # of a kind on a machine, for its ratio there
LEAST_TRIED = 10  # steps whose time was known and estimated


@dataclass(frozen=True, slots=True)
class Estimator:
    """Time over floor by kind of operator, and how far off its estimates were for machines that were left out."""

    ratios: Mapping[str, float]
    half: float  # the factor that half of the estimates are off by, or less
    most: float  # that nine in ten are
    tried: int  # steps whose time was estimated from other machines

    def seconds(self, floor: Floor) -> float | None:
        """Estimate how long takes what has a floor; None where it is not heavy, or a kind of operator has no ratio."""
        return _scaled(floor, self.ratios)


def estimator_of(machines: Sequence[Sequence[Distance]]) -> Estimator | None:
    """Return what machines' distances make an estimator of; None where too few steps were estimated from others."""
    steady = [[one for one in found if one.steady and one.floor.heavy] for found in machines]
    errors = []
    for place, left_out in enumerate(steady):
        ratios = _ratios([found for other, found in enumerate(steady) if other != place])
        for one in left_out:
            estimate = _scaled(one.floor, ratios)
            if estimate and estimate < math.inf:
                errors.append(max(estimate / one.seconds, one.seconds / estimate))
    if len(errors) < LEAST_TRIED:
        return None
    errors.sort()
    return Estimator(_ratios(steady), statistics.median(errors), errors[math.ceil(0.9 * len(errors)) - 1], len(errors))


def _ratios(machines: Sequence[Sequence[Distance]]) -> dict[str, float]:
    """Return each kind's time over floor: the median of its steps on a machine, the geometric mean over machines."""
    medians: dict[str, list[float]] = defaultdict(list)
    for found in machines:
        kinds: dict[str, list[float]] = defaultdict(list)
        for one in found:
            kinds[one.kind].append(one.ratio)
        for kind, ratios in kinds.items():
            if kind != MIXED and len(ratios) >= LEAST_STEPS:
                medians[kind].append(statistics.median(ratios))
    return {kind: statistics.geometric_mean(of) for kind, of in medians.items()}


def _scaled(floor: Floor, ratios: Mapping[str, float]) -> float | None:
    if not floor.heavy or not floor.kinds.keys() <= ratios.keys():
        return None
    return sum(seconds * ratios[kind] for kind, seconds in floor.kinds.items())
