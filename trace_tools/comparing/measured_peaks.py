"""Peaks that each trace measured for itself → which of the lecture's numbers follow from them.

A machine that is in no table has its roof measured anew by each trace, so numbers that the lecture makes of
it are stable within a trace and differ between traces: as noise, not as a change. A number follows from
the peaks when it differs by exactly the factor by which one of them, or the ratio of two, does.

    peaks = MeasuredPeaks.of(a.machine, b.machine)
    peaks.explain(209.0e9, 199.2e9)  # "in step with the float32 peak, which each trace measured"
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from trace_tools.schema import Machine

EXACTLY = 1e-9  # relative: a few roundings in float64


@dataclass(frozen=True, slots=True)
class MeasuredPeaks:
    """By how much (logarithm of B / A) each measured peak differs between two traces."""

    changes: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, a: Machine, b: Machine) -> MeasuredPeaks:
        """Take the peaks that both machines have measured."""
        in_a = {p.name: p.per_second for p in a.peaks if p.measured and p.per_second}
        in_b = {p.name: p.per_second for p in b.peaks if p.measured and p.per_second}
        both = {name: math.log(in_b[name] / in_a[name]) for name in in_a if name in in_b}
        return cls({name: change for name, change in both.items() if change})

    def explain(self, x: float, y: float) -> str | None:
        """Say which measured peaks a number that was x and is y follows; None when it follows none."""
        try:
            change = math.log(y / x)
        except (ValueError, ZeroDivisionError, OverflowError):
            return None
        for name, of_peak in self.changes.items():
            if abs(abs(change) - abs(of_peak)) < EXACTLY:
                return f"in step with the {name} peak, which each trace measured for itself"
        for name, of_peak in self.changes.items():
            for other, of_other in self.changes.items():
                if name < other and abs(abs(change) - abs(of_peak - of_other)) < EXACTLY:
                    return f"in step with the {name} and {other} peaks, which each trace measured for itself"
        return None
