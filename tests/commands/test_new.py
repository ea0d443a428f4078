from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.cases_in_one import each
from trace_tools.cli import main
from trace_tools.lecture import vocabulary
from trace_tools.source.lint import mistakes
from trace_tools.trace.file import load

ROOT = Path(__file__).resolve().parents[2]


def new(path: Path) -> Result:
    return CliRunner().invoke(main, ["new", str(path)])


@pytest.mark.slow
def test_new_lecture_runs_and_can_be_traced(tmp_path: Path) -> None:
    path = tmp_path / "my_last_lessons.py"
    new(path)
    subprocess.run([sys.executable, path.name], cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, check=True)
    result = CliRunner().invoke(main, ["trace", str(path), "--passes", "1", "--name", "cpu"])
    assert result.exit_code == 0, result.output
    trace = load(tmp_path / "rendered" / "cpu" / "trace.yaml")
    assert trace.title == "My last lessons" and trace.run.complete


def test_new_lecture_uses_most_of_the_vocabulary(tmp_path: Path) -> None:
    path = tmp_path / "my talks" / "one.py"
    output = new(path).stdout
    used = {word for word in vocabulary.VOCABULARY if f"{word}(" in path.read_text()}
    assert used >= vocabulary.VOCABULARY - {"image", "explore"}
    assert f"`trace-tools trace '{path}'`" in output


@each(
    ("name", "code"),
    [
        ("talk", 0),
        ("deep/er/01-intro.py", 0),
        ("my talk", 0),
        ('a "quoted" \\ one', 2),
        ("", 2),
        ("notes.txt", 2),
        ("json", 2),
        ("json.py", 2),
        ("mine.py", 2),
    ],
)
def test_names_of_new_lectures(tmp_path: Path, name: str, code: int) -> None:
    """Names may lack the ending, contain spaces, start with a number, or lie in folders that do not exist yet."""
    (tmp_path / "mine.py").write_text("mine")
    result = new(tmp_path / name)
    assert result.exit_code == code and (tmp_path / "mine.py").read_text() == "mine"
    written = [path for path in tmp_path.rglob("*.py") if path.name != "mine.py"]
    assert len(written) == (code == 0) and all(mistakes(path) == [] for path in written)
    assert code == 0 or (result.stderr.startswith("error: ") and result.stderr.count("\n") == 1)
