"""A machine and what was measured on it → its roof, ready to be drawn.

roof_of("nvidia-h200", machine, points)      Roof("nvidia-h200", (("bfloat16", 9.9e14),), 4.8e12, (…))
"""

from __future__ import annotations

from collections.abc import Sequence

from trace_tools.comparing.judging.measured import RATE, Measured
from trace_tools.rendering.charts import roofline
from trace_tools.rendering.charts.roofline import Roof, RoofPoint
from trace_tools.schema import Machine


def has_place(m: Measured) -> bool:
    """Whether a step has a place under the roof: the author asked about it, and it was timed and counted."""
    return m.keyed.step.annotated and m.intensity is not None and bool(m.readings[RATE.key].value)


def roof_of(label: str, machine: Machine, points: Sequence[Measured]) -> Roof:
    """Return a machine's roof over the steps that were measured under it."""
    places = [
        RoofPoint(m.intensity, rate, m.keyed.code, dtype=m.dtype)
        for m in points
        if (rate := m.readings[RATE.key].value) and m.intensity is not None
    ]
    return roofline.roof_of(label, machine, places)
