"""Choose the text that pages show: the lecture's current text, or the source that a trace stores.

Two things may change without a new trace: the words of `text("…")` and `note("…")` without values, and comments other
than `@inspect`, `@clear` and `@stepover`. If the rest is equal, every statement has the same number.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from trace_tools.errors import LectureError
from trace_tools.source.cells import Cell
from trace_tools.source.directives import RECORDED
from trace_tools.source.layout import CutSource, cut_source
from trace_tools.source.statements import Statement
from trace_tools.source.vocabularies import narrative_calls
from trace_tools.trace.model import SourceFile, Step

_cut = lru_cache(maxsize=8)(cut_source)  # one lecture, traced on this many machines


@dataclass(frozen=True)
class ShownSource:
    """The text to show, and its relation to the recorded text."""

    source: CutSource
    reworded: Mapping[int, str] = field(default_factory=dict)  # current words, by statement
    lines: Mapping[int, int] = field(default_factory=dict)  # line of the trace → line of the shown text
    stale: str | None = None  # why the current text is not shown

    def statement(self, step: Step) -> Statement:
        """Return the statement that a step executed."""
        return self.source.parsed.numbered[step.statement]

    def code(self, line: int) -> str:
        """Return the code of a line of the shown text, or ""."""
        return (self.source.lines[line - 1] or "").strip() if 0 < line <= len(self.source.lines) else ""


@lru_cache(maxsize=8)
def shown_source(stored: SourceFile, lecture: str | None) -> ShownSource:
    """Return the current text of a lecture if its code is that of the trace, else the stored text.

    Raises LectureError if the stored text is not valid Python.
    """
    old = _cut(stored.text, stored.path)
    if lecture is None or lecture == stored.text:
        return ShownSource(old)
    try:
        new = _cut(lecture, stored.path)
    except LectureError as error:
        return ShownSource(old, stale=f"the lecture can no longer be read ({error})")
    was, now = _words(old), _words(new)
    if [*_code(old, was)] != [*_code(new, now)]:
        return ShownSource(old, stale="the lecture's code, or a text with values, has changed since it was traced")
    reworded = {number: str(words.value) for number, words in now.items() if words.value != was[number].value}
    lines: dict[int, int] = {}
    for before, after in zip(old.parsed.numbered, new.parsed.numbered, strict=True):
        for line in range(before.first_line, before.header_end + 1):
            lines[line] = min(after.first_line + line - before.first_line, after.header_end)
    return ShownSource(new, reworded, lines)


def _words(source: CutSource) -> dict[int, ast.Constant]:
    """Return the words of `text("…")` and `note("…")`, by statement."""
    words: dict[int, ast.Constant] = {}
    for number, name in narrative_calls(source.parsed).items():
        match source.parsed.statements[number].node:
            case ast.Expr(ast.Call(args=[ast.Constant(str()) as constant], keywords=[])) if name in ("text", "note"):
                words[number] = constant
    return words


def _code(source: CutSource, words: Mapping[int, ast.Constant]) -> Iterator[object]:
    """Yield what must be equal in two texts: the code but for these words, what is recorded of it, and its cells."""

    def form(value: object) -> object:
        if isinstance(value, list):
            return [form(one) for one in value]
        return type(value) if isinstance(value, ast.AST) else repr(value)  # `1` and `True` are equal

    changeable = {id(one) for one in words.values()}
    for node in ast.walk(source.parsed.tree):
        yield type(node), None if id(node) in changeable else [form(value) for _, value in ast.iter_fields(node)]
    for directive in (one for some in source.directives.values() for one in some if one.name in RECORDED):
        yield directive.name, directive.statement, directive.position, directive.names
        yield [(ast.dump(one.node), one.unit) for one in directive.inspected]
    for cell in source.parsed.cells:
        yield len(cell.node.body) if isinstance(cell.node, Cell) else 0
