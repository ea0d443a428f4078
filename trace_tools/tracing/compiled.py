"""Find the functions whose bytecode numba may compile: it can't read probes, so they run as written.

    compiled_functions(parse_source("import numba\n@numba.njit\ndef total(x): ...", "l.py"))  # {<FunctionDef total>}

In a file that uses numba, these are all functions and classes that are decorated, or whose name stands anywhere but in
a call of it: `njit(total)`, `kernels = {"sum": total}`, `Compiled(total).run()`. Following the values instead would
still miss some, and a lecture would fail with an error of numba's. If that is too broad, the function has no steps: a
remark at its `def` says why.
"""

from __future__ import annotations

import ast
from pathlib import Path

from trace_tools.source.statements import FUNCTIONS, ParsedSource, main_of

NUMBA = "numba"


def compiled_functions(source: ParsedSource) -> frozenset[ast.AST]:
    """Return the `def`s of a source that numba may compile."""
    nodes = [*ast.walk(source.tree)]
    if NUMBA not in source.text and not any(_leads_to_numba(node, Path(source.path).parent) for node in nodes):
        return frozenset()
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    called |= {
        id(node.value) for node in nodes if isinstance(node, ast.Attribute)
    }  # of `model.step` only "step" counts
    named = {
        node.id if isinstance(node, ast.Name) else node.attr
        for node in nodes
        if isinstance(node, ast.Name | ast.Attribute) and id(node) not in called
    }
    named.discard(main_of(source))  # as in `run(main)`
    taken: list[ast.AST] = []
    for node in nodes:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and (node.decorator_list or node.name in named):
            taken += node.body if isinstance(node, ast.ClassDef) else [node]  # the methods of a `jitclass`
    return frozenset(node for node in taken if isinstance(node, FUNCTIONS))


def _leads_to_numba(node: ast.AST, folder: Path) -> bool:
    """Return whether a node imports a file in the lecture's folder that uses numba."""
    if not isinstance(node, ast.Import | ast.ImportFrom):
        return False
    modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
    files = [folder / f"{module.replace('.', '/')}.py" for module in modules]
    return any(file.is_file() and NUMBA in file.read_text("utf-8", "replace") for file in files)
