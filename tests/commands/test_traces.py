"""Traces by name: which path a name means for each command that takes a trace, and what `make diff` compares."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.diff.planted import made
from trace_tools.cli import main
from trace_tools.trace.trace_file import write

MAKEFILE = Path(__file__).parents[2] / "Makefile"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two traces in rendered/, and a third in the folder that a project names."""
    monkeypatch.chdir(tmp_path)
    for number, folder in enumerate(("rendered/cpu", "rendered/second", "pages/third")):
        Path(folder).mkdir(parents=True)
        write(made(number), Path(folder, "trace.yaml"))
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_each_command_takes_a_name(here: Path) -> None:
    assert run("diff", "cpu", "second").exit_code == 0
    assert run("diff", "cpu", "rendered/second").exit_code == 0
    for command in (
        ["validate", "cpu"],
        ["validate", "rendered/cpu"],
        ["compare", "cpu", "second"],
        ["export", "second", "--format", "perfetto"],
        ["store", "add", "kept", "cpu"],
        ["render", "cpu", "second"],
    ):
        assert run(*command).exit_code == 0, command
    assert Path("rendered/cpu/index.html").is_file()


def test_a_path_that_exists_wins(here: Path) -> None:
    write(made(3), here / "cpu")
    assert run("diff", "cpu", "second").output.startswith("A  cpu ")
    assert run("validate", "cpu").output.startswith("cpu: ")


def test_a_project_says_where_names_are(here: Path) -> None:
    Path("pyproject.toml").write_text('[tool.trace_tools]\nout = "pages"\n')
    assert run("validate", "third").exit_code == 0
    refused = run("validate", "cpu")
    assert refused.exit_code == 2 and "third" in refused.stderr and "second" not in refused.stderr


@pytest.mark.parametrize("command", [["diff", "cpu"], ["validate"], ["compare", "cpu"]])
def test_a_name_that_means_nothing_is_one_line_with_those_that_do(here: Path, command: list[str]) -> None:
    refused = run(*command, "nvidia-h200")
    assert refused.exit_code == 2 and not refused.stdout
    [line] = refused.stderr.splitlines()
    assert "nvidia-h200" in line and "cpu, second" in line
    shutil.rmtree("rendered")
    assert run("validate", "cpu").exit_code == 2


@pytest.mark.skipif(shutil.which("make") is None, reason="no make here")
@pytest.mark.parametrize(
    ("asked", "sides"),
    [
        ([], "cpu second"),
        (["A=second"], "second cpu"),
        (["B=cpu"], "second cpu"),
        (["A=cpu", "B=pages/third"], "cpu pages/third"),
    ],
)
def test_make_diff_compares_what_is_there(here: Path, asked: list[str], sides: str) -> None:
    command = ["make", "-n", "--no-print-directory", "-f", str(MAKEFILE), "diff", "VENV=none", "PYTHON=python", *asked]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == f"python -m trace_tools diff {sides}".split()
