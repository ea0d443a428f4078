r"""Parse source text and number its statements.

A statement's number is its position in a pre-order walk of the syntax tree, from 0. Steps in a trace carry that number,
which is the only convention that the tracer and the pages share.

    source = parse_source("x = 1\nif x:\n    y = 2\n", "lecture.py")
    [(s.number, s.line) for s in source.statements]  # [(0, 1), (1, 2), (2, 3)]
"""

from __future__ import annotations

import ast
import itertools
import re
import sys
import tokenize
import warnings
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from trace_tools.errors import LectureError
from trace_tools.source.cells import Cell, Prose, divided
from trace_tools.trace.model import MAIN, MODULE
from trace_tools.util import formats

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
TITLE = 100  # most characters of a title
CLAUSES = (ast.excepthandler, ast.match_case)  # they contain statements but are not statements


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement; lines count from 1 and include the last."""

    number: int
    node: ast.stmt
    function: str  # qualified name of the function that executes it; MODULE at module level
    parent: int | None  # number of the statement that contains it
    first_line: int  # of its first decorator, else `line`
    line: int
    header_end: int  # last line of a compound statement's header, else `end_line`
    end_line: int


@dataclass(frozen=True)
class ParsedSource:
    """A source file with its syntax tree and its statements in the order of their numbers."""

    path: str
    text: str
    tree: ast.Module
    statements: tuple[Statement, ...]
    # the `def` statements by qualified name; of equal names the last one, as in Python
    functions: Mapping[str, Statement]
    cells: tuple[Statement, ...] = ()  # the sections of a script, numbered after its statements
    prose: tuple[Prose, ...] = ()  # of a script
    aside: frozenset[int] = frozenset()  # lines of a script that mark its cells or hold prose

    @cached_property
    def numbered(self) -> tuple[Statement, ...]:
        """The statements and the cells, in the order of their numbers."""
        return (*self.statements, *self.cells)

    def cell(self, statement: Statement) -> Statement | None:
        """Return the cell that executes a statement in its frame."""
        at = bisect_right(self.cells, statement.line, key=lambda cell: cell.line) - 1
        is_inside = at >= 0 and statement.function == MODULE and statement.number < len(self.statements)
        return self.cells[at] if is_inside else None

    def first_lines(self) -> dict[int, str]:
        """Return the code on each statement's first line, without a comment behind it, by number."""
        lines, codes = self.text.split("\n"), {}
        for number, node in ((statement.number, statement.node) for statement in self.numbered):
            end = node.end_col_offset if node.end_lineno == node.lineno else None
            codes[number] = lines[node.lineno - 1].encode()[:end].decode(errors="replace").strip()
        return codes


def qualified_name(definition: Statement) -> str:
    """Return the qualified name that a `def` or `class` statement defines, "Block.forward", or the name of a cell."""
    if isinstance(definition.node, Cell):
        return definition.node.name
    assert isinstance(definition.node, (*FUNCTIONS, ast.ClassDef))
    outer = definition.function
    return definition.node.name if outer == MODULE else f"{outer}.{definition.node.name}"


def main_of(source: ParsedSource) -> str:
    """Return the name of the function that runs the lecture, or MODULE if the file's own statements do.

    It is `main`, or the only function that `if __name__ == "__main__":` names, if it calls other functions of the file.
    """
    if MAIN in source.functions:
        return MAIN
    blocks = [part for node in source.tree.body if is_main_block(node) for part in ast.walk(node)]
    named = {part.id for part in blocks if isinstance(part, ast.Name)} & source.functions.keys()
    return named.pop() if len(named) == 1 and functions_called_by(source, *named) else MODULE


def is_main_block(node: ast.stmt) -> bool:
    """Return whether a statement is `if __name__ == "__main__":`."""
    return isinstance(node, ast.If) and "'__main__'" in ast.dump(node.test)


def uncalled_main(source: ParsedSource) -> str | None:
    """Return the function `main` of a file that never calls it, and therefore does no work; the tracer calls it."""
    own = [node for node in source.tree.body if not isinstance(node, (*FUNCTIONS, ast.ClassDef))]
    names = {part.id for node in own for part in ast.walk(node) if isinstance(part, ast.Name)}
    is_called = MAIN in names or any(map(is_main_block, own))
    return MAIN if MAIN in source.functions and not is_called else None


def sections(source: ParsedSource) -> list[str]:
    """Return the lecture's sections, in order, as the file's functions that its main function calls, or its cells."""
    main = main_of(source)
    return [*map(qualified_name, source.cells)] if main == MODULE else functions_called_by(source, main)


def functions_called_by(source: ParsedSource, function: str) -> list[str]:
    """Return the file's functions that a function calls, in order, except functions that it only passes to another."""
    called: dict[str, None] = {}

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and source.functions.get(node.id):
            called.setdefault(node.id)
        if isinstance(node, ast.Call):
            visit(node.func)
            handed = [*node.args, *(keyword.value for keyword in node.keywords)]
            for argument in handed:
                if not isinstance(argument, ast.Name):
                    visit(argument)
            return
        for child in ast.iter_child_nodes(node):
            visit(child)

    definition = source.functions.get(function)
    for child in ast.iter_child_nodes(definition.node) if definition is not None else ():
        visit(child)
    return list(called)


def title_and_rest(doc: str) -> tuple[str, str]:
    """Return a function's title, which is the first line of its docstring without a number, and the other lines."""
    first, _, body = doc.partition("\n")
    return re.sub(r"^\d+[.:]?\s+|(?<!\.)\.$", "", first.strip()), body.strip()


def title_of(source: ParsedSource, lecture: str) -> str:
    """Return a lecture's title, from its docstring's first paragraph, its first heading, or else its file name."""
    headings = [cell.node.title for cell in source.cells[:1] if isinstance(cell.node, Cell) and cell.node.is_heading]
    return _title_and_more(source)[0] or next(iter(headings), formats.readable(Path(lecture).stem))


def _title_and_more(source: ParsedSource) -> tuple[str, str]:
    """Return the title in a file's docstring ("" without one), and the rest of the docstring."""
    doc = re.sub(r"^[=*~-]{3,}$", "", ast.get_docstring(source.tree) or "", flags=re.MULTILINE).strip()  # an underline
    first, _, rest = doc.partition("\n\n")
    title = first.replace("\n", " ").strip()
    return (re.sub(r"\.$", "", title), rest.strip()) if len(title) <= TITLE else ("", doc)


def bare_call(node: ast.stmt) -> str | None:
    """Return the name of the function that a statement calls, if it has the form `f(…)`."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Name(id=name))):
            return name
    return None


def calls_on_a_line(node: ast.stmt) -> list[ast.Call]:
    """Return the calls of a statement that consists of calls only, `f(…)` or `f(…), g(…)`; else an empty list."""
    if not isinstance(node, ast.Expr):
        return []
    parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
    calls = [part for part in parts if isinstance(part, ast.Call)]
    return calls if len(calls) == len(parts) else []


def read_source(path: str | Path) -> ParsedSource:
    """Read and parse a file as `read_text` does. Raises LectureError if it cannot be read or is not Python."""
    return parse_source(read_text(path), str(path))


def read_text(path: str | Path) -> str:
    r"""Read a file, decoded as Python would (PEP 263), with "\n" at the end of each line.

    Raises LectureError if the file is missing, unreadable or cannot be decoded.
    """
    if Path(path).suffix == ".ipynb":
        raise LectureError(path, None, f"is a notebook; `jupytext --to py:percent {path}` makes a script of it")
    try:
        with tokenize.open(path) as file:
            return file.read()
    except OSError as error:
        raise LectureError(path, None, f"can't be read: {error.strerror}; expected a Python file") from None
    except (SyntaxError, LookupError, UnicodeError) as error:
        expected = "expected UTF-8, or another encoding declared in line 1 or 2"
        raise LectureError(path, None, f"can't be decoded: {error}; {expected}") from None


def parse_source(text: str, path: str) -> ParsedSource:
    """Parse `text` without its byte order mark. Raises LectureError at the line that is not valid Python."""
    text = text.removeprefix("\ufeff")
    try:
        with warnings.catch_warnings(action="ignore"):  # of Python about "\s", once per process
            tree = ast.parse(text, path)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # the last two: nested too deeply
        raise LectureError(path, getattr(error, "lineno", None), not_valid(error)) from None
    numbers = itertools.count()

    def statements_in(node: ast.AST, function: str, parent: int | None) -> Iterator[Statement]:
        """Yield the statements inside a node in pre-order, which numbers them."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, CLAUSES):
                yield from statements_in(child, function, parent)
            if not isinstance(child, ast.stmt):
                continue
            statement = _statement(next(numbers), child, function, parent)
            yield statement
            inner = qualified_name(statement) if isinstance(child, (*FUNCTIONS, ast.ClassDef)) else function
            yield from statements_in(child, inner, statement.number)

    statements = tuple(statements_in(tree, MODULE, None))
    functions = {qualified_name(s): s for s in statements if isinstance(s.node, FUNCTIONS)}
    source = ParsedSource(path, text, tree, statements, functions)
    if main_of(source) != MODULE:
        return source
    division = divided(text, tree, title_of(source, path), functions)
    for cell in division.cells[:1]:
        cell.summary = _title_and_more(source)[1]
    cells = tuple(
        Statement(next(numbers), cell, MODULE, None, cell.lineno, cell.lineno, cell.lineno, cell.end)
        for cell in division.cells
    )
    return replace(source, cells=cells, prose=tuple(division.prose), aside=frozenset(division.aside))


def not_valid(error: Exception) -> str:
    """Return Python's reason for refusing a text."""
    version = ".".join(map(str, sys.version_info[:2]))  # a later version may accept it
    return f"not valid Python {version}: {getattr(error, 'msg', None) or error}"


def _statement(number: int, node: ast.stmt, function: str, parent: int | None) -> Statement:
    decorators = getattr(node, "decorator_list", [])
    end = node.end_lineno or node.lineno
    inner = getattr(node, "body", None) or getattr(node, "cases", None)
    body = None  # the first line inside, of a decorator or a statement
    if inner and isinstance(inner[0], ast.match_case):
        body = inner[0].pattern.lineno
    elif inner:
        body = min([inner[0].lineno, *(d.lineno for d in getattr(inner[0], "decorator_list", []))])
    parts = (child for child in ast.iter_child_nodes(node) if not isinstance(child, (ast.stmt, *CLAUSES)))
    ends = (getattr(part, "end_lineno", None) for child in parts for part in ast.walk(child))
    header_line = max([node.lineno, *(int(end) for end in ends if end)])  # the last of its own expressions
    return Statement(
        number=number,
        node=node,
        function=function,
        parent=parent,
        first_line=min([node.lineno, *(d.lineno for d in decorators)]),
        line=node.lineno,
        header_end=end if body is None or body <= header_line else body - 1,
        end_line=end,
    )
