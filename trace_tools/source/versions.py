"""Choose the text that the pages use: the source stored in a trace, or the lecture's current text.

Prose may change without a new trace. Both texts are compared without the parts that only readers see: constant `text`
and `note` statements, the literal parts of their f-strings, questions, hints and titles (`ASIDES`), and comments other
than `@inspect`, `@clear` and `@stepover`. If the rest is equal, every statement that ran still exists, and the pages
use the current text.

    shown = shown_source(SourceFile("lecture.py", old), new)
    shown.stale           # None, or why the new text can't be used
    shown.recorded[7]     # the number that statement 7 of the shown text has in the trace
    shown.reworded[9]     # the old and the new words of the f-string of statement 9 of the trace
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

from trace_tools.errors import LectureError
from trace_tools.source.directives import RECORDED, Directive
from trace_tools.source.layout import CutSource, cut_source
from trace_tools.source.statements import FUNCTIONS, Statement
from trace_tools.source.vocabularies import words_called
from trace_tools.trace.model import Note, SourceFile, Step, Text

ASIDES = frozenset({"question", "hint", "why", "title", "alt"})  # keywords of narrative calls
_LOOPS = (ast.For, ast.AsyncFor, ast.While)  # one execution per evaluation of the header


@dataclass(frozen=True, slots=True)
class NewProse:
    """A constant narrative statement of the new text, shown as often as a recorded statement near it ran."""

    narrative: Text | Note
    beside: int | None  # the recorded statement's number, or None for once in each call of the function
    reworded: bool = False  # it replaces the recorded statement and takes over its steps


_Form = tuple[str | None, ...]  # the literal parts of an f-string; None is a value


@dataclass(frozen=True, slots=True)
class Rewording:
    """An f-string in the trace's words and in the current ones, with the same values."""

    was: _Form
    now: _Form

    def of(self, narrative: Text | Note) -> Text | Note | None:
        """Return recorded narrative in the current words; None if its text does not tell where its values are."""
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
    prose: Mapping[int, NewProse] = field(default_factory=dict)
    reworded: Mapping[int, Rewording] = field(default_factory=dict)  # by statement of the trace
    asides: Mapping[int, Mapping[str, str]] = field(default_factory=dict)  # the same: old words, new words
    lines: Mapping[int, int] = field(default_factory=dict)  # line of the trace → line of the shown text, if it moved
    stale: str | None = None

    @cached_property
    def shown(self) -> Mapping[int, int]:
        """The number in the shown text of each statement of the trace, reworded prose included."""
        prose = ((number, new.beside) for number, new in self.prose.items() if new.reworded)
        return {old: new for new, old in (*prose, *self.recorded.items()) if old is not None}

    @cached_property
    def directives(self) -> Mapping[int, Sequence[Directive]]:
        """The directives of each statement of the shown text that has any."""
        by_statement: dict[int, list[Directive]] = {}
        for directive in self.source.directives:
            by_statement.setdefault(directive.statement, []).append(directive)
        return by_statement

    def statement(self, step: Step) -> Statement | None:
        """Return the statement of the shown text that a step executed; None for prose that was removed since."""
        number = self.shown.get(step.statement, -1)
        return self.source.parsed.statements[number] if 0 <= number < len(self.source.parsed.statements) else None

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
    old = _code_of(stored.text, stored.path)
    same = {statement.number: statement.number for statement in old.statements}
    if lecture is None or lecture == stored.text:
        return ShownSource(old.source, same)
    try:
        new = _code_of(lecture, stored.path)
    except LectureError as error:
        return ShownSource(old.source, same, stale=f"the lecture can no longer be read ({error})")
    if new.fingerprint != old.fingerprint:
        return ShownSource(old.source, same, stale="the lecture's code has changed since it was traced")
    prose = _prose_beside(old, new)
    if prose is None:
        return ShownSource(old.source, same, stale="the lecture has new prose in a branch that was not traced")
    moved: dict[int, int] = {}
    for before_number, after_number in zip(old.kept, new.kept, strict=True):
        before, after = old.statements[before_number], new.statements[after_number]
        for line in range(before.first_line, before.header_end + 1):
            moved[line] = min(after.first_line + line - before.first_line, after.header_end)
    recorded = dict(zip(new.kept, old.kept, strict=True))
    forms = ((recorded[number], form) for number, form in new.forms.items())
    reworded = {number: Rewording(old.forms[number], form) for number, form in forms if old.forms[number] != form}
    pairs = ((recorded[number], words) for number, words in new.asides.items())
    changed = {number: dict(zip(old.asides[number], words, strict=True)) for number, words in pairs}
    asides = {number: words for number, words in changed.items() if any(was != now for was, now in words.items())}
    return ShownSource(new.source, recorded, prose, reworded, asides, moved)


@lru_cache(maxsize=8)
def _code_of(text: str, path: str) -> _Code:
    return _Code(cut_source(text, path))


class _Position(NamedTuple):
    """The position of a statement: its list in its parent, and its siblings."""

    parent: int | None  # index among the kept statements, or None for the module
    path: str  # "body", "orelse", "handlers[0].body"
    siblings: tuple[int, ...]
    steady: bool  # the list is the body of a function or the module: executed once per call


_Gap = tuple[int | None, str, int]  # between kept siblings: their parent, their list, how many come before


class _Code:
    """A source without its constant prose: `kept` are the other statements, `index` their positions among
    themselves.
    """

    def __init__(self, source: CutSource) -> None:
        self.source = source
        self.statements = source.parsed.statements
        words = words_called(source.parsed)
        constants = {number: constant_prose(self.statements[number].node, word) for number, (word, _) in words.items()}
        self.prose = {number: narrative for number, narrative in constants.items() if narrative is not None}
        self.kept = [s.number for s in self.statements if s.number not in self.prose]
        self.index = {number: index for index, number in enumerate(self.kept)}
        self.prose_ids = {id(self.statements[number].node) for number in self.prose}
        forms = {number: form_of(self.statements[number].node, word) for number, (word, _) in words.items()}
        self.forms = {number: form for number, form in forms.items() if form is not None}
        self.form_ids = {id(self.statements[number].node.value.args[0]) for number in self.forms}  # type: ignore[attr-defined]
        asides = {number: asides_of(self.statements[number].node, word) for number, (word, _) in words.items()}
        self.asides = {number: [str(one.value) for one in found] for number, found in asides.items() if found}
        self.form_ids |= {id(one) for found in asides.values() for one in found}
        # directives that change the recording, as statement and arguments
        self.directives: list[tuple[int, object]] = []
        for one in source.directives:
            if one.name in RECORDED:
                inspected = [(ast.dump(item.node), item.unit) for item in one.inspected]
                self.directives.append((one.statement, (one.name, one.position, one.names, inspected)))
        self.positions: dict[int, _Position] = {}
        numbers = {id(s.node): s.number for s in self.statements}
        owners: list[tuple[int | None, ast.AST]] = [(None, source.parsed.tree)]
        for parent, node in [*owners, *((self.index.get(s.number), s.node) for s in self.statements)]:
            bodies: dict[str, Sequence[ast.stmt]] = {}  # the lists of statements directly inside, by path
            for name, value in ast.iter_fields(node):
                if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                    bodies[name] = value
                elif isinstance(value, list):
                    parts = [part for part in value if isinstance(part, (ast.ExceptHandler, ast.match_case))]
                    bodies |= {f"{name}[{count}].body": part.body for count, part in enumerate(parts)}
            for path, body in bodies.items():
                siblings = tuple(numbers[id(s)] for s in body)
                position = _Position(parent, path, siblings, isinstance(node, (ast.Module, *FUNCTIONS)))
                self.positions |= dict.fromkeys(siblings, position)

    @cached_property
    def fingerprint(self) -> tuple[list[object], list[object]]:
        """Return the code and the recording directives, which are equal if a trace of one text is a trace of the
        other.
        """
        directives: list[object] = [(self.index.get(statement), arguments) for statement, arguments in self.directives]
        return list(_flat(self.source.parsed.tree, self.prose_ids, self.form_ids)), directives

    @cached_property
    def gaps(self) -> dict[_Gap, list[int]]:
        """The prose in each gap between kept siblings."""
        gaps: dict[_Gap, list[int]] = {}
        for number in self.prose:
            gaps.setdefault(self.gap(number), []).append(number)
        return gaps

    def gap(self, number: int) -> _Gap:
        """Return the gap that contains a prose statement."""
        position = self.positions[number]
        return position.parent, position.path, sum(n < number and n in self.index for n in position.siblings)


def constant_prose(node: ast.stmt, word: str) -> Text | Note | None:
    """Return the narrative of a `text` or `note` with one literal string."""
    match node:
        case ast.Expr(ast.Call(args=[ast.Constant(str(text))], keywords=[])) if word in ("text", "note"):
            return Text(text=text) if word == "text" else Note(text=text)
    return None


def form_of(node: ast.stmt, word: str) -> _Form | None:
    """Return the form of a `text` or `note` with one f-string; None if values in it are not apart."""
    match node:
        case ast.Expr(ast.Call(args=[ast.JoinedStr(values=values)], keywords=[])) if word in ("text", "note"):
            form = tuple(str(part.value) if isinstance(part, ast.Constant) else None for part in values)
            return None if any(one is None and other is None for one, other in pairwise(form)) else form
    return None


def asides_of(node: ast.stmt, word: str) -> list[ast.Constant]:
    """Return the constant words of a narrative call that readers see beside its text."""
    match node:
        case ast.Expr(ast.Call(args=args, keywords=keywords)) if word not in ("text", "note"):
            given = [*(args[:1] if word == "ask" else ()), *(one.value for one in keywords if one.arg in ASIDES)]
            return [one for one in given if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    return []


def _flat(tree: ast.AST, prose_ids: set[int], form_ids: set[int]) -> Iterator[object]:
    """Write a tree without prose as a sequence that is equal for equal trees, without recursion."""
    stack: list[object] = [tree]
    while stack:
        item = stack.pop()
        if id(item) in form_ids:
            values = item.values if isinstance(item, ast.JoinedStr) else []
            yield [ast.dump(part) for part in values if isinstance(part, ast.FormattedValue)]
        elif isinstance(item, ast.AST):
            yield type(item).__name__
            stack += [value for _, value in ast.iter_fields(item)]
        elif isinstance(item, list):
            present = [part for part in item if id(part) not in prose_ids]
            yield len(present)
            stack += present
        else:
            yield type(item), repr(item)


def _prose_beside(old: _Code, new: _Code) -> dict[int, NewProse] | None:
    """Find a recorded statement near each prose statement; return None if a prose statement has no such neighbour.

    The recorded statement decides how often the prose is shown. The candidates, in order of certainty, are: the prose
    that it replaces; any prose in the same gap between statements; the nearest sibling that runs as often, before or
    after it (a loop's header runs once more than its siblings); prose anywhere in the same list of statements. In a
    function's own body, prose is shown once per call.
    """
    counterparts: dict[int, int] = {}  # the same words in the same gap, else their replacement
    for gap, after in new.gaps.items():
        before = old.gaps.get(gap, [])
        was, now = [old.prose[number].text for number in before], [new.prose[number].text for number in after]
        for kind, i, i_end, j, j_end in SequenceMatcher(None, was, now, autojunk=False).get_opcodes():
            if kind in ("equal", "replace"):
                counterparts |= dict(zip(after[j:j_end], before[i:i_end], strict=False))
    lists = {gap[:2]: numbers[0] for gap, numbers in reversed(old.gaps.items())}
    prose: dict[int, NewProse] = {}
    for number, narrative in new.prose.items():
        gap, position = new.gap(number), new.positions[number]
        siblings = [n for n in position.siblings if n in new.index and not isinstance(new.statements[n].node, _LOOPS)]
        earlier = [n for n in siblings if n < number]
        beside: int | None
        if number in counterparts:
            beside = counterparts[number]
        elif gap in old.gaps:
            beside = old.gaps[gap][0]
        elif siblings:
            beside = old.kept[new.index[earlier[-1] if earlier else siblings[0]]]
        else:
            beside = lists.get(gap[:2])
        if beside is None and not position.steady:
            return None
        prose[number] = NewProse(narrative, beside, reworded=number in counterparts)
    return prose
