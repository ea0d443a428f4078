"""Reports: each format shows the whole tree, and no text of a trace becomes markup or a terminal command."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from html import unescape
from html.parser import HTMLParser
from io import StringIO

import pytest
from rich.console import Console

from tests.diff.planted import at, differ, made, with_steps
from tests.diff.report_cases import cpu_and_gpu, hostile, planted, terminal_of
from tests.diff.test_compare import LONG, machine_trace, side_by_side
from tests.pages.hostile import hostile_trace
from trace_tools.diff.difference import Difference
from trace_tools.diff.report import difference_report
from trace_tools.diff.report.comparison_report import report_of
from trace_tools.presentation.report import (
    Bar,
    Bars,
    Content,
    Form,
    Grid,
    Part,
    Phrase,
    Report,
    html,
    markdown,
    terminal,
)
from trace_tools.trace.model import Value

LEAD = [Phrase("l.py:6", "y = x", "first"), Phrase(code="name"), *map(Phrase, ("left", "right", "changed"))]
FIGURES = [
    [Phrase(code="z = y", soft="line 9", style="strong"), Phrase("2 s"), Phrase("1 s", ratio="× 0.5", style="best")],
    [Phrase(code="u = z"), Phrase("3 s"), Phrase("–", soft="why", style="missing")],
]
TREE: list[Content] = [
    Grid("sides", ("one", "two"), [[Phrase("A", "a.yaml", "sideA")], [Phrase("B", "b.yaml", "sideB")]], "Sides"),
    Phrase("the headline", style="headline bad"),
    Phrase("a note", style="note"),
    Part(
        "Before", [Grid("changes", ("", "A", "B"), [[Phrase("seed", soft="(so: s)"), Phrase("0"), Phrase("7")]], "-")]
    ),
    Part("Matters", [Grid("leads", ("where", "what", "A", "B", "how it differs"), [LEAD], "Differences")], "matters"),
    Part("Time", [Phrase("its meaning"), Grid("side", ("", "cpu", "gpu"), FIGURES, "Time", rest="4 smaller")], "time"),
    Part("Judged", [Grid("list", (), [[Phrase("said in a list")]])], "judged", folded=True),
]
TEXTS = (
    """a.yaml sideA b.yaml sideB seed (so: 0 7 Matters l.py:6 first name left right changed Time line 2 1 3 × 0.5 ×"""
)
ORDER = ("sideB", "the headline", "a note", "(so: s)", "y = x", "its meaning", "z = y", "u = z", "said in a list")


def written(report: Report, form: Form, width: int = 120) -> str:
    if form == "terminal":
        text = StringIO()
        Console(file=text, width=width).print(terminal(report))
        return text.getvalue()
    return html(report) if form == "html" else markdown(report)


@pytest.mark.parametrize("form", ["terminal", "html", "md"])
def test_every_format_shows_the_whole_tree_in_order(form: Form) -> None:
    text = written(Report("A *lecture*", ": its report", TREE, ("one", "two")), form)
    if form == "html":
        assert "<h1>A <em>lecture</em>: its report</h1>" in text
        text = unescape(re.sub(r"<[^>]+>", "", text.partition("<body>")[2].partition("<script>")[0]))
    assert form != "md" or text.startswith("# A *lecture*: its report\n")
    assert [expected for expected in TEXTS.split() if expected not in text] == []
    order = [text.rindex(expected) for expected in ORDER]
    assert order == sorted(order)


def test_bars_are_text_in_html_and_in_markdown() -> None:
    rows = [
        Bar("A <part>", 1, "2 s", link="#p", is_code=False),
        Bar("f(`x|y`)", 0.5, "1 s", "at 2 FLOP/byte", depth=1),
    ]
    report = Report("l", "", [Part("Figures", [Bars("p-time", "The finding", rows, "A caption")], "figures")])
    page, text = html(report), markdown(report)
    assert '<figure id="figure-p-time"' in page and "<h3>The finding</h3>" in page and "A caption" in page
    assert '<li class="d0"><span><a href="#p">A &lt;part&gt;</a></span>' in page and "<b>2 s</b>" in page
    assert "<code>f(`x|y`)</code> <small>at 2 FLOP/byte</small></span>" in page and 'width="50.0%"' in page
    assert "### The finding\n" in text and "*A caption*" in text
    assert f"| A \\<part\\> | {'█' * 24} | 2 s |\n" in text
    assert f"| &emsp;``f(`x\\|y`)`` at 2 FLOP/byte | {'█' * 12} | 1 s |" in text


@pytest.mark.parametrize("width", [80, 160])
def test_terminal_shows_every_quantity_within_its_width(width: int) -> None:
    comparison = side_by_side(machine_trace("a", LONG), machine_trace("b", [100_000] * 3))
    shown = written(report_of(comparison, "terminal", width=width), "terminal", width)
    assert all(len(line) <= width for line in shown.splitlines())
    for title in ("Time", "Achieved FLOP/s", "MFU", "Bandwidth", "Peak memory", "Measured by the lecture", "Peaks"):
        assert re.search(rf"^{title}\b", shown, re.MULTILINE), title
    assert "● 100 µs  × 0.5" in shown


def test_markdown_tables_have_as_many_cells_as_columns() -> None:
    times = {"a|`x`": 20_000, "b": 10_000, "c": 30_000}
    comparison = side_by_side(*(machine_trace(name, [ns]) for name, ns in times.items()))
    report = report_of(comparison, "md", csv="compare.csv")
    text = markdown(report)
    widths = [len(re.findall(r"(?<!\\)\|", row)) for row in text.splitlines() if row.startswith("|")]
    assert set(widths) == {5, 8}  # quantities of three machines; the table of machines
    assert "● **10 µs** (× 0.5)" in text


# --- hostile traces, and the pages' own policy ----------------------------------------------------


def hostile_machines(form: Form) -> Report:
    other = replace(hostile_trace().machine, name='" onload="window.pwned=1')
    comparison = side_by_side(hostile_trace(), replace(hostile_trace(), machine=other))
    return report_of(comparison, form, everything=True)


@cache
def report(make: Callable[[], Difference] | Callable[[Form], Report], form: Form) -> Report:
    return hostile_machines(form) if make is hostile_machines else difference_report.report_of(make(), form)  # type: ignore[call-arg,arg-type]


def attributes_of(page: str) -> list[tuple[str, str | None]]:
    """Return every attribute of a page, as the standard library's parser reads it."""
    all_attributes: list[tuple[str, str | None]] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: all_attributes.extend(attributes)  # type: ignore[method-assign]
    parser.feed(page)
    return all_attributes


@pytest.mark.parametrize("make", [planted, cpu_and_gpu, hostile, hostile_machines])
def test_page_allows_only_its_own_style_script_and_targets(make: Callable[[], Difference]) -> None:
    page = html(report(make, "html"))
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        [inner] = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        allowed = re.search(rf"{rule} ([^;]+)", policy[1].replace("&#39;", "'"))
        assert allowed is not None and allowed[1] == f"'sha256-{digest}'"
    attributes = attributes_of(page)
    assert not [name for name, _ in attributes if name.startswith("on") or name == "style"]
    links = {value or "" for name, value in attributes if name in ("href", "src", "action")}
    ids = [value for name, value in attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert {link for link in links if not link.startswith("data:image/svg+xml,")} <= {f"#{anchor}" for anchor in ids}


@pytest.mark.parametrize("make", [hostile, hostile_machines])
def test_markdown_and_terminal_escape_hostile_text(make: Callable[[], Difference]) -> None:
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", markdown(report(make, "md")))
    assert not re.search(r"(?<!\\)<(?!br>|/?details>|/?summary>)", outside)
    assert "\x1b" not in written(report(make, "terminal"), "terminal")


def test_terminal_escapes_markup() -> None:
    nasty = "[bold red]x[/]"
    b = with_steps(made(0), at(6, values=[(nasty, Value("str", nasty))]))
    text = terminal_of(differ(made(0), replace(b, versions=[(nasty, nasty)])), everything=True)
    assert nasty in text
