"""Find the imports of a lecture from its source: whether it needs torch, and the versions of its packages.

used = imported(parse_source(text, "lecture.py"), Path("lecture.py").parent)
"torch" in used               # False: torch is not loaded and the machine's peaks are not measured
versions(used)                # [("numpy", "2.3.1")]
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path

from trace_tools.source.statements import ParsedSource

OURS = "trace_tools"
# Other modules of ours that need no torch unless their arguments do.
PLAIN = frozenset({"lecture", "plain", "measure", "count"})


def imported(source: ParsedSource, folder: Path) -> frozenset[str]:
    """Return the packages that a lecture and the modules in its folder import, without Python's own.

    "torch" is included if the lecture uses a function of ours that needs it, and torch is installed. Imports inside
    installed packages are not followed.
    """
    packages = {name.partition(".")[0] for name, is_beside in _reached(source, folder) if not is_beside}
    return frozenset(packages - {OURS} - sys.stdlib_module_names)


def _reached(source: ParsedSource, folder: Path) -> Iterator[tuple[str, bool]]:
    """Yield each module imported by a lecture or by a module in its folder, and whether it is in that folder."""
    for _, _, imports in _modules(source, folder):
        yield from imports


def _modules(
    source: ParsedSource, folder: Path
) -> Iterator[tuple[bytes | None, Sequence[ast.AST], list[tuple[str, bool]]]]:
    """Yield the nodes of a lecture and of the modules in its folder, the tree first, each with its imports.

    The text is None for the lecture itself.
    """
    followed: set[Path] = set()
    modules: list[tuple[bytes | None, Sequence[ast.AST]]] = [(None, [*ast.walk(source.tree)])]
    while modules:
        (text, nodes), imports = modules.pop(), []
        for name in _imports(nodes):
            root = name.partition(".")[0]
            # The tools are in the lecture's folder in a checkout; they are not followed.
            beside = [] if root == OURS else [folder / f"{root}.py", *(folder / root).glob("**/*.py")]
            local = [path for path in beside if path.is_file() and path not in followed]
            followed.update(local)
            for path in local:
                # The lecture will report the error in the module.
                with suppress(OSError, ValueError, SyntaxError, RecursionError, MemoryError):
                    read = path.read_bytes()
                    modules.append((read, _nodes(read)))
            imports.append((name, any(path.is_file() for path in beside)))
        yield text, nodes, imports


@lru_cache(maxsize=64)
def _nodes(text: bytes) -> Sequence[ast.AST]:
    """Parse a module, once for all questions about it."""
    return [*ast.walk(ast.parse(text))]


def is_installed(name: str) -> bool:
    """Return whether a package can be imported, without importing it."""
    return name in sys.modules or PathFinder.find_spec(name) is not None


def versions(used: frozenset[str]) -> list[tuple[str, str]]:
    """List the versions of the packages that are distributed under their own name."""
    rows = []
    for name in sorted(used):
        with suppress(metadata.PackageNotFoundError):
            rows.append((name, metadata.version(name)))
    return rows


def _imports(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Yield the modules that a source imports by absolute names; "torch" for ours that need it, if it is installed."""
    from trace_tools.lecture import vocabulary

    torch = ["torch"] if is_installed("torch") else []
    for node in nodes:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            if any(alias.name == OURS and alias.asname for alias in node.names):  # under a name that the lecture chose
                yield from torch
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
            if node.module == OURS:
                names = [f"{OURS}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == OURS:
            names = [f"{OURS}.{node.attr}"]
        for name in names:
            yield name
            # a call of the vocabulary, or a module in `PLAIN`, needs no torch
            part = name.partition(".")[2].partition(".")[0]
            plain = part in PLAIN or part in vocabulary.__all__ or part.startswith(("__", "draw_"))
            if name.startswith(f"{OURS}.") and not plain:
                yield from torch
