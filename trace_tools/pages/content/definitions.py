"""Show the code of a lecture's functions and classes, under the first line of a page that names them.

A recorded call shows its code with its observations. This module shows, folded, the code that no recorded call shows,
because its calls are under `@stepover` or inside timed code; later pages link to it.

    definitions = Definitions(lecture)
    blocks = definitions.shown_in(blocks, "13-training_loop", "section 13", "")
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from trace_tools.pages.content.lecture import Lecture
from trace_tools.pages.document import Block, Call, CodeLine, CodeListing, CodeRow, address, mapped, visible
from trace_tools.pages.margin import with_notes
from trace_tools.source.statements import FUNCTIONS, Statement, sections

_Name = tuple[int, str]  # source, name


@dataclass
class Definitions:
    """Shows each definition once; `places` maps it to its page, the page's name, and the anchor."""

    ran: Lecture
    one_page: bool
    places: dict[_Name, tuple[str, str, str]] = field(default_factory=dict)

    @cached_property
    def _statements(self) -> dict[_Name, Statement]:
        """The functions and classes that have no page of their own."""
        statements = {}
        for index, edition in enumerate(self.ran.editions):
            source = edition.source
            left_out = {self.ran.tree.main_name, *sections(source.parsed)}
            for statement in source.parsed.statements:
                node = statement.node
                if statement.parent is not None or not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                    continue
                in_cell = not index and source.parsed.cell(statement) is not None  # whose page shows it
                if not in_cell and node.name not in left_out and statement.number not in source.hidden:
                    statements[index, node.name] = statement
        return statements

    def shown_in(self, blocks: Sequence[Block], page: str, title: str, prefix: str) -> tuple[Block, ...]:
        """Return the blocks of a page with all notes of their rows, the code that these name, and links to it."""
        listed: set[_Name] = set()
        ahead: dict[_Name, str] = {}  # the anchor of the first call that the page shows
        for call in (block for block in visible(blocks) if isinstance(block, Call) and block.shown != "named"):
            ahead.setdefault(self._function(call), call.anchor)
            self.places.setdefault(self._function(call), (page, title, call.anchor))

        def with_call(call: Call) -> Call:
            listed.add(self._function(call))
            return call

        def with_definitions(row: CodeRow) -> CodeRow:
            source = row.lines[0].source if row.lines else 0
            parsed = self.ran.editions[source].source.parsed
            statements = [parsed.statements[number] for number in row.statements]
            names = [name for one in statements for name in self._names(source, one, one.header_end)]
            return with_notes(replace(row, definitions=tuple(definitions(names))))

        def definitions(names: Iterable[_Name]) -> Iterator[Call]:
            for name in names:
                if name in listed:
                    continue
                listed.add(name)
                if name in ahead:
                    yield _definition(name[1], f"#{ahead[name]}", "")
                elif name in self.places:
                    slug, its_title, anchor = self.places[name]
                    yield _definition(name[1], address(slug, anchor, one_page=self.one_page), its_title)
                else:
                    anchor = f"{prefix}def-{name[1]}"
                    self.places[name] = page, title, anchor
                    yield replace(_definition(name[1], anchor), shown="folded", blocks=code(name, anchor))

        def code(name: _Name, anchor: str) -> tuple[Block, ...]:
            statement = self._statements[name]
            inner = tuple(definitions(self._names(name[0], statement, statement.end_line)))
            texts = self.ran.editions[name[0]].source.lines
            rows, body = [], statement.header_end + 1
            for first, end in ((statement.first_line, body), (body, statement.end_line + 1)):
                numbers = range(first, end)
                lines = (CodeLine(name[0], n, text) for n in numbers if (text := texts[n - 1]) is not None)
                rows.append(CodeRow(tuple(lines), f"{anchor}-L{first}"))
            rows[-1] = with_notes(replace(rows[-1], definitions=inner))
            return (CodeListing(tuple(row for row in rows if row.lines)),)

        return mapped(blocks, row=with_definitions, call=with_call)

    def _function(self, call: Call) -> _Name:
        frame = self.ran.tree.frames[call.frame]
        return frame.source, frame.function

    def _names(self, source: int, statement: Statement, last: int) -> list[_Name]:
        """Return the definitions that a statement names up to a line, without the names of local variables."""
        names = (node for node in ast.walk(statement.node) if isinstance(node, ast.Name) and node.lineno <= last)
        found = [name for node in names if (name := (source, node.id)) in self._statements]
        is_function = isinstance(statement.node, FUNCTIONS)
        around = statement if is_function else self.ran.editions[source].source.enclosing(statement.number)
        local = _local_names(around.node) if found and around is not None else ()
        return [name for name in found if name[1] not in local]


def _definition(name: str, anchor: str, title: str | None = None) -> Call:
    """Return a function or class without observations; without a title it is the name."""
    title = name if title is None else title
    return Call(name, -1, None, 1, 1, anchor, title, header=None, blocks=(), level=2, shown="named")


def _local_names(function: ast.AST) -> set[str]:
    """Return the names that are bound in a function."""
    inside = [node for node in ast.walk(function) if node is not function]
    bound = {node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in inside if isinstance(node, ast.arg)}
    return bound | {node.name for node in inside if isinstance(node, (*FUNCTIONS, ast.ClassDef))}
