"""The index pages of a machine and of the site: their figures, claims and links."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cases_in_one import each
from tests.pages.lectures import LECTURE, failing, first_section, lecture
from tests.pages.recording import Recording, of_section
from tests.pages.written import Page, html_pages
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.overview import MachineRow, opening
from trace_tools.pages.site import SiteTrace, render_site
from trace_tools.trace.model import Claim, Machine, Peak, Process, Raised, Run, Text, Trace, Value

PEAKS = [
    Peak("float32", 219e9, "measured: best of 3"),
    Peak("bfloat16", 880e9, "a datasheet"),
    Peak("int8", 9e15, "a datasheet"),
    Peak("memory", 40e9, "measured: copies"),
    Peak("float8", None, "not in the table"),
]


def traced(claims: int = 3, held: bool = True, **changes: object) -> Trace:
    """Return the trace of a lecture with one section and `claims` claims."""
    recording, f = of_section("\n".join(f"assert x{n} < {n}" for n in range(claims)) or "pass")
    for n in range(claims):
        sides = [(f"x{n}", Value("int", n - 1)), (str(n), Value("int", n))]
        recording.step(f, f"assert x{n} <", claim=Claim(f"x{n} < {n}", held or n > 0, sides))
    if not claims:
        recording.step(f, "pass")
    run = Run("lecture.py", "2025-01-31T12:00:00Z", 0, 3, 100, complete=True)
    run = replace(run, processes=[Process("pass 1", "complete", cold_ns=9_000_000_000, warm_ns=7_000_000_000)])
    machine = Machine("A processor", "cpu", "cpu", peaks=PEAKS)
    return recording.trace(**{"run": run, "machine": machine} | changes)


def test_the_index_has_the_time_of_the_lecture_and_the_ridge_point() -> None:
    cpu = html_pages(traced())["index"]
    assert fact(cpu, "whole lecture") == "7 s; the first run 9 s"
    assert fact(cpu, "ridge point of float32") == "5.47 FLOP/B"  # 219 / 40
    gpu = html_pages(traced(machine=Machine("A GPU", "gpu", "cuda", peaks=PEAKS)))["index"]
    assert fact(gpu, "ridge point of bfloat16") == "22 FLOP/B"  # 880 / 40
    unknown = html_pages(traced(0, machine=Machine("A processor", "cpu", "cpu", peaks=PEAKS[-1:])))["index"]
    assert "ridge point" not in unknown


def fact(page: str, name: str) -> str:
    return page.partition(f'<th scope="row">{name}</th><td>')[2].partition("</td>")[0]


def test_facts_that_are_missing_or_add_nothing_are_left_out() -> None:
    row = MachineRow("Mine", "here", make_document(lecture().trace()))
    assert [cell.text for cell in row.cells][2:5] == ["not measured", "", "torch 2.13.0"] and not row.notes
    # the sides of a held equation
    assert "<code>x.sum() == 6</code></li>" in html_pages(lecture().trace())["index"]


def test_narrative_of_main_is_on_the_index_instead_of_a_page_for_code() -> None:
    recording, f = of_section("g()")
    recording.step(f, "g()")
    recording.step(0, "f()", narrative=[Text(text="Welcome.")])
    pages = html_pages(recording.trace())
    assert pages["setup"] == "" and "setup.html" not in pages["index"]
    assert "Welcome." in Page(pages["index"]).text("main")


def test_a_failure_outside_the_sections_is_on_the_index() -> None:
    recording = Recording("import nothing\n\ndef main():\n    f()\n")
    recording.step(recording.frame("<module>"), "import nothing", raised=Raised("ImportError", "no", origin_line=1))
    run = Run("lecture.py", "2025", 0, 3, 100, complete=False, ended="ImportError at line 1")
    index = html_pages(recording.trace(run=run))["index"]
    assert 'Code outside the sections failed. <a href="setup.html#L1">' in index


def test_the_site_lists_machines_with_their_figures_and_dates(tmp_path: Path) -> None:
    other = replace(failing().trace(), machine=Machine("NVIDIA H200", "nvidia-h200", "cuda"))
    plain = traced(1, versions=[("python", "3.12.1"), ("numpy", "2.4.6")])
    (tmp_path / "diff").mkdir()
    (tmp_path / "diff" / "index.html").write_text("a report")
    site = [SiteTrace(traced(), "cpu"), SiteTrace(other, "h200", LECTURE), SiteTrace(plain, "cpu-one-thread")]
    render_site(site, tmp_path)
    text, markdown = (tmp_path / "index.html").read_text(), (tmp_path / "index.md").read_text()
    cells = {text for tag, text in Page(text).texts if tag in ("td", "th")}
    assert {"3 ✓", "1 ✓", "7 s", "219 GFLOP/s float32, 40 GB/s memory", "3", "2025-01-31"} <= cells
    assert {"torch 2.13.0", "python 3.12.1", "A processor (cpu)", "A processor (cpu-one-thread)"} <= cells
    assert '<a href="diff/index.html">Differences between the machines</a>' in text
    assert "| python 3.12.1 | 3 |" in markdown
    render_site([SiteTrace(plain, "cpu-one-thread")], tmp_path)
    text, markdown = (tmp_path / "index.html").read_text(), (tmp_path / "index.md").read_text()
    assert "| python 3.12.1 | 3 |" in markdown and "torch" not in text + markdown


@each(
    ("texts", "expected"),
    [
        (["## Heading\n\nIt is *so*. And more."], "It is *so*."),
        (["## Heading", "| a |\n|---|\n| 1 |", "- An item\n- another"], "An item"),
        (["## Heading"], ""),
        (
            ['[A+ 2025](https://a.example "Title. Of it.")\n\nSee [A](https://a.example "Title. Of it.") now. Yes.'],
            "See A now.",
        ),
    ],
)
def test_opening_words_are_the_first_sentence_of_prose(texts: list[str], expected: str) -> None:
    recording, f = of_section("text('')")
    recording.step(f, "text(", narrative=[Text(text=text) for text in texts])
    assert opening(first_section(recording.trace())) == expected


@pytest.mark.filterwarnings("ignore:invalid escape sequence")
def test_formulas_in_titles_and_first_sentences_are_rendered(tmp_path: Path) -> None:
    main = "def main():\n    '''Main\n\n    You can prove $a^2 + b^2 = c^2$.\n    '''\n    f()\n"
    f = "def f():\n    '''Squares $x^2$ [there](https://example.org)'''\n    text(told)\n"
    recording = Recording(f"'''Sums $\\sum_i x_i$'''\n{main}\n{f}")
    prose = "It costs $\\frac{n}{2}$ steps & more. A second sentence."
    recording.step(recording.call(recording.frame("main"), "f()", "f"), "text(told)", narrative=[Text(text=prose)])
    render_site([SiteTrace(recording.trace(title="Sums $\\sum_i x_i$"), "cpu")], tmp_path)
    for page in ("index.html", "cpu/index.html", "cpu/00-f.html"):
        body = (tmp_path / page).read_text().partition("<body>")[2]
        assert "$" not in re.sub(r"<script.*?</script>|<svg.*?</svg>", "", body, flags=re.DOTALL)
        assert "<msup>" in body and ("<munder>" in body or "<msub>" in body)
        assert not re.search(r"<a [^>]*>(?:(?!</a>).)*<a ", body, re.DOTALL)  # no link inside another link
    text, markdown = (tmp_path / "index.html").read_text(), (tmp_path / "index.md").read_text()
    assert re.search(r"It costs <math.*?<mfrac>.*?</math> steps &amp; more\.</p>", text)
    assert "[0 Squares $x^2$" in markdown and "$\\frac{n}{2}$" in markdown
