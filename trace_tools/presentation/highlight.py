"""Highlight Python source as HTML at build time.

highlighted(("x = 1", "y = '''a", "b'''"))     one string of HTML per line; multi-line strings are coloured correctly
"""

from __future__ import annotations

import ast
import html
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby, pairwise
from operator import itemgetter

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
    lines = tuple(line.replace("\r", "␍") for line in lines)
    try:
        body = ast.parse("\n".join(lines)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        body = []  # the source is not divided
    # The source is cut between the module's statements, where the lexer can start without context.
    cuts, end = [0], 1
    for node in body:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        if first > end:  # else it shares a line with the previous one
            cuts.append(first - 1)
        end = node.end_lineno or first
    cuts.append(len(lines))
    return tuple(line for first, end in pairwise(cuts) for line in _highlighted(lines[first:end]))


@lru_cache(maxsize=4096)  # after an edit, only the edited function is highlighted again
def _highlighted(lines: tuple[str, ...]) -> tuple[str, ...]:
    tagged: list[list[tuple[str, str]]] = [[]]  # for each line, texts with their tags
    lexer = PythonLexer(stripnl=False, ensurenl=False)
    for kind, text in lexer.get_tokens("\n".join(lines)):
        first, *others = text.split("\n")
        tag = _tag(kind)
        tagged[-1].append((tag, first))
        tagged += [[(tag, line)] for line in others]
    written = []
    for line in tagged:
        out = ""
        for tag, group in groupby(line, key=itemgetter(0)):  # neighbours of the same colour share a tag
            shown = html.escape(formats.visible("".join(text for _, text in group)), quote=False)
            out += f"<{tag}>{shown}</{tag}>" if tag and shown else shown
        written.append(out)
    return tuple(written)


def _tag(kind: object) -> str:
    """Return the tag of a token, or of its nearest ancestor with a colour."""
    while kind is not Token and kind is not None:
        name = STANDARD_TYPES.get(kind, "")  # type: ignore[call-overload]
        if name in TAGS:
            return TAGS[name]
        kind = getattr(kind, "parent", None)
    return ""
