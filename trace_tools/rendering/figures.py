"""What a lecture plots → SVG: its own drawing, cleaned, or its numbers, drawn.

    figure(narrative, "fig3")     '<svg role="img" …><title>Loss</title>…</svg>'

The same numbers give the same bytes.
"""

from __future__ import annotations

import math

from trace_tools import formats
from trace_tools.rendering.charts import svg
from trace_tools.rendering.charts.plot import SERIES, height, plot
from trace_tools.schema import Narrative


def figure(told: Narrative, prefix: str) -> str | None:
    """Return a plot as safe inline SVG whose ids begin with `prefix`; None when there is nothing to draw."""
    title = told.title or " against ".join(label for label in (told.y_label, told.x_label) if label) or "Figure"
    words = describe(told)
    return svg.clean(told.svg, prefix, title, words) if told.svg else plot(told, prefix, title, words)


def describe(told: Narrative) -> str:
    """Say in words what a plot shows, for who can't see it."""
    axes = [f"{name}: {label}" for name, label in (("across", told.x_label), ("up", told.y_label)) if label]
    parts = [", ".join(axes)] if axes else []
    for series in (told.series or [])[:SERIES]:
        heights = [y for y in map(height, series.y) if math.isfinite(y)]
        if heights:
            low, high = formats.number(min(heights), 4), formats.number(max(heights), 4)
            name = formats.one_line(series.name, 60)
            parts.append(f"{name}: {formats.plural(len(series.y), 'value')} from {low} to {high}")
    return ". ".join(parts) + "." if parts else "A drawing."
