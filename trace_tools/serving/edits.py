"""What a save changed → what has to be traced again.

    section_to_trace(SourceFile("lecture.py", old), parse_source(new, "lecture.py"))    # "matmul", or None

A section can be traced alone when all functions whose code changed are its own: nothing else that `main` runs
calls them. What it draws at random still differs from a run of the whole lecture, and a function may be handed on
and called elsewhere: so the whole lecture is traced after it.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator

from trace_tools.rendering.staleness import changed_functions
from trace_tools.schema import SourceFile
from trace_tools.statements import FUNCTIONS, MAIN, ParsedSource, bare_call, reached, sections


def section_to_trace(traced: SourceFile, now: ParsedSource) -> str | None:
    """Return the only section that can notice what changed in the lecture's code; None where there are others.

    Raises LectureError when the traced text is not Python.
    """
    changed = changed_functions(traced, now.text)
    if not changed or MAIN in changed:
        return None
    calls = {name: frozenset(_called(nodes)) for name, nodes in _definitions(now).items()}
    alone = sections(now)
    used = {name: reached([name], calls) for name in alone}
    elsewhere = reached([*_called(_outside(now)), *_called(_besides(now, alone))], calls)
    noticing = [name for name in alone if changed & used[name]]
    if len(noticing) != 1 or changed & elsewhere or _shares_state(now, used[noticing[0]]):
        return None
    return noticing[0]


def _definitions(source: ParsedSource) -> dict[str, list[ast.AST]]:
    """Return the module's functions and classes by name."""
    found: dict[str, list[ast.AST]] = {}
    for node in source.tree.body:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            found.setdefault(node.name, []).append(node)
    return found


def _outside(source: ParsedSource) -> list[ast.AST]:
    """Return the module's own statements, and what its definitions evaluate when they are executed."""
    found: list[ast.AST] = []
    for node in source.tree.body:
        if isinstance(node, FUNCTIONS):
            found += [*node.decorator_list, node.args]
        elif not isinstance(node, ast.If) or "__main__" not in ast.dump(node.test):
            found.append(node)
    return found


def _besides(source: ParsedSource, alone: Collection[str | None]) -> Iterator[ast.AST]:
    """Yield what `main` executes that is no bare call of a section; of such a call, its arguments."""
    for statement in source.statements:
        if statement.function != MAIN:
            continue
        if bare_call(statement.node) in alone:
            assert isinstance(statement.node, ast.Expr) and isinstance(statement.node.value, ast.Call)
            yield from (*statement.node.value.args, *statement.node.value.keywords)
        else:  # of a loop or a branch its header: what is in it comes by itself
            yield from (node for node in ast.iter_child_nodes(statement.node) if not isinstance(node, ast.stmt))


def _called(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the names that some trees call."""
    for tree in nodes:
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                yield node.func.id


def _shares_state(source: ParsedSource, names: frozenset[str]) -> bool:
    """Whether one of these functions binds a name of the module, which others may read."""
    nodes = (node for name in names for node in _definitions(source).get(name, ()))
    return any(isinstance(inner, ast.Global) for node in nodes for inner in ast.walk(node))
