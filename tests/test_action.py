"""The GitHub action, the editor task in the README and the pre-commit hook: the tests run their commands."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.programs import PYTHON, require

ROOT = Path(__file__).resolve().parents[1]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"] if "name" in step}
LECTURE = "def main():\n    part()\n\n\ndef part():\n    x = 1  # @inspect x\n"
WRONG_LECTURE = "def main():\n    part()\n\n\ndef part():\n    x = 1  # @insepct x 100%\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    require("bash")
    (tmp_path / "talk one.py").write_text(LECTURE)
    (tmp_path / "wrong.py").write_text(WRONG_LECTURE)
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin" / "trace-tools"
    tool.write_text(f'#!/bin/sh\nexec {PYTHON} -m trace_tools "$@"\n')
    tool.chmod(0o755)
    return tmp_path


def run(step: str, folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run a step's script as GitHub does, with its inputs in environment variables."""
    values = {name: definition["default"] for name, definition in ACTION["inputs"].items()} | inputs
    env = {
        name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda match: values[match[1]], value)
        for name, value in STEPS[step]["env"].items()
    }
    env |= {"GITHUB_OUTPUT": str(folder / "output"), "RUNNER_TEMP": str(folder), "PYTHONPATH": str(ROOT)}
    env["PATH"] = f"{folder / 'bin'}:{os.environ['PATH']}"
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[step]["run"]]
    return subprocess.run(command, env=os.environ | env, cwd=folder, capture_output=True, text=True, check=False)


def test_steps_use_exactly_the_declared_inputs() -> None:
    used = set(re.findall(r"inputs\.(\w+)", (ROOT / "action.yml").read_text(encoding="utf-8")))
    assert used == set(ACTION["inputs"])
    assert ACTION["runs"]["using"] == "composite"
    assert all("shell" in step for step in ACTION["runs"]["steps"] if "run" in step)


def test_mistakes_become_annotations_at_their_lines(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[tool.trace_tools]\npases = 3\n")
    completed = run("Check", folder, lectures="w*.py empty.py")
    assert completed.returncode == 1 and completed.stdout.splitlines() == [
        "::error file=wrong.py,line=6::unknown directive `@insepct`; did you mean `@inspect`?",
        "::error file=pyproject.toml::[tool.trace_tools] has an unknown key pases; did you mean passes?",
    ]


def test_correct_lecture_has_no_annotations(folder: Path) -> None:
    (folder / "talk one.py").rename(folder / "lecture.py")
    completed = run("Check", folder)
    assert (
        (completed.returncode, completed.stderr) == (0, "")
        and "::error" not in completed.stdout
        and "lecture.py" in completed.stdout
    )


@pytest.mark.slow
def test_trace_step_writes_pages_to_the_upload_folder(folder: Path) -> None:
    completed = run("Trace", folder, trace="talk one.py", arguments="--passes 1 --device cpu")
    assert completed.returncode == 0, completed.stderr
    name, _, pages = (folder / "output").read_text().strip().partition("=")
    assert name == "pages" and {"index.html", "cpu"} <= {path.name for path in Path(pages).iterdir()}


@pytest.mark.slow
def test_pages_of_a_failed_lecture_are_uploaded(folder: Path) -> None:
    (folder / "bad.py").write_text("def main():\n    part()\n\n\ndef part():\n    assert 1 > 2\n")
    completed = run("Trace", folder, trace="bad.py", arguments="--passes 1")
    assert completed.returncode == 1 and "claim failed" in completed.stderr
    pages = Path((folder / "output").read_text().strip().partition("=")[2])
    assert (pages / "index.html").is_file()
    assert STEPS["Upload"]["if"].startswith("always()")


def test_readme_task_matches_every_message_of_check(folder: Path) -> None:
    blocks = re.findall(
        r"```json\n(.*?)```", (ROOT / "trace_tools/commands/README.md").read_text(encoding="utf-8"), re.S
    )
    (task,) = json.loads(next(block for block in blocks if "problemMatcher" in block))["tasks"]
    matchers = [matcher["pattern"] for matcher in task["problemMatcher"]]
    (folder / "pyproject.toml").write_text("[tool.trace_tools]\npases = 3\n")
    command = [str(folder / "bin" / "trace-tools"), *task["args"]]
    command = [re.sub(r"\$\{.*\}", "wrong.py", word) for word in command]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    output = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False).stdout
    positions = []
    for line in output.splitlines():
        (pattern, groups), *others = [(p, m) for p in matchers if (m := re.search(p["regexp"], line))]
        assert not others
        positions.append((groups[pattern["file"]], groups[pattern["line"]] if "line" in pattern else None))
    assert positions == [("wrong.py", "6"), ("pyproject.toml", None)]


def test_pre_commit_hook_runs_check() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert hook["entry"] == "trace-tools check"
