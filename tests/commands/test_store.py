"""`store` through the command line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.store.kept import ran, written
from trace_tools.cli import main


def store(*words: str | Path) -> Result:
    return CliRunner().invoke(main, ["store", *map(str, words)])


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    paths = [written(ran(day, 200 + 100 * (day > 6)), tmp_path, f"{day}.yaml") for day in range(1, 13)]
    done = store("add", tmp_path / "store", *paths)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.count("trace.yaml.gz\n") == 12
    return tmp_path / "store"


def test_adding_again_says_that_it_was_there(kept: Path, tmp_path: Path) -> None:
    done = store("add", kept, tmp_path / "3.yaml")
    assert done.exit_code == 0 and done.stdout.endswith(" (already stored)\n")


def test_a_list_has_a_line_for_each_run_and_paths_that_other_commands_take(kept: Path) -> None:
    lines = [line.split("\t") for line in store("list", kept, "--machine", "machine A").stdout.splitlines()]
    assert [line[0][8:10] for line in lines] == [f"{day:02}" for day in range(1, 13)]
    assert CliRunner().invoke(main, ["validate", lines[0][-1]]).exit_code == 0
    assert CliRunner().invoke(main, ["diff", lines[0][-1], lines[-1][-1], "--only", "values"]).exit_code in (0, 1)
    assert store("list", kept, "--machine", "H100").stdout == ""


def test_whatever_names_are_in_a_trace_a_run_is_one_line(kept: Path, tmp_path: Path) -> None:
    one = ran(13)
    named = replace(one, machine=replace(one.machine, name="A\tB\n\x1b[31mC"), run=replace(one.run, ended="lost\nit"))
    store("add", kept, written(named, tmp_path))
    *_, last = store("list", kept).stdout.splitlines()
    assert last.split("\t")[3:5] == [r"A\tB\n\u001b[31mC", r"lost\nit"]


def test_a_history_says_each_time_and_where_it_changed(kept: Path, tmp_path: Path) -> None:
    pytest.importorskip("ruptures", reason="ruptures is not installed")
    done = store("history", kept, "y = x @ w")
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == 13 and lines[-1].startswith("a: 1.5× slower from 2026-10-07")
    assert lines[0].split("\t")[1:] == ["c0ffee1", "a", "line 6", "200 µs"]
    assert store("history", kept, "-o", tmp_path / "pages").stdout == f"{tmp_path / 'pages' / 'index.html'}\n"


def test_an_index_is_made_again(kept: Path) -> None:
    (kept / "index.sqlite").write_bytes(b"?" * 9_000)
    assert store("index", kept).stdout == f"{kept}: 12 runs\n"


def test_bad_input_is_one_line(kept: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("nothing")
    for words, said in (
        (["list", tmp_path / "nowhere"], "nowhere: "),
        (["add", kept, tmp_path / "bad.yaml"], "not a trace"),
        (["add", kept, tmp_path / "nowhere.yaml"], "can't be read"),
        (["add", tmp_path / "1.yaml", tmp_path / "1.yaml"], "1.yaml: "),
        (["history", kept], "STATEMENT"),
        (["history", kept, "nothing like it"], "lecture.py; expected a line"),
        (["history", kept, "6", "--lecture", "other.py"], "lecture.py"),
        (["history", kept, "6", "--machine", "H100"], "no run on a machine"),
    ):
        done = store(*words)
        assert done.exit_code == 2 and done.stderr.count("\n") == 1 and said in done.stderr, words
    assert len(store("list", kept).stdout.splitlines()) == 12
