"""Traces by name: the path that a name means in each command, and the traces that `make diff` compares."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.diff.planted import made
from tests.messages import says
from tests.programs import require
from trace_tools.cli import main
from trace_tools.commands.arguments import from_here
from trace_tools.trace.file import write


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two traces in rendered/, and a third in pages/, which a project's settings may name."""
    monkeypatch.chdir(tmp_path)
    for number, folder in enumerate(("rendered/cpu", "rendered/second", "pages/third")):
        Path(folder).mkdir(parents=True)
        write(made(number), Path(folder, "trace.yaml"))
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_each_command_accepts_names_of_traces(project: Path) -> None:
    for command in (
        "validate cpu",
        "diff cpu second",
        "diff cpu rendered/second",
        "diff cpu second cpu",
        "render second --one-file",
        "render cpu second",
    ):
        assert run(*command.split()).exit_code == 0, command
    assert Path("rendered/cpu/index.html").is_file()


def test_unknown_names_are_errors_and_paths_precede_names(project: Path) -> None:
    for command in ("diff cpu", "validate", "diff cpu second"):
        refused = run(*command.split(), "nvidia-h200")
        assert refused.exit_code == 2 and not refused.stdout
        [line] = refused.stderr.splitlines()
        assert "nvidia-h200" in line and "cpu, second" in line
    write(made(3), project / "cpu")
    assert run("diff", "cpu", "second").output.startswith("A  cpu ")
    assert run("validate", "cpu").output.startswith("cpu: ")
    shutil.rmtree("rendered")
    assert run("validate", "second").exit_code == 2
    assert (from_here(project / "a/../b"), from_here(Path("/a/../b"))) == (Path("b"), Path("/b"))


def test_without_names_the_reference_is_compared_with_the_latest_trace(project: Path) -> None:
    """Of four traces: by name, by what git tracks, and by when the others were made. One trace is not enough."""
    require("git")

    def compared() -> list[str]:
        return [str(Path(side).parent) for side in re.findall(r"(?m)^[AB]  (\S+)", run("diff").output)]

    for day, folder in ((3, "rendered/second"), (5, "rendered/third"), (4, "rendered/third/partial")):
        Path(folder).mkdir(exist_ok=True)
        trace = made(2)
        write(replace(trace, run=replace(trace.run, started=f"2026-01-0{day}")), Path(folder, "trace.yaml"))
    assert compared() == ["rendered/cpu", "rendered/third"]
    Path("rendered/third/trace.yaml").unlink()
    assert compared() == ["rendered/cpu", "rendered/third/partial"]
    for command in ("init -q", "add rendered/second rendered/third"):
        subprocess.run(["git", *command.split()], check=True, capture_output=True)
    assert compared() == ["rendered/second", "rendered/cpu"]
    shutil.rmtree("rendered/cpu")
    shutil.rmtree("rendered/third")
    refused = run("diff")
    assert (refused.exit_code, refused.stdout) == (2, "") and says(refused.stderr, "two traces", "second")


@pytest.mark.parametrize(("code", "status"), [(0, 0), (1, 0), (3, 0), (2, 2), (70, 2)])
def test_make_diff_fails_only_if_diff_does(tmp_path: Path, code: int, status: int) -> None:
    """A difference is an answer. Its names are optional."""
    require("make")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\nexit {code}\n')
    python.chmod(0o755)
    makefile = Path(__file__).parents[2] / "Makefile"
    command = ["make", "-f", str(makefile), "diff", "VENV=none", f"PYTHON={python}", "A=cpu", "ARGS=--all"]
    environment = {name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}  # set in `make test`
    assert subprocess.run(command, capture_output=True, env=environment, cwd=tmp_path).returncode == status
    assert (tmp_path / "calls").read_text() == "-m trace_tools diff cpu --all\n"
