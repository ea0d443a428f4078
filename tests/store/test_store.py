"""The store of traces: its files, its index, damage to both, and processes that add at the same time."""

from __future__ import annotations

import gzip
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cases_in_one import each
from tests.hostile_traces import hostile
from tests.store.dated_traces import trace_of_day, write_trace
from trace_tools.errors import TraceFileError, UsageError
from trace_tools.store.history import find
from trace_tools.store.store import FILE, INDEX, Store, path_in_store
from trace_tools.trace import trace_file
from trace_tools.trace.trace_file import dump, load

ROOT = Path(__file__).parents[2]


def files(folder: Path) -> list[str]:
    """Return the paths of all files in a folder, relative to it."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return the folder of a store with three runs on two machines."""
    with Store.create(tmp_path / "store") as opened:
        for trace in (trace_of_day(1), trace_of_day(2, commit="c0ffee2"), trace_of_day(2, machine="b")):
            opened.add(write_trace(trace, tmp_path))
    return tmp_path / "store"


def runs_of(store: Path, **filters: str) -> list[tuple[str, str, str]]:
    """Open a store; return the day, commit and machine of each run."""
    with Store(store) as opened:
        return [(run.started[8:10], run.commit, run.machine) for run in opened.runs(**filters)]


def test_traces_are_filed_by_lecture_commit_and_machine(store: Path, tmp_path: Path) -> None:
    [path] = [name for name in files(store) if "c0ffee2" in name]
    lecture, commit, machine, run, name = path.split("/")
    assert (lecture, commit, machine, name) == ("lecture.py", "c0ffee2", "a", FILE)
    assert run.startswith("2026-10-02T120000-")
    assert gzip.decompress((store / path).read_bytes()).decode() == dump(trace_of_day(2, commit="c0ffee2"))
    assert load(store / path).trace == trace_of_day(2, commit="c0ffee2")


def test_runs_are_found_by_lecture_commit_and_machine(store: Path) -> None:
    assert runs_of(store) == [("01", "c0ffee1", "a"), ("02", "c0ffee1", "b"), ("02", "c0ffee2", "a")]
    assert runs_of(store, machine="MACHINE B") == runs_of(store, machine="b") == [("02", "c0ffee1", "b")]
    assert runs_of(store, commit="c0ffee2") == [("02", "c0ffee2", "a")]
    assert runs_of(store, lecture="another.py") == []


def test_adding_a_trace_twice_stores_it_once(store: Path, tmp_path: Path) -> None:
    before = files(store)
    with Store(store) as opened:
        assert opened.add(write_trace(trace_of_day(1), tmp_path))[1] is False
        # a run with the same start and other times is another run
        assert opened.add(write_trace(trace_of_day(1, us=201), tmp_path))[1] is True
    assert len(files(store)) == len(before) + 1


@pytest.mark.parametrize("text", ["", "schema: 99", "no: trace", "\x00"])
def test_invalid_traces_are_refused_and_the_store_is_unchanged(store: Path, tmp_path: Path, text: str) -> None:
    before = files(store)
    (tmp_path / "bad.yaml").write_text(text)
    with Store(store) as opened, pytest.raises(TraceFileError):
        opened.add(tmp_path / "bad.yaml")
    assert files(store) == before and len(runs_of(store)) == 3


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_hostile_traces_are_refused_or_stored_inside_the_store(store: Path, tmp_path: Path, seed: int) -> None:
    (tmp_path / "bad.yaml").write_text(hostile(seed, 20_000).text, encoding="utf-8", errors="surrogatepass")
    outside = {name for name in files(tmp_path) if not name.startswith("store/")}
    with Store(store) as opened:
        try:
            path, _ = opened.add(tmp_path / "bad.yaml")
        except TraceFileError:
            assert len(opened.runs()) == 3
        else:
            assert (store / path).is_file() and len(opened.runs()) == 4
    assert {name for name in files(tmp_path) if not name.startswith("store/")} == outside


@each("name", ["../../x", "/etc/passwd", "..", "a/b\\c", "x" * 300, "\n", "", "лекция"])
def test_paths_stay_inside_the_store(name: str) -> None:
    trace = trace_of_day(1)
    renamed = replace(trace, run=replace(trace.run, lecture=name, commit=name, started=name))
    parts = path_in_store(renamed, "0123456789abcdef").split("/")
    assert len(parts) == 5 and all(part.strip(".-") and len(part.encode()) <= 120 for part in parts)


@pytest.mark.parametrize(
    "damage", ["missing", "garbled", "empty", "truncated", "other version", "missing rows", "missing table"]
)
def test_a_missing_or_damaged_index_is_rebuilt(store: Path, damage: str) -> None:
    expected = runs_of(store)
    path = store / INDEX
    if damage == "missing":
        path.unlink()
    elif damage == "garbled":
        path.write_bytes(b"not a database at all" * 1_000)
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "truncated":
        path.write_bytes(path.read_bytes()[:5_000])
    else:
        index = sqlite3.connect(path)
        index.execute(
            {
                "other version": "PRAGMA user_version = 77",
                "missing rows": "DELETE FROM runs WHERE machine = 'b'",
                "missing table": "DROP TABLE runs",
            }[damage]
        )
        index.commit()
        index.close()
    assert runs_of(store) == expected
    with Store(store) as opened:
        opened.rebuild()
    assert runs_of(store) == expected


@pytest.mark.parametrize("content", [b"not a database at all" * 1_000, b"", None])  # None: truncated
def test_traces_can_be_added_with_a_damaged_index(store: Path, tmp_path: Path, content: bytes | None) -> None:
    (store / INDEX).write_bytes(content if content is not None else (store / INDEX).read_bytes()[:5_000])
    with Store.create(store) as opened:
        opened.add(write_trace(trace_of_day(9), tmp_path))
    assert len(runs_of(store)) == 4


@pytest.mark.parametrize("statement", ["DROP TABLE statements", "ALTER TABLE runs RENAME COLUMN started TO begun"])
def test_damaged_tables_are_reported_and_rebuilt_on_request(store: Path, statement: str) -> None:
    with Store(store) as opened:
        opened.index.execute(statement)
        with pytest.raises(UsageError, match=r"index.sqlite: no such .*; `store index \S+` rebuilds it"):
            find(opened, "6")
    with Store(store) as opened:
        opened.rebuild()
        assert find(opened, "6").text == "y = x @ w"


def test_an_open_store_survives_the_removal_of_its_index(store: Path, tmp_path: Path) -> None:
    with Store(store) as first:
        (store / INDEX).unlink()
        first.add(write_trace(trace_of_day(8), tmp_path))
        with Store(store) as second:
            second.add(write_trace(trace_of_day(9), tmp_path))
        assert first.add(write_trace(trace_of_day(10), tmp_path))[1] is True
        assert len(first.runs()) == 6
    assert len(runs_of(store)) == 6


def test_an_open_store_can_add_after_another_rebuilt_the_index(store: Path, tmp_path: Path) -> None:
    with Store(store) as first, Store(store) as second:
        second.rebuild()
        first.add(write_trace(trace_of_day(9), tmp_path))
    assert len(runs_of(store)) == 4


def test_moved_files_are_indexed_and_invalid_ones_reported(store: Path, tmp_path: Path) -> None:
    [original] = [store / name for name in files(store) if "/b/" in name]
    moved = store / "lecture.py" / "by-hand" / "b" / original.parent.name / FILE
    moved.parent.mkdir(parents=True)
    original.rename(moved)
    (moved.parent.parent / "invalid").mkdir()
    (moved.parent.parent / "invalid" / FILE).write_bytes(b"no trace")
    assert runs_of(store) == [("01", "c0ffee1", "a"), ("02", "by-hand", "b"), ("02", "c0ffee2", "a")]
    with Store(store) as opened:
        assert len(opened.troubles) == 1 and "invalid" in opened.troubles[0]
        orphans = opened.index.execute("SELECT count(*) FROM times WHERE run NOT IN (SELECT id FROM runs)")
        assert orphans.fetchone() == (0,)


@pytest.mark.parametrize(("name", "message"), [(b"c\xff", r"/c\udcff/"), (b"two\nlines", r"/two\nlines/")])
def test_unprintable_names_are_reported_in_one_line(store: Path, name: bytes, message: str) -> None:
    [original] = [store / path for path in files(store) if "/b/" in path]
    copy = os.path.join(os.fsencode(store), b"lecture.py", name, b"b", b"run")
    os.makedirs(copy)
    Path(os.fsdecode(copy), FILE).write_bytes(original.read_bytes())
    with Store(store) as opened:
        assert len(opened.runs()) == 3
        [trouble] = opened.troubles
    assert message in trouble and trouble.endswith("expected a name that can be printed")


def test_a_damaged_trace_does_not_require_a_writable_index(store: Path) -> None:
    (store / "lecture.py" / "c1" / "b" / "run").mkdir(parents=True)
    (store / "lecture.py" / "c1" / "b" / "run" / FILE).write_bytes(b"no trace")
    with closing(sqlite3.connect(store / INDEX)) as connection:
        connection.execute("BEGIN IMMEDIATE")  # no other connection can write the index now
        assert len(runs_of(store)) == 3


ADDING = """
import sys
from pathlib import Path
from trace_tools.store.store import Store
with Store.create(Path(sys.argv[1])) as store:
    print("ready", flush=True)
    for path in sys.argv[2:]:
        store.add(Path(path))
"""


def start_adding(store: Path, *paths: Path) -> subprocess.Popen[str]:
    """Start a process that adds traces to a store."""
    command = [sys.executable, "-c", ADDING, str(store), *map(str, paths)]
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=-1, text=True)


def test_several_processes_may_add_at_the_same_time(tmp_path: Path) -> None:
    paths = [write_trace(trace_of_day(day), tmp_path, f"{day}.yaml") for day in range(1, 9)]
    processes = [start_adding(tmp_path / "store", *part) for part in (paths[:6], paths[2:], paths[::-1])]
    assert [process.wait(timeout=120) for process in processes] == [0, 0, 0]
    assert [day for day, *_ in runs_of(tmp_path / "store")] == [f"{day:02}" for day in range(1, 9)]
    assert len([name for name in files(tmp_path / "store") if name.endswith(FILE)]) == 8


def test_another_process_may_create_the_store_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    list_folder = Path.iterdir

    def create_then_list(folder: Path) -> Iterator[Path]:
        monkeypatch.setattr(Path, "iterdir", list_folder)
        Store.create(folder).index.close()
        return list_folder(folder)

    monkeypatch.setattr(Path, "iterdir", create_then_list)
    with Store.create(tmp_path) as store:
        assert store.runs() == []


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.05, 0.1])
def test_a_killed_add_leaves_a_valid_store(tmp_path: Path, seconds: float) -> None:
    paths = [write_trace(trace_of_day(day), tmp_path, f"{day}.yaml") for day in range(1, 20)]
    process = start_adding(tmp_path / "store", *paths)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    with suppress(subprocess.TimeoutExpired):  # a fast machine may have finished
        process.wait(timeout=seconds)
    process.kill()
    process.wait()
    stored = runs_of(tmp_path / "store")
    in_order = [(f"{day:02}", "c0ffee1", "a") for day in range(1, 20)]
    assert stored == runs_of(tmp_path / "store") == in_order[: len(stored)]
    for name in files(tmp_path / "store"):
        if name.endswith(FILE):
            load(tmp_path / "store" / name)
    assert start_adding(tmp_path / "store", *paths).wait(timeout=120) == 0
    assert len(runs_of(tmp_path / "store")) == 19


def test_a_folder_of_other_files_is_refused_and_unchanged(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    for open_store in (Store, Store.create):
        with pytest.raises(UsageError, match=r"is not a store of traces|contains mine.txt"):
            open_store(tmp_path)
    assert files(tmp_path) == ["mine.txt"]


def test_compressed_traces_may_be_truncated_but_not_damaged_or_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trace.yaml.gz"
    path.write_bytes(gzip.compress(dump(trace_of_day(1)).encode()))
    assert load(path).trace == trace_of_day(1)
    content = path.read_bytes()
    path.write_bytes(content[:-20])
    assert not load(path).trace.run.complete
    path.write_bytes(content[:-8] + bytes(8))  # wrong checksum and size
    with pytest.raises(TraceFileError, match="can't be unpacked"):
        load(path)
    monkeypatch.setattr(trace_file, "LARGEST_BYTES", 2**20)
    path.write_bytes(gzip.compress(b"#" * 2**21))
    with pytest.raises(TraceFileError, match="unpacks to more than"):
        load(path)
