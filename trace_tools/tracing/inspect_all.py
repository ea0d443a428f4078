"""Implement `--inspect-all`: add an @inspect for every name that a statement binds."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trace_tools.source.directives import Directive, Inspected, Position
from trace_tools.source.statements import ParsedSource


def inspect_all(source: ParsedSource) -> list[Directive]:
    """Return a directive for each statement of a function that assigns to names."""
    directives = []
    for statement in source.statements:
        parts = (part for target in _targets(statement.node) for part in ast.walk(target))
        names = (part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))
        inspected = tuple(Inspected(name, ast.Name(name, ast.Load())) for name in dict.fromkeys(names))
        if inspected:
            headers = (ast.For, ast.AsyncFor, ast.With, ast.AsyncWith)
            position: Position = "header" if isinstance(statement.node, headers) else "after"
            directives.append(Directive("inspect", statement.number, position, statement.line, inspected))
    return directives


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
