"""Markdown from a lecture → tokens → safe HTML.

What is written comes from markdown-it's tokens, never from the raw text: raw HTML is text, links lead only
to http, https, mailto or a relative place, math is MathML made at build time.

    to_html("A *storage* of $n$ bytes.")        "<p>A <em>storage</em> of <math>…</math> bytes.</p>"
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from urllib.parse import urlsplit
from xml.etree.ElementTree import Element, tostring

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin

from trace_tools.rendering import formats

LONGEST = 200_000  # characters of one text
LONGEST_URL = 2_000

_URL = re.compile(r"[\w\-.~:/?#\[\]@!$&'()*+,;=%]+")  # RFC 3986, and letters of any script


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_MATHML = _words(
    "math mrow mi mn mo ms mtext mspace msub msup msubsup munder mover munderover mfrac msqrt mroot mtable mtr mtd "
    "mstyle mpadded mphantom menclose mmultiscripts mprescripts none"
)
_MATH_ATTRIBUTES = _words(
    "display displaystyle scriptlevel mathvariant mathcolor stretchy fence separator form accent accentunder lspace "
    "rspace width height depth voffset linethickness columnalign rowspacing columnspacing columnlines rowlines "
    "notation minsize maxsize movablelimits symmetric largeop"
)


def safe_url(url: str) -> str | None:
    """Return `url` when following it can only open a page, a mail or a relative place; else None."""
    if len(url) > LONGEST_URL or not _URL.fullmatch(url):
        return None
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if parts.scheme.lower() in ("http", "https"):
        return url if parts.netloc else None
    relative = not parts.scheme and not parts.netloc and ":" not in url.split("/")[0]
    return url if relative or parts.scheme.lower() == "mailto" else None


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "maxNesting": 20})
    parser.enable(["table", "strikethrough"])
    parser.disable(["html_block", "html_inline"])
    parser.use(dollarmath_plugin, allow_space=False, allow_digits=False, double_inline=True)
    return parser


def parse(markdown: str) -> list[Token]:
    """Return the tokens of a text; its common indentation does not count."""
    text = formats.shorten(markdown, LONGEST)
    return _parser().parse(formats.visible(_dedented(text.expandtabs(4)).replace("\r\n", "\n")))


def _dedented(text: str) -> str:
    """Remove the indentation that a triple-quoted string has from standing in a function."""
    lines = text.split("\n")
    margins = [len(line) - len(line.lstrip(" ")) for line in lines[1:] if line.strip()]
    margin = min(margins, default=0)
    return "\n".join([lines[0].lstrip(" "), *(line[margin:] for line in lines[1:])]).strip("\n")


def headings(markdown: str) -> list[tuple[int, str]]:
    """Return the headings of a text as (level, plain text)."""
    tokens = parse(markdown)
    return [
        (int(opening.tag[1]), plain(inline)) for opening, inline in pairwise(tokens) if opening.type == "heading_open"
    ]


def plain(inline: Token) -> str:
    """Return the text of an inline token without its markup."""
    return "".join(child.content or (" " if child.type == "softbreak" else "") for child in inline.children or [])


def plain_text(markdown: str) -> str:
    """Return one line of Markdown without its markup: for a contents list, or a window's title."""
    tokens = _parser().parseInline(formats.one_line(markdown, 500))
    return "".join(plain(token) for token in tokens)


def inline_html(markdown: str) -> str:
    """Return one line of Markdown as HTML without a paragraph around it; images are not shown."""
    tokens = _parser().parseInline(formats.one_line(markdown, 2_000))
    return "".join(_inline_html(child, lambda path: None) for token in tokens for child in token.children or [])


def slug(text: str) -> str:
    """Return `text` as part of an address: "Views share storage" → "views-share-storage"."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60] or "section"


def to_html(markdown: str, anchors: Sequence[str] = (), image: Callable[[str], str | None] | None = None) -> str:
    """Return the HTML of a text; `anchors` are its headings' ids, `image` maps a path to an address (None: refused)."""
    remaining = list(anchors)
    return "".join(_block_html(token, remaining, image or (lambda path: None)) for token in parse(markdown))


def _block_html(token: Token, anchors: list[str], image: Callable[[str], str | None]) -> str:
    if token.type == "inline":
        return "".join(_inline_html(child, image) for child in token.children or [])
    if token.type in ("fence", "code_block"):
        return f"<pre><code>{html.escape(token.content)}</code></pre>\n"
    if token.type in ("math_block", "math_block_label"):
        return f'<div class="math">{math(token.content, display=True)}</div>\n'
    if token.type == "heading_open":
        anchor = anchors.pop(0) if anchors else None
        return f"<{_level(token)}" + (f' id="{html.escape(anchor)}">' if anchor else ">")
    if token.type == "heading_close":
        return f"</{_level(token)}>\n"
    if token.type == "hr":
        return "<hr>\n"
    return _tag(token)


def _level(token: Token) -> str:
    """A page's own title is its h1, so prose begins at h2."""
    return f"h{min(6, max(2, int(token.tag[1])))}"


def _tag(token: Token) -> str:
    """Write the tag of a paragraph, list, quote, table or emphasis; alignment becomes a class."""
    if token.hidden or not token.tag:
        return html.escape(token.content)
    if token.nesting < 0:
        return f"</{token.tag}>" + ("\n" if token.block else "")
    align = re.search(r"text-align:(right|center)", str(token.attrs.get("style", "")))
    start = token.attrs.get("start")
    extra = f' class="{align[1]}"' if align else f' start="{int(start)}"' if start is not None else ""
    return f"<{token.tag}{extra}>"


def _inline_html(token: Token, image: Callable[[str], str | None]) -> str:
    if token.type == "text":
        return html.escape(token.content)
    if token.type == "code_inline":
        return f"<code>{html.escape(token.content)}</code>"
    if token.type in ("math_inline", "math_inline_double"):
        return math(token.content, display=token.type.endswith("double"))
    if token.type in ("softbreak", "hardbreak"):
        return "\n" if token.type == "softbreak" else "<br>\n"
    if token.type == "link_open":
        url = safe_url(str(token.attrs.get("href", "")))
        return f'<a href="{html.escape(url)}" rel="noreferrer">' if url else "<a>"
    if token.type == "image":
        source = image(str(token.attrs.get("src", "")))
        alt = html.escape(plain(token))
        return f'<img src="{html.escape(source)}" alt="{alt}">' if source else f"<em>[{alt or 'image'}: not shown]</em>"
    return _tag(token)


@lru_cache(maxsize=4096)
def math(tex: str, *, display: bool = False) -> str:
    """Return a formula as MathML; what can't be converted, or isn't plain MathML, is shown as its TeX."""
    from latex2mathml.converter import convert_to_element  # takes 40 ms to import, and many pages have no formula

    try:
        if len(tex) > 5_000:
            raise ValueError("too long")
        element = convert_to_element(tex, display="block" if display else "inline")
        _check(element)
    except Exception:  # the converter raises what it happens to meet: IndexError, KeyError, its own errors
        return f'<code class="tex">{html.escape(tex)}</code>'
    return str(tostring(element, encoding="unicode"))


def _check(element: Element) -> None:
    """Unescape an element's text, and raise ValueError for anything that isn't plain MathML."""
    for part in element.iter():
        odd = set(part.attrib) - _MATH_ATTRIBUTES - {"xmlns"}
        if part.tag not in _MATHML or odd or any(":" in str(v) for k, v in part.attrib.items() if k != "xmlns"):
            raise ValueError(f"not plain MathML: {part.tag} {sorted(odd)}")
        if part.text:
            part.text = html.unescape(part.text)
            if part.tag != "mtext" and "\\" in part.text:
                raise ValueError(f"unknown command {part.text}")
