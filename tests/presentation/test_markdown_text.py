from __future__ import annotations

from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin

from tests.cases_in_one import each
from tests.presentation.test_prose import HOSTILE, RICH
from trace_tools.presentation.markdown_text import code_span, escape, fenced, inline_markdown, table, to_markdown
from trace_tools.presentation.prose import to_html


@each("text", HOSTILE)
def test_nothing_in_prose_becomes_html_in_markdown(text: str) -> None:
    permissive = MarkdownIt("commonmark", {"html": True}).enable("table").use(dollarmath_plugin)
    tokens = permissive.parse(to_markdown(text))
    inner = [child for token in tokens for child in token.children or []]
    assert not [token for token in (*tokens, *inner) if token.type.startswith("html")]
    links = [str(t.attrs.get("href", t.attrs.get("src", ""))) for t in inner if t.type in ("link_open", "image")]
    assert all(link.startswith(("https:", "http:")) for link in links)


def test_markdown_says_the_same_as_the_html() -> None:
    assert to_html(to_markdown(RICH)).split() == loose(to_html(RICH)).split()


def loose(html: str) -> str:
    """A list written back has blank lines between its items: each holds a paragraph."""
    return html.replace("<li>one<ul>", "<li><p>one</p>\n<ul>").replace("<li>two</li>", "<li><p>two</p>\n</li>")


def test_headings_are_below_the_pages_own() -> None:
    assert "\n## A *heading*\n" in to_markdown(RICH)


def test_no_text_ends_a_fence_or_a_code_span() -> None:
    for text in ("```", "````\nx", "`", "a ``b`` c", "~~~", "", "`` ` ``"):
        [token] = [t for t in MarkdownIt().parse(fenced(text)) if t.type == "fence"]
        assert token.content.rstrip("\n") == text.rstrip("\n")
        if text.strip() and "\n" not in text:
            [inline] = [t for t in MarkdownIt().parse("a " + code_span(text)) if t.type == "inline"]
            assert [c.content for c in inline.children or [] if c.type == "code_inline"] == [text]


def test_escaped_text_means_itself() -> None:
    for text in ("*a* _b_ `c` [d](e) <f> $g$ | ~~h~~ \\ &amp; &lt;", "a\\*b", "![x](y)"):
        [inline] = [t for t in MarkdownIt().enable("table").parse("x " + escape(text)) if t.type == "inline"]
        assert [c.type for c in inline.children or [] if c.type not in ("text", "text_special")] == []
        assert "".join(c.content for c in inline.children or []) == "x " + text


def test_no_cell_leaves_its_table() -> None:
    cells = ["a | b", r"a \| b", "two\nlines", escape("|<b>|"), code_span("x | y")]
    parsed = MarkdownIt().enable("table").parse(table(["one", *"abcd"], [cells, cells]))
    assert [token.type for token in parsed].count("td_open") == 2 * len(cells)
    assert table(["one"], []) == ""


def test_what_would_be_more_than_a_line_is_plain_text() -> None:
    assert inline_markdown("the *size* of `x`") == "the *size* of `x`"
    assert inline_markdown("# no heading") == "# no heading" and inline_markdown("- no list\n- at all").count("\n") == 0


def test_a_link_keeps_what_it_says_on_hover() -> None:
    text = to_markdown('[a](https://example.org "Say \\"it\\" *so*")').strip()
    assert text == '[a](https://example.org "Say \\"it\\" \\*so\\*")'
