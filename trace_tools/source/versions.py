"""Choose the text that the pages use: the source stored in a trace, or the lecture's current text.

Prose may change without a new trace: constant `text` and `note` statements come, go and change; the literal parts of
their f-strings change, and so do questions, hints and titles (`ASIDES`), and comments other than `@inspect`, `@clear`
and `@stepover`. If the rest is equal, every statement that ran still exists, and the pages use the current text.

    shown = shown_source(SourceFile("lecture.py", old), new)
    shown.stale           # None, or why the new text can't be used
    shown.recorded[7]     # the number that statement 7 of the shown text has in the trace
    shown.reworded[9]     # old and new words of statement 9 of the trace
    shown.added[4]        # the prose that statement 4 adds, and the statement of the trace that it is shown beside
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

from trace_tools.errors import LectureError
from trace_tools.source.cells import Cell
from trace_tools.source.directives import RECORDED
from trace_tools.source.layout import CutSource, cut_source
from trace_tools.source.statements import FUNCTIONS, Statement
from trace_tools.source.vocabularies import words_called
from trace_tools.trace.model import Note, SourceFile, Step, Text

ASIDES = frozenset({"question", "hint", "why", "title", "alt"})  # keywords of narrative calls
PROSE = ("text", "note")
CHANGED = "the lecture's code has changed since it was traced"
_LOOPS = (ast.For, ast.AsyncFor, ast.While)  # one execution per evaluation of the header

_Form = tuple[str | None, ...]  # the literal parts of a text; None is a value of an f-string


@dataclass(frozen=True, slots=True)
class Rewording:
    """A text in the trace's words and in the current ones, with the same values."""

    was: _Form
    now: _Form
    prose: Text | Note | None = None  # the current one, if it is constant

    def of(self, narrative: Text | Note) -> Text | Note | None:
        """Return recorded narrative in the current words; None if its text does not tell where its values are."""
        if self.prose is not None:
            return self.prose
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
    recorded: Mapping[int, int]  # statement of the shown text → statement of the trace
    reworded: Mapping[int, Sequence[Rewording]] = field(default_factory=dict)  # by statement of the trace
    # statement of the shown text → its prose, and the statement of the trace beside it: the prose is shown as often as
    # that ran; None for once in each call
    added: Mapping[int, tuple[Text | Note, int | None]] = field(default_factory=dict)
    lines: Mapping[int, int] = field(default_factory=dict)  # line of the trace → line of the shown text, if it moved
    stale: str | None = None

    @cached_property
    def shown(self) -> Mapping[int, int]:
        """The number in the shown text of each statement of the trace."""
        return {old: new for new, old in self.recorded.items()}

    def statement(self, step: Step) -> Statement | None:
        """Return the statement of the shown text that a step executed; None for prose that was removed since."""
        number = self.shown.get(step.statement, -1)
        statements = self.source.parsed.numbered
        return statements[number] if 0 <= number < len(statements) else None

    def line(self, step: Step) -> int:
        """Return the line of a step in the shown text, or the line where its removed statement was."""
        statement = self.statement(step)
        return statement.line if statement is not None else self.lines.get(step.line, step.line)

    def code(self, line: int) -> str:
        """Return the code of a line of the shown text, or ""."""
        return (self.source.lines[line - 1] or "").strip() if 0 < line <= len(self.source.lines) else ""


@lru_cache(maxsize=8)  # one lecture, traced on this many machines
def shown_source(stored: SourceFile, lecture: str | None) -> ShownSource:
    """Return the current text of a lecture if its code is that of the trace, else the stored text.

    Raises LectureError if the stored text is not valid Python.
    """
    old = _edition(stored.text, stored.path)
    same = {statement.number: statement.number for statement in old.statements}
    if lecture is None or lecture == stored.text:
        return ShownSource(old.source, same)
    try:
        new = _edition(lecture, stored.path)
        pairs = _Pairs(old, new)
    except LectureError as error:
        return ShownSource(old.source, same, stale=f"the lecture can no longer be read ({error})")
    except _ChangedError as change:
        return ShownSource(old.source, same, stale=str(change))
    lines: dict[int, int] = {}
    reworded: dict[int, list[Rewording]] = {}
    for number, recorded in pairs.recorded.items():
        before, after = old.statements[recorded], new.statements[number]
        for line in range(before.first_line, before.header_end + 1):
            lines[line] = min(after.first_line + line - before.first_line, after.header_end)
        words = zip(old.words.get(recorded, ()), new.words.get(number, ()), strict=True)
        prose = new.prose.get(id(after.node))
        was_else = prose != old.prose.get(id(before.node))  # also a text that is now a note
        if changed := [Rewording(was, now, prose) for was, now in words if was != now or was_else]:
            reworded[recorded] = changed
    return ShownSource(new.source, pairs.recorded, reworded, pairs.added, lines)


class _Edition:
    """One of the texts, and the words in it that only readers see."""

    def __init__(self, source: CutSource) -> None:
        self.source, self.statements = source, source.parsed.numbered
        self.numbers = {id(statement.node): statement.number for statement in self.statements}
        self.words: dict[int, list[_Form]] = {}  # by statement
        self.reworded: set[int] = set()  # ids of the nodes with these words
        self.prose: dict[int, Text | Note] = {}  # by id of the statement
        for number, (word, _) in words_called(source.parsed).items():
            node = self.statements[number].node
            words = _words(node, word)
            self.words[number] = [_form(one) for one in words]
            self.reworded |= {id(one) for one in words}
            if word in PROSE and words and isinstance(words[0], ast.Constant):
                text = str(words[0].value)
                self.prose[id(node)] = Text(text=text) if word == "text" else Note(text=text)

    def code_in(self, cell: Statement) -> list[int]:
        """Return the statements of a cell, without prose."""
        assert isinstance(cell.node, Cell)
        return [self.numbers[id(one)] for one in cell.node.body if id(one) not in self.prose]

    def recording(self, numbers: Mapping[int, int]) -> list[object]:
        """Return the directives that change the recording, with other numbers for their statements."""
        directives = [one for some in self.source.directives.values() for one in some if one.name in RECORDED]
        inspected = [[(ast.dump(item.node), item.unit) for item in one.inspected] for one in directives]
        statements = [(numbers.get(one.statement), one.name, one.position, one.names) for one in directives]
        return [*zip(statements, inspected, strict=True)]


@lru_cache(maxsize=8)
def _edition(text: str, path: str) -> _Edition:
    return _Edition(cut_source(text, path))


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


class _ChangedError(Exception):
    """Two texts differ in more than prose."""


class _Pairs:
    """The statements of two texts that are equal but for words, and the prose that is new."""

    def __init__(self, old: _Edition, new: _Edition) -> None:
        self.recorded: dict[int, int] = {}  # statement of the new text → of the old one
        self.added: dict[int, tuple[Text | Note, int | None]] = {}
        self._old, self._new = old, new
        self._pair(old.source.parsed.tree, new.source.parsed.tree)
        cells = [edition.source.parsed.cells for edition in (old, new)]
        if [old.code_in(cell) for cell in cells[0]] != [
            [self.recorded[number] for number in new.code_in(cell)] for cell in cells[1]
        ]:
            raise _ChangedError(CHANGED)
        self.recorded |= {cell.number: was.number for was, cell in zip(*cells, strict=True)}
        if old.recording({number: number for number in self.recorded.values()}) != new.recording(self.recorded):
            raise _ChangedError(CHANGED)

    def _pair(self, was: Any, now: Any) -> None:
        """Pair what is inside two nodes, or two values of a field."""
        if type(was) is not type(now):
            raise _ChangedError(CHANGED)
        if id(was) in self._old.reworded and id(now) in self._new.reworded:
            parts = (getattr(one, "values", ()) for one in (was, now))
            was, now = ([part for part in some if isinstance(part, ast.FormattedValue)] for some in parts)
        if isinstance(was, ast.AST):
            if isinstance(was, ast.stmt):
                self.recorded[self._new.numbers[id(now)]] = self._old.numbers[id(was)]
            for name in was._fields:
                part, other = getattr(was, name), getattr(now, name)
                if name in ("body", "orelse", "finalbody") and isinstance(part, list):  # no lambda's
                    self._pair_bodies(part, other, steady=isinstance(was, (ast.Module, *FUNCTIONS)))
                else:
                    self._pair(part, other)
        elif isinstance(was, list):
            if len(was) != len(now):
                raise _ChangedError(CHANGED)
            for part, other in zip(was, now, strict=True):
                self._pair(part, other)
        elif repr(was) != repr(now):
            raise _ChangedError(CHANGED)

    def _pair_bodies(self, was: list[ast.stmt], now: list[ast.stmt], *, steady: bool) -> None:
        """Pair two lists of statements: their code one by one, and between two lines of code the prose in its order.

        More prose than there was is shown beside the nearest statement before it, else after it, but no loop: a loop's
        header runs once more than its neighbours. `steady` lists run once in each call.
        """
        code_was = [index for index, one in enumerate(was) if id(one) not in self._old.prose]
        code_now = [index for index, one in enumerate(now) if id(one) not in self._new.prose]
        self._pair([was[index] for index in code_was], [now[index] for index in code_now])
        ends = zip(pairwise([-1, *code_was, len(was)]), pairwise([-1, *code_now, len(now)]), strict=True)
        for (start, end), (start_now, end_now) in ends:
            prose_was = was[start + 1 : end]
            for index, one in enumerate(now[start_now + 1 : end_now]):
                number, prose = self._new.numbers[id(one)], self._new.prose[id(one)]
                if index < len(prose_was):
                    self.recorded[number] = self._old.numbers[id(prose_was[index])]
                    continue
                around = (*reversed(was[:end]), *was[end:])
                beside = next((near for near in around if not isinstance(near, _LOOPS)), None)
                if beside is None and not steady:
                    raise _ChangedError("the lecture has new prose in a branch that was not traced")
                self.added[number] = prose, None if beside is None else self._old.numbers[id(beside)]
