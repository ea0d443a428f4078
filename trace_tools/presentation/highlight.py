"""Highlight Python source as HTML at build time.

highlighted(("x = 1", "y = '''a", "b'''"))     one string of HTML per line; multi-line strings are coloured correctly
"""

from __future__ import annotations

import ast
import html
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby, pairwise

from pygments.lexers.python import PythonLexer
from pygments.token import STANDARD_TYPES, Token

from trace_tools.util import formats

# The tag for each Pygments class that page.css colours; other tokens have none. A page has a thousand of these tags,
# and without a class attribute they take a third of the bytes.
_CLASSES = {
    "b": ("k", "kc", "kd", "kn", "kr", "ow"),
    "u": ("s", "sa", "sd", "se", "si"),
    "em": ("c",),
    "i": ("m",),
    "dfn": ("nd", "nf", "nc"),
    "var": ("nb",),
}
TAGS = {name: tag for tag, names in _CLASSES.items() for name in names}


def highlighted(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the HTML of each line of a Python source."""
    shown = tuple(line.replace("\r", "␍") for line in lines)
    cuts = [0, *_beginnings(shown), len(shown)]
    return tuple(line for first, end in pairwise(cuts) for line in _highlighted(shown[first:end]))


def _beginnings(lines: Sequence[str]) -> list[int]:
    """Return the first lines of the module's statements, where the lexer can start without context."""
    try:
        body = ast.parse("\n".join(lines)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []  # not divided
    found, end = [], 1
    for node in body:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        if first > end:  # else it shares a line with the previous one
            found.append(first - 1)
        end = node.end_lineno or first
    return found


@lru_cache(maxsize=4096)  # after an edit, only the edited function is highlighted again
def _highlighted(lines: tuple[str, ...]) -> tuple[str, ...]:
    parts: list[list[tuple[str, str]]] = [[]]
    lexer = PythonLexer(stripnl=False, ensurenl=False)
    for kind, text in lexer.get_tokens("\n".join(lines)):
        first, *rest = text.split("\n")
        tag = _tag(kind)
        parts[-1].append((tag, first))
        parts += [[(tag, line)] for line in rest]
    return tuple(_line(line) for line in parts)


def _line(parts: Sequence[tuple[str, str]]) -> str:
    """Write one line; neighbours of the same colour share a tag."""
    out = ""
    for tag, group in groupby(parts, key=lambda part: part[0]):
        shown = html.escape(formats.visible("".join(text for _, text in group)), quote=False)
        out += f"<{tag}>{shown}</{tag}>" if tag and shown else shown
    return out


def _tag(kind: object) -> str:
    """Return the tag of a token, or of its nearest ancestor with a colour."""
    while kind is not Token and kind is not None:
        name = STANDARD_TYPES.get(kind, "")  # type: ignore[call-overload]
        if name in TAGS:
            return TAGS[name]
        kind = getattr(kind, "parent", None)
    return ""
