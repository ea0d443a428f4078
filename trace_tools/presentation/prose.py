"""Convert a lecture's Markdown to tokens, and tokens to safe HTML.

markdown-it's own renderer writes the HTML, with rules of ours: raw HTML is shown as text, links lead only to http,
https, mailto or relative addresses, and math becomes MathML at build time.

    to_html("A *storage* of $n$ bytes.")        "<p>A <em>storage</em> of <math>…</math> bytes.</p>"
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import lru_cache
from inspect import cleandoc
from itertools import chain, pairwise
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin

from trace_tools.presentation.formulas import mathml, readable
from trace_tools.presentation.varied import CLOSE, with_ranges
from trace_tools.trace.model import Varied
from trace_tools.util import formats

# the blank between a number and its unit, and before the number of a section
_UNBROKEN = re.compile(
    rf"(?:(?<=[\d⁰-⁹])|(?<=[\d⁰-⁹]{CLOSE})) "
    r"(?=(?:[kKMGTPE]i?|[mµn])?(?:B|FLOPs?|s|bits?|bytes?|min|h|GPUs?|tokens?)\b|(?:[MBT]|[mbtr]+illion"
    r"|days?|hours?|thousand|dollars|parameters|numbers|[bft]+p?\d+)\b)"
    r"|(?<=[Ss]ection) (?=\d)"
)
LONGEST_URL = 2_000

Image = Callable[[str], str | None]  # maps a path to the address of the image; None: refused

# a browser would break the line there
BEFORE_PUNCTUATION = re.compile(r"<math\b(?:(?!<math\b).)*?</math>[,.;:!?)]+", re.DOTALL)
_URL = re.compile(r"[\w\-.~:/?#\[\]@!$&'()*+,;=%]+")  # RFC 3986, and letters of any script
TERM = 5  # most words of a term
# Where links lead, by address; None: nowhere. Set while a page is written that contains other pages.
linked: ContextVar[Callable[[str], str | None]] = ContextVar("linked")


def safe_url(url: str) -> str | None:
    """Return `url` if it is an http, https, mailto or relative address; else None."""
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


def on_the_web(url: str) -> bool:
    """Return whether an image or video is on the web, at an address that is safe in a page and its content policy."""
    return safe_url(url) is not None and re.match(r"https?://[a-z0-9.-]+(:\d+)?(?=[/?#]|$)", url, re.I) is not None


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "maxNesting": 20})
    parser.enable(["table", "strikethrough"])
    parser.disable(["html_block", "html_inline"])
    parser.use(dollarmath_plugin, allow_space=False, allow_digits=False, allow_labels=False, double_inline=True)
    parser.renderer = _Renderer()
    return parser


def parse(markdown: str) -> list[Token]:
    """Return the tokens of a text, without its common indentation; exponents as on all pages, except in code."""
    tokens = _parser().parse(dedented(markdown))
    for child in chain.from_iterable(token.children or () for token in tokens):
        if child.type == "text":
            child.content = formats.tidy_exponents(child.content)
    return tokens


def dedented(markdown: str) -> str:
    """Return a text without the common indentation of a triple-quoted string."""
    return formats.visible(cleandoc(markdown.expandtabs(4).replace("\r\n", "\n")))


def headings(markdown: str) -> list[tuple[int, str]]:
    """Return the headings of a text as (level, plain text)."""
    tokens = pairwise(parse(markdown))
    return [(int(opening.tag[1]), _words(inline)) for opening, inline in tokens if opening.type == "heading_open"]


@lru_cache(maxsize=1024)
def passages(markdown: str) -> str:
    """Return the words of a text without markup and headings, for the search."""
    tokens = parse(markdown)
    titles = {id(token) for opening, token in pairwise(tokens) if opening.type == "heading_open"}
    return " ".join(_words(token) for token in tokens if id(token) not in titles)


def terms(markdown: str) -> list[str]:
    """Return the terms that a text introduces in bold, without whole sentences."""
    bold = []
    for token in parse(markdown):
        children = token.children or []
        for opening, inside, closing in zip(children, children[1:], children[2:], strict=False):
            if (opening.type, inside.type, closing.type) == ("strong_open", "text", "strong_close"):
                bold.append(inside.content.strip())
    return [term for term in bold if len(term.split()) <= TERM and not re.search(r"[.:!?,]$", term)]


def _words(token: Token) -> str:
    if token.type.startswith("math"):
        return readable(token.content)
    if token.type == "inline":
        return "".join(_words(child) or (" " if child.type.endswith("break") else "") for child in token.children or [])
    return "".join(map(_words, token.children or [])) if token.type == "image" else token.content


def readable_text(markdown: str) -> str:
    r"""Return one line of Markdown as readable text, with its math: "$n \times n$" is "n × n"."""
    return "".join(map(_words, _parser().parseInline(formats.one_line(markdown, 500))))


def inline_html(markdown: str) -> str:
    """Return one line of Markdown as HTML without a paragraph and without images."""
    return str(_parser().renderInline(formats.one_line(markdown, 2_000)))


def title_html(markdown: str, limit: int = 200) -> str:
    """Return a title as HTML for use inside a link: with math, without links; longer titles as plain text."""
    text = readable_text(markdown)
    if len(text) > limit:
        return html.escape(formats.one_line(text, limit))
    return re.sub(r"</?a\b[^>]*>", "", inline_html(markdown))


def slug(text: str) -> str:
    """Return `text` as part of an address: "Views share storage" → "views-share-storage"."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60] or "section"


def to_html(
    markdown: str,
    anchors: Sequence[str] = (),
    image: Image = lambda path: None,
    varied: Sequence[Varied] = (),
    prefix: str = "range",
) -> str:
    """Return the HTML of a text.

    `anchors` are the ids of its headings; `image` maps a path to an address (None: refused). Numbers that varied show
    their range on hover and focus; the ids of these notes begin with `prefix`.
    """

    def render(text: str) -> str:
        parser = _parser()
        return str(parser.renderer.render(parse(text), parser.options, {"anchors": list(anchors), "image": image}))

    return with_ranges(render, markdown, varied, prefix) if varied else render(markdown)


def _level(heading: Token) -> int:
    """Return the level of a heading on a page: the page's title is h1, so prose begins at h2."""
    return min(6, max(2, int(heading.tag[1])))


class _Renderer(RendererHTML):
    """markdown-it's HTML, with a method for each kind of token that pages write otherwise."""

    def renderInline(self, tokens: Sequence[Token], options: Any, env: Any) -> str:
        return BEFORE_PUNCTUATION.sub(
            r'<span class="unbroken">\g<0></span>', super().renderInline(tokens, options, env)
        )

    @staticmethod
    def renderAttrs(token: Token) -> str:
        # the alignment of a cell is a class, because inline styles are forbidden
        attributes = {"class" if name == "style" else name: str(value) for name, value in token.attrs.items()}
        return "".join(f' {k}="{html.escape(v.removeprefix("text-align:"))}"' for k, v in attributes.items())

    def text(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        return _UNBROKEN.sub("\u00a0", super().text(tokens, at, options, env))

    def fence(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        return f'<pre tabindex="0"><code>{html.escape(tokens[at].content)}</code></pre>\n'

    def code_block(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        return self.fence(tokens, at, options, env)

    def math_inline(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        return mathml(tokens[at].content)

    def math_inline_double(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        return mathml(tokens[at].content, display=True)

    def math_block(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        formula = mathml(tokens[at].content, display=True)
        return f'<div class="math" tabindex="0" role="group" aria-label="Formula">{formula}</div>\n'

    def heading_open(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        anchors = env["anchors"]
        return f"<h{_level(tokens[at])}" + (f' id="{html.escape(anchors[0])}">' if anchors else ">")

    def heading_close(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        link = '<a class="permalink" href="#{}" aria-label="Link to this heading">#</a>'
        anchors = env["anchors"]
        return (link.format(html.escape(anchors.pop(0))) if anchors else "") + f"</h{_level(tokens[at])}>\n"

    def link_open(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        url = linked.get(safe_url)(str(tokens[at].attrs["href"]))
        title = html.escape(str(tokens[at].attrs.get("title", "")))
        hover = f' title="{title}"' if title else ""
        return f'<a href="{html.escape(url)}" rel="noreferrer"{hover}>' if url else "<a>"

    def image(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        source = env["image"](str(tokens[at].attrs["src"])) if "image" in env else None
        alt = html.escape(_words(tokens[at]))
        return f'<img src="{html.escape(source)}" alt="{alt}">' if source else f"<em>[{alt or 'image'}: not shown]</em>"
