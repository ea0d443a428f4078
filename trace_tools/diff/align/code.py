"""Represent the code of each statement in forms to compare: exact, without names, without constants.

    codes_of(Tree(trace))[0].functions["matmul"]  # [Code(number=8, exact="…", unnamed="…", bare="…", …), …]

A compound statement is represented by its header; the statements in it are separate. Comments are ignored, so changed
annotations have no effect.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trace_tools.errors import LectureError
from trace_tools.source.statements import CLAUSES, parse_source
from trace_tools.trace.model import SourceFile
from trace_tools.trace.tree import Tree

NAMING = frozenset({"id", "name", "asname", "arg", "names", "attr"})  # fields that hold identifiers
RENAMED = NAMING - {"attr"}  # fields that change if a variable or function is renamed


@dataclass(frozen=True, slots=True)
class Code:
    """One statement as code; `names` are its identifiers in order, `called` the names of functions that it calls."""

    number: int
    exact: str
    unnamed: str  # with every name blanked
    bare: str  # with names and constants blanked
    role: str  # the kind of statement with its target, or the function that it calls
    names: tuple[str, ...]
    called: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SourceCode:
    """The statements of one source in order, by the function that executes them."""

    path: str
    functions: Mapping[str, Sequence[Code]]
    parsed: bool = True  # False: only statements that ran are known, by the text of their lines


def codes_of(tree: Tree) -> list[SourceCode]:
    """Return the code of each source of a trace, in order."""
    return [_parsed(source) or _by_lines(tree, number) for number, source in enumerate(tree.trace.sources)]


def _parsed(source: SourceFile) -> SourceCode | None:
    functions: dict[str, list[Code]] = {}
    try:
        for statement in parse_source(source.text, source.path).statements:
            tokens = list(_tokens(statement.node))
            code = Code(
                statement.number,
                exact=" ".join(text for _, text in tokens),
                unnamed=" ".join(text if kind in ("node", "constant") else "·" for kind, text in tokens),
                bare=" ".join(text if kind == "node" else "·" for kind, text in tokens),
                role=_role(statement.node),
                names=tuple(text for kind, text in tokens if kind == "name"),
                called=tuple(text for kind, text in tokens if kind == "called"),
            )
            functions.setdefault(statement.function, []).append(code)
    except (LectureError, RecursionError):  # the syntax of a newer Python, or an expression nested too deeply
        return None
    return SourceCode(source.path, functions)


def _role(node: ast.stmt) -> str:
    """Return the part of a statement that an edit keeps; "" if two different statements need not be related."""
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
    """Represent each statement that ran by the text of its line."""
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
