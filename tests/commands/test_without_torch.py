"""The tools where torch is not installed: a module of its name that can't be imported lies before it on the path."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the tools in a folder, with no torch."""
    path = os.pathsep.join([str(folder / "missing"), str(ROOT)])
    command = [sys.executable, "-m", "trace_tools", *arguments]
    return subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("without")
    for name in ("torch", "einops", "jaxtyping"):
        (folder / "missing" / name).mkdir(parents=True)
        (folder / "missing" / name / "__init__.py").write_text(
            f'raise ModuleNotFoundError("No module named {name!r}", name={name!r})'
        )
    (folder / "lecture.py").write_text(LECTURE)
    done = run(folder, "trace", "lecture.py", "--passes", "2")
    assert done.returncode == 0, done.stderr
    return folder


def test_a_plain_lecture_is_traced_and_rendered(folder: Path) -> None:
    """It pays neither a survey nor metering; the others' processes are complete."""
    trace = yaml.safe_load((folder / "rendered" / "cpu" / "trace.yaml").read_text().partition("\nsteps:")[0])
    assert {p["name"]: p["ended"] for p in trace["run"]["processes"]} == {
        "pass 1": "complete",
        "pass 2": "complete",
        "shaken": "complete",
    }
    assert trace["machine"].get("peaks", []) == []
    assert dict(trace["versions"]).keys() == {"python"}
    page = (folder / "rendered" / "cpu" / "00-squares.html").read_text()
    assert "[1, 4, 9]" in page and "Roofline" not in page


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("render", "rendered/cpu/trace.yaml"),
        ("diff", "rendered/cpu/trace.yaml", "rendered/cpu/trace.yaml"),
        ("compare", "rendered/cpu/trace.yaml", "rendered/cpu/trace.yaml"),
        ("validate", "rendered/cpu/trace.yaml"),
        ("doctor", "lecture.py"),
    ],
)
def test_every_other_command_works(arguments: tuple[str, ...], folder: Path) -> None:
    done = run(folder, *arguments)
    assert done.returncode == 0, done.stderr + done.stdout


@pytest.mark.slow
def test_a_lecture_that_needs_torch_is_told_so_in_one_line(folder: Path) -> None:
    (folder / "other.py").write_text(LECTURE.replace("from trace_tools", "import torch\nfrom trace_tools", 1))
    done = run(folder, "trace", "other.py", "-o", "elsewhere")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ModuleNotFoundError: No module named 'torch'; python -m pip install torch")


@pytest.mark.slow
def test_torch_that_comes_by_way_of_a_package_is_found_in_the_run(tmp_path: Path) -> None:
    """Nothing in the source names it: the first pass finds it loaded, and the run begins again with it."""
    (tmp_path / "sly.py").write_text(
        '"""Sly"""\n\nimport importlib\n\n\ndef main() -> None:\n    part()\n\n\ndef part() -> None:\n    """Part"""\n'
        '    torch = importlib.import_module("torch")\n    x = torch.ones(3)  # @inspect x\n    assert x.sum() == 3\n'
    )
    command = [sys.executable, "-m", "trace_tools", "trace", "sly.py", "--passes", "1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    trace = yaml.safe_load((tmp_path / "rendered" / "cpu" / "trace.yaml").read_text().partition("\nsteps:")[0])
    assert [p["name"] for p in trace["run"]["processes"]] == ["pass 1", "metering", "shaken"]
    assert trace["machine"]["peaks"]
