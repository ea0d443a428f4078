"""`export` from the command line; `tests/export` tests the files that it writes."""

from __future__ import annotations

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


def test_output_is_named_after_the_lecture_or_the_option(trace: Path) -> None:
    assert run(trace, "--format", "html").stdout == "lecture.html\n"
    assert run(trace, "--format", "html", "-o", "other.html").stdout == "other.html\n"
    contents = [Path(name).read_bytes() for name in ("lecture.html", "other.html")]
    assert contents[0] == contents[1] and contents[0].startswith(b"<!doctype html>")


def test_export_errors_are_one_line(trace: Path) -> None:
    result = run(trace, "--format", "html", "-o", "nowhere/x.html")
    assert (result.exit_code, result.stderr) == (2, "error: nowhere: no such folder\n")
    assert run(trace, "--format", "parquet").exit_code == 2
    assert run("no.yaml", "--format", "html").stderr == "error: no.yaml: can't be read: No such file or directory\n"


@pytest.mark.slow
def test_every_format_is_written_and_readable(trace: Path) -> None:
    require(BROWSER)
    for kind, ending in ENDINGS.items():
        result = run(trace, "--format", kind)
        assert (result.exit_code, result.stdout) == (0, f"lecture{ending}\n")
    assert Path("lecture.pdf").read_bytes().startswith(b"%PDF-")
