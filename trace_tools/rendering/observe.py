"""One recorded step → what the page shows of it: which clock, which rate against which roof.

execution(step, machine)   Execution(step=14, timing=Timing("host", (11200000, …)), rates=(Rate("FLOP/s", …),), …)
"""

from __future__ import annotations

import statistics

from trace_tools.rendering.document import Execution, Failure, Rate, Timing
from trace_tools.schema import Machine, Peak, Step

FLOATING = ("float", "bfloat")


def execution(step: Step, machine: Machine, failure: Failure | None = None) -> Execution:
    """Return the execution of one step; its calls are added by who knows them."""
    timing = timing_of(step, machine)
    return Execution(
        step=step.id,
        number=step.execution,
        values=tuple(step.values or ()),
        claim=step.claim,
        timing=timing,
        annotated=step.annotated,
        meters=step.meters,
        rates=rates_of(step, timing, machine),
        allocated_bytes=step.allocated_bytes,
        stdout=step.stdout or None,
        warnings=tuple(step.warnings or ()),
        failure=failure,
        compiled=step.compiled,
        suspended=step.suspended,
    )


def timing_of(step: Step, machine: Machine) -> Timing | None:
    """Return a step's durations by the clock that saw all of it; "launch" where none did."""
    cold = tuple(step.cold_ns or ())
    if step.suspended:
        return None
    if step.device_ns:
        return Timing("device", tuple(step.device_ns), cold)
    samples = tuple(step.host_ns or cold)
    if not samples:
        return None
    launched = machine.device != "cpu" and not step.annotated
    return Timing("launch" if launched else "host", samples, cold)


def rates_of(step: Step, timing: Timing | None, machine: Machine) -> tuple[Rate, ...]:
    """Return achieved FLOP/s and bytes/s with their share of the machine's roof, where both sides were measured."""
    meters = step.meters
    if meters is None or timing is None or timing.clock == "launch" or step.compiled:
        return ()
    seconds = statistics.median(timing.samples_ns) / 1e9
    if seconds <= 0:
        return ()
    moved = (meters.bytes_read or 0) + (meters.bytes_written or 0)
    found = []
    on_meta = moved == 0 and meters.bytes_read is not None  # counted, and computed nowhere
    if meters.flops and not on_meta:
        found.append(_rate("FLOP/s", meters.flops / seconds, _compute_roof(step, machine), machine))
    if moved:
        found.append(_rate("B/s", moved / seconds, "memory", machine))
    return tuple(found)


def _compute_roof(step: Step, machine: Machine) -> str | None:
    """Name the peak of the one floating dtype that the step's inspected tensors have; None when that is not clear."""
    dtypes = {value.tensor.dtype for _, value in step.values or () if value.tensor is not None}
    floating = {dtype for dtype in dtypes if dtype.startswith(FLOATING)}
    if len(floating) != 1:
        return None
    dtype = floating.pop()
    tf32 = dtype == "float32" and machine.device == "cuda" and machine.tf32 not in (None, "highest")
    return "tf32" if tf32 else dtype


def _rate(name: str, per_second: float, roof: str | None, machine: Machine) -> Rate:
    if roof is None:
        return Rate(name, per_second, roof="no single dtype was inspected here")
    peak = peak_of(machine, roof)
    if peak is None or not peak.per_second:
        return Rate(name, per_second, roof=f"no {roof} peak: {peak.source if peak else 'not in the table'}")
    return Rate(name, per_second, per_second / peak.per_second, f"{roof} peak, {peak.source}", roof)


def peak_of(machine: Machine, name: str) -> Peak | None:
    """Return the machine's peak of that name."""
    return next((peak for peak in machine.peaks if peak.name == name), None)
