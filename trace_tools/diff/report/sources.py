"""Read titles and lines from the sources of a side, as pages show them."""

from __future__ import annotations

import ast
from functools import lru_cache

from trace_tools.diff.difference import Side
from trace_tools.errors import LectureError
from trace_tools.source.layout import cut_source, split_lines
from trace_tools.trace.model import SourceFile


def shown_line(side: Side, source: int, number: int) -> str:
    """Return a line of a side without directives, as pages show it; "" past the end."""
    lines = _shown(side.trace.sources[source])
    return lines[number - 1] if number <= len(lines) else ""


@lru_cache(maxsize=8)
def _shown(source: SourceFile) -> tuple[str, ...]:
    try:
        return tuple(line or "" for line in cut_source(source.text, source.path).lines)
    except LectureError:  # the syntax of another Python version
        return tuple(split_lines(source.text))


def titles_of(side: Side) -> dict[str, str]:
    """Return the title of each top-level function of a lecture, which is the first line of its docstring."""
    try:
        tree = ast.parse(side.trace.sources[0].text) if side.trace.sources else ast.Module([], [])
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    docs = {n.name: ast.get_docstring(n) for n in tree.body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))}
    return {name: text.splitlines()[0] for name, text in docs.items() if text and text.strip()}
