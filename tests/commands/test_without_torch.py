"""The tools without torch: a module of that name, which cannot be imported, precedes the real one on the path."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
LECTURE = '''"""A lecture in plain Python"""

from trace_tools import ask, plot, table, text


def main() -> None:
    squares()


def squares() -> None:
    """Squares"""
    text("Three numbers and their squares.")
    numbers = [1, 2, 3]
    found = [n * n for n in numbers]  # @inspect found
    assert found == [1, 4, 9]
    table([[n, s] for n, s in zip(numbers, found)], ["n", "square"])
    plot({"square": found}, x=numbers)
    ask("And of 4?", answer=16)
'''
SLY = """
import importlib


def main() -> None:
    torch = importlib.import_module("torch")
    x = torch.ones(3)  # @inspect x
    assert x.sum() == 3
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the tools in a folder; without torch, if it has a folder `missing`."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder / "missing"), str(ROOT)])}
    command = [sys.executable, "-m", "trace_tools", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def head(folder: Path) -> dict[str, Any]:
    """Return a trace without its steps."""
    return yaml.safe_load((folder / "rendered/cpu/trace.yaml").read_text().partition("\nsteps:")[0])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("without")
    for name in ("torch", "einops", "jaxtyping"):
        (folder / "missing" / name).mkdir(parents=True)
        error = f'raise ModuleNotFoundError("No module named {name!r}", name={name!r})'
        (folder / "missing" / name / "__init__.py").write_text(error)
    (folder / "lecture.py").write_text(LECTURE)
    result = run(folder, "trace", "lecture.py", "--passes", "2", "--name", "cpu")
    assert result.returncode == 0, result.stderr
    return folder


def test_plain_lecture_is_traced_and_rendered(folder: Path) -> None:
    """There is no survey and no counted run; the passes are complete."""
    trace = head(folder)
    assert {p["name"]: p["ended"] for p in trace["run"]["processes"]} == {"pass 1": "complete", "pass 2": "complete"}
    assert trace["machine"].get("peaks", []) == [] and dict(trace["versions"]).keys() == {"python"}
    page = (folder / "rendered/cpu/00-squares.html").read_text()
    assert "[1, 4, 9]" in page and "Roofline" not in page


@pytest.mark.slow
@pytest.mark.parametrize("command", ["render cpu", "diff cpu cpu", "diff cpu cpu cpu", "validate cpu"])
def test_other_commands_work(command: str, folder: Path) -> None:
    result = run(folder, *command.split())
    assert result.returncode == 0, result.stderr + result.stdout


@pytest.mark.slow
def test_lecture_that_needs_torch_is_an_error(folder: Path) -> None:
    (folder / "other.py").write_text(LECTURE.replace("from trace_tools", "import torch\nfrom trace_tools", 1))
    result = run(folder, "trace", "other.py", "-o", "elsewhere")
    assert result.returncode == 2
    assert "error: ModuleNotFoundError: No module named 'torch'; python -m pip install torch" in result.stderr


@pytest.mark.slow
def test_a_torch_that_no_import_shows_is_noted(tmp_path: Path) -> None:
    """The source does not import torch: there are no peaks and counts, and the trace says why."""
    (tmp_path / "sly.py").write_text(SLY)
    result = run(tmp_path, "trace", "sly.py", "--passes", "1", "--name", "cpu")
    assert result.returncode == 0, result.stderr
    trace = head(tmp_path)
    [process] = trace["run"]["processes"]
    assert "peaks" not in trace["machine"] and any("`import torch`" in note for note in process["notes"])
