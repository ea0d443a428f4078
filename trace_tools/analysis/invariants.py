"""Check a trace for impossible figures, and report each violation in a line, for its pages and the end of a run.

    >>> violations(trace)
    ['2 annotated steps ended with less allocated than their tensors hold: most at line 40, 1 MiB and 4 MiB']

On a CPU only rates are checked. Violations do not end a run: the records are kept, and the reader knows which figures
not to believe. The warm process itself notes in `Process.notes` whether it returned the memory that it took.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_tools.analysis.rates import rates_of, timing_of
from trace_tools.machines.accelerators import FLOOR_NS
from trace_tools.machines.peaks import peak_of
from trace_tools.trace.model import Machine, Step, Trace
from trace_tools.util import formats

CLOCKS = 1.02  # the device's clock over the host's
OVER_ROOF = 1.05  # limit of a rate over its peak, and of a measured peak over the datasheet's
# A datasheet states its peak at one clock. Gaming cards exceed that clock while they are cool. A slice of a card
# exceeds it if the power limit of the whole card keeps the clock down.
OVER_CLOCKED, CLOCKED_HIGHER = 1.25, ("GeForce", "TITAN", " MIG ")

Found = tuple[float, Step, str]  # how far it is off, where, and in words


def violations(trace: Trace) -> list[str]:
    """Return a line for each kind of violation, with the step that is furthest off."""
    steps = [step for step in trace.steps if isinstance(step, Step)]
    promised = {peak.name: peak.per_second for peak in trace.machine.peaks if not peak.measured and peak.per_second}
    lines = []
    for peak in trace.machine.peaks:
        sheet, most = promised.get(peak.name), _most_over_datasheet(trace.machine)
        if peak.measured and peak.per_second and sheet and peak.per_second > most * sheet:
            lines.append(f"the measured {peak.name} peak is {peak.per_second / sheet:.2f} times the datasheet's")
    of_devices = (
        (_longer_than_the_host, "took longer on the device than on the host, which waited for it"),
        (_less_than_is_alive, "ended with less allocated than their tensors hold"),
    )
    for check, what in (
        *(of_devices if trace.machine.device != "cpu" else ()),
        (_above_the_roof, "had a rate that is too high"),
    ):
        rows = [it for step in steps for it in check(step, trace.machine)]
        if rows:
            _, step, words = max(rows, key=lambda it: it[0])
            lines.append(f"{formats.plural(len(rows), 'annotated step')} {what}: most at line {step.line}, {words}")
    return lines


def _most_over_datasheet(machine: Machine) -> float:
    return OVER_CLOCKED if any(word in machine.name for word in CLOCKED_HIGHER) else OVER_ROOF


def _longer_than_the_host(step: Step, machine: Machine) -> Iterator[Found]:
    """The host's time of an annotated step includes the wait for the device."""
    for device, host in zip(step.device_ns or (), step.host_ns or (), strict=False):
        if device > CLOCKS * host + FLOOR_NS:
            yield device / max(host, 1), step, f"{formats.duration(device)} and {formats.duration(host)}"
            return


def _less_than_is_alive(step: Step, machine: Machine) -> Iterator[Found]:
    """Every tensor's storage is the allocator's, and it rounds up."""
    alive = step.meters.live_bytes if step.meters is not None else None
    if alive is not None and step.allocated_bytes is not None and step.allocated_bytes < alive:
        words = f"{formats.quantity(step.allocated_bytes, 'B', 3)} and {formats.quantity(alive, 'B', 3)}"
        yield alive - step.allocated_bytes, step, words


def _above_the_roof(step: Step, machine: Machine) -> Iterator[Found]:
    """Check FLOP rates only, because bytes in a cache may move faster than memory allows."""
    timing = timing_of(step, machine)
    for rate in rates_of(step, timing, machine):
        peak = peak_of(machine, rate.peak) if rate.peak is not None else None
        most = OVER_ROOF if peak is None or peak.measured else _most_over_datasheet(machine)
        if rate.name == "FLOP/s" and rate.share is not None and rate.share > most:
            yield rate.share, step, f"{formats.percent(rate.share)} of the {rate.peak} peak, {rate.above}"
            return
