"""Decide whether a longer time on one side may be no difference, because a side's own runs show both durations.

    slow = SideDurations(warm=[2.67, 2.64, 2.37], cold=[2.16, 2.14, -0.24], loaded=[False] * 3)  # log(milliseconds)
    fast = SideDurations(warm=[-0.46, -0.51, -0.46], cold=[-0.51, -0.49, 2.20], loaded=[False] * 3)
    why_two_modes(slow, fast, 0.15)     # FIRST_RUN: 0.79 ms in one of the first runs

A test of warm runs uses half of the observations. A matrix product on two threads takes 20 times as long if its second
thread must be woken. On a busy machine that may happen in all warm runs of one trace and in no warm run of another. The
warm runs of three processes then agree, and the test takes a mode for a difference. Three observations reveal a mode:

1. Load makes a run longer, never shorter, so a pass under load gives an upper bound. The slower side must be as slow
   without load, in at least half of its passes.
2. A first run has at least as much to do as a warm run. If the slower side's code were slower, its first runs would be
   slower as well. A first run of the slower side that was as fast as the faster side's warm runs shows that its code is
   not slower. If the faster side's first runs are quicker than its own warm runs, that difference is subtracted.
3. First runs may be slow for their own reasons: they touch files and memory for the first time and load kernels. Every
   process pays for that. So a slow first run of the faster side excuses a difference only if another first run was as
   fast as the warm runs, if it falls among the slower side's own durations, and if the sides differ by a factor of 2
   or more, because smaller factors are within the noise of first runs.

An observation is in the other mode if it is nearer to that mode, and at least three standard deviations from its own
side's mode. If a side has more than four first runs, a quarter of them must be in the other mode. `tests/README.md`
gives the cost in power.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

LOAD = "two modes: the slower side shared the machine with other processes and is faster without them"
FIRST_RUN = "two modes: some first runs of the slower side were as fast as the other side"
OTHER_FIRST_RUN = "two modes: some first runs of the faster side were as slow as the other side, and some were not"
APART = 3.0  # least distance of two modes, in standard deviations
OFTEN = 0.25  # least share of a side's first runs in the other mode, because some of many are there by chance
NORMAL = 1.4826  # standard deviation ÷ median absolute deviation of normally distributed numbers
FIRST_RUNS_VARY = math.log(2.0)  # between processes, in 1 statement of 20 of the lecture on a quiet machine


@dataclass(frozen=True, slots=True)
class SideDurations:
    """The durations of a statement on one side: logarithms, one per process."""

    warm: Sequence[float]
    cold: Sequence[float]  # of the first runs; empty if these cannot be compared
    loaded: Sequence[bool]  # whether other processes used the machine, by process


def why_two_modes(slow: SideDurations, fast: SideDurations, spread: float) -> str | None:
    """Return why a difference between warm runs may be a difference between modes; None if there is no sign of it.

    `spread` is the standard deviation of a logarithm between processes.
    """
    high, low = fmean(slow.warm), fmean(fast.warm)
    first_runs = max(spread, _deviation(slow.cold, fast.cold))

    def is_slow(log: float, spread: float) -> bool:
        """Return whether an observation belongs to the slower side's duration rather than to the faster side's."""
        return log - low >= max((high - low) / 2, APART * spread)

    def is_fast(log: float, spread: float) -> bool:
        return high - log >= max((high - low) / 2, APART * spread)

    without_load = [log for log, loaded in zip(slow.warm, slow.loaded, strict=True) if not loaded]
    if any(slow.loaded) and (2 * len(without_load) < len(slow.warm) or is_fast(median(without_load), spread)):
        return LOAD
    if not slow.cold or not fast.cold:
        return None
    quicker = min(0.0, median(fast.cold) - low)
    as_fast = [log for log in slow.cold if is_fast(log - quicker, first_runs)]
    if len(as_fast) >= OFTEN * len(slow.cold):
        return FIRST_RUN
    own = [log for log in (*slow.warm, *slow.cold) if is_slow(log, first_runs)] if high - low >= FIRST_RUNS_VARY else []
    as_slow = [log for log in fast.cold if own and min(own) <= log <= max(own)]
    not_always = any(is_fast(log, first_runs) for log in fast.cold)
    return OTHER_FIRST_RUN if not_always and len(as_slow) >= OFTEN * len(fast.cold) else None


def _deviation(*sides: Sequence[float]) -> float:
    """Return the standard deviation of most observations around their side's median, ignoring outliers."""
    apart = [abs(log - median(side)) for side in sides for log in side]
    return NORMAL * median(apart) if apart else 0.0
