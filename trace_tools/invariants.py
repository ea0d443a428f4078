"""What a trace made on a GPU can't say if it is right: each violation in a line, for its pages and the end of a run.

    >>> violations(trace)
    ['2 annotated steps ended with less allocated than their tensors hold: most at line 40, 1 MiB and 4 MiB']

None of them ends a run: what was recorded is there, and whoever reads it knows what not to believe. That the warm run
gives back the memory that it took is noted by the process itself, in `Process.notes`.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_tools import formats
from trace_tools.rates import rates_of, timing_of
from trace_tools.schema import Machine, Step, Trace

FLOOR_NS = 50_000  # of an empty step between two events; with more than that, short steps are all floor
CLOCKS = 1.02  # the device's clock over the host's
OVER_DATASHEET = 1.05  # a measured peak may be so many times what is promised
OVER_ROOF = 1.05  # and so may a rate

Found = tuple[float, Step, str]  # how far it is off, where, and in words


def violations(trace: Trace) -> list[str]:
    """Return a line for each kind of violation, with the step that is furthest off; none of a CPU's trace."""
    if trace.machine.device == "cpu":
        return []
    steps = [step for step in trace.steps if isinstance(step, Step)]
    lines = [*_peaks(trace.machine)]
    for check, what in (
        (_longer_than_the_host, "took longer on the device than on the host, which waited for it"),
        (_less_than_is_alive, "ended with less allocated than their tensors hold"),
        (_above_the_roof, "were faster than the machine can be"),
    ):
        found = [it for step in steps for it in check(step, trace.machine)]
        if found:
            _, step, words = max(found, key=lambda it: it[0])
            lines.append(f"{formats.plural(len(found), 'annotated step')} {what}: most at line {step.line}, {words}")
    return lines


def _peaks(machine: Machine) -> Iterator[str]:
    """Compare each measured peak with the datasheet's of the same name."""
    promised = {peak.name: peak.per_second for peak in machine.peaks if not peak.measured and peak.per_second}
    for peak in machine.peaks:
        sheet = promised.get(peak.name)
        if peak.measured and peak.per_second and sheet and peak.per_second > OVER_DATASHEET * sheet:
            yield f"the measured {peak.name} peak is {peak.per_second / sheet:.2f} times the datasheet's"


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
    """FLOP rates only: what moves through a cache may be faster than memory."""
    timing = timing_of(step, machine)
    for rate in rates_of(step, timing, machine):
        if rate.name == "FLOP/s" and rate.share is not None and rate.share > OVER_ROOF:
            yield rate.share, step, f"{rate.share:.2f} of the {rate.peak} peak"
            return
