"""Text → Markdown for a code host, from which no HTML, link or fence can be broken out of.

to_markdown("<b>bold</b>")     "\\<b\\>bold\\</b\\>"
code_span("a ` b")             "`` a ` b ``"
fenced("x = 1", "python")      "```python\\nx = 1\\n```\\n"
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from markdown_it.token import Token

from trace_tools import formats
from trace_tools.rendering.prose import parse, plain, safe_url
from trace_tools.rendering.varied import in_brackets, in_words
from trace_tools.schema import Varied


def escape(text: str) -> str:
    """Return text that means itself in Markdown: no emphasis, link, math, table cell or HTML begins in it."""
    return re.sub(r"([\\`*_{}\[\]<>$|~])", r"\\\1", formats.visible(text)).replace("&", "&amp;")


def code_span(text: str) -> str:
    """Return text as inline code, however many backticks are in it."""
    text = formats.visible(" ".join(text.split()))
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}" if text else "` `"


def fenced(text: str, language: str = "") -> str:
    """Return text as a fenced block that nothing in it can close."""
    text = formats.visible(text)
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}\n"


def to_markdown(markdown: str, image: Callable[[str], str | None] | None = None, varied: Sequence[Varied] = ()) -> str:
    """Return a text as Markdown that shows the same on a code host, and can't contain HTML.

    Behind a number that varied stands its range: 9.7 [3.5 … 9.7].
    """
    writer = _MarkdownWriter(image or (lambda path: None))
    return writer.write(parse(markdown, varied))


def with_range(shown: str, varied: Varied) -> str:
    """Return Markdown with the range of what it says behind it."""
    return f"{shown} {escape(f'[{in_brackets(varied)}]')}"


def inline_markdown(markdown: str) -> str:
    """Return one line of Markdown as such a line that can stand in a table cell or a heading."""
    text = to_markdown(formats.one_line(markdown, 2_000)).strip()
    return text if "\n" not in text and not text.startswith("#") else escape(formats.one_line(markdown, 2_000))


class _MarkdownWriter:
    """Writes block tokens back as Markdown; `prefix` is what begins each line inside lists and quotes."""

    def __init__(self, image: Callable[[str], str | None]) -> None:
        self._image = image
        self._out: list[str] = []
        self._prefix: list[str] = []
        self._marker: list[str] = []  # of list items that have not written a line yet
        self._counts: list[int | None] = []  # of open lists: the next number, None for bullets
        self._row: list[str] | None = None  # cells of the open table row
        self._rules: list[str] = []  # alignment of the table's columns
        self._heading: str | None = None  # "## " inside a heading
        self._url: str | None = None  # of the open link

    def write(self, tokens: Sequence[Token]) -> str:
        for token in tokens:
            method = getattr(self, f"_{token.type}", None)
            if method is not None:
                method(token)
        return "\n".join(line.rstrip() for line in self._out).strip("\n") + "\n"

    def _lines(self, text: str) -> None:
        for line in text.rstrip("\n").split("\n"):
            self._out.append(
                "".join(self._prefix[: len(self._prefix) - len(self._marker)]) + "".join(self._marker) + line
            )
            self._marker = []

    def _blank(self, token: Token | None = None) -> None:
        if self._out and self._out[-1].strip(" >"):
            self._out.append("".join(self._prefix))

    def _inline(self, token: Token) -> None:
        text = "".join(self._span(child) for child in token.children or [])
        if self._row is not None:
            self._row.append(re.sub(r"(?<!\\)\|", r"\|", text.replace("\n", " ")))
        else:
            self._lines(_guarded(text) if self._heading is None else self._heading + text.replace("\n", " "))

    def _heading_open(self, token: Token) -> None:
        self._heading = "#" * min(6, max(2, int(token.tag[1]))) + " "

    def _heading_close(self, token: Token) -> None:
        self._heading = None
        self._blank()

    def _paragraph_close(self, token: Token) -> None:
        if not token.hidden:
            self._blank()

    def _hr(self, token: Token) -> None:
        self._lines("---")
        self._blank()

    def _fence(self, token: Token) -> None:
        language = re.sub(r"[^\w+-]", "", token.info.split()[0]) if token.info.split() else ""
        self._lines(fenced(token.content, language))
        self._blank()

    _code_block = _fence

    def _math_block(self, token: Token) -> None:
        self._lines(f"$$\n{_tex(token.content.strip())}\n$$")
        self._blank()

    _math_block_label = _math_block

    def _blockquote_open(self, token: Token) -> None:
        self._prefix.append("> ")

    def _blockquote_close(self, token: Token) -> None:
        self._prefix.pop()
        if self._out and not self._out[-1].strip(" >"):
            self._out.pop()
        self._out.append("".join(self._prefix))

    def _bullet_list_open(self, token: Token) -> None:
        self._counts.append(None)

    def _ordered_list_open(self, token: Token) -> None:
        self._counts.append(int(token.attrs.get("start", 1)))

    def _list_close(self, token: Token) -> None:
        self._counts.pop()
        self._blank()

    _bullet_list_close = _ordered_list_close = _list_close

    def _list_item_open(self, token: Token) -> None:
        count = self._counts[-1]
        marker = "- " if count is None else f"{count}. "
        if count is not None:
            self._counts[-1] = count + 1
        self._prefix.append(" " * len(marker))
        self._marker.append(marker)

    def _list_item_close(self, token: Token) -> None:
        if self._marker:
            self._lines("")
        self._prefix.pop()

    def _thead_open(self, token: Token) -> None:
        self._rules = []

    def _th_open(self, token: Token) -> None:
        style = str(token.attrs.get("style", ""))
        self._rules.append("---:" if "right" in style else ":---:" if "center" in style else "---")

    def _thead_close(self, token: Token) -> None:
        self._lines("| " + " | ".join(self._rules) + " |")

    def _tr_open(self, token: Token) -> None:
        self._row = []

    def _tr_close(self, token: Token) -> None:
        self._lines("| " + " | ".join(self._row or []) + " |")
        self._row = None

    def _table_close(self, token: Token) -> None:
        self._blank()

    def _span(self, token: Token) -> str:
        if token.type == "text":
            return escape(token.content)
        if token.type == "varied":
            return with_range(escape(token.content), token.meta["of"])
        if token.type == "ranges":
            told = "; ".join(f"{said}: {in_words(one)}" for said, one in token.meta["of"])
            return ("" if token.meta.get("alone") else " ") + f"*({escape(told)})*"
        if token.type == "code_inline":
            return code_span(token.content)
        if token.type in ("math_inline", "math_inline_double"):
            mark = "$$" if token.type.endswith("double") else "$"
            return mark + _tex(" ".join(token.content.split())) + mark
        if token.type in ("softbreak", "hardbreak"):
            return "\n" if token.type == "softbreak" else "  \n"
        if token.type == "image":
            source, alt = self._image(str(token.attrs.get("src", ""))), escape(plain(token))
            return f"![{alt}]({_address(source)})" if source else f"*[{alt or 'image'}: not shown]*"
        return self._mark(token)

    def _mark(self, token: Token) -> str:
        if token.type == "link_open":
            self._url = safe_url(str(token.attrs.get("href", "")))
            return "[" if self._url else ""
        if token.type == "link_close":
            return f"]({_address(self._url)})" if self._url else ""
        marks = {"em": "*", "strong": "**", "s": "~~"}
        return marks.get(token.tag, "")


def _address(url: str) -> str:
    return url.replace("(", "%28").replace(")", "%29").replace("<", "%3C").replace(">", "%3E")


def _tex(tex: str) -> str:
    """A formula's `<` could begin a tag on a code host; followed by a space it can't."""
    return re.sub(r"<(?=\S)", "< ", tex)


def _guarded(text: str) -> str:
    """Escape what would begin a block (heading, list, quote, rule) at the start of a line."""
    text = re.sub(r"(?m)^(\s*)([#+-]|=+$)", r"\1\\\2", text)
    return re.sub(r"(?m)^(\s*\d+)([.)])(?=\s|$)", r"\1\\\2", text)


def link_markdown(title: str, url: str | None) -> str:
    """Return a link with a plain title; just the title when the address is not safe."""
    safe = safe_url(url) if url else None
    return f"[{escape(title)}]({_address(safe)})" if safe else escape(title)
