"""A trace's sources → what can be compared of each statement: its code exactly, without names, without constants.

    codes_of(Tree(trace))[0].functions["matmul"]  # [Code(number=8, exact="…", unnamed="…", bare="…", …), …]

A compound statement counts with its header only; what is inside it are statements of their own. Comments
are not code, so an annotation more or less changes nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trace_tools.call_tree import Tree
from trace_tools.errors import LectureError
from trace_tools.schema import SourceFile
from trace_tools.statements import CLAUSES, Statement, parse_source

NAMING = frozenset({"id", "name", "asname", "arg", "names", "attr"})  # fields that hold identifiers
RENAMED = NAMING - {"attr"}  # of them those that a renamed variable or function changes


@dataclass(frozen=True, slots=True)
class Code:
    """One statement as code; `names` are the identifiers in it, in order, `called` those of functions it calls."""

    number: int
    exact: str
    unnamed: str  # with every name blanked
    bare: str  # with names and constants blanked
    role: str  # what it does to what: the kind of statement with its target, or the function it calls
    names: tuple[str, ...]
    called: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SourceCode:
    """The statements of one source by the function whose frame executes them, in order."""

    path: str
    functions: Mapping[str, Sequence[Code]]
    parsed: bool = True  # else statements are known by the text of their lines, and only those that ran


def codes_of(tree: Tree) -> list[SourceCode]:
    """Return the code of each of a trace's sources, in their order."""
    return [_parsed(source) or _by_lines(tree, number) for number, source in enumerate(tree.trace.sources)]


def _parsed(source: SourceFile) -> SourceCode | None:
    functions: dict[str, list[Code]] = {}
    try:
        for statement in parse_source(source.text, source.path).statements:
            functions.setdefault(statement.function, []).append(_code(statement))
    except (LectureError, RecursionError):  # a newer Python's syntax, or an expression nested too deeply
        return None
    return SourceCode(source.path, functions)


def _code(statement: Statement) -> Code:
    tokens = list(_tokens(statement.node))
    return Code(
        statement.number,
        exact=" ".join(text for _, text in tokens),
        unnamed=" ".join(text if kind in ("node", "constant") else "·" for kind, text in tokens),
        bare=" ".join(text if kind == "node" else "·" for kind, text in tokens),
        role=_role(statement.node),
        names=tuple(text for kind, text in tokens if kind == "name"),
        called=tuple(text for kind, text in tokens if kind == "called"),
    )


def _role(node: ast.stmt) -> str:
    """Return what an edited statement keeps; "" where two that differ need have nothing to do with each other."""
    target: ast.AST | None = None
    if isinstance(node, ast.Assign):
        target = node.targets[0]
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.For)):
        target = node.target
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        target = node.value.func
    elif not isinstance(node, (ast.Return, ast.Assert)):
        return ""
    return f"{type(node).__name__} {ast.dump(target) if target is not None else ''}"


def _tokens(statement: ast.stmt) -> Iterator[tuple[str, str]]:
    """Yield a statement's tree in order: ("node", class), ("name" or "called", identifier), ("constant", repr)."""
    stack: list[tuple[str, object]] = [("", statement)]
    while stack:
        field, item = stack.pop()
        if isinstance(item, ast.Constant):
            yield "constant", repr(item.value)
        elif isinstance(item, ast.Name) and field == "func":
            yield "called", item.id
        elif isinstance(item, ast.AST) and not isinstance(item, ast.expr_context):
            yield "node", type(item).__name__
            stack.extend(reversed(list(ast.iter_fields(item))))
        elif isinstance(item, list):
            inner = [(field, part) for part in item if not isinstance(part, (ast.stmt, *CLAUSES))]
            yield "node", f"[{field}"
            stack.extend(reversed(inner))
        elif isinstance(item, str) and field in NAMING:
            yield "name" if field in RENAMED else "node", item
        elif item is not None and not isinstance(item, ast.AST):
            yield "constant", repr(item)


def _by_lines(tree: Tree, number: int) -> SourceCode:
    """Know each statement that ran by the text of its line."""
    source = tree.trace.sources[number]
    lines = source.text.split("\n")
    functions: dict[str, dict[int, Code]] = {}
    for step in tree.by_id.values():
        frame = tree.frames[step.frame]
        if frame.source == number:
            text = lines[step.line - 1].strip() if step.line <= len(lines) else ""
            code = Code(step.statement, text, text, text, "", (), ())
            functions.setdefault(frame.function, {})[step.statement] = code
    ordered = {name: [codes[n] for n in sorted(codes)] for name, codes in functions.items()}
    return SourceCode(source.path, ordered, parsed=False)
