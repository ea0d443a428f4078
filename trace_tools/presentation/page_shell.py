"""The shell of every HTML page: templates that escape everything, a content policy for its scripts and styles, data for
the scripts, and highlighted code.

    environment().get_template("section.html.j2").render(assets=assets("page"), …)
    packed({"frames": [], "stops": []})                  "eNq1W…": for `unpack` of page.js
    highlighted(("x = 1", "y = 2"))                       one string of HTML for each line
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from pygments import highlight
from pygments.filter import simplefilter
from pygments.formatters.html import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers.python import PythonLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String, Text, _TokenType

from trace_tools.presentation import prose
from trace_tools.util import formats

HERE = Path(__file__).parent
SECTION = "section.js"  # the script file next to the pages, shared by all of them
IMAGES = "img-src 'self' data:"  # the images that a page may show

# The icon: three memory stacks, in the colours of the figures.
_STACKS = ((5, 18, "#2f6fdd"), (13, 5, "#d9480f"), (21, 12, "#1a8f58"))
_BARS = "".join(f"<path fill='{colour}' d='M{x} 28V{top}h6V28z'/>" for x, top, colour in _STACKS)
FAVICON = "data:image/svg+xml," + quote(f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'>{_BARS}</svg>")


@dataclass(frozen=True, slots=True)
class Assets:
    """The stylesheet, the script, and the policy that allows only these."""

    css: Markup
    js: Markup
    policy: str


def allowed(css: str, js: str, *, beside: bool = False) -> Assets:
    """Return a style and a script with a policy of their hashes; `beside` also allows script files next to the page."""
    own = " 'self'" if beside else ""
    sources = f"script-src '{source_hash(js)}'{own}; style-src '{source_hash(css)}'; {IMAGES}"
    return Assets(Markup(css), Markup(js), f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'")


def source_hash(text: str) -> str:
    """Return the hash that names an inline style or script in a policy (Content Security Policy, level 3)."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


@lru_cache(maxsize=32)
def assets(*names: str, beside: bool = True) -> Assets:
    """Read the styles and scripts of a page by their names in `static/`: `page` for all, `player` for steps, …

    With `beside` script files next to the page are allowed, as for the search.
    """
    files = [[HERE / "static" / f"{name}.{kind}" for name in names] for kind in ("css", "js")]
    css, js = ("".join(path.read_text(encoding="utf-8") for path in paths if path.exists()) for paths in files)
    return allowed(css, js, beside=beside)


def section_script() -> str:
    """Return the script file of all sections, with its style."""
    style, script = assets("player").css, assets("player", "explore").js
    return f"page.sectionStyle = {json.dumps(style, ensure_ascii=False)};\n{script}"


def packed(plain: Any) -> str:
    """Return plain data as deflated JSON in base64; equal data gives equal bytes."""
    text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode("utf-8"), 9)).decode("ascii")


# The kinds of tokens that `page.css` colours; others are plain text, because a page has thousands of them.
COLOURED = (Keyword, Operator.Word, String, Comment, Number, Name.Decorator, Name.Function, Name.Class, Name.Builtin)


@simplefilter
def _coloured(
    self: object, lexer: Lexer | None, stream: Iterable[tuple[_TokenType, str]], options: dict[str, Any]
) -> Iterator[tuple[_TokenType, str]]:
    for kind, text in stream:
        yield next((one for one in COLOURED if kind[: len(one)] == one), Text), text


@lru_cache(maxsize=32)
def highlighted(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Return the HTML of each line of a Python source, with Pygments' short classes."""
    lexer = PythonLexer(stripnl=False, ensurenl=False, filters=[_coloured()])
    text = "\n".join(formats.visible(line.replace("\r", "␍")) for line in lines)
    return tuple(highlight(text, lexer, HtmlFormatter(nowrap=True)).split("\n"))[: len(lines)]


def environment(folder: Path = HERE / "templates") -> Environment:
    """Return the templates, with the filters that pages and reports share."""
    templates = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "line": formats.one_line,
        "plain": prose.readable_text,
        "titled": lambda text, limit=200: Markup(prose.title_html(text, limit)),
        "inline": lambda text: Markup(prose.inline_html(text)),
        "prose": lambda text: Markup(prose.to_html(text)),
        "plural": formats.plural,
        "on_the_web": prose.on_the_web,
        "short_address": formats.short_address,
    }
    templates.globals["favicon"] = FAVICON
    return templates
