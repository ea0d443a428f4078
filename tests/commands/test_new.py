from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from trace_tools.cli import main
from trace_tools.lecture import vocabulary
from trace_tools.source.lint import mistakes
from trace_tools.trace.trace_file import load

ROOT = Path(__file__).resolve().parents[2]


def test_a_new_lecture_runs_and_is_traced_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "my_last_lessons.py"
    done = CliRunner().invoke(main, ["new", str(path)])
    assert done.exit_code == 0 and str(path) in done.stdout
    assert mistakes(path) == []
    subprocess.run([sys.executable, path.name], cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, check=True)
    traced = CliRunner().invoke(main, ["trace", str(path), "--passes", "1"])
    assert traced.exit_code == 0, traced.output
    trace = load(tmp_path / "rendered" / "cpu" / "trace.yaml").trace
    assert trace.title == "My last lessons" and trace.run.complete


def test_it_teaches_most_of_the_vocabulary(tmp_path: Path) -> None:
    path = tmp_path / "talk.py"
    CliRunner().invoke(main, ["new", str(path)])
    assert {word for word in vocabulary.VOCABULARY if f"{word}(" in path.read_text()} >= vocabulary.VOCABULARY - {
        "image",
        "explore",
    }


def test_what_it_says_can_be_typed(tmp_path: Path) -> None:
    (tmp_path / "my talks").mkdir()
    path = tmp_path / "my talks" / "one.py"
    said = CliRunner().invoke(main, ["new", str(path)]).stdout
    assert all(f"{command} '{path}'  " in said for command in ("trace-tools trace", "trace-tools serve", "python"))


def test_nothing_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "talk.py"
    path.write_text("mine")
    done = CliRunner().invoke(main, ["new", str(path)])
    assert done.exit_code == 2 and f"error: {path}: " in done.stderr and path.read_text() == "mine"


def test_a_name_that_trace_takes_is_taken(tmp_path: Path) -> None:
    """Without its ending, in folders that are not there yet, with spaces or a number before it."""
    for name in ("talk", "deep/er/01-intro.py", "my talk", 'a "quoted" \\ one'):
        path = tmp_path / (name if name.endswith(".py") else f"{name}.py")
        done = CliRunner().invoke(main, ["new", str(tmp_path / name)])
        assert done.exit_code == ("\\" in name) * 2 and path.is_file() != ("\\" in name), done.output
        assert not path.is_file() or mistakes(path) == []
    for name in ("", "notes.txt", "json", "json.py"):
        done = CliRunner().invoke(main, ["new", str(tmp_path / name)])
        assert (done.exit_code, done.stderr.count("\n")) == (2, 1), name
