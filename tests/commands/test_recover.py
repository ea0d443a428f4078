"""`recover` through the command line; `tests/tracing/test_tracer.py` recovers what real kills left."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

from trace_tools.cli import main


def test_where_nothing_was_killed_there_is_nothing_to_do(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["recover", str(tmp_path)])
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == f"{tmp_path}: no journals of a killed run\n"


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
    assert re.fullmatch(
        rf"{kept}: journals that can't be merged, and are kept: KeyError: 'name' \(merge.py:\d+\)\n", done.stderr
    )
    assert (kept / "pass-1.journal").read_text() == '["?", 1, 2]\n' and not run.exists()
    again = CliRunner().invoke(main, ["recover", str(tmp_path)])
    assert again.stderr == f"{tmp_path}: no journals of a killed run\n"
