r"""Cut the lines of a function into segments, each of them code or narrative.

A segment is one row of a page: a simple statement, the header of a compound one, or lines without a statement
(comments, blank lines, `else:`). Statements on one line share a segment. Calls of the lecture's vocabulary (`text`,
`plot`, …) are narrative, and the page shows their output instead. A compound statement that contains only such calls is
narrative.

    source = cut_source("from trace_tools import text\ndef f():\n    text('a')\n    x = 1  # @inspect x\n", "l.py")
    [s.narrative for s in source.body(source.parsed.functions.get("f"))]   # [True, False]
    source.lines[3]                                                   # "    x = 1"
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from trace_tools.source.cells import Cell
from trace_tools.source.directives import NAMES, Directive, DirectiveName, comments, parse_directives
from trace_tools.source.statements import FUNCTIONS, ParsedSource, Statement, parse_source
from trace_tools.source.vocabularies import narrative_calls, with_compounds

_DIRECTIVE = re.compile(rf"@(?:{'|'.join(NAMES)})(?![^\W])[^#]*")


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive lines, `first` to `last`, and their statements, with executions shown next to them."""

    first: int
    last: int
    statements: tuple[int, ...] = ()
    narrative: bool = False
    hidden: bool = False
    prose: str = ""  # of a script, in Markdown


@dataclass(frozen=True, slots=True)
class CutSource:
    """A parsed source with its layout. `lines` have no directives; a line that only had directives is None."""

    parsed: ParsedSource
    directives: Mapping[int, Sequence[Directive]]  # by statement, of those that have any
    lines: tuple[str | None, ...]
    narrative: frozenset[int]  # numbers of the narrative statements
    hidden: frozenset[int]  # numbers of the statements under `@hide`
    stepped_over: frozenset[int]  # numbers of the statements inside one under `@stepover`
    bodies: Mapping[int | None, tuple[Segment, ...]]  # by the number of a `def`, or None for the module

    def body(self, definition: Statement | None) -> tuple[Segment, ...]:
        """Return the segments of a function's body (its docstring is hidden); of the module for None."""
        return self.bodies[None if definition is None else definition.number]

    def enclosing(self, number: int) -> Statement | None:
        """Return the `def` that executes a statement in its frame, if it is not the module."""
        parent = self.parsed.statements[number].parent
        while parent is not None:
            outer = self.parsed.statements[parent]
            if isinstance(outer.node, FUNCTIONS):
                return outer
            parent = outer.parent
        return None


def cut_source(text: str, path: str) -> CutSource:
    """Parse a source and mark its code, narrative and hidden statements.

    Raises LectureError for invalid Python or a wrong directive.
    """
    parsed = parse_source(text, path)
    directives: dict[int, list[Directive]] = {}
    for directive in parse_directives(parsed):
        directives.setdefault(directive.statement, []).append(directive)
    return _cut(parsed, directives, set(narrative_calls(parsed)))


def with_narrative(source: CutSource, more: Collection[int]) -> CutSource:
    """Return the source with the statements in `more` marked as narrative; in the run they only emitted narrative."""
    narrative = source.narrative | set(more)
    return source if narrative == source.narrative else _cut(source.parsed, source.directives, narrative)


def _cut(parsed: ParsedSource, directives: Mapping[int, Sequence[Directive]], emitting: Collection[int]) -> CutSource:
    def under(name: DirectiveName) -> set[int]:
        return {number for number, some in directives.items() if any(one.name == name for one in some)}

    narrative = with_compounds(parsed, set(emitting) - under("inspect"), under("inspect"))
    hidden, outer, stepped_over = under("hide"), under("stepover"), set[int]()
    for statement in parsed.statements:
        if statement.parent in hidden:
            hidden.add(statement.number)
        if statement.parent in stepped_over or statement.parent in outer:
            stepped_over.add(statement.number)
    lines: list[str | None] = list(split_lines(parsed.text))
    marked = {one.line for some in directives.values() for one in some}
    for comment in comments(parsed.path, parsed.text, parsed.aside) if marked else ():
        if comment.line in marked:
            text = re.sub(r"#[#\s]*(?=#|$)", "", _DIRECTIVE.sub("", comment.text)).rstrip()
            lines[comment.line - 1] = ((lines[comment.line - 1] or "")[: comment.column] + text).rstrip() or None
    for line in parsed.aside:
        lines[line - 1] = None
    bodies: dict[int | None, tuple[Segment, ...]] = {None: _segments(parsed, None, len(lines), narrative, hidden)}
    for definition in (one for one in parsed.numbered if isinstance(one.node, (*FUNCTIONS, Cell))):
        bodies[definition.number] = _segments(parsed, definition, definition.end_line, narrative, hidden)
    return CutSource(
        parsed, directives, tuple(lines), frozenset(narrative), frozenset(hidden), frozenset(stepped_over), bodies
    )


def split_lines(text: str) -> list[str]:
    """Split a source at the line ends that Python's line numbers count."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _segments(
    parsed: ParsedSource, definition: Statement | None, end: int, narratives: set[int], hiding: set[int]
) -> tuple[Segment, ...]:
    """Walk the statements of a region up to line `end`; lines outside all statements become segments of their own.

    Lines inside a narrative or hidden compound statement make no segment: its `else:` and comments disappear with it.
    """
    inner: list[Statement] = []  # executed in the function's own frame; a class body belongs to its `class` statement
    cell = definition if definition is not None and isinstance(definition.node, Cell) else None
    function = None if definition is None or cell is not None else definition.number
    parents: set[int | None] = {function}
    for statement in parsed.statements[0 if function is None else function + 1 :]:
        if statement.parent in parents and (function is not None or parsed.cell(statement) is cell):
            inner.append(statement)
            if not _is_definition(statement):
                parents.add(statement.number)
        elif definition is not None and statement.line > definition.end_line:
            break
    if not inner and cell is None:
        return ()
    at = inner[0].first_line if function is not None else cell.line if cell is not None else 1
    gone = (s for s in inner if s.number in narratives or s.number in hiding)
    dropped = {line for s in gone for line in range(s.first_line, s.end_line + 1)}
    segments: list[Segment] = []
    for statement in inner:
        content = statement.node.value if isinstance(statement.node, ast.Expr) else None
        is_string = isinstance(content, ast.Constant) and isinstance(content.value, str)
        docstring = cell is None and statement is inner[0] and is_string
        hidden, narrative = docstring or statement.number in hiding, statement.number in narratives
        last = statement.end_line if _is_definition(statement) else statement.header_end
        before = segments[-1] if segments else None
        if before is not None and before.statements and statement.first_line <= before.last:  # they share a line
            numbers = (*before.statements, statement.number)
            narrative, hidden = narrative and before.narrative, hidden and before.hidden
            segments[-1] = Segment(before.first, max(before.last, last), numbers, narrative, hidden)
        else:
            segments += [Segment(line, line) for line in range(at, statement.first_line) if line not in dropped]
            segments.append(Segment(statement.first_line, last, (statement.number,), narrative, hidden))
        at = max(at, last + 1)
    segments += [Segment(line, line) for line in range(at, end + 1) if line not in dropped]
    prose = (one for one in parsed.prose if cell is not None and cell.line <= one.first <= end and one.text)
    segments += [Segment(one.first, one.last, narrative=True, prose=one.text) for one in prose]
    return tuple(sorted(segments, key=lambda segment: segment.first))


def _is_definition(statement: Statement) -> bool:
    return isinstance(statement.node, (*FUNCTIONS, ast.ClassDef))
