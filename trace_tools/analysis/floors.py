"""Compute the least time for operators on a machine, from its datasheet.

    h100 = next(one for one in ceilings() if one.name == "NVIDIA H100 80GB HBM3")
    floor_of(step, h100)     # Floor(seconds=1.2e-06, binds="memory", …)

The floor of one operator is the larger of its FLOPs ÷ the peak of their dtype and its bytes ÷ the bandwidth (the
roofline model: Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", 2009). The floor
of a step is the sum over its operators, because they run one after another. It leaves out launches, synchronisation and
workspaces. Only three kinds of work can be faster: work that a cache served, because its bytes never came from memory;
convolutions by the algorithms of Winograd or Fourier, which need fewer products; and operators that run at the same
time. Compiled code moves fewer bytes than its operators would, so its bytes are not counted. Work on the meta device
was never computed and has no floor. A floor is computed, never measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trace_tools.analysis.rates import not_counted
from trace_tools.machines.peaks import KnownMachine, known_machines
from trace_tools.trace.model import Counts, Step, Trace
from trace_tools.util import formats

NO_WORK = "the trace does not say what each operator did; trace it again"
NOTHING = "its operators computed nothing and moved no bytes of memory"
NOWHERE = "its operators ran on the meta device, which computes nothing"
UNMETERED = "nothing was counted"
SEVERAL_CALLS = "it contains several measurements"
LEFT_OVER = 0.95  # least share of the nominal memory that a program can use
MANY_CALLS = "it includes the operators of all the calls that `measure` or `count` made"


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The rates that a machine can't exceed: FLOP/s by name of peak, bytes/s of its memory."""

    name: str
    flops_per_second: Mapping[str, float]
    bytes_per_second: float
    source: str  # title of the datasheet
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Floor:
    """The least seconds for a step's operators on a machine; None, with the reason, if it has no floor.

    `binds` names the roof that accounts for most of it: "memory", or the name of a peak.
    """

    seconds: float | None
    binds: str | None = None
    why: str | None = None
    unknown_peak: bool = False  # no floor, because the machine has no peak of a dtype


# --- machines -------------------------------------------------------------------------------------


def ceilings() -> list[Ceiling]:
    """Return the ceilings of all machines of the table."""
    return [_ceiling(entry) for entry in known_machines()]


def _ceiling(machine: KnownMachine) -> Ceiling:
    rates = (dict(machine.flops_per_second), machine.bytes_per_second)
    return Ceiling(machine.names[0], *rates, machine.source, memory_bytes=machine.memory_bytes)


# --- floors ---------------------------------------------------------------------------------------


def floor_of(step: Step, ceiling: Ceiling) -> Floor:
    """Return the floor of a step, or of the one call that it measured, to match `rates.timing_of`."""
    if step.measured:
        return floor_of_counted(step.measured[0], ceiling) if len(step.measured) == 1 else _none(SEVERAL_CALLS)
    if step.harness:
        return _none(MANY_CALLS)
    return floor_of_counted(step.meters, ceiling) if step.meters is not None else _none(UNMETERED)


def floor_of_counted(counted: Counts, ceiling: Ceiling) -> Floor:
    """Return the floor of counted work: the sum over its operators, each under the roof that binds it."""
    if (missing := not_counted(counted)) is not None:
        return _none(missing)
    if not counted.work:
        return _none(NOWHERE if counted.flops else counted.why or NOTHING)
    bound: Counter[str] = Counter()
    for operator, dtype, flops, moved in counted.work:
        computing, peak = 0.0, "memory"
        if dtype is not None and flops:
            peak = _peak_name(operator, dtype, ceiling)
            rate = ceiling.flops_per_second.get(peak)
            if rate is None:
                return Floor(None, why=f"no {peak} peak of {ceiling.name} is known", unknown_peak=True)
            computing = flops / rate
        moving = moved / ceiling.bytes_per_second
        bound[peak if computing > moving else "memory"] += max(computing, moving)  # type: ignore[assignment]
    return Floor(sum(bound.values()), max(bound, key=bound.__getitem__))


def _none(why: str) -> Floor:
    return Floor(None, why=why)


def _peak_name(operator: str, dtype: str, ceiling: Ceiling) -> str:
    """Return the name of the peak that an operator can't exceed.

    A float64 product runs on the tensor cores if they support it. cuDNN computes float32 convolutions and recurrent
    layers in tf32 by default; matmuls use tf32 if the lecture enables it. Fused attention in float32 also uses the tf32
    units, three times for each product (CUTLASS, `OpMultiplyAddFastF32`). A machine that is slow at a narrow dtype may
    widen it, and compute in float32.
    """
    rates = ceiling.flops_per_second
    if dtype.startswith(("float8", "float4")):
        dtype = dtype[:6]
    if dtype == "float64" and "float64_tensor" in rates:
        return "float64_tensor"
    if dtype == "float32" and any(word in operator for word in ("rnn", "attention")) and "tf32" in rates:
        return "tf32"
    if dtype.startswith("tf32"):
        if "tf32" in rates:
            return "tf32"
        dtype = "bfloat16" if dtype == "tf32_or_bfloat16" and "bfloat16" in rates else "float32"
    if dtype in ("float16", "bfloat16") and dtype in rates and rates.get("float32", 0.0) > rates[dtype]:
        return "float32"
    return dtype


def has_work(trace: Trace) -> bool:
    """Return whether a trace records the work of each operator; older traces don't."""
    return any(counted.work for event in trace.steps if isinstance(event, Step) for counted in _counted(event))


def why_no_floors(trace: Trace) -> str | None:
    """Return the reason why a trace has no floors at all; None if it has some."""
    if has_work(trace):
        return None
    ran = any(counted.operators for event in trace.steps if isinstance(event, Step) for counted in _counted(event))
    return NO_WORK if ran else "no torch operator was counted"


def _counted(step: Step) -> Iterable[Counts]:
    return [*([step.meters] if step.meters is not None else []), *(step.measured or ())]


def most_live_bytes(trace: Trace) -> int | None:
    """Return the most bytes of tensors that were alive at once in the run; a lower bound, without workspaces."""
    steps = (event for event in trace.steps if isinstance(event, Step))
    peaks = [step.meters.peak_bytes for step in steps if step.meters is not None]
    return max((peak for peak in peaks if peak is not None), default=None)


def floor_in_words(floor: Floor, at_least: str = "at least ") -> str:
    """Format a floor that is known: at least 1.2 µs, memory."""
    assert floor.seconds is not None
    ns = 1e9 * floor.seconds
    return f"{at_least}{formats.duration(ns)}, {floor.binds}" if ns >= 1 else f"under 1 ns, {floor.binds}"


def fit_in_words(live_bytes: int | None, ceiling: Ceiling) -> str:
    """Report whether the peak of live tensor bytes fits into a machine's memory.

    Makers that sell 40 GB mean up to 40 · 2³⁰ bytes, and error correction and the driver may keep some: torch
    finds 42.5 · 10⁹ on an A100 of 40 GB, 15.8 · 10⁹ on a T4 of 16.
    """
    if live_bytes is None or ceiling.memory_bytes is None:
        return "Unknown, because its memory was not metered"
    alive = formats.byte_size(live_bytes, 3, decimal=True)
    memory = formats.byte_size(ceiling.memory_bytes, 3, decimal=True)
    if live_bytes > ceiling.memory_bytes * 2**30 // 10**9:
        return f"No: {alive} of tensors were alive at once, more than {memory}"
    if live_bytes > LEFT_OVER * ceiling.memory_bytes:
        return f"Hardly: {alive} of tensors were alive at once; a card sold as {memory} may have slightly more or less"
    return f"Its tensors would: at most {alive} of {memory} were alive at once; workspaces are not counted"
