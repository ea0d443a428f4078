"""Show the code of a lecture's functions and classes, under the first line of a page that names them.

A recorded call shows its code with its observations. This module shows, folded, the code that no recorded call shows,
because its calls are under `@stepover` or inside timed code; later pages link to it.

    definitions = Definitions(lecture)
    blocks = definitions.beside(blocks, "13-training_loop", "section 13")
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from trace_tools.pages.content.lecture import Lecture
from trace_tools.pages.document import Block, Call, CodeLine, CodeListing, CodeRow, calls_shown, visible
from trace_tools.source.statements import FUNCTIONS, Statement, sections

_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")  # of a compound statement: not its header
_Name = tuple[int, str]  # source, name


@dataclass
class Definitions:
    """Shows each definition once; `places` maps it to its page, the page's name, and the anchor."""

    ran: Lecture
    places: dict[_Name, tuple[str, str, str]] = field(default_factory=dict)
    _statements: dict[_Name, Statement] = field(init=False)
    # by source and line: the statements that begin there
    _at: dict[tuple[int, int], list[Statement]] = field(init=False)
    # by source and function: its local names
    _bound: dict[tuple[int, int], frozenset[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._statements, self._at = {}, {}
        for index, edition in enumerate(self.ran.editions):
            source = edition.source
            left_out = {self.ran.tree.main_name, *sections(source.parsed)}
            for statement in source.parsed.statements:
                self._at.setdefault((index, statement.first_line), []).append(statement)
                node = statement.node
                if statement.parent is not None or not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                    continue
                in_cell = not index and source.parsed.cell(statement) is not None  # whose page shows it
                if not in_cell and node.name not in left_out and statement.number not in source.hidden:
                    self._statements[index, node.name] = statement

    def beside(self, blocks: Sequence[Block], page: str, called: str) -> tuple[Block, ...]:
        """Return the blocks of a page with the code of the definitions that its lines name, or links to it."""
        shown_names: set[_Name] = set()
        ahead: dict[_Name, Call] = {}
        for call in (block for block in visible(blocks) if isinstance(block, Call) and block.shown != "named"):
            name = self._of(call), call.function
            ahead.setdefault(name, call)
            self.places.setdefault(name, (page, called, call.anchor))

        def row_with(row: CodeRow) -> CodeRow:
            here = {(self._of(call), call.function) for call in calls_shown(row) if call.frame >= 0}
            shown_names.update(here)
            executions = tuple(
                replace(e, calls=tuple(call_with(call) for call in e.calls)) if e.calls else e for e in row.executions
            )
            source = row.lines[0].source if row.lines else 0
            statements = self._at.get((source, row.line), ())
            definitions = tuple(shown(name for statement in statements for name in self._names(source, statement)))
            return (
                replace(row, executions=executions, definitions=definitions) if definitions or row.executions else row
            )

        def shown(named: Iterable[_Name]) -> Iterator[Call]:
            for name in named:
                if name in shown_names:
                    continue
                shown_names.add(name)
                if name in ahead:
                    yield self._call(name, f"#{ahead[name].anchor}", title="", elsewhere=True)
                    continue
                if name in self.places:
                    slug, title, anchor = self.places[name]
                    yield self._call(name, f"{slug}.html#{anchor}", title=title, elsewhere=True)
                    continue
                anchor = f"def-{name[1]}"
                self.places[name] = page, called, anchor
                yield self._call(
                    name, anchor, inner=shown(self._names(name[0], self._statements[name], with_body=True))
                )

        def call_with(call: Call) -> Call:
            if call.shown == "named":
                return call
            shown_names.add((self._of(call), call.function))
            return replace(call, blocks=tuple(map(block_with, call.blocks)))

        def block_with(block: Block) -> Block:
            if isinstance(block, Call):
                return call_with(block)
            return CodeListing(tuple(map(row_with, block.rows))) if isinstance(block, CodeListing) else block

        return tuple(map(block_with, blocks))

    def _of(self, call: Call) -> int:
        """Return the source of a call's function."""
        return self.ran.tree.frames[call.frame].source

    def _call(
        self, name: _Name, anchor: str, *, title: str = "", elsewhere: bool = False, inner: Iterable[Call] = ()
    ) -> Call:
        """Return a definition as a call without observations."""
        source, function = name
        statement = self._statements[name]
        header, body = (
            CodeRow(tuple(self._lines(source, range(first, last + 1))), f"{anchor}-L{first}", first)
            for first, last in (
                (statement.first_line, statement.header_end),
                (statement.header_end + 1, statement.end_line),
            )
        )
        return Call(
            function,
            frame=-1,
            step=None,
            number=1,
            total=1,
            anchor=anchor,
            title=title if elsewhere else function,
            header=header,
            blocks=(CodeListing((replace(body, definitions=tuple(inner)),)),) if body.lines else (),
            level=2,
            shown="named" if elsewhere else "folded",
        )

    def _lines(self, source: int, numbers: range) -> Iterator[CodeLine]:
        texts = self.ran.editions[source].source.lines
        for number in numbers:
            if (text := texts[number - 1]) is not None:
                yield CodeLine(source, number, text)

    def _names(self, source: int, statement: Statement, *, with_body: bool = False) -> Iterator[_Name]:
        """Yield the definitions that a statement's header names, or (`with_body`) the statement; local names are
        skipped.
        """
        own = self._locals(source, statement)
        for node in ast.walk(statement.node) if with_body else _header(statement.node):
            if isinstance(node, ast.Name) and node.id not in own and (source, node.id) in self._statements:
                yield source, node.id

    def _locals(self, source: int, statement: Statement) -> frozenset[str]:
        """Return the names bound in the function around a statement, or in the function that it defines."""
        around = self.ran.editions[source].source.enclosing(statement.number)
        function = statement if isinstance(statement.node, FUNCTIONS) else around
        if function is None:
            return frozenset()
        if (source, function.number) not in self._bound:
            inside = [node for node in ast.walk(function.node) if node is not function.node]
            bound = {node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
            bound |= {node.arg for node in inside if isinstance(node, ast.arg)}
            bound |= {node.name for node in inside if isinstance(node, (*FUNCTIONS, ast.ClassDef))}
            self._bound[source, function.number] = frozenset(bound)
        return self._bound[source, function.number]


def _header(node: ast.stmt) -> Iterator[ast.AST]:
    """Yield the nodes that are evaluated when a statement begins."""
    for name, value in ast.iter_fields(node):
        if name not in _BODIES:
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, ast.AST):
                    yield from ast.walk(part)
