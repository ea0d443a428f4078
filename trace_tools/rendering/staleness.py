"""A trace's stored source and the lecture as it is now → which text the pages use.

Prose may change without a new trace. Both texts are stripped of what only the reader sees (constant
`text` and `note` statements, comments other than `@inspect`, `@clear` and `@stepover`); if what is left is
equal, every statement that ran is still there, and the pages are laid out from the new text.

    edition = edition_of(SourceFile("lecture.py", old), new)
    edition.stale           # None, or why the new text can't be used
    edition.recorded[7]     # the number that statement 7 of the shown text has in the trace
    changed_functions(SourceFile("lecture.py", old), new)     # whose code is another: {"matmul"}
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property, lru_cache
from typing import NamedTuple

from trace_tools.claim_kinds import Kind, claim_kinds
from trace_tools.directives import RECORDED, Directive
from trace_tools.errors import LectureError
from trace_tools.layout import CutSource, cut_source
from trace_tools.narrative import PROSE
from trace_tools.schema import Narrative, SourceFile, Step
from trace_tools.statements import FUNCTIONS, MODULE, ParsedSource, Statement
from trace_tools.vocabularies import words_called

_LOOPS = (ast.For, ast.AsyncFor, ast.While)  # one execution per evaluation of the header


@dataclass(frozen=True, slots=True)
class NewProse:
    """A constant narrative statement of the new text: said as often as a recorded statement beside it ran."""

    narrative: Narrative
    beside: int | None  # its number in the trace; None: once in each call of the function
    reworded: bool = False  # what stands beside it is what stood in its place: its steps are this one's


@dataclass(frozen=True)
class Edition:
    """The text to lay out, and how it relates to the recorded one."""

    source: CutSource
    recorded: Mapping[int, int]  # statement of the shown text → statement of the trace
    prose: Mapping[int, NewProse] = field(default_factory=dict)
    lines: Mapping[int, int] = field(default_factory=dict)  # line of the trace → line of the shown text, where moved
    stale: str | None = None

    @cached_property
    def shown(self) -> Mapping[int, int]:
        """The number in the shown text of each statement of the trace; reworded prose is what it was."""
        prose = ((number, new.beside) for number, new in self.prose.items() if new.reworded)
        return {old: new for new, old in (*prose, *self.recorded.items()) if old is not None}

    @cached_property
    def claim_kinds(self) -> Mapping[int, Kind]:
        """What stands behind each claim of the shown text."""
        return claim_kinds(self.source.parsed)

    @cached_property
    def directives(self) -> Mapping[int, Sequence[Directive]]:
        """The directives of each statement of the shown text that has any."""
        found: dict[int, list[Directive]] = {}
        for directive in self.source.directives:
            found.setdefault(directive.statement, []).append(directive)
        return found

    def statement(self, step: Step) -> Statement | None:
        """Return what a step executed, in the shown text; None for constant prose that was taken out since."""
        number = self.shown.get(step.statement, -1)
        return self.source.parsed.statements[number] if 0 <= number < len(self.source.parsed.statements) else None

    def line(self, step: Step) -> int:
        """Return the line of the shown text at which a step stands, or stood."""
        statement = self.statement(step)
        return statement.line if statement is not None else self.lines.get(step.line, step.line)

    def code(self, line: int) -> str:
        """Return the code of a line of the shown text; "" where there is none."""
        return (self.source.lines[line - 1] or "").strip() if 0 < line <= len(self.source.lines) else ""


@lru_cache(maxsize=8)  # one lecture, on as many machines
def edition_of(stored: SourceFile, lecture: str | None) -> Edition:
    """Return the edition to show: the lecture as it is now where it does what was traced, else the stored text.

    Raises LectureError when the stored text is not Python.
    """
    old = _code_of(stored.text, stored.path)
    same = {statement.number: statement.number for statement in old.statements}
    if lecture is None or lecture == stored.text:
        return Edition(old.source, same)
    try:
        new = _code_of(lecture, stored.path)
    except LectureError as error:
        return Edition(old.source, same, stale=f"the lecture can't be read any more ({error})")
    if new.fingerprint != old.fingerprint:
        return Edition(old.source, same, stale="the lecture's code has changed since it was traced")
    prose = _prose_beside(old, new)
    if prose is None:
        return Edition(old.source, same, stale="the lecture has new prose in a branch that was not traced")
    return Edition(new.source, dict(zip(new.kept, old.kept, strict=True)), prose, _moved_lines(old, new))


def changed_functions(stored: SourceFile, lecture: str) -> frozenset[str] | None:
    """Return the module's functions whose code differs between two texts, those in only one of them included.

    None where they differ outside its functions. Raises LectureError when one of them is not Python.
    """
    old, new = _code_of(stored.text, stored.path).parts(), _code_of(lecture, stored.path).parts()
    if old.pop(MODULE) != new.pop(MODULE):
        return None
    return frozenset(name for name in {*old, *new} if old.get(name) != new.get(name))


def parsed_once(text: str, path: str) -> ParsedSource:
    """Parse a lecture and its directives, or remember it. Raises LectureError."""
    return _code_of(text, path).source.parsed


@lru_cache(maxsize=8)
def _code_of(text: str, path: str) -> _Code:
    return _Code(cut_source(text, path))


class _Position(NamedTuple):
    """Where a statement stands: in which list of which parent, with which siblings."""

    parent: int | None  # index among the kept statements; None for the module
    path: str  # "body", "orelse", "handlers[0].body"
    siblings: tuple[int, ...]
    steady: bool  # the list is a function's body, or the module's: executed once in each of its calls


_Gap = tuple[int | None, str, int]  # between kept siblings: their parent, their list, how many stand before


class _Code:
    """A source without its constant prose: `kept` are the other statements, `index` their places among themselves."""

    def __init__(self, source: CutSource) -> None:
        self.source = source
        self.statements = source.parsed.statements
        words = words_called(source.parsed)
        constants = {number: constant_prose(self.statements[number].node, *word) for number, word in words.items()}
        self.prose = {number: narrative for number, narrative in constants.items() if narrative is not None}
        self.kept = [s.number for s in self.statements if s.number not in self.prose]
        self.index = {number: index for index, number in enumerate(self.kept)}
        self.gone = {id(self.statements[number].node) for number in self.prose}
        self.directives: list[tuple[int, object]] = []  # that say what is recorded: their statement, and what they say
        for one in source.directives:
            if one.name in RECORDED:
                inspected = [(ast.dump(item.node), item.unit) for item in one.inspected]
                self.directives.append((one.statement, (one.name, one.place, one.names, inspected)))
        self.positions: dict[int, _Position] = {}
        numbers = {id(s.node): s.number for s in self.statements}
        owners: list[tuple[int | None, ast.AST]] = [(None, source.parsed.tree)]
        for parent, node in [*owners, *((self.index.get(s.number), s.node) for s in self.statements)]:
            for path, body in _bodies(node):
                siblings = tuple(numbers[id(s)] for s in body)
                position = _Position(parent, path, siblings, isinstance(node, (ast.Module, *FUNCTIONS)))
                self.positions |= dict.fromkeys(siblings, position)

    @cached_property
    def fingerprint(self) -> tuple[list[object], list[object]]:
        """What must be equal for a trace of one text to be a trace of the other: code and data directives."""
        directives: list[object] = [(self.index.get(statement), said) for statement, said in self.directives]
        return list(_flat(self.source.parsed.tree, self.gone)), directives

    def parts(self) -> dict[str, list[object]]:
        """Return what each of the module's functions does, by name, and what the rest of the module does."""
        found: dict[str, list[object]] = {MODULE: []}
        owners: dict[int, tuple[str, int]] = {}  # of a statement: the function it is in, and its place there
        name, first = MODULE, 0
        for place, number in enumerate(self.kept):
            statement = self.statements[number]
            if statement.parent is None:
                name = statement.node.name if isinstance(statement.node, FUNCTIONS) else MODULE
                first = place
                found.setdefault(name, []).extend(_flat(statement.node, self.gone))
            owners[number] = (name, place - first)
        for of, said in self.directives:
            owner, offset = owners.get(of, (MODULE, 0))
            found[owner].append((offset, said))
        return found

    @cached_property
    def gaps(self) -> dict[_Gap, list[int]]:
        """The prose in each gap between kept siblings."""
        found: dict[_Gap, list[int]] = {}
        for number in self.prose:
            found.setdefault(self.gap(number), []).append(number)
        return found

    def gap(self, number: int) -> _Gap:
        """Return the gap in which a prose statement stands."""
        position = self.positions[number]
        return position.parent, position.path, sum(n < number and n in self.index for n in position.siblings)


def constant_prose(node: ast.stmt, word: str, borrowed: bool) -> Narrative | None:
    """Return what a `text` or `note` statement says when it is one literal string; `borrowed`: in another's words."""
    match node:
        case ast.Expr(ast.Call(args=[ast.Constant(str(text))], keywords=[])) if word in PROSE:
            return Narrative(word, text=text, flows=borrowed and word == "text")
    return None


def _flat(tree: ast.AST, gone: set[int]) -> Iterator[object]:
    """Write a tree as a sequence that is equal for equal trees, however deep they are."""
    stack: list[object] = [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, ast.AST):
            yield type(item).__name__
            stack += [value for _, value in ast.iter_fields(item)]
        elif isinstance(item, list):
            present = [part for part in item if id(part) not in gone]
            yield len(present)
            stack += present
        else:
            yield type(item), repr(item)


def _bodies(node: ast.AST) -> Iterator[tuple[str, Sequence[ast.stmt]]]:
    """Yield the lists of statements directly inside a node, those of its handlers and cases included."""
    for name, value in ast.iter_fields(node):
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            yield name, value
        elif isinstance(value, list):
            parts = [part for part in value if isinstance(part, (ast.ExceptHandler, ast.match_case))]
            yield from ((f"{name}[{count}].body", part.body) for count, part in enumerate(parts))


def _prose_beside(old: _Code, new: _Code) -> dict[int, NewProse] | None:
    """Find for each prose statement what was recorded beside it; None when there is one without any.

    What says how often it is said, the surest first: the prose that stood in its place; any prose in the same gap
    between statements; the nearest sibling that runs as often as it does, the one before or else the one after (a
    loop's header runs once more than what stands beside it); prose anywhere in the same list of statements. In a
    function's own body it is said once in each call.
    """
    counterparts: dict[int, int] = {}  # the same words in the same gap, else what took their place
    for gap, after in new.gaps.items():
        before = old.gaps.get(gap, [])
        was, now = [old.prose[number].text for number in before], [new.prose[number].text for number in after]
        for kind, i, i_end, j, j_end in SequenceMatcher(None, was, now, autojunk=False).get_opcodes():
            if kind in ("equal", "replace"):
                counterparts |= dict(zip(after[j:j_end], before[i:i_end], strict=False))
    lists = {gap[:2]: numbers[0] for gap, numbers in reversed(old.gaps.items())}
    found: dict[int, NewProse] = {}
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
        found[number] = NewProse(narrative, beside, reworded=number in counterparts)
    return found


def _moved_lines(old: _Code, new: _Code) -> dict[int, int]:
    """Return where each line of the kept statements has gone; inner statements come last and have the last word."""
    moved: dict[int, int] = {}
    for was, now in zip(old.kept, new.kept, strict=True):
        before, after = old.statements[was], new.statements[now]
        for line in range(before.first_line, before.header_end + 1):
            moved[line] = min(after.first_line + line - before.first_line, after.header_end)
    return moved
