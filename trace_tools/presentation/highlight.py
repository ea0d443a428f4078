"""Highlight Python source as HTML at build time, by Pygments.

highlighted(("x = 1", "y = '''a", "b'''"))     one string of HTML per line; multi-line strings are coloured correctly
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pygments import highlight
from pygments.filter import simplefilter
from pygments.formatters.html import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers.python import PythonLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String, Text, _TokenType

from trace_tools.util import formats

# The kinds of tokens that `page.css` colours; others are plain text, because a page has thousands of them.
COLOURED = (Keyword, Operator.Word, String, Comment, Number, Name.Decorator, Name.Function, Name.Class, Name.Builtin)


@simplefilter
def _coloured(
    self: object, lexer: Lexer | None, stream: Iterable[tuple[_TokenType, str]], options: dict[str, Any]
) -> Iterator[tuple[_TokenType, str]]:
    for kind, text in stream:
        yield next((one for one in COLOURED if kind[: len(one)] == one), Text), text


def highlighted(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the HTML of each line of a Python source, with Pygments' short classes."""
    lexer = PythonLexer(stripnl=False, ensurenl=False, filters=[_coloured()])
    text = "\n".join(formats.visible(line.replace("\r", "␍")) for line in lines)
    return tuple(highlight(text, lexer, HtmlFormatter(nowrap=True)).split("\n"))[: len(lines)]
