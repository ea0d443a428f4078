"""Choose the text that the pages use: the source stored in a trace, or the lecture's current text.

Words may change without a new trace: those of `text` and `note`, of the literal parts of their f-strings, of questions,
hints and titles (`ASIDES`), and of comments other than `@inspect`, `@clear` and `@stepover`. If the rest is equal,
every statement has the same number, and the pages use the current text.

    shown = shown_source(SourceFile("lecture.py", old), new)
    shown.stale           # None, or why the new text can't be used
    shown.reworded[9]     # old and new words of statement 9
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise

from trace_tools.errors import LectureError
from trace_tools.source.cells import Cell
from trace_tools.source.directives import RECORDED
from trace_tools.source.layout import CutSource, cut_source
from trace_tools.source.statements import Statement
from trace_tools.source.vocabularies import narrative_calls
from trace_tools.trace.model import Note, SourceFile, Step, Text

ASIDES = frozenset({"question", "hint", "why", "title", "alt"})  # keywords of narrative calls
PROSE = ("text", "note")

_Form = tuple[str | None, ...]  # the literal parts of a text; None is a value of an f-string
_cut = lru_cache(maxsize=8)(cut_source)  # one lecture, traced on this many machines


@dataclass(frozen=True, slots=True)
class Rewording:
    """A text in the trace's words and in the current ones, with the same values."""

    was: _Form
    now: _Form

    def of(self, narrative: Text | Note) -> Text | Note | None:
        """Return recorded narrative in the current words; None if its text does not tell where its values are."""
        if None not in self.was:
            return replace(narrative, text="".join(filter(None, self.now)), varied=None)
        form = "".join("(.*?)" if part is None else re.escape(part) for part in self.was)
        found = re.fullmatch(form, narrative.text or "", re.DOTALL)
        if found is None:
            return None
        text = ""
        moved: list[tuple[int, int, int]] = []  # start and end of each value, and how far it moves
        for part in self.now:
            if part is None:
                start, end = found.span(len(moved) + 1)
                moved.append((start, end, len(text) - start))
                part = found[len(moved)]
            text += part
        varied = [
            replace(one, start=one.start + by, end=one.end + by)
            for one in narrative.varied or ()
            for start, end, by in moved
            if one.start is not None and one.end is not None and start <= one.start and one.end <= end
        ]
        return replace(narrative, text=text, varied=varied or None)


@dataclass(frozen=True)
class ShownSource:
    """The text to show, and its relation to the recorded text."""

    source: CutSource
    reworded: Mapping[int, Sequence[Rewording]] = field(default_factory=dict)  # by statement
    lines: Mapping[int, int] = field(default_factory=dict)  # line of the trace → line of the shown text, if it moved
    stale: str | None = None

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
    words, other_words = _words_in(old), _words_in(new)
    if [*_code(old, words)] != [*_code(new, other_words)]:
        return ShownSource(old, stale="the lecture's code, or its number of texts, has changed since it was traced")
    reworded: dict[int, list[Rewording]] = {}
    for (number, was), (_, now) in zip(words.values(), other_words.values(), strict=True):
        if was != now:
            reworded.setdefault(number, []).append(Rewording(was, now))
    lines: dict[int, int] = {}
    for before, after in zip(old.parsed.numbered, new.parsed.numbered, strict=True):
        for line in range(before.first_line, before.header_end + 1):
            lines[line] = min(after.first_line + line - before.first_line, after.header_end)
    return ShownSource(new, reworded, lines)


def _code(source: CutSource, words: Collection[int]) -> Iterator[object]:
    """Yield what must be equal in two texts: the code without these words, what is recorded of it, and its cells."""
    waiting: list[object] = [source.parsed.tree]
    while waiting:
        item = waiting.pop()
        if id(item) in words:
            item = [part for part in getattr(item, "values", ()) if isinstance(part, ast.FormattedValue)]
        if isinstance(item, ast.AST):
            yield type(item).__name__
            waiting += [value for _, value in ast.iter_fields(item)]
        elif isinstance(item, list):
            yield len(item)
            waiting += item
        else:
            yield type(item), repr(item)
    for directive in (one for some in source.directives.values() for one in some if one.name in RECORDED):
        yield directive.name, directive.statement, directive.position, directive.names
        yield [(ast.dump(one.node), one.unit) for one in directive.inspected]
    for cell in source.parsed.cells:
        yield len(cell.node.body) if isinstance(cell.node, Cell) else 0


def _words_in(source: CutSource) -> dict[int, tuple[int, _Form]]:
    """Return the words that only readers see, by id of their node: the statement and their form."""
    words: dict[int, tuple[int, _Form]] = {}
    for number, word in narrative_calls(source.parsed).items():
        words |= {id(one): (number, _form(one)) for one in _words(source.parsed.statements[number].node, word)}
    return words


def _words(node: ast.stmt, word: str) -> list[ast.Constant | ast.JoinedStr]:
    """Return the words of a narrative call that only readers see."""
    match node:
        case ast.Expr(ast.Call(args=[(ast.Constant(str()) | ast.JoinedStr()) as words], keywords=[])) if word in PROSE:
            form = _form(words)  # two values next to each other can't be told apart in a recorded text
            return [] if any(one is None is other for one, other in pairwise(form)) else [words]
        case ast.Expr(ast.Call(args=args, keywords=keywords)) if word not in PROSE:
            given = [*(args[:1] if word == "ask" else ()), *(one.value for one in keywords if one.arg in ASIDES)]
            return [one for one in given if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    return []


def _form(words: ast.Constant | ast.JoinedStr) -> _Form:
    parts = words.values if isinstance(words, ast.JoinedStr) else [words]
    return tuple(str(part.value) if isinstance(part, ast.Constant) else None for part in parts)
