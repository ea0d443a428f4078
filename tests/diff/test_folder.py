"""Folders of reports: their files, their links, and equal bytes from equal traces."""

from __future__ import annotations

import re

from tests.diff.test_compare import LONG, machine_trace, side_by_side
from trace_tools.diff.report.comparison_report import PAIR, report_files


def test_every_machine_has_a_linked_report_against_the_base() -> None:
    comparison = side_by_side(machine_trace("c", LONG), machine_trace("a b", LONG), machine_trace("d", LONG))
    files = report_files(comparison, "../index.html")
    pairs = {f"c-to-{name}.{form}" for name in ("a-b", "d") for form in ("html", "md")}
    assert {name for name in files if PAIR.fullmatch(name)} == pairs
    assert set(files) - pairs >= {"index.html", "index.md", "compare.csv", "figures/roofs.svg"}
    for name, form in (("index.html", "html"), ("index.md", "md")):
        linked = set(re.findall(r'(?:href="|\]\()([^"#)]+)', files[name].decode()))
        assert {pair for pair in pairs if pair.endswith(form)} | {"compare.csv"} <= linked
        assert {link for link in linked if not link.startswith(("../", "data:"))} <= set(files)
    assert b'href="index.html"' in files["c-to-d.html"] and b'href="../index.html"' in files["c-to-d.html"]
    assert report_files(comparison, "../index.html") == files
