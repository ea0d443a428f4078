from __future__ import annotations

from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin

from tests.cases_in_one import each
from tests.presentation.test_prose import HOSTILE, RICH
from trace_tools.presentation.markdown_text import code_span, escape, fenced, inline_markdown, table, to_markdown
from trace_tools.presentation.prose import to_html


@each("text", HOSTILE)
def test_hostile_prose_yields_no_html_in_markdown(text: str) -> None:
    permissive = MarkdownIt("commonmark", {"html": True}).enable("table").use(dollarmath_plugin)
    tokens = permissive.parse(to_markdown(text))
    inner = [child for token in tokens for child in token.children or []]
    assert not [token for token in (*tokens, *inner) if token.type.startswith("html")]
    links = [str(t.attrs.get("href", t.attrs.get("src", ""))) for t in inner if t.type in ("link_open", "image")]
    assert all(link.startswith(("https:", "http:")) for link in links)


def test_prose_is_unchanged_after_conversion_to_markdown() -> None:
    assert to_html(to_markdown(RICH)) == to_html(RICH)


def test_headings_are_one_level_below_the_page_title() -> None:
    assert "\n## A *heading*\n" in to_markdown(RICH)


def test_text_cannot_close_its_fence_or_code_span() -> None:
    for text in ("```", "````\nx", "`", "a ``b`` c", "~~~", "", "`` ` ``"):
        [token] = [t for t in MarkdownIt().parse(fenced(text)) if t.type == "fence"]
        assert token.content.rstrip("\n") == text.rstrip("\n")
        if text.strip() and "\n" not in text:
            [inline] = [t for t in MarkdownIt().parse("a " + code_span(text)) if t.type == "inline"]
            assert [c.content for c in inline.children or [] if c.type == "code_inline"] == [text]


def test_escaped_text_is_shown_literally() -> None:
    for text in ("*a* _b_ `c` [d](e) <f> $g$ | ~~h~~ \\ &amp; &lt;", "a\\*b", "![x](y)"):
        [inline] = [t for t in MarkdownIt().enable("table").parse("x " + escape(text)) if t.type == "inline"]
        assert [c.type for c in inline.children or [] if c.type not in ("text", "text_special")] == []
        assert "".join(c.content for c in inline.children or []) == "x " + text


def test_cells_cannot_break_their_table() -> None:
    cells = ["a | b", r"a \| b", "two\nlines", escape("|<b>|"), code_span("x | y")]
    parsed = MarkdownIt().enable("table").parse(table(cells, [cells, cells]))
    assert [token.type for token in parsed].count("td_open") == 2 * len(cells)
    assert table(["one"], []) == ""


def test_inline_markdown_keeps_block_markup_as_text() -> None:
    assert inline_markdown("the *size* of `x`") == "the *size* of `x`"
    for text in ("# no heading", "- no list\n- at all", "> no quote", "```", "a | b"):
        for block in (
            f"- {inline_markdown(text)}",
            f"### {inline_markdown(text)}",
            table(["a"], [[inline_markdown(text)]]),
        ):
            parsed = MarkdownIt().enable("table").parse(block)
            inner = [
                token.type
                for token in parsed
                if token.type in ("heading_open", "list_item_open", "blockquote_open", "fence", "td_open")
            ]
            assert len(inner) == 1, block
