"""Build and inspect syntax trees for `instrument`.

probe("step", ast.Constant(3))  # the statement `_@frame.step(3)`
"""

from __future__ import annotations

import ast
import builtins
import copy
import sys
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from trace_tools.source.directives import Inspected
from trace_tools.source.statements import FUNCTIONS

FRAME = "_@frame"

SUSPENSIONS = (ast.Yield, ast.YieldFrom, ast.Await)

Node = TypeVar("Node", bound=ast.AST)


def value(method: str, item: Inspected) -> ast.stmt:
    """@inspect x → try: value("x", unit, x) except BaseException: value_failed("x", unit).

    Reading a name or a constant has no effect that the lecture could see. Any other expression is read so:
    if recorded: try: with unseen(): value("x.y", unit, x.y) …
    """
    names = [ast.Constant(item.source), ast.Constant(item.unit)]
    read: list[ast.stmt] = [probe(method, *names, without_position(copy.deepcopy(item.node)))]
    is_plain = isinstance(item.node, ast.Name | ast.Constant)
    if not is_plain:
        read = [ast.With([ast.withitem(frame_call("unseen"))], read)]
    failed: list[ast.stmt] = [probe(f"{method}_failed", *copy.deepcopy(names))]
    tried = ast.Try(read, [ast.ExceptHandler(load("BaseException"), None, failed)], [], [])
    return tried if is_plain else ast.If(ast.Attribute(load(FRAME), "reads_values", ast.Load()), [tried], [])


def without_position(expression: ast.expr) -> ast.expr:
    """Remove an expression's position, so that it gets the position of its probe, because its effects are not the
    lecture's.
    """
    for node in ast.walk(expression):
        for name in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
            vars(node).pop(name, None)  # generated nodes have no position
    return expression


def ended(inspected: Sequence[Inspected], method: str = "value") -> list[ast.stmt]:
    return [probe("end"), *(value(method, item) for item in inspected)] if inspected else []


def load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def assign(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def frame_call(method: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(load(FRAME), method, ast.Load()), list(arguments), [])


def probe(method: str, *arguments: ast.expr) -> ast.Expr:
    return ast.Expr(frame_call(method, *arguments))


def at(original: Any, nodes: Sequence[Node]) -> list[Node]:
    """Give generated nodes the position where `original` begins; nodes with a position keep it."""
    start = ast.Pass(lineno=original.lineno, col_offset=original.col_offset)
    start.end_lineno, start.end_col_offset = start.lineno, start.col_offset  # else a call extends to its last line
    for node in nodes:
        _put(node, start)
    return list(nodes)


def _put(node: ast.AST, start: ast.AST) -> None:
    """Give a position to a generated node and the nodes below it, down to nodes that have one.

    Called for every block on the way up: descending further would take a second for a long lecture, so `fill_positions`
    fills in the rest once.
    """
    if "lineno" in node._attributes:
        if hasattr(node, "lineno"):
            return
        ast.copy_location(node, start)
    for child in ast.iter_child_nodes(node):
        _put(child, start)


def fill_positions(tree: ast.Module) -> ast.Module:
    """Give remaining nodes the start position of the node around them; zero width marks them as generated."""

    def fill(node: ast.AST, line: int, column: int) -> None:
        if hasattr(node, "lineno"):
            line, column = node.lineno, node.col_offset  # type: ignore[attr-defined]
        elif "lineno" in node._attributes:
            node.lineno = node.end_lineno = line  # type: ignore[attr-defined]
            node.col_offset = node.end_col_offset = column  # type: ignore[attr-defined]
        for child in ast.iter_child_nodes(node):
            fill(child, line, column)

    fill(tree, 1, 0)
    return tree


def listed(visited: Any) -> list[ast.stmt]:
    return visited if isinstance(visited, list) else [visited]


def changed(node: Node, **fields: Any) -> Node:
    """Return a copy of `node` with some fields replaced, at the same position."""
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def own_nodes(node: ast.AST, scopes: tuple[type[ast.AST], ...] = (*FUNCTIONS, ast.ClassDef)) -> Iterator[ast.AST]:
    """Yield `node` and the nodes in it, except the contents of inner scopes."""
    yield node
    if not isinstance(node, scopes):
        for child in ast.iter_child_nodes(node):
            yield from own_nodes(child, scopes)


def suspends(node: ast.stmt) -> bool:
    """Return whether the statement itself, without the statements in it, may yield or await."""
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return False
    if isinstance(node, (ast.AsyncFor, ast.AsyncWith)):
        return True
    inner = (*FUNCTIONS, ast.ClassDef, ast.stmt, ast.ExceptHandler, ast.Lambda, ast.GeneratorExp)
    own = (n for child in ast.iter_child_nodes(node) for n in own_nodes(child, inner))
    return any(isinstance(n, SUSPENSIONS) or getattr(n, "is_async", 0) for n in own)


def catches_assertions(node: ast.stmt) -> bool:
    """Return whether the body of a `try` or `with` stops an AssertionError, as far as the source shows."""
    match node:
        case ast.Try(handlers=handlers) | ast.TryStar(handlers=handlers):
            kinds = [h.type.elts if isinstance(h.type, ast.Tuple) else [h.type] for h in handlers]
            return any(kind is None or _is_assertion_error(kind) for several in kinds for kind in several)
        case ast.With(items=items):
            calls = [item.context_expr for item in items if isinstance(item.context_expr, ast.Call)]
            suppressing = (call for call in calls if ast.unparse(call.func).endswith(("suppress", "raises")))
            return any(_is_assertion_error(argument) for call in suppressing for argument in call.args)
    return False


def _is_assertion_error(expression: ast.expr) -> bool:
    kind = getattr(builtins, expression.id, None) if isinstance(expression, ast.Name) else None
    return isinstance(kind, type) and issubclass(AssertionError, kind)


def failing_node(node: ast.Assert) -> ast.AST:
    """Return the node with the AssertionError's position: since Python 3.13 the test, before that the statement.

    In Python 3.11 it is the last comparison, if the test has any.
    """

    def compared(test: ast.expr) -> Iterator[ast.expr]:
        match test:
            case ast.Compare():
                yield test
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield from compared(operand)
            case ast.BoolOp(values=values):
                for value in values:
                    yield from compared(value)
            case ast.IfExp():
                for value in (test.test, test.body, test.orelse):
                    yield from compared(value)

    if sys.version_info >= (3, 13):
        return node.test
    return [node, *compared(node.test)][-1] if sys.version_info < (3, 12) else node


def is_irrefutable(case: ast.match_case) -> bool:
    """Return whether the case matches every value, so that Python allows no case after it."""

    def takes_all(pattern: ast.pattern) -> bool:
        match pattern:
            case ast.MatchAs(pattern=inner):
                return inner is None or takes_all(inner)
            case ast.MatchOr(patterns=[*_, last]):
                return takes_all(last)
        return False

    return case.guard is None and takes_all(case.pattern)
