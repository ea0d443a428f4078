"""`export` through the command line; `tests/exchange` tries what it writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.programs import BROWSER, require
from tests.traces import example_trace
from trace_tools.cli import main
from trace_tools.commands.export import ENDINGS
from trace_tools.trace.trace_file import write


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(example_trace(), tmp_path / "trace.yaml")
    return tmp_path / "trace.yaml"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["export", *map(str, arguments)])


def test_a_file_has_the_name_of_the_lecture_or_the_one_that_is_wanted(trace: Path) -> None:
    assert run(trace, "--format", "edtrace").stdout == "lecture.json\n"
    assert run(trace, "--format", "edtrace", "-o", "other.json").stdout == "other.json\n"
    written = [Path(name).read_bytes() for name in ("lecture.json", "other.json")]
    assert written[0] == written[1] and json.loads(written[0]).keys() == {"files", "hidden_line_numbers", "steps"}


def test_what_can_not_be_written_is_one_line(trace: Path) -> None:
    done = run(trace, "--format", "edtrace", "-o", "nowhere/x.json")
    assert (done.exit_code, done.stderr) == (2, "error: nowhere: no such folder\n")
    assert run(trace, "--format", "parquet").exit_code == 2
    assert run("no.yaml", "--format", "edtrace").stderr == "error: no.yaml: can't be read: No such file or directory\n"


@pytest.mark.slow
def test_every_format_is_what_its_reader_takes(trace: Path) -> None:
    pytest.importorskip("nbformat", reason="notebooks")
    pytest.importorskip("jupytext", reason="percent cells")
    require(BROWSER)
    for kind, ending in ENDINGS.items():
        done = run(trace, "--format", kind)
        assert (done.exit_code, done.stdout) == (0, f"lecture{ending}\n")
    assert json.loads(Path("lecture.ipynb").read_text())["nbformat"] == 4
    assert json.loads(Path("lecture.perfetto.json").read_text())["traceEvents"]
    assert "# %%\n" in Path("lecture.percent.py").read_text()
