"""Source text → its statements, numbered.

A statement's number is its place in a pre-order walk of the syntax tree, from 0; steps in a trace
carry that number, so the tracer and the renderer need to agree on nothing else.

    source = parse_source("x = 1\\nif x:\\n    y = 2\\n", "lecture.py")
    [(s.number, s.line) for s in source.statements]  # [(0, 1), (1, 2), (2, 3)]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from trace_tools.errors import LectureError

MODULE = "<module>"

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement; lines count from 1 and include the last."""

    number: int
    node: ast.stmt
    function: str  # qualified name of the function whose frame executes it; MODULE at the top
    parent: int | None  # number of the statement it is nested in
    first_line: int  # of its first decorator, else `line`
    line: int
    header_end: int  # last line of a compound statement's header, else `end_line`
    end_line: int


@dataclass(frozen=True, slots=True)
class ParsedSource:
    """A source file with its tree and its statements in order of their numbers."""

    path: str
    text: str
    tree: ast.Module
    statements: tuple[Statement, ...]

    def function(self, name: str) -> Statement | None:
        """Return the `def` statement with this qualified name (the last one wins, as in Python)."""
        found = None
        for statement in self.statements:
            if isinstance(statement.node, FUNCTIONS) and qualified_name(statement) == name:
                found = statement
        return found


def qualified_name(definition: Statement) -> str:
    """Return the name a `def` or `class` statement gives to what it makes: "Block.forward"."""
    assert isinstance(definition.node, (*FUNCTIONS, ast.ClassDef))
    outer = definition.function
    return definition.node.name if outer == MODULE else f"{outer}.{definition.node.name}"


def parse_source(text: str, path: str) -> ParsedSource:
    """Parse `text`; raise `LectureError` at the line where it is not Python."""
    try:
        tree = ast.parse(text, path)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        message = getattr(error, "msg", None) or str(error)
        raise LectureError(path, line, f"not valid Python: {message}") from None
    return ParsedSource(path, text, tree, tuple(_walk(tree)))


def _walk(tree: ast.Module) -> Iterator[Statement]:
    numbers = iter(range(10**9))

    def visit(node: ast.AST, function: str, parent: int | None) -> Iterator[Statement]:
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.stmt):
                yield from visit(child, function, parent)  # handlers and cases hold statements too
                continue
            statement = _statement(next(numbers), child, function, parent)
            yield statement
            inner = function
            if isinstance(child, (*FUNCTIONS, ast.ClassDef)):
                inner = qualified_name(statement)
            yield from visit(child, inner, statement.number)

    return visit(tree, MODULE, None)


def _statement(number: int, node: ast.stmt, function: str, parent: int | None) -> Statement:
    decorators = getattr(node, "decorator_list", [])
    end = node.end_lineno or node.lineno
    body = _first_inner_line(node)
    return Statement(
        number=number,
        node=node,
        function=function,
        parent=parent,
        first_line=min([node.lineno, *(d.lineno for d in decorators)]),
        line=node.lineno,
        header_end=end if body is None else max(node.lineno, body - 1),
        end_line=end,
    )


def _first_inner_line(node: ast.stmt) -> int | None:
    """Return the line of the first statement (or its first decorator) inside `node`."""
    inner = getattr(node, "body", None) or getattr(node, "cases", None)
    if not inner:
        return None
    first = inner[0]
    if isinstance(first, ast.match_case):
        return first.pattern.lineno
    decorators = getattr(first, "decorator_list", [])
    return min([first.lineno, *(d.lineno for d in decorators)])
