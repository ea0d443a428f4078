"""Show the code of a lecture's functions and classes, under the first line of a page that names them.

A recorded call shows its code with its observations. This module shows, folded, the code that no recorded call shows,
because its calls are under `@stepover` or inside timed code.

    definitions = Definitions(lecture)
    blocks = definitions.shown_in(blocks, "")
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from trace_tools.pages.content.lecture import Lecture
from trace_tools.pages.document import Block, Call, CodeLine, CodeListing, CodeRow, mapped, visible
from trace_tools.pages.margin import with_notes
from trace_tools.source.statements import FUNCTIONS, Statement, sections


@dataclass
class Definitions:
    """Shows each definition once on a page; `shown` are those of all pages."""

    ran: Lecture
    shown: set[str] = field(default_factory=set)

    @cached_property
    def _statements(self) -> dict[str, Statement]:
        """The functions and classes that have no page of their own."""
        source = self.ran.edition.source
        left_out = {self.ran.tree.main_name, *sections(source.parsed)}
        statements = {}
        for statement in source.parsed.statements:
            node = statement.node
            if statement.parent is None and isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                in_cell = source.parsed.cell(statement) is not None  # whose page shows it
                if not in_cell and node.name not in left_out and statement.number not in source.hidden:
                    statements[node.name] = statement
        return statements

    def shown_in(self, blocks: Sequence[Block], prefix: str) -> tuple[Block, ...]:
        """Return the blocks of a page with all notes of their rows, and the code that these name."""
        calls = (block for block in visible(blocks) if isinstance(block, Call) and block.shown != "named")
        listed = {call.name for call in calls}

        def with_definitions(row: CodeRow) -> CodeRow:
            parsed = self.ran.edition.source.parsed
            words = {word for line in row.lines for word in re.findall(r"\w+", line.text)}
            named = not words.isdisjoint(self._statements)  # else its tree needs no walk
            statements = [parsed.statements[number] for number in row.statements if named]
            names = [name for one in statements for name in self._names(one, one.header_end)]
            return with_notes(replace(row, definitions=tuple(definitions(names))))

        def definitions(names: Iterable[str]) -> Iterator[Call]:
            for name in names:
                if name not in listed:
                    listed.add(name)
                    anchor = f"{prefix}def-{name}"
                    yield Call(name, None, 1, 1, anchor, name, None, code(name, anchor), level=2)

        def code(name: str, anchor: str) -> tuple[Block, ...]:
            statement = self._statements[name]
            inner = tuple(definitions(self._names(statement, statement.end_line)))
            texts = self.ran.edition.source.lines
            rows, body = [], statement.header_end + 1
            for first, end in ((statement.first_line, body), (body, statement.end_line + 1)):
                numbers = range(first, end)
                lines = (CodeLine(n, text) for n in numbers if (text := texts[n - 1]) is not None)
                rows.append(CodeRow(tuple(lines), f"{anchor}-L{first}"))
            rows[-1] = with_notes(replace(rows[-1], definitions=inner))
            return (CodeListing(tuple(row for row in rows if row.lines)),)

        written = mapped(blocks, row=with_definitions)
        self.shown |= listed
        return written

    def _names(self, statement: Statement, last: int) -> list[str]:
        """Return the definitions that a statement names up to a line, without the names of local variables."""
        names = (node for node in ast.walk(statement.node) if isinstance(node, ast.Name) and node.lineno <= last)
        found = [node.id for node in names if node.id in self._statements]
        is_function = isinstance(statement.node, FUNCTIONS)
        around = statement if is_function else self.ran.edition.source.enclosing(statement.number)
        local = _local_names(around.node) if found and around is not None else ()
        return [name for name in found if name not in local]


def _local_names(function: ast.AST) -> set[str]:
    """Return the names that are bound in a function."""
    inside = [node for node in ast.walk(function) if node is not function]
    bound = {node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in inside if isinstance(node, ast.arg)}
    return bound | {node.name for node in inside if isinstance(node, (*FUNCTIONS, ast.ClassDef))}
