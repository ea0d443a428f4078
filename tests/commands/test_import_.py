"""`import` through the command line; `tests/exchange` tries what it makes."""

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
    assert done.stderr.startswith(f"error: {tmp_path / 'edtrace/trace.yaml'}: ") and "lecture.py" in done.stderr
    assert (tmp_path / "edtrace" / "trace.yaml").read_bytes() == before


def test_what_can_not_be_imported_is_one_line(tmp_path: Path) -> None:
    missing, other = tmp_path / "no.json", Path(shutil.copy(CASES / "cs336_2025.json", tmp_path / "notes.txt"))
    assert run("import", missing).stderr == f"error: {missing}: can't be read: No such file or directory\n"
    done = run("import", other)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: {other}: ") and ".ipynb" in done.stderr


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
    assert done.stderr.startswith(f"error: {lecture}: ") and "-o" in done.stderr


def test_a_notebook_is_written_with_its_images_under_a_name_that_shadows_no_module(tmp_path: Path) -> None:
    new = pytest.importorskip("nbformat", reason="writes notebooks").v4
    image = {"dot.png": {"image/png": base64.b64encode(b"dot").decode()}}
    prose = new.new_markdown_cell("![a](attachment:dot.png)", attachments=image)
    cells = [prose, new.new_code_cell("!ls\nimport yaml")]
    for name, written in (("time", "time_lecture"), ("yaml", "yaml_lecture"), ("my notes", "my_notes")):
        notebook = tmp_path / f"{name}.ipynb"
        notebook.write_text(nbformat_writes(new.new_notebook(cells=cells)), encoding="utf-8")
        done = run("import", notebook)
        assert done.exit_code == 0 and f"warning: {notebook}: cell 2: " in done.stderr
        assert "](" in (tmp_path / f"{written}.py").read_text(encoding="utf-8")
        assert run("check", tmp_path / f"{written}.py").exit_code == 0
    assert (tmp_path / "time_files" / "dot.png").read_bytes() == b"dot"
    (tmp_path / "time_files" / "dot.png").write_bytes(b"mine")
    done = run("import", tmp_path / "time.ipynb", "-o", tmp_path / "other.py")
    assert done.exit_code == 2 and not (tmp_path / "other.py").exists()
    assert (tmp_path / "time_files" / "dot.png").read_bytes() == b"mine"


def nbformat_writes(notebook: object) -> str:
    text: str = pytest.importorskip("nbformat").writes(notebook)
    return text
