"""The indexes of a machine and of the site: what they say first, what they fold, where their links lead."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.pages.recording import Recording
from tests.pages.test_compose import LECTURE, failing, lecture
from tests.pages.test_html import Page, site_context
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.html import HtmlWriter
from trace_tools.pages.overview import MachineRow, claim_lists, claim_texts, key_figures, opening_words
from trace_tools.pages.site import SiteTrace, render_site
from trace_tools.presentation.charts.roofline import roof_of
from trace_tools.trace.model import Claim, Machine, Peak, Process, Raised, Run, Text, Trace, Value

PEAKS = [
    Peak("float32", 219e9, "measured: best of 3"),
    Peak("bfloat16", 880e9, "a datasheet"),
    Peak("int8", 9e15, "a datasheet"),
    Peak("memory", 40e9, "measured: copies"),
    Peak("float8", None, "not in the table"),
]


def traced(claims: int = 3, held: bool = True) -> Trace:
    """Return a lecture of one section with so many claims."""
    made = Recording(
        "def main():\n    f()\n\ndef f():\n    g()\n" + "".join(f"    assert x{n} < {n}\n" for n in range(claims))
    )
    f = made.call(made.frame("main"), "f()", "f")
    for n in range(claims):
        sides = [(f"x{n}", Value("int", n - 1)), (str(n), Value("int", n))]
        made.step(f, f"assert x{n} <", claim=Claim(f"x{n} < {n}", held or n > 0, sides))
    run = Run("lecture.py", "2025-01-31T12:00:00Z", 0, 3, 100, complete=True)
    run = replace(run, processes=[Process("pass 1", "complete", cold_ns=9_000_000_000, warm_ns=7_000_000_000)])
    return made.trace(run=run, machine=Machine("A processor", "cpu", "cpu", peaks=PEAKS))


def index(trace: Trace) -> str:
    return HtmlWriter(make_document(trace), site_context()).index()


def test_the_index_says_first_what_a_reader_asks_first() -> None:
    figures = list(key_figures(make_document(traced())))
    assert [(figure.value, figure.label, figure.note) for figure in figures] == [
        ("3", "claims, all hold", "3 derived"),
        ("7 s", "for the whole lecture", "9 s in the first run"),
        ("3", "steps in 1 section", ""),
        ("219 GFLOP/s", "float32, peak", "measured: best of 3"),
        ("40 GB/s", "memory, peak", "measured: copies"),
        ("5.47 FLOP/B", "ridge point", "float32 peak ÷ memory bandwidth"),  # 219 / 40
    ]
    failed = next(key_figures(make_document(traced(held=False))))
    assert (failed.value, failed.label, failed.bad) == ("1", "of 3 claims failed", True)


def test_a_device_leads_with_bfloat16_and_every_figure_with_the_same_peak() -> None:
    trace = traced()
    for device, leading in (("cpu", "float32"), ("cuda", "bfloat16")):
        machine = Machine("A machine", "machine", device, peaks=PEAKS)
        *_, compute, _, meet = list(key_figures(make_document(replace(trace, machine=machine))))
        [(drawn, at_most)] = roof_of("here", machine, ()).peaks
        assert drawn == leading and compute.label == f"{leading}, peak"
        assert meet.note == f"{leading} peak ÷ memory bandwidth"
        assert meet.value == f"{at_most / 40e9:.3g} FLOP/B"


def test_what_nobody_knows_is_no_figure() -> None:
    bare = replace(traced(0), machine=Machine("A processor", "cpu", "cpu", peaks=PEAKS[-1:]))
    assert [figure.label for figure in list(key_figures(make_document(bare)))] == [
        "for the whole lecture",
        "steps in 1 section",
    ]


def test_claims_are_folded_by_section_and_link_to_their_lines() -> None:
    text = index(traced())
    page = Page(text)
    assert '<details class="claimed" id="claims-00-f">' in text and 'href="#claims-00-f"' in text
    assert '<a href="00-f.html#L6">6</a> <code>x0 &lt; 0</code> <small>derived</small> <span>-1 &lt; 0</span>' in text
    assert page.text("claimed").startswith("0 F 3 ✓")
    assert '<details class="claimed" id="claims-00-f" open>' in index(traced(held=False))


def test_an_equation_that_held_is_not_said_twice() -> None:
    [section] = claim_lists(make_document(lecture().trace()))
    assert [claim_texts(line)[::2] for line in section.claims] == [("x.sum() == 6", False)]


@pytest.mark.slow
def test_two_thousand_claims_fit_into_an_index() -> None:
    assert len(index(traced(2_000)).encode()) < 400_000


def test_the_code_around_the_sections_has_a_page_of_its_own() -> None:
    writer = HtmlWriter(make_document(lecture().trace()), site_context())
    setup = writer.setup() or ""
    assert "WIDTH" in setup and 'aria-current="page"><span class="no"></span><span>Code outside' in setup
    assert "WIDTH" not in Page(writer.index()).text("main") and 'href="setup.html"' in writer.index()
    spoken = Recording("def main():\n    f()\n\ndef f():\n    g()\n")
    main = spoken.frame("main")
    spoken.step(spoken.call(main, "f()", "f"), "g()")
    spoken.step(main, "f()", narrative=[Text(text="Welcome.")])
    writer = HtmlWriter(make_document(spoken.trace()), site_context())
    assert writer.setup() is None and "Welcome." in Page(writer.index()).text("main")
    assert "setup.html" not in writer.index()


def test_a_module_that_fails_is_announced_on_the_index() -> None:
    made = Recording("import nothing\n\ndef main():\n    f()\n")
    made.step(made.frame("<module>"), "import nothing", raised=Raised("ImportError", "no", origin_line=1))
    run = Run("lecture.py", "2025", 0, 3, 100, complete=False, ended="ImportError at line 1")
    assert 'Code outside the sections failed. <a href="setup.html#L1">' in index(made.trace(run=run))


def test_the_contents_count_claims_under_each_heading() -> None:
    made = Recording(
        "def main():\n    f()\n\ndef f():\n    a()\n    assert a\n    b()\n    assert b\n    assert c\n    d()\n"
    )
    f = made.call(made.frame("main"), "f()", "f")
    made.step(f, "a()", narrative=[Text(text="## First")])
    made.step(f, "assert a", claim=Claim("a", True, []))
    made.step(f, "b()", narrative=[Text(text="## Second\n\nText.\n\n#### Deep")])
    made.step(f, "assert b", claim=Claim("b", True, []))
    made.step(f, "assert c", claim=Claim("c", False, []))
    made.step(f, "d()", narrative=[Text(text="### Third")])
    [section] = make_document(made.trace()).sections
    found = [(line.text, line.level, line.held, line.failed) for line in section.headings if line.level <= 3]
    assert found == [("First", 2, 1, 0), ("Second", 2, 1, 1), ("Third", 3, 0, 0)]


def test_the_site_lists_machines_with_their_figures_and_dates(tmp_path: Path) -> None:
    other = replace(failing().trace(), machine=Machine("NVIDIA H200", "nvidia-h200", "cuda"))
    (tmp_path / "diff").mkdir()
    (tmp_path / "diff" / "index.html").write_text("a report")
    render_site([SiteTrace(traced(), "cpu"), SiteTrace(other, "h200", LECTURE)], tmp_path)
    text = (tmp_path / "index.html").read_text()
    page = Page(text)
    assert "traced 2025-01-31 · torch 2.13.0 · 3 passes" in page.text("meta")
    for said in ("3 claims, all hold", "7 s for the whole lecture", "219 GFLOP/s float32", "40 GB/s memory"):
        assert said in page.text("figures")
    assert '<a href="diff/index.html">Differences between the machines</a>' in text and "compare/" not in text
    assert '<a class="count" href="cpu/00-f.html"><span class="hidden">F on A processor: </span>' in text


def test_without_torch_the_site_says_which_python_ran(tmp_path: Path) -> None:
    plain = replace(traced(), versions=[("python", "3.12.1"), ("numpy", "2.4.6")])
    render_site([SiteTrace(plain, "cpu")], tmp_path)
    page, text = (tmp_path / "index.html").read_text(), (tmp_path / "index.md").read_text()
    assert "traced 2025-01-31 · python 3.12.1 · 3 passes" in Page(page).text("meta") and "torch" not in page + text
    assert "| machine | python | passes |" in text and "| 3.12.1 | 3 |" in text
    render_site([SiteTrace(plain, "cpu"), SiteTrace(traced(), "gpu")], tmp_path)
    text = (tmp_path / "index.md").read_text()
    assert "| machine | with | passes |" in text and "| python 3.12.1 | 3 |" in text and "| torch 2.13.0 | 3 |" in text


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (["## Heading\n\nIt is *so*. And more."], "It is so."),
        (["## Heading", "| a |\n|---|\n| 1 |", "- An item\n- another"], "An item"),
        (["## Heading"], ""),
    ],
)
def test_a_section_is_announced_by_its_first_sentence(told: list[str], words: str) -> None:
    made = Recording("def main():\n    f()\n\ndef f():\n    text('')\n")
    f = made.call(made.frame("main"), "f()", "f")
    made.step(f, "text(", narrative=[Text(text=text) for text in told])
    assert opening_words(make_document(made.trace()).sections[0]) == words


def test_one_claim_is_not_several(tmp_path: Path) -> None:
    for held, said in ((True, "1 claim, it holds"), (False, "1 of 1 claim failed")):
        render_site([SiteTrace(traced(1, held), "cpu")], tmp_path)
        assert said in Page((tmp_path / "index.html").read_text()).text("figures")


def test_two_machines_of_one_name_are_told_apart_on_the_site(tmp_path: Path) -> None:
    render_site([SiteTrace(traced(), "cpu"), SiteTrace(traced(), "cpu-one-thread")], tmp_path)
    page = Page((tmp_path / "index.html").read_text())
    assert "A processor (cpu)" in page.text("th") and "A processor (cpu-one-thread)" in page.text("th")


@pytest.mark.parametrize("trace", [lecture().trace(), failing().trace()], ids=["plain", "failing"])
def test_a_row_of_the_site_says_what_the_trace_says(trace: Trace) -> None:
    row = MachineRow("Mine", "here", make_document(trace))
    assert (row.used, row.peaks, row.notes, row.duration) == (("torch", "2.13.0"), [], [], "not measured")


def test_indexes_show_the_formulas_of_titles_and_first_sentences(tmp_path: Path) -> None:
    source = """'''Sums $\\sum_i x_i$'''
def main():
    '''Main

    You can prove $a^2 + b^2 = c^2$.
    '''
    f()

def f():
    '''Squares $x^2$ [there](https://example.org)'''
    text(told)
"""
    told = "It costs $\\frac{n}{2}$ steps & more. A second sentence."
    made = Recording(source)
    f = made.call(made.frame("main"), "f()", "f")
    made.step(f, "text(told)", narrative=[Text(text=told)])
    trace = replace(made.trace(), title="Sums $\\sum_i x_i$")
    render_site([SiteTrace(trace, "cpu")], tmp_path)
    for page in ("index.html", "cpu/index.html", "cpu/00-f.html"):
        body = (tmp_path / page).read_text().partition("<body>")[2]
        assert "$" not in re.sub(r"<script.*?</script>|<svg.*?</svg>", "", body, flags=re.DOTALL)
        assert "<msup>" in body and ("<munder>" in body or "<msub>" in body)
        assert not re.search(r"<a [^>]*>(?:(?!</a>).)*<a ", body, re.DOTALL)  # no link in a link
    site = (tmp_path / "index.html").read_text()
    assert re.search(r"It costs <math.*?<mfrac>.*?</math> steps &amp; more\.</p>", site)
    assert (
        "[Squares $x^2$" in (tmp_path / "index.md").read_text()
        and "$\\frac{n}{2}$" in (tmp_path / "index.md").read_text()
    )
