"""Find the imports of a lecture from its source: whether it needs torch, and the versions of its packages.

used = imported(parse_source(text, "lecture.py"), Path("lecture.py").parent)
"torch" in used               # False: torch is not loaded and the machine's peaks are not measured
versions(used)                # [("numpy", "2.3.1")]
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path

from trace_tools.lecture import vocabulary
from trace_tools.source.statements import ParsedSource

OURS = "trace_tools"
# Other modules of ours that need no torch unless their arguments do.
PLAIN = frozenset({"lecture", "plain", "measure", "count"})


def imported(source: ParsedSource, folder: Path) -> frozenset[str]:
    """Return the packages that a lecture and the modules in its folder import, without Python's own.

    "torch" is included if the lecture uses a function of ours that needs it. Imports inside installed packages are not
    followed.
    """
    packages: set[str] = set()
    followed: set[Path] = set()
    trees: list[ast.AST] = [source.tree]
    while trees:
        for name in _imports(trees.pop()):
            root = name.partition(".")[0]
            paths = (folder / f"{root}.py", *(folder / root).glob("**/*.py"))
            # The tools are in the lecture's folder in a checkout; they are not followed.
            beside = {path for path in paths if path.is_file()} if root != OURS else set()
            if not beside:
                packages.add(root)
            for path in sorted(beside - followed):
                # The lecture will report the error in the module.
                with suppress(OSError, ValueError, SyntaxError, RecursionError, MemoryError):
                    trees.append(ast.parse(path.read_bytes()))
            followed |= beside
    return frozenset(packages - {OURS} - sys.stdlib_module_names)


def _imports(tree: ast.AST) -> Iterator[str]:
    """Yield the modules that a source imports by absolute names, and "torch" for names of ours that need it."""
    ours: list[str] = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
                ours += ["*" for alias in names if alias.name == OURS and alias.asname]  # by a name of the lecture's
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield module
                ours += [alias.name for alias in names] if module == OURS else []
                ours += [module.split(".")[1]] if module.startswith(f"{OURS}.") else []
            case ast.Attribute(value=ast.Name(id="trace_tools"), attr=name):
                ours.append(name)
    plain = {*PLAIN, *vocabulary.__all__}
    if not all(name in plain or name.startswith(("__", "draw_")) for name in ours):
        yield "torch"


def is_installed(name: str) -> bool:
    """Return whether a package can be imported, without importing it."""
    return name in sys.modules or PathFinder.find_spec(name) is not None


def needs_torch(used: frozenset[str]) -> bool:
    """Return whether torch is installed, and a lecture with these imports uses it or a package that requires it.

    An extra counts as well: transformers requires torch only as one, and imports it with its first model.
    """
    required: list[str] = []
    for name in used - {"edtrace"}:  # it requires torch for its own tracer, and its words run without
        with suppress(metadata.PackageNotFoundError):
            required += metadata.requires(name) or ()
    needed = "torch" in used or any(re.match(r"torch(?![\w.-])", requirement) for requirement in required)
    return needed and is_installed("torch")


def versions(used: frozenset[str]) -> list[tuple[str, str]]:
    """List the versions of the packages that are distributed under their own name."""
    rows = []
    for name in sorted(used):
        with suppress(metadata.PackageNotFoundError):
            rows.append((name, metadata.version(name)))
    return rows
