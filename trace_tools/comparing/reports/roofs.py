"""A machine and what was measured on it → its roof, ready to be drawn.

roof_of("nvidia-h200", machine, [("y = x @ w", cell)])      Roof("nvidia-h200", (("bfloat16", 9.9e14),), 4.8e12, (…))
"""

from __future__ import annotations

from collections.abc import Iterable

from trace_tools.comparing.compare import Cell
from trace_tools.rendering.charts import roofline
from trace_tools.rendering.charts.roofline import Roof, RoofPoint
from trace_tools.schema import Machine


def roof_of(label: str, machine: Machine, rates: Iterable[tuple[str, Cell]]) -> Roof:
    """Return a machine's roof over the rates of arithmetic that steps achieved, each with its code."""
    points = [
        RoofPoint(cell.intensity, cell.value, code, dtype=cell.dtype)
        for code, cell in rates
        if cell.value and cell.intensity is not None
    ]
    return roofline.roof_of(label, machine, points)
