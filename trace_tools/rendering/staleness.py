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

from trace_tools.directives import Directive
from trace_tools.errors import LectureError
from trace_tools.layout import CutSource, cut_source, narrative_calls
from trace_tools.schema import Narrative, SourceFile
from trace_tools.statements import FUNCTIONS, MODULE, ParsedSource

_DATA = ("inspect", "clear", "stepover")
_LOOPS = (ast.For, ast.AsyncFor, ast.While)  # one execution per evaluation of the header


@dataclass(frozen=True, slots=True)
class NewProse:
    """A constant narrative statement of the new text: said as often as a recorded statement beside it ran."""

    narrative: Narrative
    beside: int | None  # its number in the trace; None: once in each call of the function
    reworded: bool = False  # what stands beside it is what stood in its place: its steps are this one's


@dataclass(frozen=True, slots=True)
class Edition:
    """The text to lay out, and how it relates to the recorded one."""

    source: CutSource
    recorded: Mapping[int, int]  # statement of the shown text → statement of the trace
    prose: Mapping[int, NewProse] = field(default_factory=dict)
    lines: Mapping[int, int] = field(default_factory=dict)  # line of the trace → line of the shown text, where moved
    stale: str | None = None

    def shown(self) -> dict[int, int]:
        """Return the number in the shown text of each statement of the trace; reworded prose is what it was."""
        prose = ((number, new.beside) for number, new in self.prose.items() if new.reworded)
        return {old: new for new, old in (*prose, *self.recorded.items()) if old is not None}


@lru_cache(maxsize=8)  # one lecture, on as many machines
def edition_of(stored: SourceFile, lecture: str | None) -> Edition:
    """Return the edition to show: the lecture as it is now where it does what was traced, else the stored text.

    Raises LectureError when the stored text is not Python.
    """
    before = _stripped(stored.text, stored.path)
    old = before.source
    same = Edition(old, {s.number: s.number for s in old.parsed.statements})
    if lecture is None or lecture == stored.text:
        return same
    try:
        new = _stripped(lecture, stored.path)
    except LectureError as error:
        return Edition(old, same.recorded, stale=f"the lecture can't be read any more ({error})")
    if new.fingerprint != before.fingerprint:
        return Edition(old, same.recorded, stale="the lecture's code has changed since it was traced")
    prose = _placed_prose(before, new)
    if prose is None:
        return Edition(old, same.recorded, stale="the lecture has new prose in a branch that was not traced")
    return Edition(new.source, dict(zip(new.kept, before.kept, strict=True)), prose, _moved_lines(before, new))


def changed_functions(stored: SourceFile, lecture: str) -> frozenset[str] | None:
    """Return the module's functions whose code differs between two texts, those in only one of them included.

    None where they differ outside its functions. Raises LectureError when one of them is not Python.
    """
    old, new = _stripped(stored.text, stored.path).parts(), _stripped(lecture, stored.path).parts()
    if old.pop(MODULE) != new.pop(MODULE):
        return None
    return frozenset(name for name in {*old, *new} if old.get(name) != new.get(name))


def parsed_once(text: str, path: str) -> ParsedSource:
    """Parse a lecture and its directives, or remember it. Raises LectureError."""
    return _stripped(text, path).source.parsed


@lru_cache(maxsize=8)
def _stripped(text: str, path: str) -> _Stripped:
    return _Stripped(cut_source(text, path))


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a statement stands: in which list of which parent, with which siblings."""

    parent: int | None  # index among the kept statements; None for the module
    path: str  # "body", "orelse", "handlers[0].body"
    siblings: tuple[int, ...]
    function: bool  # the list is a function's body, or the module's


class _Stripped:
    """A source without its constant prose."""

    def __init__(self, source: CutSource) -> None:
        self.source = source
        self.statements = source.parsed.statements
        words = narrative_calls(source.parsed)
        constants = {number: _constant(self.statements[number].node, word) for number, word in words.items()}
        self.prose = {number: narrative for number, narrative in constants.items() if narrative is not None}
        self.kept = [s.number for s in self.statements if s.number not in self.prose]
        self.index = {number: index for index, number in enumerate(self.kept)}
        self.places = dict(self._places())

    @cached_property
    def fingerprint(self) -> tuple[list[object], list[object]]:
        """Return what must be equal for a trace of one text to be a trace of the other: code and data directives."""
        directives: list[object] = [(self.index.get(d.statement), _directive(d)) for d in self._directives()]
        return list(_flat(self.source.parsed.tree, self._gone())), directives

    def parts(self) -> dict[str, list[object]]:
        """Return what each of the module's functions does, by name, and what the rest of the module does."""
        found: dict[str, list[object]] = {MODULE: []}
        owners: dict[int, tuple[str, int]] = {}  # of a statement: the function it is in, and its place there
        gone, name, first = self._gone(), MODULE, 0
        for place, number in enumerate(self.kept):
            statement = self.statements[number]
            if statement.parent is None:
                name = statement.node.name if isinstance(statement.node, FUNCTIONS) else MODULE
                first = place
                found.setdefault(name, []).extend(_flat(statement.node, gone))
            owners[number] = (name, place - first)
        for directive in self._directives():
            owner, offset = owners.get(directive.statement, (MODULE, 0))
            found[owner].append((offset, _directive(directive)))
        return found

    def _gone(self) -> set[int]:
        return {id(self.statements[number].node) for number in self.prose}

    def _directives(self) -> list[Directive]:
        return [directive for directive in self.source.directives if directive.name in _DATA]

    def _places(self) -> Iterator[tuple[int, _Place]]:
        numbers = {id(s.node): s.number for s in self.statements}
        owners: list[tuple[int | None, ast.AST]] = [(None, self.source.parsed.tree)]
        owners += [(self.index.get(s.number), s.node) for s in self.statements]
        for parent, node in owners:
            for path, body in _bodies(node):
                siblings = tuple(numbers[id(s)] for s in body)
                function = isinstance(node, (ast.Module, *FUNCTIONS))
                yield from ((number, _Place(parent, path, siblings, function)) for number in siblings)

    def gap(self, number: int) -> tuple[int | None, str, int]:
        """Return the gap between kept siblings in which a prose statement stands."""
        place = self.places[number]
        before = [n for n in place.siblings if n < number and n in self.index]
        return place.parent, place.path, len(before)


def _directive(directive: Directive) -> object:
    inspected = [(ast.dump(item.node), item.unit) for item in directive.inspected]
    return directive.name, directive.place, directive.names, inspected


def _constant(node: ast.stmt, word: str) -> Narrative | None:
    """Return what a `text` or `note` statement says when it is one literal string."""
    assert isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    call = node.value
    if word not in ("text", "note") or call.keywords or len(call.args) != 1:
        return None
    argument = call.args[0]
    if not isinstance(argument, ast.Constant) or not isinstance(argument.value, str):
        return None
    return Narrative(word, text=argument.value)


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


def _placed_prose(old: _Stripped, new: _Stripped) -> dict[int, NewProse] | None:
    """Find for each prose statement what was recorded beside it; None when there is one without any."""
    gaps = {old.gap(number): number for number in reversed(old.prose)}
    counterparts = _counterparts(old, new)
    lists = {old.gap(number)[:2]: number for number in reversed(old.prose)}
    found: dict[int, NewProse] = {}
    for number, narrative in new.prose.items():
        gap, place = new.gap(number), new.places[number]
        neighbour = _neighbour(number, place, new)
        if number in counterparts:
            beside: int | None = counterparts[number]
        elif gap in gaps:
            beside = gaps[gap]
        elif neighbour is not None:
            beside = old.kept[new.index[neighbour]]
        else:
            beside = lists.get(gap[:2])
        if beside is None and not place.function:
            return None
        found[number] = NewProse(narrative, beside, reworded=number in counterparts)
    return found


def _counterparts(old: _Stripped, new: _Stripped) -> dict[int, int]:
    """Return for prose statements of the new text those that stood in their place: the same words, else others."""
    befores, afters = _by_gap(old), _by_gap(new)
    found: dict[int, int] = {}
    for gap, after in afters.items():
        before = befores.get(gap, [])
        was, now = [old.prose[number].text for number in before], [new.prose[number].text for number in after]
        for kind, i, i_end, j, j_end in SequenceMatcher(None, was, now, autojunk=False).get_opcodes():
            if kind in ("equal", "replace"):
                found |= dict(zip(after[j:j_end], before[i:i_end], strict=False))
    return found


def _by_gap(source: _Stripped) -> dict[tuple[int | None, str, int], list[int]]:
    found: dict[tuple[int | None, str, int], list[int]] = {}
    for number in source.prose:
        found.setdefault(source.gap(number), []).append(number)
    return found


def _moved_lines(old: _Stripped, new: _Stripped) -> dict[int, int]:
    """Return where each line of the kept statements has gone; inner statements come last and have the last word."""
    moved: dict[int, int] = {}
    for was, now in zip(old.kept, new.kept, strict=True):
        before, after = old.statements[was], new.statements[now]
        for line in range(before.first_line, before.header_end + 1):
            moved[line] = min(after.first_line + line - before.first_line, after.header_end)
    return moved


def _neighbour(number: int, place: _Place, source: _Stripped) -> int | None:
    """Return the nearest sibling that runs as often as the prose does: the one before, else the one after."""
    steady = [n for n in place.siblings if n in source.index and not isinstance(source.statements[n].node, _LOOPS)]
    before = [n for n in steady if n < number]
    return before[-1] if before else next(iter(steady), None)
