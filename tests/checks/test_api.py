from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import trace_tools

ROOT = Path(__file__).resolve().parents[2]


def public_names(path: Path) -> Iterator[str]:
    """Yield the functions and classes of a module whose names have no leading underscore, from its syntax tree."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            yield node.name


def listed(path: Path) -> list[str] | None:
    """Return a module's `__all__` if the module defines it."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return None


@pytest.mark.slow
def test_every_public_name_has_an_entry(tmp_path: Path) -> None:
    pytest.importorskip("pdoc")
    completed = subprocess.run(
        [sys.executable, "-m", "tests.checks.api", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0, completed.stderr
    assert "Warn" not in completed.stderr, completed.stderr
    missing, index = [], (tmp_path / "search.js").read_text(encoding="utf-8")
    for path in sorted((ROOT / "trace_tools").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if parts[-1] == "__main__":
            continue
        page = tmp_path.joinpath(*parts[:-1], f"{parts[-1]}.html")
        anchors = set(re.findall(r'id="([^"]+)"', page.read_text(encoding="utf-8"))) if page.is_file() else set()
        names = trace_tools.__all__ if parts == ("trace_tools",) else listed(path) or public_names(path)
        missing += [f"{'.'.join(parts)}.{name}" for name in names if name not in anchors]
        missing += [".".join(parts)] * (f'"{".".join(parts)}"' not in index)
    assert not missing, "\n".join(missing)
    front_page = (tmp_path / "trace_tools.html").read_text(encoding="utf-8")
    assert "Show a paragraph of Markdown" in front_page
    parts = {
        path.stem
        for path in (ROOT / "trace_tools").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").is_file()
    }
    assert {f"trace_tools/{part}.html" for part in parts if part.strip("_") == part} <= set(
        re.findall(r'href="([^"]+)"', front_page)
    )
