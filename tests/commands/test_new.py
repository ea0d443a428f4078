from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from trace_tools import narrative
from trace_tools.cli import main
from trace_tools.file_format.trace_file import load
from trace_tools.mistakes import mistakes

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
    assert {word for word in narrative.VOCABULARY if f"{word}(" in path.read_text()} >= narrative.VOCABULARY - {
        "image",
        "explore",
    }


def test_what_it_says_can_be_typed(tmp_path: Path) -> None:
    (tmp_path / "my talks").mkdir()
    path = tmp_path / "my talks" / "one.py"
    said = CliRunner().invoke(main, ["new", str(path)]).stdout
    assert f"trace-tools trace '{path}' runs it" in said and f"trace-tools serve '{path}' while" in said


def test_nothing_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "talk.py"
    path.write_text("mine")
    done = CliRunner().invoke(main, ["new", str(path)])
    assert done.exit_code == 2 and "is there already" in done.stderr and path.read_text() == "mine"
    wrong = CliRunner().invoke(main, ["new", str(tmp_path / "my talk.py")])
    assert wrong.exit_code == 2 and "Python can import" in wrong.stderr
