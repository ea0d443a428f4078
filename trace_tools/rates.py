"""One recorded step → how long it took, by which clock, and its rates beside the machine's roof.

timing_of(step, machine)           Timing("host", (11200000, …))
rates_of(step, timing, machine)    (Rate("FLOP/s", 2.1e12, share=0.31, …), …)

This is the only place that makes a rate.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from trace_tools import formats
from trace_tools.schema import Machine, Measured, Meters, Peak, Step

FLOATING = ("float", "bfloat")
WORTH_SAYING_NS = 1_000_000  # of a statement that nobody annotated
WORTH_SAYING_ANNOTATED_NS = 10_000
TEACHES_NS = 100_000  # what takes less, or varies by more, is said on demand
TEACHES_WITHIN = 0.25  # half the range of its samples, relative to their median

# When a statement's own time says how fast its operators are (see `why_no_rate`).
LEAST_RUNS = 3
SHORTEST_NS = 100_000
APART = 1.25  # slowest run over fastest


Clock = Literal["device", "host", "launch", "call"]


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations of one step, one per timed pass.

    `clock` is "device" (between device events), "host", "launch" (the host's share of work that the device may
    not have finished, which says nothing about how long it took) or "call": the step called `measure` once, and
    these are the seconds per call that it found; the step itself took `whole_ns`.
    """

    clock: Clock
    samples_ns: tuple[int, ...]
    cold_ns: tuple[int, ...] = ()
    whole_ns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Rate:
    """An achieved rate beside the roof it is measured against: of a step, or of one call that it measured."""

    name: str  # "FLOP/s" or "B/s"
    per_second: float
    share: float | None = None  # of the roof
    roof: str | None = None  # what the roof is, or why there is none
    peak: str | None = None  # name of the peak that `share` is of: "float32", "memory"; None where there is no share
    call: int | None = None  # of the step's n-th `measure`, from 1; None: of the step's own time
    intensity: float | None = None  # FLOP per byte of what it is the rate of


def timing_of(step: Step, machine: Machine) -> Timing | None:
    """Return how long a step took, by the clock that saw all of it ("launch" where none did).

    Of a step that measured one thing that is how long one call took: its own time is that of hundreds.
    """
    cold = tuple(step.cold_ns or ())
    if step.suspended:
        return None
    whole = tuple(step.device_ns or step.host_ns or cold)
    if step.measured and len(step.measured) == 1 and step.measured[0].seconds:
        return Timing("call", tuple(max(1, round(1e9 * s)) for s in step.measured[0].seconds), whole_ns=whole)
    if not whole:
        return None
    if step.device_ns:
        return Timing("device", whole, cold)
    launched = machine.device != "cpu" and not step.annotated
    return Timing("launch" if launched else "host", whole, cold)


def rates_of(step: Step, timing: Timing | None, machine: Machine) -> tuple[Rate, ...]:
    """Return achieved FLOP/s and bytes/s with their share of the machine's roof, where both sides were measured.

    Counts and time are of the same thing: of one call where the step called `measure`, once for each of them,
    else of the whole step; of a step whose own time is not that of its operators (`why_no_rate`) there are none.
    """
    if step.measured:
        return tuple(
            rate
            for number, call in enumerate(step.measured, start=1)
            for rate in _rates(call, statistics.median(call.seconds or [0.0]), call.dtype, machine, number)
        )
    if step.meters is None or timing is None or why_no_rate(step, timing) is not None:
        return ()
    dtype = step.meters.dtype or _inspected_dtype(step)
    return tuple(_rates(step.meters, statistics.median(timing.samples_ns) / 1e9, dtype, machine))


def why_no_rate(step: Step, timing: Timing | None) -> str | None:
    """Say why a step's own time is not that of its operators; None where it is.

    One execution is not a benchmark: below 100 µs dispatching operators is most of it, a first run also loads and
    allocates, and where three runs do not agree within 25%, something else took the time.
    """
    if step.measured or step.harness:
        return "its own time is that of all the calls that `measure` or `count` made"
    if timing is None:
        return "it was not timed"
    if timing.clock == "launch":
        return "only its launch was timed"
    if step.compiled:
        return "torch.compile ran during it"
    if not step.device_ns and not step.host_ns:
        return "only first runs were timed"
    samples = timing.samples_ns
    if len(samples) < LEAST_RUNS:
        return f"{formats.plural(len(samples), 'timed run')}, of {LEAST_RUNS} that it takes"
    if statistics.median(samples) < SHORTEST_NS:
        return f"shorter than {formats.duration(SHORTEST_NS)}: mostly dispatch"
    if max(samples) > APART * min(samples):
        times = formats.ratio(max(samples) / max(min(samples), 1))
        return f"the slowest run took {times} times as long as the fastest"
    return None


def moved_bytes(counted: Meters | Measured) -> int:
    """Return the bytes that were read and written together; 0 where none were counted."""
    return (counted.bytes_read or 0) + (counted.bytes_written or 0)


def intensity_of(counted: Meters | Measured) -> float | None:
    """Return FLOPs per byte read or written; None where one of them is not there."""
    moved = moved_bytes(counted)
    return counted.flops / moved if counted.flops and moved else None


def _rates(
    counted: Meters | Measured, seconds: float, dtype: str | None, machine: Machine, call: int | None = None
) -> Iterator[Rate]:
    moved, intensity = moved_bytes(counted), intensity_of(counted)
    if not seconds > 0:
        return
    # tf32's peak where that is what a float32 matmul computes in; older traces tell what was set when they began.
    in_tf32 = (
        machine.tf32 not in (None, "highest")
        if counted.work is None
        else any((w[1] or "").startswith("tf32") for w in counted.work)
    )
    tf32 = dtype == "float32" and machine.device == "cuda" and in_tf32
    flops = None if moved == 0 and counted.bytes_read is not None else counted.flops  # counted, and computed nowhere
    for name, amount, roof in (("FLOP/s", flops, "tf32" if tf32 else dtype), ("B/s", moved, "memory")):
        if not amount:
            continue
        rate = amount / seconds
        peak = peak_of(machine, roof) if roof is not None else None
        if peak is not None and peak.per_second:
            against = f"{peak.name} peak, {peak.source}"
            yield Rate(name, rate, rate / peak.per_second, against, peak.name, call, intensity)
        else:
            source = "not in the table" if peak is None else peak.source
            why = "no one dtype that its FLOPs are in" if roof is None else f"no {roof} peak: {source}"
            yield Rate(name, rate, roof=why, call=call, intensity=intensity)


def _inspected_dtype(step: Step) -> str | None:
    """Return the one floating dtype of a step's inspected tensors: traces did not always count by dtype."""
    dtypes = {value.tensor.dtype for _, value in step.values or () if value.tensor is not None}
    floating = {dtype for dtype in dtypes if dtype.startswith(FLOATING)}
    return floating.pop() if len(floating) == 1 else None


def peak_of(machine: Machine, name: str) -> Peak | None:
    """Return the machine's peak of that name."""
    return next((peak for peak in machine.peaks if peak.name == name), None)


def leading_peak(machine: Machine) -> Peak | None:
    """Return the peak for arithmetic that pages lead with, and whose ridge they speak of.

    float32 on a CPU, which widens bfloat16 for most operations; bfloat16 on a device; else the fastest known.
    """
    known = [peak for peak in machine.peaks if peak.per_second and peak.name != "memory" and "int" not in peak.name]
    leading = "float32" if machine.device == "cpu" else "bfloat16"
    fastest = max(known, key=lambda peak: peak.per_second or 0.0, default=None)
    return next((peak for peak in known if peak.name == leading), fastest)


def ridge(flops_per_second: float | None, bytes_per_second: float | None) -> float | None:
    """Return the intensity (FLOP/byte) at which a roof of arithmetic meets that of memory; None without both."""
    return flops_per_second / bytes_per_second if flops_per_second and bytes_per_second else None
