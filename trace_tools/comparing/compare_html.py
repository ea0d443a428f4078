"""A comparison → an HTML page that needs nothing but itself.

comparison_page(comparison, csv_name="compare.csv")     "<!doctype html>…"
"""

from __future__ import annotations

from markupsafe import Markup

from trace_tools.comparing.compare import Comparison
from trace_tools.comparing.compare_text import MACHINE_COLUMNS, bar_figures, intro, machine_facts, roofline_figure
from trace_tools.comparing.page import Home, render


def comparison_page(comparison: Comparison, csv_name: str | None = None, home: str | None = None) -> str:
    """Return the page; `csv_name` lies beside it, `home` is the index of the site it belongs to."""
    roofs = roofline_figure(comparison)
    contents = [("machines", "Machines")] + [("rooflines", "Rooflines")] * (roofs is not None) + [("peaks", "Peaks")]
    contents += [(table.quantity.key, table.quantity.title) for table in comparison.tables]
    contents += [("values", "Measured by the lecture")] * bool(comparison.values)
    return render(
        "compare.html.j2",
        page=Home(home or "#text"),
        comparison=comparison,
        contents=contents,
        intro=intro(comparison),
        csv=csv_name,
        machines=machine_facts(comparison),
        columns=MACHINE_COLUMNS,
        roofs=None if roofs is None else Markup(roofs),
        bars=[(name, title, Markup(drawn)) for name, title, drawn in bar_figures(comparison)],
    )
