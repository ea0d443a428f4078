"""The index pages of a machine and of the site: their figures, folded claims and links."""

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
from trace_tools.pages.overview import MachineRow, key_figures, opening
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
    """Return the trace of a lecture with one section and `claims` claims."""
    recording = Recording(
        "def main():\n    f()\n\ndef f():\n    g()\n" + "".join(f"    assert x{n} < {n}\n" for n in range(claims))
    )
    f = recording.call(recording.frame("main"), "f()", "f")
    for n in range(claims):
        sides = [(f"x{n}", Value("int", n - 1)), (str(n), Value("int", n))]
        recording.step(f, f"assert x{n} <", claim=Claim(f"x{n} < {n}", held or n > 0, sides))
    run = Run("lecture.py", "2025-01-31T12:00:00Z", 0, 3, 100, complete=True)
    run = replace(run, processes=[Process("pass 1", "complete", cold_ns=9_000_000_000, warm_ns=7_000_000_000)])
    return recording.trace(run=run, machine=Machine("A processor", "cpu", "cpu", peaks=PEAKS))


def index(trace: Trace) -> str:
    return HtmlWriter(make_document(trace), site_context()).index()


def test_key_figures_of_a_lecture() -> None:
    figures = list(key_figures(make_document(traced())))
    assert [(figure.text, figure.soft) for figure in figures] == [
        ("3", "claims, all hold"),
        ("7 s", "for the whole lecture · 9 s in the first run"),
        ("3", "steps in 1 section"),
        ("219 GFLOP/s", "float32, peak · measured: best of 3"),
        ("40 GB/s", "memory, peak · measured: copies"),
        ("5.47 FLOP/B", "ridge point · float32 peak ÷ memory bandwidth"),  # 219 / 40
    ]
    failed = next(key_figures(make_document(traced(held=False))))
    assert (failed.text, failed.soft, failed.style) == ("1", "of 3 claims failed", "bad")


def test_the_main_peak_is_bfloat16_on_a_gpu() -> None:
    trace = traced()
    for device, leading in (("cpu", "float32"), ("cuda", "bfloat16")):
        machine = Machine("A machine", "machine", device, peaks=PEAKS)
        *_, compute, _, ridge = list(key_figures(make_document(replace(trace, machine=machine))))
        [(dtype, peak)] = roof_of("here", machine, ()).peaks
        assert dtype == leading and compute.soft.startswith(f"{leading}, peak")
        assert ridge.soft == f"ridge point · {leading} peak ÷ memory bandwidth"
        assert ridge.text == f"{peak / 40e9:.3g} FLOP/B"


def test_unknown_figures_are_left_out() -> None:
    unknown = replace(traced(0), machine=Machine("A processor", "cpu", "cpu", peaks=PEAKS[-1:]))
    assert [figure.soft.partition(" · ")[0] for figure in list(key_figures(make_document(unknown)))] == [
        "for the whole lecture",
        "steps in 1 section",
    ]


def test_claims_are_folded_by_section_and_link_to_their_lines() -> None:
    text = index(traced())
    assert '<details class="folded" id="claims-00-f"><summary><h3>0 F: 3 ✓</h3>' in text
    assert '<a href="#claims-00-f">3 ✓</a>' in text
    assert '<a href="00-f.html#L6">✓ 6</a> <code>x0 &lt; 0</code>: -1 &lt; 0</li>' in text
    assert '<h3 id="claims-00-f">0 F: 2 ✓ 1 ✗</h3>' in index(traced(held=False))


def test_the_sides_of_a_held_equation_add_nothing() -> None:
    assert "<code>x.sum() == 6</code></li>" in index(lecture().trace())


@pytest.mark.slow
def test_an_index_of_2000_claims_stays_small() -> None:
    assert len(index(traced(2_000)).encode()) < 400_000


def test_code_outside_the_sections_has_its_own_page() -> None:
    writer = HtmlWriter(make_document(lecture().trace()), site_context())
    setup = writer.setup() or ""
    assert "WIDTH" in setup and 'aria-current="page"><span class="no"></span><span>Code outside' in setup
    assert "WIDTH" not in Page(writer.index()).text("main") and 'href="setup.html"' in writer.index()
    with_narrative = Recording("def main():\n    f()\n\ndef f():\n    g()\n")
    main = with_narrative.frame("main")
    with_narrative.step(with_narrative.call(main, "f()", "f"), "g()")
    with_narrative.step(main, "f()", narrative=[Text(text="Welcome.")])
    writer = HtmlWriter(make_document(with_narrative.trace()), site_context())
    assert writer.setup() is None and "Welcome." in Page(writer.index()).text("main")
    assert "setup.html" not in writer.index()


def test_a_failure_outside_the_sections_is_on_the_index() -> None:
    recording = Recording("import nothing\n\ndef main():\n    f()\n")
    recording.step(recording.frame("<module>"), "import nothing", raised=Raised("ImportError", "no", origin_line=1))
    run = Run("lecture.py", "2025", 0, 3, 100, complete=False, ended="ImportError at line 1")
    assert 'Code outside the sections failed. <a href="setup.html#L1">' in index(recording.trace(run=run))


def test_the_contents_count_claims_under_each_heading() -> None:
    recording = Recording(
        "def main():\n    f()\n\ndef f():\n    a()\n    assert a\n    b()\n    assert b\n    assert c\n    d()\n"
    )
    f = recording.call(recording.frame("main"), "f()", "f")
    recording.step(f, "a()", narrative=[Text(text="## First")])
    recording.step(f, "assert a", claim=Claim("a", True, []))
    recording.step(f, "b()", narrative=[Text(text="## Second\n\nText.\n\n#### Deep")])
    recording.step(f, "assert b", claim=Claim("b", True, []))
    recording.step(f, "assert c", claim=Claim("c", False, []))
    recording.step(f, "d()", narrative=[Text(text="### Third")])
    [section] = make_document(recording.trace()).sections
    headings = [(line.text, line.level, line.held, line.failed) for line in section.headings if line.level <= 3]
    assert headings == [("First", 2, 1, 0), ("Second", 2, 1, 1), ("Third", 3, 0, 0)]


def test_the_site_lists_machines_with_their_figures_and_dates(tmp_path: Path) -> None:
    other = replace(failing().trace(), machine=Machine("NVIDIA H200", "nvidia-h200", "cuda"))
    (tmp_path / "diff").mkdir()
    (tmp_path / "diff" / "index.html").write_text("a report")
    render_site([SiteTrace(traced(), "cpu"), SiteTrace(other, "h200", LECTURE)], tmp_path)
    text = (tmp_path / "index.html").read_text()
    page = Page(text)
    for cell in ("3 ✓", "7 s", "219 GFLOP/s float32, 40 GB/s memory", "torch 2.13.0", "3", "2025-01-31"):
        assert ("td", cell) in page.texts
    assert '<a href="diff/index.html">Differences between the machines</a>' in text and "compare/" not in text
    assert '<a href="cpu/00-f.html">3 ✓</a>' in text


def test_without_torch_the_site_names_the_python_version(tmp_path: Path) -> None:
    plain = replace(traced(), versions=[("python", "3.12.1"), ("numpy", "2.4.6")])
    render_site([SiteTrace(plain, "cpu")], tmp_path)
    page, text = (tmp_path / "index.html").read_text(), (tmp_path / "index.md").read_text()
    assert "<td>python 3.12.1</td>" in page and "| python 3.12.1 | 3 |" in text and "torch" not in page + text


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["## Heading\n\nIt is *so*. And more."], "It is *so*."),
        (["## Heading", "| a |\n|---|\n| 1 |", "- An item\n- another"], "An item"),
        (["## Heading"], ""),
    ],
)
def test_opening_words_are_the_first_sentence_of_prose(texts: list[str], expected: str) -> None:
    recording = Recording("def main():\n    f()\n\ndef f():\n    text('')\n")
    f = recording.call(recording.frame("main"), "f()", "f")
    recording.step(f, "text(", narrative=[Text(text=text) for text in texts])
    assert opening(make_document(recording.trace()).sections[0]) == expected


def test_machines_of_the_same_name_are_distinguished(tmp_path: Path) -> None:
    render_site([SiteTrace(traced(), "cpu"), SiteTrace(traced(), "cpu-one-thread")], tmp_path)
    page = Page((tmp_path / "index.html").read_text())
    assert "A processor (cpu)" in page.text("th") and "A processor (cpu-one-thread)" in page.text("th")


@pytest.mark.parametrize("trace", [lecture().trace(), failing().trace()], ids=["plain", "failing"])
def test_a_machine_row_without_measurements(trace: Trace) -> None:
    row = MachineRow("Mine", "here", make_document(trace))
    assert [cell.text for cell in row.cells][2:5] == ["not measured", "", "torch 2.13.0"] and not row.notes


def test_formulas_in_titles_and_first_sentences_are_rendered(tmp_path: Path) -> None:
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
    prose = "It costs $\\frac{n}{2}$ steps & more. A second sentence."
    recording = Recording(source)
    f = recording.call(recording.frame("main"), "f()", "f")
    recording.step(f, "text(told)", narrative=[Text(text=prose)])
    trace = replace(recording.trace(), title="Sums $\\sum_i x_i$")
    render_site([SiteTrace(trace, "cpu")], tmp_path)
    for page in ("index.html", "cpu/index.html", "cpu/00-f.html"):
        body = (tmp_path / page).read_text().partition("<body>")[2]
        assert "$" not in re.sub(r"<script.*?</script>|<svg.*?</svg>", "", body, flags=re.DOTALL)
        assert "<msup>" in body and ("<munder>" in body or "<msub>" in body)
        assert not re.search(r"<a [^>]*>(?:(?!</a>).)*<a ", body, re.DOTALL)  # no link inside another link
    site = (tmp_path / "index.html").read_text()
    assert re.search(r"It costs <math.*?<mfrac>.*?</math> steps &amp; more\.</p>", site)
    assert (
        "[0 Squares $x^2$" in (tmp_path / "index.md").read_text()
        and "$\\frac{n}{2}$" in (tmp_path / "index.md").read_text()
    )
