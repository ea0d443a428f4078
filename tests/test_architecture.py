"""Imports point one way, and rendering needs no torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "trace_tools"

# What each part may import besides itself; the modules beside cli.py are parts of their own.
GROUND = {
    "call_tree", "directives", "errors", "file_format", "files", "formats", "git", "layout", "narrative", "rates",
    "schema", "statements", "summaries",
}  # fmt: skip

ALLOWED = {
    "errors": set(),
    "schema": set(),
    "statements": {"errors"},
    "directives": {"errors", "statements"},
    "layout": {"directives", "errors", "narrative", "statements"},
    "call_tree": {"schema", "statements"},
    "files": {"errors"},
    "git": {"errors"},
    "formats": set(),
    "rates": {"formats", "schema"},
    "summaries": {"formats", "schema"},
    "file_format": {"errors", "files", "narrative", "schema"},
    "narrative": {"files", "schema"},
    "drawings": {"narrative"},
    "outcome": GROUND,
    "machines": GROUND,
    "metering": GROUND,
    "describing": GROUND,
    "tracing": {*GROUND, "describing", "machines", "metering", "narrative"},
    "rendering": GROUND,
    "comparing": {*GROUND, "rendering"},
    "benching": {*GROUND, "comparing", "machines", "outcome", "tracing"},
    "publishing": {*GROUND, "comparing", "rendering"},
    "serving": {*GROUND, "outcome", "publishing", "rendering", "tracing"},
    "commands": {*GROUND, "benching", "comparing", "outcome", "publishing", "serving", "tracing"},
    "cli": {"commands", "errors"},
    "__init__": {"narrative", "metering", "machines"},
}  # fmt: skip


def parts() -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        found.setdefault(name, []).append(path)
    return found


def imported(path: Path) -> set[str]:
    """The parts of the package that a module imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "trace_tools":
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("trace_tools."):
            names.add(str(node.module).split(".")[1])
    return names


@pytest.mark.parametrize("part", sorted(ALLOWED))
def test_imports_point_one_way(part: str) -> None:
    for path in parts()[part]:
        assert imported(path) - {part} <= ALLOWED[part], path


def test_every_part_is_listed() -> None:
    assert set(parts()) - {"__main__"} == set(ALLOWED)


def test_only_the_command_line_prints() -> None:
    speakers = {"cli.py", "survey.py"}  # the survey is a process, and its last line is its parent's error
    for path in PACKAGE.rglob("*.py"):
        if path.name not in speakers:
            tree = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            called = [node.func for node in tree if isinstance(node, ast.Call)]
            assert not [f for f in called if isinstance(f, ast.Name) and f.id == "print"], path


@pytest.mark.parametrize(
    "module", ["trace_tools", "trace_tools.cli", "trace_tools.publishing.site", "trace_tools.tracing.tracer"]
)
def test_no_torch_until_it_is_needed(module: str) -> None:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, check=False).returncode == 0
