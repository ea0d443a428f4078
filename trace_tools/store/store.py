"""A store: traces as plain files by lecture, commit and machine, with an index built from them.

    store = Store.create(Path("traces"))
    store.add(Path("rendered/cpu/trace.yaml"))  # ("lecture.py/1bba177/cpu/2026-11-24T002427-9f86…/trace.yaml.gz", True)
    store.runs(machine="H100")                  # [KeptRun("lecture.py/1bba177/nvidia-h100/…", …), …]

`index.sqlite` only speeds up queries. Opening the store updates the index to the files: files added or removed by hand
are noticed, and an `add` that was killed is completed or cleaned up. The name of a trace's folder contains the digest
of its content, so adding a trace twice gives one path. Several processes may add at once: files are written in one
rename, and SQLite locks the index.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trace_tools.errors import TraceFileError, UsageError
from trace_tools.store import index as tables
from trace_tools.trace.model import Trace
from trace_tools.trace.trace_file import EVENTS, dump, load
from trace_tools.util.files import replace, sweep

INDEX = "index.sqlite"
FILE = "trace.yaml.gz"
DEPTH = 4  # levels of folders above a trace: lecture, commit, machine, run
NO_COMMIT = "no-commit"
WAIT_S = 60  # longest wait for another process that writes the index
DAMAGED = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)  # SQLITE_ERROR: other tables
_UNLIKE_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A trace in the store: its path there and its identity."""

    path: str
    lecture: str
    commit: str
    machine: str  # slug of the machine
    name: str
    torch: str | None
    started: str  # UTC, ISO 8601
    passes: int
    ended: str  # "complete", or the first problem
    emulated: bool


class Store:
    """An open store; close it, or use it in a `with`."""

    def __init__(self, folder: Path) -> None:
        """Open the store in a folder and update its index.

        Raises UsageError if the folder is not a store, or its index cannot be read or written.
        """
        self.folder = folder
        if not (folder / INDEX).is_file() and not any(_files(folder)):
            raise UsageError(
                f"{folder}: is not a store of traces; `trace-tools store add {folder} TRACE.yaml` creates one"
            )
        self.troubles: list[str] = []  # problems with files: not a trace, or cut short
        with _errors_in_one_line(folder):
            try:
                self._open()
                self._update()
            except sqlite3.DatabaseError as error:
                self._replace(error)
                self._update()

    @classmethod
    def create(cls, folder: Path) -> Store:
        """Open the store in a folder, creating the folder if needed. Raises UsageError if the folder holds other
        files.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            names = [path.name for path in folder.iterdir()]
        except OSError as error:
            raise UsageError(f"{folder}: no store can be created there: {error.strerror or error}") from None
        # The index is looked for after the listing: another process may have created the store in between.
        if names and not (folder / INDEX).is_file() and not any(_files(folder)):
            raise UsageError(f"{folder}: not a store, because it contains {min(names)}; choose another folder")
        if not (folder / INDEX).exists():
            with _errors_in_one_line(folder):
                _opened(folder / INDEX).close()
        return cls(folder)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.index.close()

    def add(self, path: Path) -> tuple[str, bool]:
        """Add a trace; return its path in the store, and whether it is new.

        A trace whose file was cut short is kept as a partial one and listed in `troubles`.

        Raises TraceFileError if the file is not a trace, UsageError if it cannot be written; the store is then
        unchanged.
        """
        loaded = load(path)
        trace = loaded.trace
        self.troubles += [f"{path}: {note}" for note in loaded.notes]
        text = dump(trace)
        without_count = text.replace(f"\n{EVENTS}: {len(trace.steps)}\n", "\n", 1)  # older stores have no such line
        name = path_in_store(trace, hashlib.sha256(without_count.encode()).hexdigest())
        path_of_copy = self.folder / name
        with _errors_in_one_line(self.folder):
            self._reopen_if_replaced()
            if self._is_indexed(name) and path_of_copy.is_file():
                return name, False
        try:
            path_of_copy.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{path_of_copy.parent}: can't be made: {error.strerror or error}") from None
        sweep(path_of_copy.parent)
        packed = gzip.compress(text.encode(), 6, mtime=0)
        replace(path_of_copy, packed, durable=True)
        with _errors_in_one_line(self.folder), self._writing():
            self._record(name, len(packed), trace)
        return name, True

    def runs(self, *, lecture: str = "", commit: str = "", machine: str = "") -> list[KeptRun]:
        """Return runs in order of time: of a lecture, a commit, or machines whose name contains a text."""
        where, values = ["1"], []
        for column, text in (("lecture", lecture), ("version", commit)):
            if text:
                where.append(f"{column} = ?")
                values.append(text)
        if machine:
            where.append("(instr(lower(name), ?) OR instr(lower(machine), ?))")
            values += [machine.lower()] * 2
        rows = self.ask(
            "SELECT path, lecture, version, machine, name, torch, started, passes, ended, emulated FROM runs"
            f" WHERE {' AND '.join(where)} ORDER BY started, path",
            values,
        )
        return [KeptRun(*row[:9], *map(bool, row[9:])) for row in rows]

    def ask(self, question: str, values: Sequence[str | int] = ()) -> list[tuple[Any, ...]]:
        """Query the index. Raises UsageError if it is damaged."""
        with _errors_in_one_line(self.folder):
            return self.index.execute(question, values).fetchall()

    def rebuild(self) -> None:
        """Rebuild the index from the files, the earliest run first."""
        with _errors_in_one_line(self.folder):
            try:  # other processes may have the file open
                with self._writing():
                    tables.make_tables(self.index)
            except sqlite3.DatabaseError as error:
                self._replace(error)
            self._update()

    def _open(self) -> None:
        self.index = _opened(self.folder / INDEX)
        self.opened = _file_identity(self.folder / INDEX)

    def _reopen_if_replaced(self) -> None:
        """Reopen the index if its file was replaced."""
        if _file_identity(self.folder / INDEX) != self.opened:
            self.index.close()
            self._open()
            self._update()

    def _replace(self, error: sqlite3.DatabaseError) -> None:
        """Replace an index that is damaged or not ours by an empty one; raise any other error again."""
        if not _is_damage(error):
            raise error
        if hasattr(self, "index"):
            self.index.close()
        for name in (INDEX, f"{INDEX}-journal"):
            (self.folder / name).unlink(missing_ok=True)
        self._open()

    def _update(self) -> None:
        """Update the index to the existing files."""
        files = set(_files(self.folder))  # with their sizes: a file that was cut short later is read again
        if self._indexed() - files:
            with self._writing():  # with the lock
                gone = self._indexed() - set(_files(self.folder))
                tables.forget(self.index, {gone_path for gone_path, _ in gone}, self._load_or_note)
        new = files - self._indexed()
        for path, size in sorted(new, key=_run_folder):  # any order works; this one matches the fewest versions again
            if not path.isprintable():
                self.troubles.append(f"{self.folder}/{ascii(path)[1:-1]}: expected a name that can be printed")
                continue
            if self._is_indexed(path):  # another process has added it meanwhile
                continue
            trace = self._load_or_note(path)
            if trace is not None:
                with self._writing():
                    self._record(path, size, trace)

    def _indexed(self) -> set[tuple[str, int]]:
        return set(self.index.execute("SELECT path, size FROM runs"))

    def _is_indexed(self, path: str) -> bool:
        return self.index.execute("SELECT 1 FROM runs WHERE path = ?", (path,)).fetchone() is not None

    def _record(self, path: str, size: int, trace: Trace) -> None:
        """Add a trace to the index, unless another process has just done so."""
        if not self._is_indexed(path):
            lecture, commit, *_ = path.split("/")
            tables.record(self.index, path, size, lecture, commit, trace, self._load_or_note)

    def _load_or_note(self, path: str) -> Trace | None:
        try:
            return load(self.folder / path).trace
        except TraceFileError as error:
            self.troubles.append(str(error))
            return None

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        self.index.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.index.rollback()
            raise
        self.index.commit()


def path_in_store(trace: Trace, digest: str) -> str:
    """Return the path of a trace in a store; `digest` is that of its text."""
    started = _plain(trace.run.started.partition("+")[0].replace(":", ""), "no-time")
    parts = (
        _plain(trace.run.lecture.replace("/", "."), "lecture"),
        _plain(trace.run.commit or "", NO_COMMIT),
        _plain(trace.machine.slug, "machine"),
        f"{started}-{digest[:12]}",
    )
    return "/".join([*parts, FILE])


def _run_folder(file: tuple[str, int]) -> str:
    """Return the name of a run's folder, which begins with its start time."""
    return file[0].split("/")[-2]


def _plain(text: str, otherwise: str) -> str:
    """Return a text as a folder name that is valid in any file system."""
    return _UNLIKE_A_NAME.sub("-", text).strip("-.")[:80] or otherwise


def _files(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield the paths of all traces and their sizes in bytes, without following links to folders."""
    waiting = [(str(folder), "", 0)]
    while waiting:
        path, inside, depth = waiting.pop()
        with contextlib.suppress(OSError), os.scandir(path) as entries:
            for entry in entries:
                inner = f"{inside}/{entry.name}" if inside else entry.name
                if depth < DEPTH and entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, inner, depth + 1))
                elif depth == DEPTH and entry.name == FILE and entry.is_file(follow_symlinks=False):
                    yield inner, entry.stat(follow_symlinks=False).st_size


def _opened(path: Path) -> sqlite3.Connection:
    """Open an index; tables of another version are replaced by empty ones."""
    index = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)
    try:
        if _version(index) != tables.VERSION:
            index.execute("BEGIN IMMEDIATE")
            if _version(index) != tables.VERSION:  # unless another process has just done so
                tables.make_tables(index)
            index.execute("COMMIT")
    except BaseException:
        index.close()
        raise
    return index


def _version(index: sqlite3.Connection) -> int:
    return int(index.execute("PRAGMA user_version").fetchone()[0])


def _file_identity(path: Path) -> tuple[int, int] | None:
    """Return the identity of the file at a path, or None."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


@contextlib.contextmanager
def _errors_in_one_line(folder: Path) -> Iterator[None]:
    """Turn SQLite's errors into one line."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        mended = f"; `store index {folder}` rebuilds it" if _is_damage(error) else ""
        raise UsageError(f"{folder / INDEX}: {error}{mended}") from None


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in DAMAGED
