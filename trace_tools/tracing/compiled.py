"""Find the functions whose bytecode numba compiles: it can't read probes, so they run as written.

    compiled_functions(parse_source("@numba.njit\ndef total(x): ...", "lecture.py"))  # {<FunctionDef total>}

The rule knows names, not values. A name leads to numba if it is imported from there, if it is bound to an expression
with such a name, or if it is a function or class that passes its parameter on to one. A function runs as written if
such a name decorates it, or is called with its name. If that is too broad, it has no steps: a remark at its `def` says
why.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from trace_tools.source.statements import FUNCTIONS, ParsedSource

NUMBA = "numba"

Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda


def compiled_functions(source: ParsedSource) -> frozenset[ast.AST]:
    """Return the `def`s of a source that numba may compile."""
    nodes = [*_with_scopes(source.tree)]
    leading = {name for node, _ in nodes for name in _imported(node, Path(source.path).parent)}
    passed: set[str] = set()  # names that a leading name is called with
    if not leading and NUMBA not in source.text:  # as in `import_module("numba")`, `rolling.apply(f, engine="numba")`
        return frozenset()

    def leads(node: ast.expr) -> bool:
        return any(
            getattr(part, "id", None) in leading  # a name
            or getattr(part, "attr", None) in leading
            or getattr(part, "value", None) == NUMBA  # a text
            for part in ast.walk(node)
        )

    size = -1
    while size != (size := len(leading) + len(passed)):
        for node, scopes in nodes:
            if (binding := _binding(node)) is not None:
                names, value = _names(*binding[0]), binding[1]
                leading |= names if leads(value) else set()
                passed |= _names(value) if names & passed else set()  # `for f in (mean, total): fast.append(njit(f))`
            elif isinstance(node, ast.Call) and any(map(leads, [node.func, *(k.value for k in node.keywords)])):
                given = _names(*node.args, *(keyword.value for keyword in node.keywords))
                for depth, scope in enumerate(scopes, 1):
                    if not isinstance(scope, ast.ClassDef) and given & _parameters(scope):
                        leading.update(around.name for around in scopes[:depth] if not isinstance(around, ast.Lambda))
                        given -= _parameters(scope)
                passed |= given
    taken: list[ast.AST] = []
    for node, _ in nodes:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and (
            node.name in passed or any(map(leads, node.decorator_list))
        ):
            taken += node.body if isinstance(node, ast.ClassDef) else [node]  # the methods of a `jitclass`
    return frozenset(node for node in taken if isinstance(node, FUNCTIONS))


def _imported(node: ast.AST, folder: Path) -> Iterator[str]:
    """Yield the names that an import takes from numba, or from a file in the lecture's folder that uses numba."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        for alias in node.names:
            module = alias.name if isinstance(node, ast.Import) else node.module or ""
            file = folder / f"{module.replace('.', '/')}.py"
            if module.partition(".")[0] == NUMBA or (file.is_file() and NUMBA in file.read_text("utf-8", "replace")):
                yield from {"jit", "njit", "vectorize", "guvectorize"} if alias.name == "*" else ()
                yield alias.asname or alias.name.partition(".")[0]


def _binding(node: ast.AST) -> tuple[list[ast.expr], ast.expr] | None:
    """Return the targets and the value of an assignment or a loop."""
    match node:
        case ast.Assign(targets=targets, value=value):
            return targets, value
        case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
            return [target], value
        case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
            return [target], value
    return None


def _with_scopes(node: ast.AST, scopes: tuple[Scope, ...] = ()) -> Iterator[tuple[ast.AST, tuple[Scope, ...]]]:
    """Yield a node and the nodes in it, each with the functions and classes around it."""
    yield node, scopes
    for child in ast.iter_child_nodes(node):
        yield from _with_scopes(child, (*scopes, node) if isinstance(node, Scope) else scopes)


def _parameters(scope: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> set[str]:
    return {part.arg for part in ast.walk(scope.args) if isinstance(part, ast.arg)}


def _names(*expressions: ast.expr) -> set[str]:
    """Return the names in some expressions, of `model.step` only "step", without those that are called."""
    parts = [part for expression in expressions for part in ast.walk(expression)]
    inner = {id(part.func) for part in parts if isinstance(part, ast.Call)}
    inner |= {id(part.value) for part in parts if isinstance(part, ast.Attribute)}
    named = [part for part in parts if id(part) not in inner]
    return {part.id for part in named if isinstance(part, ast.Name)} | {
        part.attr for part in named if isinstance(part, ast.Attribute)
    }
