r"""Divide the Python of a code cell into pieces that can be moved into a function with global names.

    [*pieces("import os\nx: int = 3\nx", "notes.ipynb", "cell 1")]      three pieces
    in_function("x: int = 3")                                            "x = 3  # x: int"

`if __name__ == "__main__":` is always true in a notebook, so its body replaces it.
"""

from __future__ import annotations

import ast
import inspect
import re
import symtable
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType

from trace_tools.errors import LectureError
from trace_tools.notebooks.magics import lines_inside_strings
from trace_tools.source.statements import FUNCTIONS, not_valid, parse_source

_DEFINITIONS = (*FUNCTIONS, ast.ClassDef)
_STARTS = re.compile(r"""if\s+__name__\s*==\s*(['"])__main__\1\s*:""")


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Statements of a cell on shared lines, usually one statement, with the comments above them."""

    nodes: tuple[ast.stmt, ...]
    text: str
    where: str  # the cell, in messages
    is_spaced: bool = False  # a blank line precedes it
    is_async: bool = False
    shown: str | None = None  # the expression whose value the cell shows, if this is its last statement
    bound: frozenset[str] = frozenset()  # names that it binds in the module, including in functions
    used: frozenset[str] = frozenset()  # names of the module that it reads, including in functions

    @property
    def imports(self) -> bool:
        """Return whether it consists of imports only."""
        return bool(self.nodes) and all(isinstance(node, (ast.Import, ast.ImportFrom)) for node in self.nodes)

    @property
    def star(self) -> bool:
        """Return whether it has a star import, whose names only a run knows."""
        return any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in _own(self.nodes))

    @property
    def future(self) -> bool:
        """Return whether it is `from __future__ import …`, which belongs at the top of a file."""
        return any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in self.nodes)

    @property
    def definition(self) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | None:
        """The function or class that it defines, if it does only that."""
        node = self.nodes[0] if len(self.nodes) == 1 else None
        return node if isinstance(node, _DEFINITIONS) else None


def pieces(text: str, path: str, where: str) -> Iterator[Piece]:
    """Yield the pieces of a cell's Python. Raises LectureError, naming the cell, for invalid Python."""
    cell = f"{path}: {where}"
    text = _without_start(text, cell)
    nodes = parse_source(text, cell).tree.body
    try:
        _code(text, cell)
    except (SyntaxError, ValueError) as error:
        raise LectureError(cell, getattr(error, "lineno", None), not_valid(error)) from None
    lines, at = text.split("\n"), 0
    groups = [*_sharing_lines(nodes)]
    for index, group in enumerate(groups):
        is_last = index + 1 == len(groups)
        end = len(lines) if is_last else max(node.end_lineno or node.lineno for node in group)
        is_spaced = bool(at) and not lines[at].strip()
        own = "\n".join(lines[at:end]).strip("\n")
        table = symtable.symtable(own, cell, "exec")
        yield Piece(
            tuple(group),
            own,
            where,
            is_spaced,
            bool(_code(own, cell).co_flags & inspect.CO_COROUTINE),
            _shown(group[-1], lines) if is_last else None,
            frozenset(_bound(table)),
            frozenset(_used(table)),
        )
        at = end
    if not nodes and text.strip():
        yield Piece((), text.strip("\n"), where)


def _code(text: str, cell: str) -> CodeType:
    code: CodeType = compile(text, cell, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    return code


def _sharing_lines(nodes: Sequence[ast.stmt]) -> Iterator[list[ast.stmt]]:
    """Yield groups of statements that share a line: `a; b`."""
    group: list[ast.stmt] = []
    for node in nodes:
        if group and node.lineno > max(one.end_lineno or one.lineno for one in group):
            yield group
            group = []
        group.append(node)
    if group:
        yield group


def _shown(node: ast.stmt, lines: Sequence[str]) -> str | None:
    """Return the expression whose value a cell shows: its last statement, unless a semicolon follows."""
    if not isinstance(node, ast.Expr) or isinstance(node.value, ast.Constant):
        return None
    after = lines[(node.end_lineno or 1) - 1].encode()[node.end_col_offset or 0 :]
    return None if after.lstrip().startswith(b";") else ast.unparse(node.value)


# --- names ----------------------------------------------------------------------------------------


def _bound(table: symtable.SymbolTable) -> Iterator[str]:
    """Yield the names of the module that a piece binds or deletes, including in its functions."""
    for symbol in table.get_symbols():
        changes = symbol.is_assigned() or symbol.is_imported()
        if changes and (table.get_type() == "module" or symbol.is_declared_global()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _bound(child)


def _used(table: symtable.SymbolTable) -> Iterator[str]:
    """Yield the names of the module that a piece reads."""
    yield from (symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced() and symbol.is_global())
    for child in table.get_children():
        yield from _used(child)


def _own(nodes: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes that module-level code executes, recursively."""
    for node in nodes:
        yield node
        if not isinstance(node, (*_DEFINITIONS, ast.Lambda)):
            yield from _own([*ast.iter_child_nodes(node)])


# --- code that is not allowed in a function -------------------------------------------------------


def in_function(text: str) -> str:
    """Return a piece's text for a function that declares all of the piece's names as global.

    The annotation of a name becomes a comment, a `global` statement becomes a string, a star import is executed in the
    module's namespace, and calls that use the caller's namespace receive that one.
    """
    content = text.encode()
    begins = [0]
    for line in content.split(b"\n"):
        begins.append(begins[-1] + len(line) + 1)

    def begin(node: ast.AST) -> int:
        return begins[node.lineno - 1] + int(node.col_offset)  # type: ignore[attr-defined]

    def end(node: ast.AST) -> int:
        return begins[node.end_lineno - 1] + int(node.end_col_offset)  # type: ignore[attr-defined]

    edits: list[tuple[int, int, str]] = []
    nodes = [*_own(ast.parse(text).body)]
    annotations = {id(part) for node in nodes if isinstance(node, ast.AnnAssign) for part in ast.walk(node.annotation)}
    for node in nodes:
        if id(node) in annotations:
            continue
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            annotation = f"{ast.unparse(node.target)}: {ast.unparse(node.annotation)}"
            if node.value is None:
                edits.append((begin(node), end(node), repr(annotation)))
                continue
            edits.append((begin(node), content.index(b"=", end(node.annotation)), f"{node.target.id} "))
            if not content[end(node) :].split(b"\n")[0].strip():
                edits.append((end(node), end(node), f"  # {annotation}"))
        elif isinstance(node, ast.Global):
            edits.append((begin(node), end(node), repr(ast.unparse(node))))
        elif isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            edits.append((begin(node), end(node), f"exec({ast.unparse(node)!r}, globals())"))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            match node.func.id, node.args:
                case "exec" | "eval", [argument] if not isinstance(argument, (ast.Starred, ast.GeneratorExp)):
                    comma = "" if b"," in content[end(argument) : end(node)] else ","
                    edits.append((end(node) - 1, end(node) - 1, f"{comma} globals()"))
                case "locals" | "vars", []:
                    edits.append((begin(node), end(node), "globals()"))
                case "dir", []:
                    edits.append((begin(node), end(node), "sorted(globals())"))
    for first, last, new in sorted(edits, reverse=True):
        content = content[:first] + new.encode() + content[last:]
    return content.decode()


def _without_start(text: str, cell: str) -> str:
    """Replace `if __name__ == "__main__":` by its body, which always runs in a notebook."""
    lines = text.split("\n")
    for node in reversed(parse_source(text, cell).tree.body):
        if not isinstance(node, ast.If) or not _STARTS.match(ast.unparse(node)):
            continue
        first = node.body[0]
        begin = min([first.lineno, *(one.lineno for one in getattr(first, "decorator_list", []))]) - 1
        verbatim = lines_inside_strings(text)
        indent = lines[begin][: len(lines[begin]) - len(lines[begin].lstrip())]
        body = [n for n in range(begin, node.body[-1].end_lineno or 0) if lines[n].strip() and n not in verbatim]
        if node.orelse or begin < node.lineno or not all(lines[n].startswith(indent) for n in body):
            line = lines[node.test.lineno - 1].encode()
            changed = line[: node.test.col_offset] + b"True" + line[node.test.end_col_offset :]
            lines[node.test.lineno - 1] = changed.decode()
        else:
            for n in body:
                lines[n] = lines[n].removeprefix(indent)
            lines[node.lineno - 1 : begin] = [one.strip() for one in lines[node.lineno : begin]]
    return "\n".join(lines)
