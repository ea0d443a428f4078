"""A store: traces as plain files, by lecture, commit and machine, and an index that is made from them.

    store = Store.create(Path("traces"))
    store.add(Path("rendered/cpu/trace.yaml"))  # ("lecture.py/1bba177/cpu/2026-11-24T002427-9f86…/trace.yaml.gz", True)
    store.runs(machine="H100")                  # [KeptRun("lecture.py/1bba177/nvidia-h100/…", …), …]

The files are what is kept; `index.sqlite` only answers questions. Whoever opens the store brings the index up to date
with the files: one that was added by hand is found, one that was removed is gone, and what a killed `add` left is
completed or swept away. A file's folder has a digest of its trace in its name: the same trace is at the same place,
whoever adds it how often. Two processes may add at once: a file is written in one rename, and the index is SQLite's.
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
from trace_tools.file_format.trace_file import dump, load
from trace_tools.files import replace, sweep
from trace_tools.schema import Trace
from trace_tools.storing import index as tables

INDEX = "index.sqlite"
FILE = "trace.yaml.gz"
DEPTH = 4  # folders between the store and a trace: lecture, commit, machine, run
NO_COMMIT = "no-commit"
WAIT_S = 60  # for another process that writes the index
DAMAGED = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)  # SQLITE_ERROR: other tables
_UNLIKE_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A trace of the store: where it lies there, and what it is of."""

    path: str
    lecture: str
    commit: str
    machine: str  # its slug
    name: str
    torch: str | None
    started: str  # UTC, ISO 8601
    passes: int
    ended: str  # "complete", or what went wrong first
    emulated: bool


class Store:
    """An open store; close it, or use it in a `with`."""

    def __init__(self, folder: Path) -> None:
        """Open the store in a folder, and bring its index up to date.

        Raises UsageError where there is none, or where its index can't be read or written.
        """
        self.folder = folder
        if not (folder / INDEX).is_file() and not any(_files(folder)):
            raise UsageError(f"{folder}: is no store of traces; `store add {folder} TRACE.yaml` makes one")
        self.troubles: list[str] = []  # files of the store that are no traces
        with _in_words(folder):
            try:
                self._open()
                self._update()
            except sqlite3.DatabaseError as error:
                self._replace(error)
                self._update()

    @classmethod
    def create(cls, folder: Path) -> Store:
        """Open the store in a folder, which is made where it is missing; UsageError where the folder holds others."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            strange = [path.name for path in folder.iterdir()] if not (folder / INDEX).is_file() else []
        except OSError as error:
            raise UsageError(f"{folder}: can't be made a store: {error.strerror or error}") from None
        if strange and not any(_files(folder)):
            raise UsageError(f"{folder}: holds files that no store made ({sorted(strange)[0]}); choose another folder")
        if not (folder / INDEX).exists():
            with _in_words(folder):
                _opened(folder / INDEX).close()
        return cls(folder)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.index.close()

    def add(self, path: Path) -> tuple[str, bool]:
        """Put a trace into the store; return its place there, and whether it is new. Notes of its file are dropped.

        Raises TraceFileError for what is no trace, UsageError where it can't be written; the store is as it was then.
        """
        trace = load(path).trace
        text = dump(trace).encode()
        place = place_of(trace, hashlib.sha256(text).hexdigest())
        there = self.folder / place
        with _in_words(self.folder):
            self._keep_up()
            if self._knows(place) and there.is_file():
                return place, False
        try:
            there.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{there.parent}: can't be made: {error.strerror or error}") from None
        sweep(there.parent)
        replace(there, gzip.compress(text, 6, mtime=0), durable=True)
        with _in_words(self.folder), self._writing():
            self._record(place, trace)
        return place, True

    def runs(self, *, lecture: str = "", commit: str = "", machine: str = "") -> list[KeptRun]:
        """Return runs in order of time: of a lecture, of a commit, of machines that have a text in their name."""
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
        """Return what the index answers. Raises UsageError where it is damaged."""
        with _in_words(self.folder):
            return self.index.execute(question, values).fetchall()

    def rebuild(self) -> None:
        """Make the index again from the files, the earliest run first."""
        with _in_words(self.folder):
            try:  # others may have the file open
                with self._writing():
                    tables.make_tables(self.index)
            except sqlite3.DatabaseError as error:
                self._replace(error)
            self._update()

    def _open(self) -> None:
        self.index = _opened(self.folder / INDEX)
        self.opened = _which(self.folder / INDEX)

    def _keep_up(self) -> None:
        """Open the index that is there now, where the one that was opened has been removed."""
        if _which(self.folder / INDEX) != self.opened:
            self.index.close()
            self._open()
            self._update()

    def _replace(self, error: sqlite3.DatabaseError) -> None:
        """Put an empty index in the place of one that is damaged, or none of ours; raise any other error again."""
        if not _is_damage(error):
            raise error
        if hasattr(self, "index"):
            self.index.close()
        for name in (INDEX, f"{INDEX}-journal"):
            (self.folder / name).unlink(missing_ok=True)
        self._open()

    def _update(self) -> None:
        """Make the index agree with the files that are there."""
        there = set(_files(self.folder))
        if self._known() - there:
            with self._writing():  # now nobody else is
                tables.forget(self.index, self._known() - set(_files(self.folder)), self._readable)
        found = there - self._known()
        for path in sorted(found, key=_when):  # in whichever order: so the fewest versions are matched again
            if not path.isprintable():
                self.troubles.append(f"{self.folder}/{ascii(path)[1:-1]}: expected a name that can be printed")
                continue
            if self._knows(path):  # by now: several processes share the work
                continue
            trace = self._readable(path)
            if trace is not None:
                with self._writing():
                    self._record(path, trace)

    @contextlib.contextmanager
    def _noting_troubles(self) -> Iterator[None]:
        try:
            yield
        except TraceFileError as error:
            self.troubles.append(str(error))

    def _known(self) -> set[str]:
        return {path for (path,) in self.index.execute("SELECT path FROM runs")}

    def _knows(self, place: str) -> bool:
        return self.index.execute("SELECT 1 FROM runs WHERE path = ?", (place,)).fetchone() is not None

    def _record(self, place: str, trace: Trace) -> None:
        """Enter a trace, unless another process just did."""
        if not self._knows(place):
            lecture, commit, *_ = place.split("/")
            tables.record(self.index, place, lecture, commit, trace, self._readable)

    def _readable(self, place: str) -> Trace | None:
        with self._noting_troubles():
            return load(self.folder / place).trace
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


def place_of(trace: Trace, digest: str) -> str:
    """Return where a trace lies in a store; `digest` is of its text."""
    started = _plain(trace.run.started.partition("+")[0].replace(":", ""), "no-time")
    parts = (
        _plain(trace.run.lecture.replace("/", "."), "lecture"),
        _plain(trace.run.commit or "", NO_COMMIT),
        _plain(trace.machine.slug, "machine"),
        f"{started}-{digest[:12]}",
    )
    return "/".join([*parts, FILE])


def _when(place: str) -> str:
    """Return the name of a run's folder, which begins with the time of its start."""
    return place.split("/")[-2]


def _plain(text: str, otherwise: str) -> str:
    """Return a text as a folder may be named, in any file system."""
    return _UNLIKE_A_NAME.sub("-", text).strip("-.")[:80] or otherwise


def _files(folder: Path) -> Iterator[str]:
    """Yield the places of all traces; folders that are links are not followed."""
    waiting = [(str(folder), "", 0)]
    while waiting:
        path, place, depth = waiting.pop()
        with contextlib.suppress(OSError), os.scandir(path) as entries:
            for entry in entries:
                inner = f"{place}/{entry.name}" if place else entry.name
                if depth < DEPTH and entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, inner, depth + 1))
                elif depth == DEPTH and entry.name == FILE and entry.is_file(follow_symlinks=False):
                    yield inner


def _opened(path: Path) -> sqlite3.Connection:
    """Open an index; tables of another version are made again, empty."""
    index = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)
    try:
        if _version(index) != tables.VERSION:
            index.execute("BEGIN IMMEDIATE")
            if _version(index) != tables.VERSION:  # unless another process just did
                tables.make_tables(index)
            index.execute("COMMIT")
    except BaseException:
        index.close()
        raise
    return index


def _version(index: sqlite3.Connection) -> int:
    return int(index.execute("PRAGMA user_version").fetchone()[0])


def _which(path: Path) -> tuple[int, int] | None:
    """Return which file stands at a path now; None where none does."""
    try:
        there = path.stat()
    except OSError:
        return None
    return there.st_dev, there.st_ino


@contextlib.contextmanager
def _in_words(folder: Path) -> Iterator[None]:
    """Say what SQLite can't do as one line."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        mended = f"; `store index {folder}` makes it again" if _is_damage(error) else ""
        raise UsageError(f"{folder / INDEX}: {error}{mended}") from None


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in DAMAGED
