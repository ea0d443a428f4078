"""`recover` through the command line; `tests/tracing/test_supervisor.py` recovers what real kills left."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

from tests.tracing.dead_runs import dead_run
from trace_tools.cli import main


def test_where_nothing_was_killed_there_is_nothing_to_do(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["recover", str(tmp_path)])
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.startswith(f"{tmp_path}: ") and done.stderr.count("\n") == 1


def test_a_folder_that_is_none_is_bad_usage(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("nowhere", "file"):
        done = CliRunner().invoke(main, ["recover", str(tmp_path / name)])
        assert done.exit_code == 2 and "DIR" in done.stderr


def test_what_another_version_left_is_kept_and_stands_in_nobodys_way(tmp_path: Path) -> None:
    run = tmp_path / ".run-abc"
    run.mkdir()
    (run / "run.json").write_text('{"lecture": "lecture.py", "form": "another"}')
    (run / "lecture.py").write_text("def main():\n    pass\n")
    (run / "pass-1.journal").write_text('["?", 1, 2]\n')
    done = CliRunner().invoke(main, ["recover", str(tmp_path)])
    kept = tmp_path / ".unmerged-abc"
    assert (done.exit_code, done.stdout) == (0, "")
    assert re.fullmatch(rf"{kept}: [^\n]*: KeyError: 'name' \(merging.py:\d+\)\n", done.stderr)
    assert (kept / "pass-1.journal").read_text() == '["?", 1, 2]\n' and not run.exists()
    again = CliRunner().invoke(main, ["recover", str(tmp_path)])
    assert again.stderr.startswith(f"{tmp_path}: ") and "KeyError" not in again.stderr


def test_what_can_not_be_written_now_is_left_for_later(tmp_path: Path) -> None:
    dead_run(tmp_path)
    (tmp_path / "cpu").write_text("a file in its place")
    done = CliRunner().invoke(main, ["recover", str(tmp_path)])
    why = f"{tmp_path}/cpu: can't be written: File exists"
    assert done.exit_code == 2
    assert done.stderr.startswith(f"{tmp_path}/.run-a: ") and done.stderr.endswith(f": {why}\n")
    (tmp_path / "cpu").unlink()
    done = CliRunner().invoke(main, ["recover", str(tmp_path)])
    assert (done.exit_code, done.stdout) == (0, f"{tmp_path}/cpu/trace.yaml: complete\n")


def test_other_commands_go_on_beside_journals_that_make_no_trace(tmp_path: Path) -> None:
    dead_run(tmp_path)
    CliRunner().invoke(main, ["recover", str(tmp_path)])
    (dead_run(tmp_path, "bad") / "run.json").write_bytes(b"\xff\x00{")
    done = CliRunner().invoke(main, ["render", str(tmp_path / "cpu/trace.yaml")])
    assert done.exit_code == 0 and (tmp_path / "cpu/00-numbers.html").exists()
    assert f"{tmp_path}/.unmerged-bad: " in done.stderr
    assert "run.json: is damaged: " in done.stderr and done.stderr.count("\n") == 1
