"""Compute the least time for counted operators on a known machine, from its datasheet.

    h100 = known_machine("NVIDIA H100 80GB HBM3")
    floor_of(step, h100)     # Floor(seconds=1.2e-06, binds="memory")

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
from collections.abc import Mapping
from dataclasses import dataclass

from trace_tools.machines.peaks import KnownMachine
from trace_tools.trace.model import Step
from trace_tools.util import formats


@dataclass(frozen=True, slots=True)
class Floor:
    """The least seconds for a step's operators on a machine, and the roof that accounts for most of them.

    The roof is "memory" or the name of a peak. If the machine has no peak of a dtype, `seconds` is None, and `roof`
    names that peak.
    """

    seconds: float | None
    roof: str


def floor_of(step: Step, machine: KnownMachine) -> Floor | None:
    """Return the floor of a step, or of the one call that it measured, to match `rates.timing_of`.

    None if the work is unknown: it was not counted, not all of it has a formula, or it is that of several measurements.
    """
    counted = step.measured[0] if step.measured and len(step.measured) == 1 else step.meters
    if counted is None or not counted.work or counted.uncounted:
        return None
    if len(step.measured or ()) > 1 or (step.harness and not step.measured):
        return None
    bound: Counter[str] = Counter()
    for operator, dtype, flops, moved in counted.work:
        computing, roof = 0.0, "memory"
        if dtype is not None and flops:
            roof = _peak_name(operator, dtype, machine.flops_per_second)
            if roof not in machine.flops_per_second:
                return Floor(None, roof)
            computing = flops / machine.flops_per_second[roof]
        moving = moved / machine.bytes_per_second
        bound[roof if computing > moving else "memory"] += max(computing, moving)  # type: ignore[assignment]
    return Floor(sum(bound.values()), max(bound, key=bound.__getitem__))


def _peak_name(operator: str, dtype: str, rates: Mapping[str, float]) -> str:
    """Return the name of the peak that an operator can't exceed.

    A float64 product runs on the tensor cores if they support it. cuDNN computes float32 convolutions and recurrent
    layers in tf32 by default; matmuls use tf32 if the lecture enables it. Fused attention in float32 also uses the tf32
    units, three times for each product (CUTLASS, `OpMultiplyAddFastF32`). A machine that is slow at a narrow dtype may
    widen it, and compute in float32.
    """
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


def floor_in_words(floor: Floor, at_least: str = "at least ") -> str:
    """Format a floor that is known: at least 1.2 µs, memory."""
    assert floor.seconds is not None
    ns = 1e9 * floor.seconds
    return f"{at_least}{formats.duration(ns)}, {floor.roof}" if ns >= 1 else f"under 1 ns, {floor.roof}"
