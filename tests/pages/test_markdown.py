from __future__ import annotations

import re
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin

from tests.pages.hostile import hostile_trace
from tests.pages.recording import Recording, matrix
from tests.pages.test_compose import failing, lecture
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.html import SiteContext
from trace_tools.pages.markdown import MarkdownWriter
from trace_tools.trace.model import Claim, Link, Machine, Plot, Run, Series, Table, Trace, Value

HTML = re.compile(r"</?(details|summary|code)>")


def site_context() -> SiteContext:
    return SiteContext(picture=lambda address: None)


def page(trace: Trace, number: int = 0) -> str:
    document = make_document(trace)
    return MarkdownWriter(document, site_context()).section(document.sections[number])


def parsed(text: str) -> list[Token]:
    """Parse as a code host that allows HTML; inline tokens follow their block's token."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).use(dollarmath_plugin)
    tokens = parser.parse(text)
    return [part for token in tokens for part in (token, *(token.children or []))]


def fences(text: str, language: str) -> list[str]:
    return [token.content for token in parsed(text) if token.type == "fence" and token.info == language]


def test_code_is_fenced_with_observations_as_comments() -> None:
    first, *_ = fences(page(lecture().trace()), "python")
    assert first.splitlines() == [
        "# a comment that stands before code",
        "x = torch.ones(2, 3)  # (2, 3)  # x: f32[2, 3] · storage A",
        "",
        "y = x.t()                       # y: f32[3, 2] · storage A",
        "assert x.sum() == 6             # ✓",
    ]


def test_code_without_added_comments_is_the_source() -> None:
    text = page(lecture().trace())
    source = lecture().text
    for fence in fences(text, "python"):
        for line in fence.splitlines():
            bare = re.sub(r"\s*# (→ .*|[a-z_]+(: | = ).*|✓.*)", "", line).strip()
            assert bare in source or bare.startswith("def helper(a):")


def test_prose_and_headings_are_in_order() -> None:
    text = page(lecture().trace())
    assert text.startswith("# 0 The first part\n")
    positions = [text.index(part) for part in ("Hello.", "## A part inside", "Inside, 3.", "Turn 2.", "Small.")]
    assert positions == sorted(positions)


def test_values_in_loops_have_execution_numbers_and_counts() -> None:
    text = page(lecture().trace())
    assert "# → 1: total = 0" in text or "1: total = 0 · 3: total = 6" in text
    assert "10 executions, 7 of them only counted: 9 µs in total" in text


def test_calls_are_folded_under_their_line() -> None:
    text = page(lecture().trace())
    assert "<details><summary><code>helper</code></summary>" in text
    assert "def helper(a):" in text and "    b = a + 1" in text


def test_an_emulated_device_is_named() -> None:
    text = page(lecture().trace(machine=Machine("A device", "emulated-a-device", "cuda", emulated=True)))
    assert "> ⚠ Emulated: software imitated this device" in text


def test_failures_are_in_notices_and_below_their_line() -> None:
    recording = failing()
    trace = recording.trace(run=Run("lecture.py", "2025", 0, 3, 100, complete=False, ended="ValueError at line 61"))
    text = page(trace, 1)
    assert "> ⚠ This trace is partial: ValueError at line 61." in text
    assert "> ✗ The run ended in this section with ValueError at line 61." in text
    assert "> **✗ ValueError** (not caught: the run ended here)" in text


def test_a_survived_exception_ends_only_its_section() -> None:
    recording = failing(survived=True)
    text = page(recording.trace(), 1)
    assert "> ✗ This section ended with ValueError at line 61." in text and "run ended" not in text
    assert "> **✗ ValueError** (not caught: the section ended here)" in text


def test_a_failed_claim_shows_both_sides() -> None:
    recording = Recording("def main():\n    f()\n\ndef f():\n    assert 1 == 2\n")
    f = recording.call(recording.frame("main"), "f()", "f")
    sides = [("1", Value("int", 1)), ("2", Value("int", 2))]
    recording.step(f, "assert", claim=Claim("1 == 2", False, sides, message="so", failed_runs=["pass 2, warm"]))
    text = page(recording.trace())
    assert "assert 1 == 2  # ✗ 1 == 2" in text
    assert "> **✗ This claim failed** (in pass 2, warm)" in text and "> so" in text


def test_plots_are_files_and_tables_are_markdown() -> None:
    recording = Recording("def main():\n    f()\n\ndef f():\n    g()\n")
    f = recording.call(recording.frame("main"), "f()", "f")
    narratives = [
        Plot(title="Loss | $x$", series=[Series("a", [1, 2], [3.0, 4.0])]),
        Table(title="T", columns=["a|b", "$n$"], rows=[["x|y", 1.5], [None, 10**5]]),
        Link(url="https://a.b/c", title="A *paper*", authors="Who", date="2019", text="Read it."),
    ]
    recording.step(f, "g()", narrative=narratives)
    document = make_document(recording.trace())
    writer = MarkdownWriter(document, site_context())
    text = writer.section(document.sections[0])
    assert list(writer.files) == ["figures/00-f-fig1.svg"] and b"<svg" in writer.files["figures/00-f-fig1.svg"]
    tokens = parsed(text)
    assert [t.attrs["src"] for t in tokens if t.type == "image"] == ["figures/00-f-fig1.svg"]
    cells = [t.content for before, t in pairwise(tokens) if before.type in ("td_open", "th_open")]
    assert cells == ["a|b", "$n$", "x|y", "1.5", "–", "100,000.0"]
    assert "[A \\*paper\\*](https://a.b/c) (Who, 2019)" in text


def test_text_of_a_trace_adds_no_html_or_links() -> None:
    document = make_document(hostile_trace())
    writer = MarkdownWriter(document, site_context())
    for text in (*map(writer.section, document.sections), writer.index()):
        for token in parsed(text):
            if token.type.startswith("html"):
                assert HTML.sub("", re.sub(r"<summary>.*</summary>", _no_tags, token.content)).strip() == ""
            for name in ("href", "src"):
                address = str(token.attrs.get(name, ""))
                assert re.match(r"(https?:|figures/|[\w-]+\.(md|html|yaml)(#|$)|\.\./index\.md|$)", address), address
        assert "\u202e" not in text and "\x00" not in text and "\x1b" not in text
        assert len(text) < 1_500_000
    assert all(b"<script" not in content and b"onload" not in content for content in writer.files.values())


def _no_tags(match: re.Match[str]) -> str:
    inner = match[0].removeprefix("<summary>").removesuffix("</summary>")
    return inner if "<" in HTML.sub("", inner) else ""


def test_the_index_has_sections_claims_and_module_code() -> None:
    document = make_document(lecture().trace())
    text = MarkdownWriter(document, site_context()).index()
    assert "| [0 The first part](00-first.md) | 1 min | 1 ✓ |" in text
    assert re.search(r"- \[✓ \d+\]\(00-first.md\) `x.sum\(\) == 6`\n", text)
    assert "<details><summary>Module code that runs before <code>main</code></summary>" in text


def test_tensor_elements_are_a_grid() -> None:
    value = matrix(3, 4)
    recording = Recording("def main():\n    f()\n\ndef f():\n    x = 1  # @inspect x\n")
    recording.step(recording.call(recording.frame("main"), "f()", "f"), "x", values=[("x", value)])
    [grid] = fences(page(recording.trace()), "text")
    assert grid.splitlines() == ["0.  1.   2.   3.", "4.  5.   6.   7.", "8.  9.  10.  11."]
