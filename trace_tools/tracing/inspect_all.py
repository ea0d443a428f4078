"""Implement `--inspect-all`: add an @inspect for every name that a statement binds."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trace_tools.source.directives import Directive, Inspected, Position
from trace_tools.source.statements import ParsedSource, Statement


def inspect_all(source: ParsedSource) -> list[Directive]:
    """Return a directive for each statement of a function that assigns to names."""
    return [directive for statement in source.statements for directive in _directives(statement)]


def _directives(statement: Statement) -> Iterator[Directive]:
    names = list(dict.fromkeys(name for target in _targets(statement.node) for name in _names(target)))
    if names:
        headers = (ast.For, ast.AsyncFor, ast.With, ast.AsyncWith)
        place: Position = "header" if isinstance(statement.node, headers) else "after"
        inspected = tuple(Inspected(name, ast.Name(name, ast.Load())) for name in names)
        yield Directive("inspect", statement.number, place, statement.line, inspected)


def _targets(node: ast.stmt) -> Iterator[ast.expr]:
    match node:
        case ast.Assign(targets=targets):
            yield from targets
        case ast.AnnAssign(target=target, value=ast.expr()) | ast.AugAssign(target=target):
            yield target
        case ast.For(target=target) | ast.AsyncFor(target=target):
            yield target
        case ast.With(items=items) | ast.AsyncWith(items=items):
            yield from (item.optional_vars for item in items if item.optional_vars)


def _names(target: ast.expr) -> Iterator[str]:
    for node in ast.walk(target):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
