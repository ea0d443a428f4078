"""A step → what was measured of it, as quantities with units: time, rates, shares of the roof, memory.

    measured(keyed, machine).readings["mfu"]
    # Reading(value=0.61, low=0.60, high=0.62)
    measured(keyed, machine).readings["mfu"].why
    # "no float16 peak: not in the table"

Only what was measured becomes a number: launch times, FLOPs of tensors without memory (device "meta") and
rates without a roof are absent, with the reason.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from trace_tools.comparing.judging.times import HARNESS
from trace_tools.comparing.matching.keys import KeyedStep
from trace_tools.rates import Rate, Timing, intensity_of, moved_bytes, rates_of, timing_of, why_no_rate
from trace_tools.schema import Machine, Meters, Step
from trace_tools.schema import Measured as Measurement

SEVERAL = "several measurements ran in it"
NEVER_MOVED = "nothing was read or written: its tensors have no memory"


@dataclass(frozen=True, slots=True)
class Quantity:
    """Something measured: `better` says which end is best, None where neither is."""

    key: str  # in the CSV
    title: str
    unit: str | None  # None: a fraction
    better: Literal["lower", "higher"] | None
    meaning: str


TIME = Quantity("time_s", "Time", "s", "lower", "Median over the passes, warm.")
RATE = Quantity("flops_per_second", "Achieved FLOP/s", "FLOP/s", "higher", "Counted FLOPs ÷ time.")
MFU = Quantity("mfu", "MFU", None, "higher", "Achieved FLOP/s ÷ the machine's own peak for the dtype inspected there.")
BANDWIDTH = Quantity("bytes_per_second", "Bandwidth", "B/s", "higher", "Bytes its operators read and wrote ÷ time.")
SHARE = Quantity("bandwidth_share", "Bandwidth used", None, "higher", "Bandwidth ÷ the machine's own peak.")
MEMORY = Quantity("peak_bytes", "Peak memory", "B", "lower", "Most bytes of tensors alive at once during the step.")
QUANTITIES = (TIME, RATE, MFU, BANDWIDTH, SHARE, MEMORY)


@dataclass(frozen=True, slots=True)
class Reading:
    """A quantity on one machine; `low` and `high` are its extremes over the passes."""

    value: float | None
    low: float | None = None
    high: float | None = None
    why: str | None = None  # there is no value


@dataclass(frozen=True, slots=True)
class Measured:
    """A step and its readings, by the key of their quantity."""

    keyed: KeyedStep
    readings: Mapping[str, Reading]
    intensity: float | None = None  # FLOPs ÷ bytes read and written
    dtype: str | None = None  # whose peak its FLOP/s are measured against


def measured(keyed: KeyedStep, machine: Machine) -> Measured:
    """Return what was measured of one step; of one that called `measure`, of one call of what it measured."""
    step, timing = keyed.step, timing_of(keyed.step, machine)
    several = len(step.measured or ()) > 1
    rates = {} if several else {rate.name: rate for rate in rates_of(step, timing, machine)}
    counted = step.measured[0] if step.measured and not several else step.meters
    moved = moved_bytes(counted) if counted is not None else 0
    why = SEVERAL if several else _why_no_rate(counted, timing, step)
    flops = rates.get("FLOP/s") if moved else None
    bandwidth = rates.get("B/s")
    readings = {
        TIME.key: _time(timing, step, section=keyed.section),
        RATE.key: _rate(flops, timing, why),
        MFU.key: _share(flops, timing, why),
        BANDWIDTH.key: _rate(bandwidth, timing, why),
        SHARE.key: _share(bandwidth, timing, why),
        MEMORY.key: _memory(step),
    }
    intensity = intensity_of(counted) if counted is not None and flops is not None else None
    return Measured(keyed, readings, intensity, flops.peak if flops is not None else None)


def _time(timing: Timing | None, step: Step, *, section: bool) -> Reading:
    """Return how long a step took; a section with all that it measured."""
    if step.measured and len(step.measured) > 1:
        return Reading(None, why=SEVERAL)
    if step.harness and not step.measured and not section:
        return Reading(None, why=HARNESS)
    if timing is None:
        return Reading(None, why="it was suspended" if step.suspended else "no pass timed it")
    if timing.clock == "launch":
        return Reading(None, why="only its launch was timed: annotate it")
    samples = [ns / 1e9 for ns in timing.samples_ns]
    return Reading(statistics.median(samples), min(samples), max(samples))


def _rate(rate: Rate | None, timing: Timing | None, why: str) -> Reading:
    """Return an achieved rate with its extremes, which follow from those of the time."""
    return Reading(None, why=why) if rate is None else _spread(rate.per_second, timing)


def _share(rate: Rate | None, timing: Timing | None, why: str) -> Reading:
    if rate is None:
        return Reading(None, why=why)
    if rate.share is None:
        return Reading(None, why=rate.roof)
    return _spread(rate.share, timing)


def _spread(value: float, timing: Timing | None) -> Reading:
    assert timing is not None  # without a time there is no rate
    middle = statistics.median(timing.samples_ns)
    slowest, fastest = max(timing.samples_ns), min(timing.samples_ns)
    return Reading(value, value * middle / slowest, value * middle / fastest if fastest else None)


def _why_no_rate(counted: Meters | Measurement | None, timing: Timing | None, step: Step) -> str:
    if counted is None:
        return "nothing was counted"
    if counted.flops and not moved_bytes(counted):
        return NEVER_MOVED
    return (None if step.measured else why_no_rate(step, timing)) or counted.why or "it did none"


def _memory(step: Step) -> Reading:
    peak = step.meters.peak_bytes if step.meters else None
    if peak is None:
        return Reading(None, why=(step.meters.why if step.meters else None) or "nothing was counted")
    return Reading(float(peak), float(peak), float(peak))
