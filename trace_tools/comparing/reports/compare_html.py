"""A comparison → an HTML page that needs nothing but itself.

comparison_page(comparison, Beside(csv_name="compare.csv"))     "<!doctype html>…"
"""

from __future__ import annotations

from markupsafe import Markup

from trace_tools.comparing.compare import Comparison
from trace_tools.comparing.reports.compare_text import (
    MACHINE_COLUMNS,
    bar_figures,
    intro,
    machine_facts,
    roofline_figure,
)
from trace_tools.comparing.reports.page import Home, render
from trace_tools.comparing.reports.pairs import ALONE, Beside


def comparison_page(comparison: Comparison, beside: Beside = ALONE) -> str:
    """Return the page."""
    roofs = roofline_figure(comparison)
    contents = [("machines", "Machines")] + [("pairs", "Step by step")] * bool(beside.pairs)
    contents += [("rooflines", "Rooflines")] * (roofs is not None) + [("peaks", "Peaks")]
    contents += [(table.quantity.key, table.quantity.title) for table in comparison.tables]
    contents += [("values", "Measured by the lecture")] * bool(comparison.values)
    return render(
        "compare.html.j2",
        page=Home(beside.home or "#text"),
        comparison=comparison,
        contents=contents,
        intro=intro(comparison),
        csv=beside.csv_name,
        pairs=beside.pairs,
        machines=machine_facts(comparison),
        columns=MACHINE_COLUMNS,
        roofs=None if roofs is None else Markup(roofs),
        bars=[(name, title, Markup(drawn)) for name, title, drawn in bar_figures(comparison)],
    )
