"""A lecture → the files beside it that it uses: modules it imports, images it shows.

    neighbours(source, folder)      # Neighbours(modules=(Path("shapes.py"),), images=(Path("images/loss.png"),))

Found in its text, so that nothing has to run; a file that a lecture merely opens is not seen.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from trace_tools.statements import ParsedSource

TOOLS = "trace_tools"  # it may lie beside the lecture; editing it is another trade


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Files beside a lecture, in order; an image may not be there yet."""

    modules: tuple[Path, ...] = ()
    images: tuple[Path, ...] = ()


def neighbours(source: ParsedSource, folder: Path) -> Neighbours:
    """Return the modules that a lecture imports from its own folder, directly or not, and its images."""
    images = {folder / name for name in _images(source)}
    modules = _modules([s.node for s in source.statements], folder, folder / Path(source.path).name)
    return Neighbours(tuple(sorted(modules)), tuple(sorted(images)))


def _modules(nodes: Sequence[ast.AST], folder: Path, lecture: Path) -> set[Path]:
    found: set[Path] = set()
    waiting = [nodes]
    while waiting:
        for path in _imported(waiting.pop(), folder):
            if path in found or path == lecture:
                continue
            found.add(path)
            try:
                waiting.append([*ast.walk(ast.parse(path.read_bytes()))])
            except (OSError, SyntaxError, ValueError):
                continue  # what is wrong with it, the run says
    return found


def _imported(nodes: Sequence[ast.AST], folder: Path) -> Iterator[Path]:
    """Yield the files beside the lecture that an import may execute: a module, or all of a package."""
    for node in nodes:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module] if node.module else [alias.name for alias in node.names]
        for top in {name.split(".")[0] for name in names} - {TOOLS}:
            if (folder / top / "__init__.py").is_file():
                yield from (folder / top).rglob("*.py")
            elif (folder / f"{top}.py").is_file():
                yield folder / f"{top}.py"


def _images(source: ParsedSource) -> Iterator[str]:
    """Yield the paths that calls of `image` name literally."""
    for statement in source.statements:
        match statement.node:
            case ast.Expr(ast.Call(ast.Name("image") | ast.Attribute(attr="image"), [ast.Constant(str(path)), *_])):
                yield path
