"""Source text → its statements, numbered.

A statement's number is its place in a pre-order walk of the syntax tree, from 0; steps in a trace
carry that number, so the tracer and the renderer need to agree on nothing else.

    source = parse_source("x = 1\\nif x:\\n    y = 2\\n", "lecture.py")
    [(s.number, s.line) for s in source.statements]  # [(0, 1), (1, 2), (2, 3)]
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from trace_tools import formats
from trace_tools.errors import LectureError

MODULE = "<module>"
MAIN = "main"

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
CLAUSES = (ast.excepthandler, ast.match_case)  # they hold statements, and are none


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
    functions: Mapping[str, Statement]  # the `def` statements by their qualified names; the last one, as in Python

    def function(self, name: str) -> Statement | None:
        """Return the `def` statement with this qualified name."""
        return self.functions.get(name)


def qualified_name(definition: Statement) -> str:
    """Return the name a `def` or `class` statement gives to what it makes: "Block.forward"."""
    assert isinstance(definition.node, (*FUNCTIONS, ast.ClassDef))
    outer = definition.function
    return definition.node.name if outer == MODULE else f"{outer}.{definition.node.name}"


def rank_counts(source: ParsedSource) -> list[int]:
    """Return by how many ranks a lecture says that it can be run, in its module's `RANKS = (2, 4)`; else nothing."""
    for node in source.tree.body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["RANKS"]:
            try:
                counts = ast.literal_eval(node.value)
            except ValueError:
                return []
            counts = counts if isinstance(counts, (tuple, list)) else [counts]
            return [count for count in counts if type(count) is int]
    return []


def sections(source: ParsedSource) -> list[str]:
    """Return the lecture's sections in order: its functions that `main` calls.

    One that `main` only hands to another function is called by that one, and is no section.
    """
    found: dict[str, None] = {}

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and source.function(node.id):
            found.setdefault(node.id)
        if isinstance(node, ast.Call):
            visit(node.func)
            handed = [*node.args, *(keyword.value for keyword in node.keywords)]
            for argument in handed:
                if not isinstance(argument, ast.Name):
                    visit(argument)
            return
        for child in ast.iter_child_nodes(node):
            visit(child)

    main = source.function(MAIN)
    for child in ast.iter_child_nodes(main.node) if main is not None else ():
        visit(child)
    return list(found)


def title_of(source: ParsedSource, lecture: str) -> str:
    """Return a lecture's title: the first paragraph of its docstring, else the name of its file in words."""
    doc = ast.get_docstring(source.tree) or ""
    first = doc.strip().split("\n\n")[0].replace("\n", " ")
    return re.sub(r"\.$", "", first) or formats.readable(Path(lecture).stem)


def bare_call(node: ast.stmt) -> str | None:
    """Return the name of the function that a statement `f(…)` calls; None where it does anything else."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Name(id=name))):
            return name
    return None


def reached(names: Iterable[str], uses: Mapping[str, Collection[str]]) -> frozenset[str]:
    """Return these names and all that what they name uses, and what that uses, and so on."""
    found: set[str] = set()
    waiting = [*names]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += uses.get(name, ())
    return frozenset(found)


def read_source(path: str | Path) -> ParsedSource:
    """Read and parse a file as `read_text` does. Raises LectureError when it can't be read or is not Python."""
    return parse_source(read_text(path), str(path))


def read_text(path: str | Path) -> str:
    """Read a file, decoded as Python would (PEP 263) and with "\\n" at the end of each line.

    Raises LectureError when it is missing, can't be read or can't be decoded.
    """
    try:
        if Path(path).exists() and not (Path(path).is_file() or Path(path).is_dir()):  # a pipe waits for a writer
            raise LectureError(path, None, "is no regular file; expected a Python file")
        content = Path(path).read_bytes()
    except OSError as error:
        raise LectureError(path, None, f"can't be read: {error.strerror}; expected a Python file") from None
    expected = "expected UTF-8, or another encoding declared in line 1 or 2"
    try:
        return _decode(content)
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        what = f"byte 0x{error.object[error.start]:02x} is not {error.encoding}"
        raise LectureError(path, line, f"{what}; {expected}") from None
    except (SyntaxError, LookupError, UnicodeError) as error:
        raise LectureError(path, None, f"can't be decoded: {error}; {expected}") from None


def _decode(content: bytes) -> str:
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
    except SyntaxError:
        content.decode("utf-8")  # raises at the byte, unless it is the declaration that is wrong
        raise
    return io.StringIO(content.decode(encoding), newline=None).read()


def parse_source(text: str, path: str) -> ParsedSource:
    """Parse `text` (a byte order mark is dropped); raise `LectureError` at the line where it is not Python."""
    text = text.removeprefix("\ufeff")
    try:
        tree = ast.parse(text, path)
    except (SyntaxError, ValueError) as error:
        raise LectureError(path, getattr(error, "lineno", None), not_valid(error)) from None
    except (RecursionError, MemoryError):
        raise LectureError(path, None, "an expression is nested too deeply to be parsed") from None
    statements = tuple(_walk(tree))
    functions = {qualified_name(s): s for s in statements if isinstance(s.node, FUNCTIONS)}
    return ParsedSource(path, text, tree, statements, functions)


def not_valid(error: SyntaxError | ValueError) -> str:
    """Say what Python refused a text for."""
    version = ".".join(map(str, sys.version_info[:2]))  # a later one may take it
    return f"not valid Python {version}: {getattr(error, 'msg', None) or error}"


def _walk(tree: ast.Module) -> Iterator[Statement]:
    numbers = iter(range(10**9))

    def visit(node: ast.AST, function: str, parent: int | None) -> Iterator[Statement]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, CLAUSES):
                yield from visit(child, function, parent)
            if not isinstance(child, ast.stmt):
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
        header_end=end if body is None or body <= _header_line(node) else body - 1,
        end_line=end,
    )


def _header_line(node: ast.stmt) -> int:
    """Return the last line that the header's own expressions reach."""
    parts = (child for child in ast.iter_child_nodes(node) if not isinstance(child, (ast.stmt, *CLAUSES)))
    ends = (getattr(part, "end_lineno", None) for child in parts for part in ast.walk(child))
    return max([int(node.lineno), *(int(end) for end in ends if end)])


def _first_inner_line(node: ast.stmt) -> int | None:
    """Return the line of the first statement (or its first decorator) inside `node`."""
    inner = getattr(node, "body", None) or getattr(node, "cases", None)
    if not inner:
        return None
    first: ast.stmt | ast.match_case = inner[0]
    if isinstance(first, ast.match_case):
        return int(first.pattern.lineno)
    decorators = getattr(first, "decorator_list", [])
    return min([int(first.lineno), *(int(d.lineno) for d in decorators)])
