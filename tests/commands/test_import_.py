"""`import` from the command line; `tests/exchange` tests the files that it writes."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.traces import example_trace
from trace_tools.cli import main
from trace_tools.trace.trace_file import load, write

CASES = Path(__file__).resolve().parents[1] / "notebooks" / "cases"


def run(command: str, *arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [command, *map(str, arguments)])


def test_imported_edtrace_works_with_the_other_commands(tmp_path: Path) -> None:
    result = run("import", CASES / "cs336_2025.json", "-o", tmp_path)
    trace = tmp_path / "edtrace" / "trace.yaml"
    assert (result.exit_code, result.stdout) == (0, f"{trace}: trace-tools render {trace} makes its pages\n")
    assert run("validate", trace).stdout == f"{trace}: schema 1, 3 steps, complete\n"
    assert run("render", trace).exit_code == 0
    assert "[97, 98]" in (tmp_path / "edtrace" / "index.md").read_text(encoding="utf-8")
    comparison = run("diff", trace, trace)
    assert comparison.exit_code == 0, comparison.output
    exported = tmp_path / "back.json"
    assert run("export", trace, "--format", "edtrace", "-o", exported).stdout == f"{exported}\n"
    assert run("import", exported, "-o", tmp_path / "again").exit_code == 0
    assert load(tmp_path / "again" / "edtrace" / "trace.yaml").trace.sources == load(trace).trace.sources


def test_trace_of_another_lecture_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "edtrace").mkdir()
    write(example_trace(), tmp_path / "edtrace" / "trace.yaml")
    before = (tmp_path / "edtrace" / "trace.yaml").read_bytes()
    result = run("import", CASES / "cs336_2025.json", "-o", tmp_path)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {tmp_path / 'edtrace/trace.yaml'}: ") and "lecture.py" in result.stderr
    assert (tmp_path / "edtrace" / "trace.yaml").read_bytes() == before


def test_import_errors_are_one_line(tmp_path: Path) -> None:
    missing, other = tmp_path / "no.json", Path(shutil.copy(CASES / "cs336_2025.json", tmp_path / "notes.txt"))
    assert run("import", missing).stderr == f"error: {missing}: can't be read: No such file or directory\n"
    result = run("import", other)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {other}: ") and ".ipynb" in result.stderr


def test_percent_cells_become_a_lecture_without_overwriting_another(tmp_path: Path) -> None:
    pytest.importorskip("jupytext", reason="reads percent scripts")
    notes = tmp_path / "my-notes.py"
    notes.write_text("# %% [markdown]\n# # Notes\n\n# %%\nx = 1\nx\n")
    lecture = tmp_path / "my_notes_lecture.py"
    result = run("import", notes)
    assert result.stdout == f"{lecture}: trace-tools trace {lecture} runs it and makes its pages\n"
    assert "x  # @inspect x" in lecture.read_text()
    lecture.write_text("mine")
    result = run("import", notes)
    assert (result.exit_code, lecture.read_text()) == (2, "mine")
    assert result.stderr.startswith(f"error: {lecture}: ") and "-o" in result.stderr


def test_notebook_becomes_a_lecture_that_shadows_no_module(tmp_path: Path) -> None:
    formats = pytest.importorskip("nbformat", reason="writes notebooks").v4
    image = {"dot.png": {"image/png": base64.b64encode(b"dot").decode()}}
    prose = formats.new_markdown_cell("![a](attachment:dot.png)", attachments=image)
    cells = [prose, formats.new_code_cell("!ls\nimport yaml")]
    for name, lecture in (("time", "time_lecture"), ("yaml", "yaml_lecture"), ("my notes", "my_notes")):
        notebook = tmp_path / f"{name}.ipynb"
        notebook.write_text(notebook_text(formats.new_notebook(cells=cells)), encoding="utf-8")
        result = run("import", notebook)
        assert result.exit_code == 0 and f"warning: {notebook}: cell 2: " in result.stderr
        assert "](" in (tmp_path / f"{lecture}.py").read_text(encoding="utf-8")
        assert run("check", tmp_path / f"{lecture}.py").exit_code == 0
    assert (tmp_path / "time_files" / "dot.png").read_bytes() == b"dot"
    (tmp_path / "time_files" / "dot.png").write_bytes(b"mine")
    result = run("import", tmp_path / "time.ipynb", "-o", tmp_path / "other.py")
    assert result.exit_code == 2 and not (tmp_path / "other.py").exists()
    assert (tmp_path / "time_files" / "dot.png").read_bytes() == b"mine"


def notebook_text(notebook: object) -> str:
    text: str = pytest.importorskip("nbformat").writes(notebook)
    return text
