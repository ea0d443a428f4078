"""What a lecture imports, by its source: whether it needs torch, and the versions of what it uses.

used = imported(parse_source(text, "lecture.py"), Path("lecture.py").parent)
"torch" in used               # False: neither torch is loaded nor the machine's peaks are measured
versions(used)                # [("numpy", "2.3.1")]
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path

from trace_tools.statements import ParsedSource

OURS = "trace_tools"
PLAIN = frozenset({"narrative", "drawings", "measure", "count"})  # of ours, what needs no torch besides the words


def imported(source: ParsedSource, folder: Path) -> frozenset[str]:
    """Return the packages that a lecture imports, anywhere in it or in the modules beside it, Python's own left out.

    "torch" is among them where the lecture uses what needs it of ours, if it is installed. What an installed package
    imports in turn is not seen.
    """
    found = {name.partition(".")[0] for name, is_beside in _reached(source, folder) if not is_beside}
    return frozenset(found - {OURS} - sys.stdlib_module_names)


def modules(source: ParsedSource, folder: Path) -> frozenset[str]:
    """Return the full names of all that a lecture, or a module beside it, imports by absolute names."""
    return frozenset(name for name, _ in _reached(source, folder))


def mentions(source: ParsedSource, folder: Path, words: Collection[str]) -> bool:
    """Tell whether a lecture, or a module beside it, has any of `words` among its names, or in those it imports."""
    for tree, imports in _trees(source, folder):
        if any(part in words for name, _ in imports for part in name.split(".")):
            return True
        for node in ast.walk(tree):
            name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None
            if name in words:
                return True
    return False


def _reached(source: ParsedSource, folder: Path) -> Iterator[tuple[str, bool]]:
    """Yield what a lecture and the modules beside it import, and whether that lies beside it."""
    for _, imports in _trees(source, folder):
        yield from imports


def _trees(source: ParsedSource, folder: Path) -> Iterator[tuple[ast.AST, list[tuple[str, bool]]]]:
    """Yield the tree of a lecture and those of the modules beside it, each with what it imports."""
    seen: set[Path] = set()
    trees: list[ast.AST] = [source.tree]
    while trees:
        tree, imports = trees.pop(), []
        for name in _imports(tree):
            root = name.partition(".")[0]
            beside = [folder / f"{root}.py", *(folder / root).glob("**/*.py")]
            local = [path for path in beside if path.is_file() and path not in seen]
            seen.update(local)
            for path in local:
                # What is wrong with it is the lecture's to say.
                with suppress(OSError, ValueError, SyntaxError, RecursionError, MemoryError):
                    trees.append(ast.parse(path.read_bytes()))
            imports.append((name, any(path.is_file() for path in beside)))
        yield tree, imports


def is_installed(name: str) -> bool:
    """Tell whether a package could be imported, without doing it."""
    return name in sys.modules or PathFinder.find_spec(name) is not None


def versions(used: frozenset[str]) -> list[tuple[str, str]]:
    """List the versions of the packages that are distributed by their own name."""
    found = []
    for name in sorted(used):
        with suppress(metadata.PackageNotFoundError):
            found.append((name, metadata.version(name)))
    return found


def _imports(tree: ast.AST) -> Iterator[str]:
    """Yield the modules that a source imports by absolute names; "torch" for ours that need it, if it is there."""
    torch = ["torch"] if is_installed("torch") else []
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            if any(alias.name == OURS and alias.asname for alias in node.names):  # by a name of the lecture's own
                yield from torch
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
            if node.module == OURS:
                names = [f"{OURS}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == OURS:
            names = [f"{OURS}.{node.attr}"]
        for name in names:
            yield name
            if name.startswith(f"{OURS}.") and not _is_plain(name):
                yield from torch


def _is_plain(name: str) -> bool:
    """Return whether what is imported of ours needs no torch: a word of the vocabulary, or a module of `PLAIN`."""
    from trace_tools import narrative

    part = name.split(".")[1]
    return part in PLAIN or part in narrative.__all__ or part.startswith("__")
