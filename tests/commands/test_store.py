"""`store` from the command line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.store.dated_traces import trace_of_day, write_trace
from trace_tools.cli import main


def store(*words: str | Path) -> Result:
    return CliRunner().invoke(main, ["store", *map(str, words)])


@pytest.fixture
def store_folder(tmp_path: Path) -> Path:
    paths = [write_trace(trace_of_day(day, 200 + 100 * (day > 6)), tmp_path, f"{day}.yaml") for day in range(1, 13)]
    result = store("add", tmp_path / "store", *paths)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.count("trace.yaml.gz\n") == 12
    return tmp_path / "store"


def test_adding_a_stored_trace_again_is_reported(store_folder: Path, tmp_path: Path) -> None:
    result = store("add", store_folder, tmp_path / "3.yaml")
    assert result.exit_code == 0 and result.stdout.endswith(" (already stored)\n")


def test_list_has_one_line_and_a_usable_path_per_run(store_folder: Path) -> None:
    lines = [line.split("\t") for line in store("list", store_folder, "--machine", "machine A").stdout.splitlines()]
    assert [line[0][8:10] for line in lines] == [f"{day:02}" for day in range(1, 13)]
    assert CliRunner().invoke(main, ["validate", lines[0][-1]]).exit_code == 0
    assert CliRunner().invoke(main, ["diff", lines[0][-1], lines[-1][-1], "--only", "values"]).exit_code in (0, 1)
    assert store("list", store_folder, "--machine", "H100").stdout == ""


def test_control_characters_in_names_are_escaped_in_the_list(store_folder: Path, tmp_path: Path) -> None:
    trace = trace_of_day(13)
    renamed = replace(
        trace, machine=replace(trace.machine, name="A\tB\n\x1b[31mC"), run=replace(trace.run, ended="lost\nit")
    )
    store("add", store_folder, write_trace(renamed, tmp_path))
    *_, last = store("list", store_folder).stdout.splitlines()
    assert last.split("\t")[3:5] == [r"A\tB\n\u001b[31mC", r"lost\nit"]


def test_history_lists_times_and_changes(store_folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("ruptures", reason="ruptures is not installed")
    result = store("history", store_folder, "y = x @ w")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert len(lines) == 13 and lines[-1].startswith("a: 1.5× slower from 2026-10-07")
    assert lines[0].split("\t")[1:] == ["c0ffee1", "a", "line 6", "200 µs"]
    assert store("history", store_folder, "-o", tmp_path / "pages").stdout == f"{tmp_path / 'pages' / 'index.html'}\n"


def test_damaged_index_is_rebuilt(store_folder: Path) -> None:
    (store_folder / "index.sqlite").write_bytes(b"?" * 9_000)
    assert store("index", store_folder).stdout == f"{store_folder}: 12 runs\n"


def test_bad_input_is_a_one_line_error(store_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("nothing")
    for words, message in (
        (["list", tmp_path / "nowhere"], "nowhere: "),
        (["add", store_folder, tmp_path / "bad.yaml"], "not a trace"),
        (["add", store_folder, tmp_path / "nowhere.yaml"], "can't be read"),
        (["add", tmp_path / "1.yaml", tmp_path / "1.yaml"], "1.yaml: "),
        (["history", store_folder], "STATEMENT"),
        (["history", store_folder, "nothing like it"], "lecture.py; expected a line"),
        (["history", store_folder, "6", "--lecture", "other.py"], "lecture.py"),
        (["history", store_folder, "6", "--machine", "H100"], "no run on a machine"),
    ):
        result = store(*words)
        assert result.exit_code == 2 and result.stderr.count("\n") == 1 and message in result.stderr, words
    assert len(store("list", store_folder).stdout.splitlines()) == 12
