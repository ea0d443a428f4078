"""`recover` from the command line; `tests/tracing/test_tracer.py` recovers runs that were really killed."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from tests.tracing.dead_runs import dead_run
from trace_tools.cli import main


def test_folder_without_killed_runs_has_nothing_to_recover(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["recover", str(tmp_path)])
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith(f"{tmp_path}: ") and result.stderr.count("\n") == 1


def test_missing_folder_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("nowhere", "file"):
        result = CliRunner().invoke(main, ["recover", str(tmp_path / name)])
        assert result.exit_code == 2 and "DIR" in result.stderr


def test_journals_of_another_version_are_set_aside(tmp_path: Path) -> None:
    run = tmp_path / ".run-abc"
    run.mkdir()
    (run / "job.json").write_text('{"lecture": "lecture.py", "form": "another"}')
    (run / "pass-1.journal").write_text('["?", 1, 2]\n')
    result = CliRunner().invoke(main, ["recover", str(tmp_path)])
    set_aside = tmp_path / ".unmerged-abc"
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith(f"{set_aside}: ") and result.stderr.count("\n") == 1
    assert (set_aside / "pass-1.journal").read_text() == '["?", 1, 2]\n' and not run.exists()
    second_result = CliRunner().invoke(main, ["recover", str(tmp_path)])
    assert second_result.stderr.startswith(f"{tmp_path}: ") and "KeyError" not in second_result.stderr


def test_run_that_cannot_be_written_is_recovered_later(tmp_path: Path) -> None:
    dead_run(tmp_path)
    (tmp_path / "cpu").write_text("a file in its place")
    result = CliRunner().invoke(main, ["recover", str(tmp_path)])
    reason = f"{tmp_path}/cpu: can't be written: File exists"
    assert result.exit_code == 2
    assert result.stderr.startswith(f"{tmp_path}/.run-a: ") and result.stderr.endswith(f": {reason}\n")
    (tmp_path / "cpu").unlink()
    result = CliRunner().invoke(main, ["recover", str(tmp_path)])
    assert (result.exit_code, result.stdout) == (0, f"{tmp_path}/cpu/trace.yaml: complete\n")


def test_other_commands_continue_despite_damaged_journals(tmp_path: Path) -> None:
    dead_run(tmp_path)
    CliRunner().invoke(main, ["recover", str(tmp_path)])
    (dead_run(tmp_path, "bad") / "job.json").write_bytes(b"\xff\x00{")
    result = CliRunner().invoke(main, ["render", str(tmp_path / "cpu/trace.yaml")])
    assert result.exit_code == 0 and (tmp_path / "cpu/00-numbers.html").exists()
    assert f"{tmp_path}/.unmerged-bad: " in result.stderr
    assert "job.json: is damaged: " in result.stderr and result.stderr.count("\n") == 1
