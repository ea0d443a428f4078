"""Write a folder of reports on several machines: the comparison as pages and CSV, and each machine against the base.

report_files(comparison, home="../index.html").keys()
# index.html, index.md, compare.csv, figures/roofs.svg, cpu-to-cpu-one-thread.html, cpu-to-cpu-one-thread.md, …
"""

from __future__ import annotations

import re
from pathlib import Path, PurePath

from trace_tools.diff.compare import Comparison
from trace_tools.diff.report import comparison_report, difference_report
from trace_tools.diff.report.comparison_report import csv_text
from trace_tools.presentation.report import figure_files, html, markdown
from trace_tools.util.files import update_folder
from trace_tools.util.interpreter import collector_paused

CSV = "compare.csv"
PAIR = re.compile(r"\w[\w.-]*-to-[\w.-]+\.(?:html|md)")


@collector_paused()
def report_files(comparison: Comparison, home: str | None) -> dict[str, bytes]:
    """Return the files of a folder of reports by name; `home` is the index of the site they belong to."""
    base, *others = comparison.sides
    folder = PurePath(base.name).parent.name  # of its pages, in the site
    pages = f"../{folder}/" if home is not None and folder else None
    texts: dict[str, str] = {}
    names = [f"{_plain(base.label)}-to-{_plain(other.label)}" for other in others]
    for name, difference in zip(names, comparison.differences, strict=True):
        texts[f"{name}.html"] = html(difference_report.report_of(difference, "html", site="index.html"), home, pages)
        texts[f"{name}.md"] = markdown(difference_report.report_of(difference, "md"))
    page, text = (
        comparison_report.report_of(comparison, form, csv=CSV, links=[f"{name}.{form}" for name in names])
        for form in ("html", "md")
    )
    texts |= {
        "index.html": html(page, home, pages),
        "index.md": markdown(text),
        CSV: csv_text(comparison),
    }
    return {**{name: content.encode("utf-8") for name, content in texts.items()}, **figure_files(text.parts)}


def write_reports(folder: Path, comparison: Comparison, home: str | None) -> None:
    """Write these reports to a folder and remove those of machines that are gone.

    Raises UsageError if that fails.
    """
    update_folder(folder, report_files(comparison, home), PAIR)


def _plain(label: str) -> str:
    """Return a machine's label in a form that is valid as a file name."""
    return re.sub(r"[^\w.-]+", "-", label).strip("-") or "machine"
