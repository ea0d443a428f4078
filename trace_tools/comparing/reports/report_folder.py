"""Machines side by side → a folder of reports: the comparison as pages and CSV, and each machine against the base."""

from __future__ import annotations

import re
from pathlib import Path

from trace_tools.comparing.compare import Comparison
from trace_tools.comparing.reports.compare_html import comparison_page
from trace_tools.comparing.reports.compare_markdown import comparison_markdown
from trace_tools.comparing.reports.compare_text import csv_text
from trace_tools.comparing.reports.pairs import Beside, pair_reports
from trace_tools.files import update_folder

CSV = "compare.csv"
PAIR = re.compile(r"\w[\w.-]*-to-[\w.-]+\.(?:html|md)")


def report_files(comparison: Comparison, home: str | None) -> dict[str, bytes]:
    """Return the files of a folder of reports by name: the machines side by side, and each against the base."""
    pairs = pair_reports(comparison, home)
    beside = Beside(CSV, pairs, home)
    text, figures = comparison_markdown(comparison, beside)
    pages = {"index.md": text, "index.html": comparison_page(comparison, beside), CSV: csv_text(comparison)}
    own = {name: page.encode("utf-8") for name, page in pages.items()}
    return {**own, **figures, **{name: page for pair in pairs for name, page in pair.files.items()}}


def write_reports(folder: Path, comparison: Comparison, home: str | None) -> None:
    """Make a folder hold these reports; those of machines that are gone are removed.

    Raises UsageError where that can't be done.
    """
    update_folder(folder, report_files(comparison, home), PAIR)
