r"""Write text as Markdown for a code host, so that no HTML, link or fence in it takes effect.

to_markdown("<b>bold</b>")     "\<b\>bold\</b\>"
code_span("a ` b")             "`` a ` b ``"
fenced("x = 1", "python")      "```python\nx = 1\n```\n"
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from markdown_it.token import Token

from trace_tools.presentation.prose import Image, level, parse, plain, safe_url
from trace_tools.presentation.varied import in_brackets, ranges_in_words
from trace_tools.trace.model import Varied
from trace_tools.util import formats


def escape(text: str) -> str:
    """Escape text so that Markdown shows it literally: no emphasis, link, math, table cell or HTML."""
    return re.sub(r"([\\`*_{}\[\]<>$|~])", r"\\\1", formats.visible(text)).replace("&", "&amp;")


def code_span(text: str) -> str:
    """Return text as inline code, with any number of backticks in it."""
    text = formats.visible(" ".join(text.split()))
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}" if text else "` `"


def fenced(text: str, language: str = "") -> str:
    """Return text as a fenced block that its content cannot close."""
    text = formats.visible(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`{3,}", text)), default=2))
    return f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}\n"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table whose cells cannot be closed by their content; "" without rows. Cells are Markdown."""
    if not rows:
        return ""
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    return "\n".join([*lines, *("| " + " | ".join(map(_in_cell, row)) + " |" for row in rows)])


def _in_cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\|", text.replace("\n", " "))


def to_markdown(markdown: str, image: Image = lambda path: None, varied: Sequence[Varied] = ()) -> str:
    """Return a text as Markdown that looks the same on a code host and cannot contain HTML.

    A number that varied is followed by its range: 9.7 [3.5 … 9.7].
    """
    return _MarkdownWriter(image).write(parse(markdown, varied))


def joined(parts: Iterable[str]) -> str:
    """Join blocks of Markdown."""
    return "\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"


def folded(title: str, inner: Iterable[str]) -> list[str]:
    """Fold blocks under a title, in `<details>`; backticks in the title become `<code>`."""
    shown = html.escape(formats.visible(title))
    for _ in range(shown.count("`") // 2):
        shown = shown.replace("`", "<code>", 1).replace("`", "</code>", 1)
    return [f"<details><summary>{shown}</summary>", *inner, "</details>"]


def with_range(shown: str, varied: Varied) -> str:
    """Return Markdown followed by the range of its number."""
    return f"{shown} {escape(f'[{in_brackets(varied)}]')}"


def inline_markdown(markdown: str) -> str:
    """Return one line of Markdown for a table cell or a heading."""
    text = to_markdown(formats.one_line(markdown, 2_000)).strip()
    return text if "\n" not in text and not text.startswith("#") else escape(formats.one_line(markdown, 2_000))


def link_markdown(title: str, url: str | None) -> str:
    """Return a link with a plain title; only the title if the address is unsafe."""
    safe = safe_url(url) if url else None
    return f"[{escape(title)}]({_address(safe)})" if safe else escape(title)


class _MarkdownWriter:
    """Writes tokens back as Markdown; `prefix` starts each line inside lists and quotes."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._out: list[str] = []
        self._prefix: list[str] = []
        self._marker: list[str] = []  # of list items that have not written a line yet
        self._counts: list[int | None] = []  # of open lists: the next number, None for bullets
        self._row: list[str] | None = None  # cells of the open table row
        self._rules: list[str] = []  # alignment of the table's columns
        self._heading: str | None = None  # "## " inside a heading
        self._url: str | None = None  # of the open link
        self._hover = ""  # its tooltip

    def write(self, tokens: Sequence[Token]) -> str:
        for token in tokens:
            self._block(token)
        return "\n".join(line.rstrip() for line in self._out).strip("\n") + "\n"

    def _lines(self, text: str) -> None:
        for line in text.rstrip("\n").split("\n"):
            outer = self._prefix[: len(self._prefix) - len(self._marker)]
            self._out.append("".join([*outer, *self._marker, line]))
            self._marker = []

    def _blank(self) -> None:
        if self._out and self._out[-1].strip(" >"):
            self._out.append("".join(self._prefix))

    def _block(self, token: Token) -> None:
        match token.type:
            case "inline":
                text = "".join(self._span(child) for child in token.children or [])
                if self._row is not None:
                    self._row.append(_in_cell(text))
                else:
                    self._lines(_guarded(text) if self._heading is None else self._heading + text.replace("\n", " "))
            case "heading_open":
                self._heading = "#" * level(token) + " "
            case "heading_close":
                self._heading = None
                self._blank()
            case "paragraph_close" if not token.hidden:
                self._blank()
            case "hr":
                self._lines("---")
                self._blank()
            case "fence" | "code_block":
                language = re.sub(r"[^\w+-]", "", token.info.split()[0]) if token.info.split() else ""
                self._lines(fenced(token.content, language))
                self._blank()
            case "math_block" | "math_block_label":
                self._lines(f"$$\n{_tex(token.content.strip())}\n$$")
                self._blank()
            case "blockquote_open":
                self._prefix.append("> ")
            case "blockquote_close":
                self._prefix.pop()
                if self._out and not self._out[-1].strip(" >"):
                    self._out.pop()
                self._out.append("".join(self._prefix))
            case "bullet_list_open" | "ordered_list_open":
                ordered = token.type == "ordered_list_open"
                self._counts.append(int(token.attrs.get("start", 1)) if ordered else None)
            case "bullet_list_close" | "ordered_list_close":
                self._counts.pop()
                self._blank()
            case "list_item_open":
                count = self._counts[-1]
                marker = "- " if count is None else f"{count}. "
                self._counts[-1] = None if count is None else count + 1
                self._prefix.append(" " * len(marker))
                self._marker.append(marker)
            case "list_item_close":
                if self._marker:
                    self._lines("")
                self._prefix.pop()
            case "thead_open":
                self._rules = []
            case "th_open":
                style = str(token.attrs.get("style", ""))
                self._rules.append("---:" if "right" in style else ":---:" if "center" in style else "---")
            case "thead_close":
                self._lines("| " + " | ".join(self._rules) + " |")
            case "tr_open":
                self._row = []
            case "tr_close":
                self._lines("| " + " | ".join(self._row or []) + " |")
                self._row = None
            case "table_close":
                self._blank()

    def _span(self, token: Token) -> str:
        match token.type:
            case "text":
                return escape(token.content)
            case "varied":
                return with_range(escape(token.content), token.meta["of"])
            case "ranges":
                return ("" if token.meta.get("alone") else " ") + f"*({escape(ranges_in_words(token))})*"
            case "code_inline":
                return code_span(token.content)
            case "math_inline" | "math_inline_double":
                mark = "$$" if token.type.endswith("double") else "$"
                return mark + _tex(" ".join(token.content.split())) + mark
            case "softbreak" | "hardbreak":
                return "\n" if token.type == "softbreak" else "  \n"
            case "image":
                source, alt = self._image(str(token.attrs.get("src", ""))), escape(plain(token))
                return f"![{alt}]({_address(source)})" if source else f"*[{alt or 'image'}: not shown]*"
            case "link_open":
                self._url = safe_url(str(token.attrs.get("href", "")))
                self._hover = str(token.attrs.get("title", ""))
                return "[" if self._url else ""
            case "link_close":
                quoted = escape(formats.one_line(self._hover or "", 500)).replace('"', '\\"')
                hover = f' "{quoted}"' if self._hover else ""
                return f"]({_address(self._url)}{hover})" if self._url else ""
        return {"em": "*", "strong": "**", "s": "~~"}.get(token.tag, "")


def _address(url: str) -> str:
    return url.replace("(", "%28").replace(")", "%29").replace("<", "%3C").replace(">", "%3E")


def _tex(tex: str) -> str:
    """Add a space after `<` in a formula, which could start a tag on a code host."""
    return re.sub(r"<(?=\S)", "< ", tex)


def _guarded(text: str) -> str:
    """Escape characters that would start a block (heading, list, quote, rule) at the beginning of a line."""
    text = re.sub(r"(?m)^(\s*)([#+-]|=+$)", r"\1\\\2", text)
    return re.sub(r"(?m)^(\s*\d+)([.)])(?=\s|$)", r"\1\\\2", text)
