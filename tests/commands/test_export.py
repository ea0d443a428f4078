"""`export` from the command line; `tests/export` tests the files that it writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.traces import example_trace
from trace_tools.cli import main
from trace_tools.trace.trace_file import write


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(example_trace(), tmp_path / "trace.yaml")
    return tmp_path / "trace.yaml"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["export", *map(str, arguments)])


def test_output_is_named_after_the_lecture_or_the_option(trace: Path) -> None:
    assert run(trace).stdout == "lecture.html\n"
    assert run(trace, "-o", "other.html").stdout == "other.html\n"
    contents = [Path(name).read_bytes() for name in ("lecture.html", "other.html")]
    assert contents[0] == contents[1] and contents[0].startswith(b"<!doctype html>")


def test_export_errors_are_one_line(trace: Path) -> None:
    result = run(trace, "-o", "nowhere/x.html")
    assert (result.exit_code, result.stderr) == (2, "error: nowhere: no such folder\n")
    assert run("no.yaml").stderr == "error: no.yaml: can't be read: No such file or directory\n"
