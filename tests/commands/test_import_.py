"""`import` through the command line; `tests/exchange` tries what it makes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.traces import example_trace
from trace_tools.cli import main
from trace_tools.file_format.trace_file import load, write

CASES = Path(__file__).resolve().parents[1] / "exchange" / "cases"


def run(command: str, *arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [command, *map(str, arguments)])


def test_a_trace_of_edtraces_is_validated_rendered_compared_and_exported(tmp_path: Path) -> None:
    done = run("import", CASES / "cs336_2025.json", "-o", tmp_path)
    trace = tmp_path / "edtrace" / "trace.yaml"
    assert (done.exit_code, done.stdout) == (0, f"{trace}: trace-tools render {trace} makes its pages\n")
    assert run("validate", trace).stdout == f"{trace}: schema 1, 3 steps, complete\n"
    assert run("render", trace).exit_code == 0
    assert "[97, 98]" in (tmp_path / "edtrace" / "index.md").read_text(encoding="utf-8")
    same = run("diff", trace, trace)
    assert same.exit_code == 0, same.output
    back = tmp_path / "back.json"
    assert run("export", trace, "--format", "edtrace", "-o", back).stdout == f"{back}\n"
    assert run("import", back, "-o", tmp_path / "again").exit_code == 0
    assert load(tmp_path / "again" / "edtrace" / "trace.yaml").trace.sources == load(trace).trace.sources


def test_a_trace_of_another_lecture_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "edtrace").mkdir()
    write(example_trace(), tmp_path / "edtrace" / "trace.yaml")
    before = (tmp_path / "edtrace" / "trace.yaml").read_bytes()
    done = run("import", CASES / "cs336_2025.json", "-o", tmp_path)
    assert done.exit_code == 2
    assert done.stderr == (
        f"error: {tmp_path / 'edtrace/trace.yaml'}: is of lecture.py, and stays as it is; "
        "choose another folder with -o\n"
    )
    assert (tmp_path / "edtrace" / "trace.yaml").read_bytes() == before


def test_what_can_not_be_imported_is_one_line(tmp_path: Path) -> None:
    missing, other = tmp_path / "no.json", Path(shutil.copy(CASES / "cs336_2025.json", tmp_path / "notes.txt"))
    assert run("import", missing).stderr == f"error: {missing}: can't be read: No such file or directory\n"
    done = run("import", other)
    assert done.exit_code == 2
    assert done.stderr == f"error: {other}: expected .json (a trace of edtrace's), .ipynb or .py (cells)\n"


def test_cells_become_a_lecture_that_is_not_written_over(tmp_path: Path) -> None:
    pytest.importorskip("jupytext", reason="reads percent scripts")
    notes = tmp_path / "my-notes.py"
    notes.write_text("# %% [markdown]\n# # Notes\n\n# %%\nx = 1\nx\n")
    lecture = tmp_path / "my_notes_lecture.py"
    done = run("import", notes)
    assert done.stdout == f"{lecture}: trace-tools trace {lecture} runs it and makes its pages\n"
    assert "x  # @inspect x" in lecture.read_text()
    lecture.write_text("mine")
    done = run("import", notes)
    assert (done.exit_code, lecture.read_text()) == (2, "mine")
    assert done.stderr == f"error: {lecture}: is there already, and stays as it is; choose another file with -o\n"
