"""The tree of a report: whatever is in it, each of the three writers says."""

from __future__ import annotations

import re
from html import unescape
from io import StringIO

import pytest
from rich.console import Console

from trace_tools.diff.report.html import html
from trace_tools.diff.report.markdown import figure_files, markdown
from trace_tools.diff.report.report import Chart, Grid, Part, Phrase, Report
from trace_tools.diff.report.terminal import terminal
from trace_tools.presentation.charts.svg import embedded

SIDES = Grid("sides", ("one", "two"), [[Phrase("A", "a.yaml", "sideA")], [Phrase("B", "b.yaml", "sideB")]], "Sides")
CHANGES = Grid("changes", ("", "A", "B"), [[Phrase("seed", soft="(so: s)"), Phrase("0"), Phrase("7")]], "Settings")
LEADS = Grid(
    "leads",
    ("where", "what", "A", "B", "how it differs"),
    [[Phrase("l.py:6", "y = x", "first"), Phrase(code="name"), *map(Phrase, ("left", "right", "changed"))]],
    "Differences",
)  # fmt: skip
FIGURES = Grid(
    "side",
    ("", "cpu", "gpu"),
    [[Phrase(code="z = y", soft="line 9", style="strong"), Phrase("2 s"), Phrase("1 s", ratio="× 0.5", style="best")],
     [Phrase(code="u = z"), Phrase("3 s"), Phrase("–", soft="why", style="missing")]],
    "Time",
    rest="4 smaller ones",
)  # fmt: skip
LIST = Grid("list", (), [[Phrase("said in a list")]])
TREE = [
    SIDES,
    Phrase("the headline", style="headline bad"),
    Phrase("a note", style="note"),
    Part("Before", [CHANGES]),
    Part("Matters", [LEADS], "matters"),
    Part("Time", [Phrase("what it means"), FIGURES], "time"),
    Part("Judged", [LIST], "judged", folded=True),
]
SAID = [
    "a.yaml", "sideA", "b.yaml", "sideB", "the headline", "a note", "seed", "(so: s)", "0", "7", "Matters", "l.py:6",
    "first", "y = x", "name", "left", "right", "changed", "Time", "what it means", "z = y", "line 9", "2 s",
    "1 s", "× 0.5", "u = z", "said in a list",
]  # fmt: skip


def written(form: str) -> str:
    report = Report("A *lecture*", ": its report", TREE, ("one", "two"))
    if form == "terminal":
        text = StringIO()
        Console(file=text, width=120).print(terminal(report))
        return text.getvalue()
    if form == "html":
        return unescape(re.sub(r"<[^>]+>", "", html(report).partition("<body>")[2].partition("<script>")[0]))
    return markdown(report)


@pytest.mark.parametrize("form", ["terminal", "html", "md"])
def test_every_form_says_all_that_is_in_the_tree_in_its_order(form: str) -> None:
    text = written(form)
    assert [said for said in SAID if said not in text] == []
    order = [text.rindex(said) for said in ("sideB", "the headline", "a note", "(so: s)", "y = x", "z = y")]
    assert order == sorted(order)
    assert text.rindex("z = y") < text.rindex("said in a list")


def test_the_title_is_the_lectures_in_markdown_and_what_the_report_is() -> None:
    assert written("md").startswith("# A *lecture*: its report\n")
    assert "<h1>A <em>lecture</em>: its report</h1>" in html(Report("A *lecture*", ": its report", TREE))


def test_figures_are_in_the_page_and_beside_the_markdown() -> None:
    drawn = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><path d="M0 0"/></svg>'
    report = Report("l", "", [Part("Figures", [Chart("roofs", "Rooflines", drawn)], "figures")])
    assert embedded(drawn) in html(report) and "![Rooflines](figures/roofs.svg)" in markdown(report)
    assert list(figure_files(report.parts)) == ["figures/roofs.svg"]
