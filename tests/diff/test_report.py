"""Reports: each format shows the whole tree, and no text of a trace becomes markup or a terminal command."""

from __future__ import annotations

import base64
import hashlib
import io
import random
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from html import unescape
from html.parser import HTMLParser
from io import StringIO

import pytest
from rich.console import Console

from tests.diff.plain_tracing import traced
from tests.diff.planted import CPU, at, differ, made, slower, with_steps
from tests.diff.planted import LECTURE as PLANTED
from tests.diff.report_cases import between, hostile, html_of, markdown_of, planted, recorded, terminal_of
from tests.diff.test_compare import LONG, machine_trace, side_by_side
from tests.pages.hostile import hostile_trace
from tests.pretend_gpu import pretend_gpu
from trace_tools.diff.difference import Difference
from trace_tools.diff.judge.times import NARRATES
from trace_tools.diff.report.comparison_report import report_of
from trace_tools.presentation.report import (
    Chart,
    Grid,
    Part,
    Phrase,
    Report,
    figure_files,
    html,
    markdown,
    terminal,
)
from trace_tools.trace.model import Claim, Meters, Step, Trace, Value

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
TEXTS = [
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
def test_every_format_shows_the_whole_tree_in_order(form: str) -> None:
    text = written(form)
    assert [expected for expected in TEXTS if expected not in text] == []
    order = [text.rindex(expected) for expected in ("sideB", "the headline", "a note", "(so: s)", "y = x", "z = y")]
    assert order == sorted(order)
    assert text.rindex("z = y") < text.rindex("said in a list")


def test_title_is_rendered_from_markdown() -> None:
    assert written("md").startswith("# A *lecture*: its report\n")
    assert "<h1>A <em>lecture</em>: its report</h1>" in html(Report("A *lecture*", ": its report", TREE))


def test_figures_are_embedded_in_html_and_linked_in_markdown() -> None:
    drawn = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><path d="M0 0"/></svg>'
    report = Report("l", "", [Part("Figures", [Chart("roofs", "Rooflines", drawn)], "figures")])
    assert drawn in html(report) and "![Rooflines](figures/roofs.svg)" in markdown(report)
    assert list(figure_files(report.parts)) == ["figures/roofs.svg"]


# --- terminal: width and length -------------------------------------------------------------------


@pytest.mark.parametrize("width", [80, 160])
def test_terminal_shows_every_quantity_within_its_width(width: int) -> None:
    console = Console(width=width, record=True, file=io.StringIO())
    comparison = side_by_side(machine_trace("a", LONG), machine_trace("b", [100_000] * 3))
    console.print(terminal(report_of(comparison, "terminal", width=width)))
    shown = console.export_text()
    assert all(len(line) <= width for line in shown.splitlines())
    for title in ("Time", "Achieved FLOP/s", "MFU", "Bandwidth", "Peak memory", "Measured by the lecture", "Peaks"):
        assert len(re.findall(rf"^{title}\b", shown, re.MULTILINE)) >= 1, title
    assert "● 100 µs  × 0.5" in shown


def test_changed_output_is_listed_and_does_not_matter() -> None:
    a, b = (with_steps(made(0), at(9, stdout=text)) for text in ("loss 0.51\n", "loss 0.49\n"))
    text = terminal_of(differ(a, b))
    assert not differ(a, b).matters and "No differences that matter" in text
    assert re.search(r"lecture\.py:9\b.*\n.*printed.*loss 0\.51.*loss 0\.49", text)
    assert "printed" not in terminal_of(differ(a, a)).lower()


def test_times_of_narrative_calls_are_not_judged() -> None:
    lecture = "from trace_tools import text\n" + PLANTED.replace("    y = x + 1\n", "    text('a')\n    y = x + 1\n")

    def recorded(seed: int, factor: float) -> Trace:
        rng = random.Random(seed)

        def change(step: Step) -> Step:
            step_factor = factor if step.line == 7 else 1.0  # the call of `text`
            return replace(step, host_ns=[round(step_factor * 10_000 * rng.lognormvariate(0, 0.02)) for _ in range(3)])

        return with_steps(traced(lecture, machine=CPU), change)

    difference = differ(recorded(0, 1.0), recorded(1, 50.0))
    assert not difference.matters and (NARRATES, 2) in difference.times.not_judged  # the call and the import


def test_terminal_report_is_short_and_starts_with_claims() -> None:
    def wrecked(step: Step) -> Step:
        worse = slower(3.0, step.line)(step)
        values = [(f"v{n}", Value("int", n)) for n in range(9)]
        claim = Claim("y == 2", False, message="no") if step.line == 7 else step.claim
        return replace(worse, claim=claim, values=values, meters=Meters(5, 5, 5, 5, 5))

    base = with_steps(made(0), lambda s: replace(s, values=[(f"v{n}", Value("int", -1)) for n in range(9)]))
    text = terminal_of(differ(base, with_steps(made(1), wrecked)))
    assert len(text.splitlines()) <= 60
    assert text.index("Claims") < text.index("Values") < text.index("Memory") < text.index("Time, ")
    assert "more (--all)" in text
    assert len(terminal_of(differ(base, with_steps(made(1), wrecked)), everything=True)) > 3 * len(text)


def test_changed_settings_and_versions_are_listed() -> None:
    b = replace(made(0), versions=[("torch", "9.9")], run=replace(made(0).run, seed=7))
    text = terminal_of(differ(made(0), b))
    assert "setting: seed 0 → 7; version: python 3.11.7 → –; version: torch 2.13.0 → 9.9" in text.replace("\n", " ")


def test_terminal_escapes_hostile_text() -> None:
    nasty = "[bold red]x[/]\x1b[2J\u202e"
    b = with_steps(made(0), at(6, values=[(nasty, Value("str", nasty))]))
    text = terminal_of(differ(made(0), replace(b, versions=[(nasty, nasty)])), everything=True)
    assert "[bold red]x[/]" in text and "\x1b" not in text and "\u202e" not in text


# --- Markdown -------------------------------------------------------------------------------------


def test_markdown_escapes_hostile_text() -> None:
    text = markdown_of(hostile())
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
    assert not re.search(r"(?<!\\)<(?!br>|/?details>|/?summary>)", outside)


def test_markdown_tables_have_as_many_cells_as_columns() -> None:
    comparison = side_by_side(
        machine_trace("a|`x`", [20_000]), machine_trace("b", [10_000]), machine_trace("c", [30_000])
    )
    report = report_of(comparison, "md", csv="compare.csv")
    text, files = markdown(report), figure_files(report.parts)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    widths = [len(re.findall(r"(?<!\\)\|", row)) for row in rows]
    assert set(widths) == {5, 8}  # quantities of three machines; the table of machines
    assert "● **10 µs** (× 0.5)" in text
    assert set(re.findall(r"\]\((figures/[^)]+)\)", text)) == set(files)
    assert "figures/" not in markdown(report_of(comparison, "md"))  # a report on stdout has no files


# --- pages: their own style and script, and targets of links --------------------------------------


def cpu_and_gpu() -> Difference:
    cpu = recorded()
    return between(cpu, pretend_gpu(cpu))


@cache
def page_of(make: Callable[[], Difference]) -> str:
    return html_of(make())


def attributes_of(page: str) -> list[tuple[str, str | None]]:
    """Return every attribute of a page, as the standard library's parser reads it."""
    all_attributes: list[tuple[str, str | None]] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: all_attributes.extend(attributes)  # type: ignore[method-assign]
    parser.feed(page)
    return all_attributes


@pytest.mark.parametrize("make", [planted, hostile])
def test_page_allows_only_its_own_style_and_script(make: Callable[[], Difference]) -> None:
    page = page_of(make)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        [inner] = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        allowed = re.search(rf"{rule} ([^;]+)", policy[1].replace("&#39;", "'"))
        assert allowed is not None and allowed[1] == f"'sha256-{digest}'"
    attributes = attributes_of(page)
    assert not [name for name, _ in attributes if name.startswith("on") or name == "style"]
    links = [value or "" for name, value in attributes if name in ("href", "src", "action")]
    assert all(link.startswith("#") or link.startswith("data:image/svg+xml,") for link in links)


@pytest.mark.parametrize("make", [planted, cpu_and_gpu])
def test_every_link_of_a_page_has_a_target(make: Callable[[], Difference]) -> None:
    page = page_of(make)
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)


def test_hostile_traces_inject_nothing_into_comparison_reports() -> None:
    hostile = hostile_trace()
    other = replace(hostile, machine=replace(hostile.machine, slug='" onload="window.pwned=1'))
    comparison = side_by_side(hostile, other)
    page = html(report_of(comparison, "html"))
    assert re.findall(r"<script\b", page) == ["<script"]
    attribute_names: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: attribute_names.extend(n for n, _ in attributes)  # type: ignore[method-assign]
    parser.feed(page)
    assert not [name for name in attribute_names if name.startswith("on") or name == "style"]
    text = markdown(report_of(comparison, "md"))
    assert not re.search(r"(?<!\\)<(?!br>|/?details>|/?summary>)", re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text))
    Console(file=io.StringIO(), width=100).print(terminal(report_of(comparison, "terminal", everything=True)))
