"""`recover` from the command line; `tests/tracing/test_tracer.py` recovers runs that were really killed."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from tests.tracing.dead_runs import dead_run
from trace_tools.cli import main


def run(command: str, path: Path) -> Result:
    return CliRunner().invoke(main, [command, str(path)])


def test_folder_without_killed_runs_has_nothing_to_recover(tmp_path: Path) -> None:
    result = run("recover", tmp_path)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (0, "", 1)
    assert result.stderr.startswith(f"{tmp_path}: ")


def test_journals_of_another_version_are_set_aside(tmp_path: Path) -> None:
    folder, set_aside = tmp_path / ".run-abc", tmp_path / ".unmerged-abc"
    folder.mkdir()
    (folder / "job.json").write_text('{"lecture": "lecture.py", "form": "another"}')
    (folder / "pass-1.journal").write_text('["?", 1, 2]\n')
    result = run("recover", tmp_path)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (0, "", 1)
    assert result.stderr.startswith(f"{set_aside}: ")
    assert (set_aside / "pass-1.journal").read_text() == '["?", 1, 2]\n' and not folder.exists()
    assert run("recover", tmp_path).stderr.startswith(f"{tmp_path}: ")


def test_run_that_cannot_be_written_is_recovered_later(tmp_path: Path) -> None:
    dead_run(tmp_path)
    (tmp_path / "cpu").write_text("a file in its place")
    result = run("recover", tmp_path)
    assert result.exit_code == 2 and result.stderr.startswith(f"{tmp_path}/.run-a: ")
    assert result.stderr.endswith(f": {tmp_path}/cpu: can't be written: File exists\n")
    (tmp_path / "cpu").unlink()
    result = run("recover", tmp_path)
    assert (result.exit_code, result.stdout) == (
        0,
        f"{tmp_path}/cpu/trace.yaml: complete; `trace-tools render {tmp_path}/cpu/trace.yaml` makes its pages\n",
    )


def test_other_commands_continue_despite_damaged_journals(tmp_path: Path) -> None:
    dead_run(tmp_path)
    run("recover", tmp_path)
    (dead_run(tmp_path, "bad") / "job.json").write_bytes(b"\xff\x00{")
    result = run("render", tmp_path / "cpu/trace.yaml")
    assert result.exit_code == 0 and (tmp_path / "cpu/00-numbers.html").exists()
    assert f"{tmp_path}/.unmerged-bad: " in result.stderr
    assert "job.json: is damaged: " in result.stderr and result.stderr.count("\n") == 1
