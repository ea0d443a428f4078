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

_Name = tuple[int, str]  # source, name


@dataclass
class Definitions:
    """Shows each definition once on a page; `shown` are those of all pages."""

    ran: Lecture
    shown: set[_Name] = field(default_factory=set)

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

    def shown_in(self, blocks: Sequence[Block], prefix: str) -> tuple[Block, ...]:
        """Return the blocks of a page with all notes of their rows, and the code that these name."""
        calls = (block for block in visible(blocks) if isinstance(block, Call) and block.shown != "named")
        listed = {self._function(call) for call in calls}

        def with_definitions(row: CodeRow) -> CodeRow:
            source = row.lines[0].source if row.lines else 0
            parsed = self.ran.editions[source].source.parsed
            words = {word for line in row.lines for word in re.findall(r"\w+", line.text)}
            named = not words.isdisjoint(name for _, name in self._statements)  # else its tree needs no walk
            statements = [parsed.statements[number] for number in row.statements if named]
            names = [name for one in statements for name in self._names(source, one, one.header_end)]
            return with_notes(replace(row, definitions=tuple(definitions(names))))

        def definitions(names: Iterable[_Name]) -> Iterator[Call]:
            for name in names:
                if name not in listed:
                    listed.add(name)
                    anchor = f"{prefix}def-{name[1]}"
                    yield Call(name[1], -1, None, 1, 1, anchor, name[1], None, code(name, anchor), level=2)

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

        written = mapped(blocks, row=with_definitions)
        self.shown |= listed
        return written

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


def _local_names(function: ast.AST) -> set[str]:
    """Return the names that are bound in a function."""
    inside = [node for node in ast.walk(function) if node is not function]
    bound = {node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in inside if isinstance(node, ast.arg)}
    return bound | {node.name for node in inside if isinstance(node, (*FUNCTIONS, ast.ClassDef))}
