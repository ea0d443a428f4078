"""`render` from the command line; `tests/pages` tests the pages that it writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.traces import example_trace
from trace_tools.cli import main
from trace_tools.trace.file import dump, write


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["render", *map(str, arguments)])


def save(folder: Path, machine: str) -> Path:
    (folder / machine).mkdir(parents=True)
    write(example_trace(), folder / machine / "trace.yaml")
    return folder / machine / "trace.yaml"


def test_pages_are_written_next_to_traces_or_elsewhere(tmp_path: Path) -> None:
    a, b = (save(tmp_path / site, "cpu") for site in ("one", "two"))
    result = run(a, b)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [str(tmp_path / site / "index.html") for site in ("one", "two")]
    result = run(a, "-o", tmp_path / "elsewhere")
    assert result.stdout == f"{tmp_path / 'elsewhere' / 'index.html'}\n"
    assert len(list((tmp_path / "elsewhere").rglob("index.html"))) == 2


def test_a_trace_that_does_not_fit_its_source_is_a_one_line_error(tmp_path: Path) -> None:
    path = save(tmp_path, "cpu")
    path.write_text(dump(example_trace()).replace('"statement": 20,', '"statement": 200,'))
    assert (result := run(path)).exit_code == 2 and result.stderr.startswith("error: lecture.py: ")
    assert run().exit_code == 2


def test_check_reports_a_page_that_differs_from_its_trace(tmp_path: Path) -> None:
    trace = save(tmp_path, "cpu")
    assert run(trace).exit_code == 0
    assert run("--check", trace).exit_code == 0
    (tmp_path / "cpu" / "index.md").write_text("changed")
    result = run("--check", trace)
    assert result.exit_code == 1 and result.stderr.splitlines()[0] == f"{tmp_path / 'cpu/index.md'}: differs"
    assert (tmp_path / "cpu" / "index.md").read_text() == "changed"


def test_one_file_is_named_after_the_lecture_or_the_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = save(tmp_path, "cpu")
    monkeypatch.chdir(tmp_path)
    assert run("--one-file", trace).stdout == "lecture.html\n"
    assert run("--one-file", trace, "-o", "other.html").stdout == "other.html\n"
    contents = [Path(name).read_bytes() for name in ("lecture.html", "other.html")]
    assert contents[0] == contents[1] and contents[0].startswith(b"<!doctype html>")
    for arguments, message in (
        ([trace, "-o", "nowhere/x.html"], "nowhere/x.html: can't be written: No such file or directory"),
        ([trace, trace], "--one-file: expected one trace, without --check"),
    ):
        result = run("--one-file", *arguments)
        assert (result.exit_code, result.stderr) == (2, f"error: {message}\n")
