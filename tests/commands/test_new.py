from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from trace_tools.cli import main
from trace_tools.lecture import vocabulary
from trace_tools.source.lint import mistakes
from trace_tools.trace.file import load

ROOT = Path(__file__).resolve().parents[2]


def test_new_lecture_runs_and_can_be_traced(tmp_path: Path) -> None:
    path = tmp_path / "my_last_lessons.py"
    result = CliRunner().invoke(main, ["new", str(path)])
    assert result.exit_code == 0 and str(path) in result.stdout
    assert mistakes(path) == []
    subprocess.run([sys.executable, path.name], cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, check=True)
    trace_result = CliRunner().invoke(main, ["trace", str(path), "--passes", "1", "--name", "cpu"])
    assert trace_result.exit_code == 0, trace_result.output
    trace = load(tmp_path / "rendered" / "cpu" / "trace.yaml").trace
    assert trace.title == "My last lessons" and trace.run.complete


def test_new_lecture_uses_most_of_the_vocabulary(tmp_path: Path) -> None:
    path = tmp_path / "talk.py"
    CliRunner().invoke(main, ["new", str(path)])
    assert {word for word in vocabulary.VOCABULARY if f"{word}(" in path.read_text()} >= vocabulary.VOCABULARY - {
        "image",
        "explore",
    }


def test_printed_commands_quote_the_path(tmp_path: Path) -> None:
    (tmp_path / "my talks").mkdir()
    path = tmp_path / "my talks" / "one.py"
    output = CliRunner().invoke(main, ["new", str(path)]).stdout
    assert all(f"{command} '{path}'  " in output for command in ("trace-tools trace", "trace-tools serve", "python"))


def test_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "talk.py"
    path.write_text("mine")
    result = CliRunner().invoke(main, ["new", str(path)])
    assert result.exit_code == 2 and f"error: {path}: " in result.stderr and path.read_text() == "mine"


def test_names_of_new_lectures(tmp_path: Path) -> None:
    """Names may lack the ending, contain spaces, start with a number, or lie in folders that do not exist yet."""
    for name in ("talk", "deep/er/01-intro.py", "my talk", 'a "quoted" \\ one'):
        path = tmp_path / (name if name.endswith(".py") else f"{name}.py")
        result = CliRunner().invoke(main, ["new", str(tmp_path / name)])
        assert result.exit_code == ("\\" in name) * 2 and path.is_file() != ("\\" in name), result.output
        assert not path.is_file() or mistakes(path) == []
    for name in ("", "notes.txt", "json", "json.py"):
        result = CliRunner().invoke(main, ["new", str(tmp_path / name)])
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1), name
