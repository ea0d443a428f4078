"""A machine and what was measured on it → its roof, ready to be drawn.

roof_of("nvidia-h200", machine, points)      Roof("nvidia-h200", (("bfloat16", 9.9e14),), 4.8e12, (…))
"""

from __future__ import annotations

from collections.abc import Sequence

from trace_tools.comparing.charts import Roof, RoofPoint
from trace_tools.comparing.measured import RATE, Measured
from trace_tools.rendering.observe import peak_of
from trace_tools.schema import Machine


def has_place(m: Measured) -> bool:
    """Whether a step has a place under the roof: the author asked about it, and it was timed and counted."""
    return m.keyed.step.annotated and m.intensity is not None and bool(m.readings[RATE.key].value)


def roof_of(label: str, machine: Machine, points: Sequence[Measured]) -> Roof:
    """Return a machine's roof: the peaks that its steps were measured against, and its highest."""
    used = {m.dtype for m in points}
    known = [(p.name, p.per_second) for p in machine.peaks if p.per_second and p.name != "memory"]
    rates = [(name, rate) for name, rate in known if not name.startswith("int")]
    highest = max(rates, key=lambda peak: peak[1], default=None)
    memory = peak_of(machine, "memory")
    places = [
        RoofPoint(m.intensity, rate, m.keyed.code)
        for m in points
        if (rate := m.readings[RATE.key].value) and m.intensity is not None
    ]
    shown = tuple(peak for peak in rates if peak[0] in used or peak == highest)
    return Roof(label, shown, memory.per_second if memory else None, tuple(places))
