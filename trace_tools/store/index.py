"""An index over many traces: the runs, and the time of each statement in each run.

    record(index, "lecture.py/1bba177/cpu/…/trace.yaml.gz", 25_914, "lecture.py", "1bba177", trace, load)
    index.execute("SELECT machine, started FROM runs")

A statement is followed through the versions of its lecture as a diff matches them. Versions are ordered by their first
run, and each is matched with the previous one. Matched statements share a number, their lineage, also across versions
without them. The result does not depend on the order in which traces are added: a version that is inserted between two
others has the later one matched again. The index can be rebuilt from the traces.
"""

from __future__ import annotations

import hashlib
import sqlite3
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from trace_tools.analysis.rates import timing_of
from trace_tools.diff.align.code import Statement, codes_of, match_code
from trace_tools.errors import LectureError
from trace_tools.source.statements import parse_source
from trace_tools.trace.model import Trace
from trace_tools.trace.tree import Tree

VERSION = 4  # of the tables; an index with another version is rebuilt
TABLES = {
    "codes": "(id INTEGER PRIMARY KEY, lecture TEXT, digest TEXT, before INTEGER, UNIQUE (lecture, digest))",
    "statements": "(id INTEGER PRIMARY KEY, code INTEGER, source INTEGER, statement INTEGER, before INTEGER,"
    " lineage INTEGER, function TEXT, line INTEGER, text TEXT, UNIQUE (code, source, statement))",
    "runs": "(id INTEGER PRIMARY KEY, path TEXT UNIQUE, size INTEGER, lecture TEXT, title TEXT, version TEXT,"
    " machine TEXT, name TEXT, torch TEXT, started TEXT, passes INTEGER, ended TEXT, emulated INTEGER, code INTEGER)",
    "times": "(statement INTEGER, run INTEGER, ns REAL, low REAL, high REAL, annotated INTEGER,"
    " PRIMARY KEY (statement, run)) WITHOUT ROWID",
}  # `before`: the statement that it was matched with in the previous version; `statement` of a time: its id
SORTED = (
    "CREATE INDEX by_lineage ON statements (lineage)",
    "CREATE INDEX by_start ON runs (lecture, started)",
    "CREATE INDEX by_code ON runs (code, started)",
)


class KeptTimes(NamedTuple):
    """The time of one execution of a statement (ns): median and extremes over the passes, each the mean of its
    executions.
    """

    median: float
    low: float
    high: float
    annotated: bool


def make_tables(index: sqlite3.Connection) -> None:
    """Create empty tables and drop those of another version; call it within a transaction."""
    for name, columns in TABLES.items():
        index.execute(f"DROP TABLE IF EXISTS {name}")
        index.execute(f"CREATE TABLE {name} {columns}")
    for statement in SORTED:
        index.execute(statement)
    index.execute(f"PRAGMA user_version = {VERSION}")


def times_of(trace: Trace) -> dict[Statement, KeptTimes]:
    """Return the time of each timed statement, by source and number.

    Launch times do not count, nor do steps in which `measure` ran several times. The call of a section has the
    section's time, as in `compare`.
    """
    tree = Tree(trace)
    callers = {step.id for step, _ in tree.section_calls()}
    samples: dict[Statement, list[tuple[int, ...]]] = defaultdict(list)
    annotated: set[Statement] = set()
    for step in tree.by_id.values():
        timing = timing_of(step, trace.machine)
        if timing is None or timing.clock == "launch":
            continue
        if step.harness and timing.clock != "call" and step.id not in callers:
            continue
        key = tree.frames[step.frame].source, step.statement
        samples[key].append(timing.samples_ns)
        if step.annotated:
            annotated.add(key)
    times = {}
    for key, executions in samples.items():
        passes = min(map(len, executions))
        means = [statistics.fmean(one[n] for one in executions) for n in range(passes)]
        if means:
            times[key] = KeptTimes(statistics.median(means), min(means), max(means), key in annotated)
    return times


def record(
    index: sqlite3.Connection,
    path: str,
    size: int,
    lecture: str,
    version: str,
    trace: Trace,
    load: Callable[[str], Trace | None],
) -> None:
    """Add the trace at `path`, a file of `size` bytes.

    `load` reads other traces of the same lecture; traces for which it returns None are skipped.
    """
    # The number of the trace's version of its lecture; a new version is added with its statements.
    texts = "\0".join(f"{source.path}\0{source.text}" for source in trace.sources)
    digest = hashlib.sha256(texts.encode()).hexdigest()
    stored = index.execute("SELECT id FROM codes WHERE lecture = ? AND digest = ?", (lecture, digest)).fetchone()
    if stored is not None:
        code = int(stored[0])
    else:
        code = index.execute("INSERT INTO codes (lecture, digest) VALUES (?, ?)", (lecture, digest)).lastrowid or 0
        index.executemany(
            "INSERT INTO statements (code, source, statement, function, line, text) VALUES (?, ?, ?, ?, ?, ?)",
            [(code, *key, *words) for key, words in _statements(trace).items()],
        )
    run, torch = trace.run, dict(trace.versions).get("torch")
    row = (path, size, lecture, trace.title, version, trace.machine.slug, trace.machine.name, torch, run.started)
    entered = index.execute(
        "INSERT INTO runs (path, size, lecture, title, version, machine, name, torch, started, passes, ended,"
        " emulated, code) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*row, run.passes, run.ended, trace.machine.emulated, code),
    )
    ids = _statement_ids(index, code)
    index.executemany(
        "INSERT OR REPLACE INTO times VALUES (?, ?, ?, ?, ?, ?)",
        [(ids[key], entered.lastrowid, *times) for key, times in times_of(trace).items() if key in ids],
    )
    _follow(index, lecture, load, {code: trace})


def forget(index: sqlite3.Connection, paths: Iterable[str], load: Callable[[str], Trace | None]) -> None:
    """Remove the runs with these paths, and versions without runs."""
    lectures = set()
    for path in paths:
        run, lecture = index.execute("SELECT id, lecture FROM runs WHERE path = ?", (path,)).fetchone()
        index.execute("DELETE FROM times WHERE run = ?", (run,))
        index.execute("DELETE FROM runs WHERE id = ?", (run,))
        lectures.add(lecture)
    index.execute("DELETE FROM codes WHERE id NOT IN (SELECT code FROM runs)")
    index.execute("DELETE FROM statements WHERE code NOT IN (SELECT id FROM codes)")
    for lecture in sorted(lectures):
        _follow(index, lecture, load, {})


def _statement_ids(index: sqlite3.Connection, code: int) -> dict[Statement, int]:
    """Return the row number of each statement of a version."""
    rows = index.execute("SELECT source, statement, id FROM statements WHERE code = ?", (code,))
    return {(source, statement): row for source, statement, row in rows}


def _follow(
    index: sqlite3.Connection, lecture: str, load: Callable[[str], Trace | None], loaded: dict[int, Trace]
) -> None:
    """Match each version that has a new predecessor with it, and renumber the lineages."""
    versions = index.execute(
        "SELECT codes.id, codes.before FROM codes JOIN runs ON runs.code = codes.id WHERE codes.lecture = ?"
        " GROUP BY codes.id ORDER BY min(runs.started), codes.digest",
        (lecture,),
    ).fetchall()
    order = [code for code, _ in versions]
    moved = [pair for pair, (_, before) in zip(pairwise([0, *order]), versions, strict=True) if pair[0] != before]
    for before, code in moved:
        for version in (before, code):
            if version and version not in loaded:
                paths = [path for (path,) in index.execute("SELECT path FROM runs WHERE code = ?", (version,))]
                trace_of_version = next((trace for path in paths if (trace := load(path)) is not None), None)
                if trace_of_version is None:  # the files are damaged: as if they were removed
                    return forget(index, paths, load)
                loaded[version] = trace_of_version
        index.execute("UPDATE codes SET before = ? WHERE id = ?", (before, code))
        index.execute("UPDATE statements SET before = NULL WHERE code = ?", (code,))
        if before:
            old_ids, new_ids = _statement_ids(index, before), _statement_ids(index, code)
            matching = match_code(codes_of(Tree(loaded[before])), codes_of(Tree(loaded[code])))
            pairs = [(old_ids[a], new_ids[b]) for b, a in matching.to_a.items() if a in old_ids and b in new_ids]
            index.executemany("UPDATE statements SET before = ? WHERE id = ?", pairs)
    if moved:
        _number_lineages(index, order)


def _number_lineages(index: sqlite3.Connection, order: Sequence[int]) -> None:
    """Number the lineages of all statements of a lecture: the number of the matched predecessor, or the next one.

    A statement that was missing and reappears unchanged in its function continues its lineage.
    """
    lineages: dict[int, int] = {}
    newest = 0
    names_before: dict[int, tuple[str, str]] = {}  # of the previous version: the name of each lineage
    ended: dict[tuple[str, str], list[int]] = defaultdict(list)  # lineages that ended earlier, by name
    for code in order:
        names: dict[int, tuple[str, str]] = {}
        statements = index.execute(
            "SELECT id, before, function, text FROM statements WHERE code = ? ORDER BY source, statement", (code,)
        )
        for row, before, function, text in statements.fetchall():
            name = function, text
            if before is not None:
                lineages[row] = lineages[before]
            elif ended[name]:
                lineages[row] = ended[name].pop(0)
            else:
                lineages[row] = newest = newest + 1
            names[lineages[row]] = name
        for lineage in sorted(names_before.keys() - names.keys()):
            ended[names_before[lineage]].append(lineage)
        names_before = names
    rows = [(lineage, row) for row, lineage in lineages.items()]
    index.executemany("UPDATE statements SET lineage = ? WHERE id = ?", rows)


def _statements(trace: Trace) -> dict[Statement, tuple[str, int, str]]:
    """Return each statement's function, line and first line of code."""
    rows: dict[Statement, tuple[str, int, str]] = {}
    tree = Tree(trace)
    ran = {(tree.frames[step.frame].source, step.statement): step for step in tree.by_id.values()}
    for number, source in enumerate(trace.sources):
        try:
            parsed = parse_source(source.text, source.path)
            codes = parsed.first_lines()
            for one in parsed.statements:
                rows[number, one.number] = one.function, one.line, codes[one.number]
        # the syntax of another Python version: statements are known by their lines
        except (LectureError, RecursionError):
            lines = source.text.split("\n")
            for key, step in ran.items():
                if key[0] == number:
                    text = lines[step.line - 1].strip() if step.line <= len(lines) else ""
                    rows[key] = tree.frames[step.frame].function, step.line, text
    return rows
