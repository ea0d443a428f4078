"""Traces → what is asked of many of them at once: which runs there are, and how long each statement took in each.

    record(index, "lecture.py/1bba177/cpu/…/trace.yaml.gz", "lecture.py", "1bba177", trace, load)
    index.execute("SELECT machine, started FROM runs")

A statement is followed through the versions of its lecture by the diff's own matching: each version, in the order in
which they were first run, is matched with the one before it, and statements that are each other's counterparts have one
number, their lineage, also where versions without it lie between. So it is the same in whichever order traces are
entered; one that comes between two versions has the later one matched again. Everything here can be made again from the
traces.
"""

from __future__ import annotations

import hashlib
import sqlite3
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from trace_tools.call_tree import Tree
from trace_tools.comparing.matching.code import codes_of
from trace_tools.comparing.matching.functions import Place, match_code
from trace_tools.errors import LectureError
from trace_tools.rates import timing_of
from trace_tools.schema import Step, Trace
from trace_tools.statements import parse_source

VERSION = 3  # of the tables: an index of another one is made again
TABLES = {
    "codes": "(id INTEGER PRIMARY KEY, lecture TEXT, digest TEXT, before INTEGER, UNIQUE (lecture, digest))",
    "statements": "(id INTEGER PRIMARY KEY, code INTEGER, source INTEGER, statement INTEGER, before INTEGER,"
    " lineage INTEGER, function TEXT, line INTEGER, text TEXT, UNIQUE (code, source, statement))",
    "runs": "(id INTEGER PRIMARY KEY, path TEXT UNIQUE, lecture TEXT, title TEXT, version TEXT, machine TEXT,"
    " name TEXT, torch TEXT, started TEXT, passes INTEGER, ended TEXT, emulated INTEGER, code INTEGER)",
    "times": "(statement INTEGER, run INTEGER, ns REAL, low REAL, high REAL, annotated INTEGER,"
    " PRIMARY KEY (statement, run)) WITHOUT ROWID",
}  # `before`: the version that it was matched with, and the statement there; `statement` of a time: that one's id
SORTED = (
    "CREATE INDEX by_lineage ON statements (lineage)",
    "CREATE INDEX by_start ON runs (lecture, started)",
    "CREATE INDEX by_code ON runs (code, started)",
)


class KeptTimes(NamedTuple):
    """How long one execution of a statement took (ns): median and extremes over the passes, of the mean of each."""

    median: float
    low: float
    high: float
    annotated: bool


def make_tables(index: sqlite3.Connection) -> None:
    """Make the tables, empty, in the place of those of another version; within a transaction."""
    for name, columns in TABLES.items():
        index.execute(f"DROP TABLE IF EXISTS {name}")
        index.execute(f"CREATE TABLE {name} {columns}")
    for statement in SORTED:
        index.execute(statement)
    index.execute(f"PRAGMA user_version = {VERSION}")


def times_of(trace: Trace) -> dict[Place, KeptTimes]:
    """Return how long each statement took that was timed, by its source and number.

    A launch is no time, nor is that of a step in which `measure` ran several times; but of a section's call it is that
    of the section, as `compare` has it.
    """
    tree = Tree(trace)
    callers = {step.id for step, _ in tree.section_calls()}
    samples: dict[Place, list[tuple[int, ...]]] = defaultdict(list)
    annotated: set[Place] = set()
    for step in tree.by_id.values():
        timing = timing_of(step, trace.machine)
        if timing is None or timing.clock == "launch":
            continue
        if step.harness and timing.clock != "call" and step.id not in callers:
            continue
        place = tree.frames[step.frame].source, step.statement
        samples[place].append(timing.samples_ns)
        if step.annotated:
            annotated.add(place)
    found = {}
    for place, executions in samples.items():
        passes = min(map(len, executions))
        means = [statistics.fmean(one[n] for one in executions) for n in range(passes)]
        if means:
            found[place] = KeptTimes(statistics.median(means), min(means), max(means), place in annotated)
    return found


def record(
    index: sqlite3.Connection, path: str, lecture: str, version: str, trace: Trace, load: Callable[[str], Trace | None]
) -> None:
    """Enter a trace that lies at `path`; `load` reads another one of the same lecture, or can't: that is left out."""
    code = _code(index, lecture, trace)
    run, torch = trace.run, dict(trace.versions).get("torch")
    row = (path, lecture, trace.title, version, trace.machine.slug, trace.machine.name, torch, run.started)
    entered = index.execute(
        "INSERT INTO runs (path, lecture, title, version, machine, name, torch, started, passes, ended, emulated, code)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*row, run.passes, run.ended, trace.machine.emulated, code),
    )
    known = _known(index, code)
    index.executemany(
        "INSERT OR REPLACE INTO times VALUES (?, ?, ?, ?, ?, ?)",
        [(known[place], entered.lastrowid, *times) for place, times in times_of(trace).items() if place in known],
    )
    _follow(index, lecture, load, {code: trace})


def forget(index: sqlite3.Connection, paths: Iterable[str], load: Callable[[str], Trace | None]) -> None:
    """Take out the runs at some places, and versions of which no run is left."""
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


def _code(index: sqlite3.Connection, lecture: str, trace: Trace) -> int:
    """Return the number of a trace's version of its lecture; the statements of a new one are entered."""
    texts = "\0".join(f"{source.path}\0{source.text}" for source in trace.sources)
    digest = hashlib.sha256(texts.encode()).hexdigest()
    known = index.execute("SELECT id FROM codes WHERE lecture = ? AND digest = ?", (lecture, digest)).fetchone()
    if known is not None:
        return int(known[0])
    code = index.execute("INSERT INTO codes (lecture, digest) VALUES (?, ?)", (lecture, digest)).lastrowid
    assert code is not None
    index.executemany(
        "INSERT INTO statements (code, source, statement, function, line, text) VALUES (?, ?, ?, ?, ?, ?)",
        [(code, *place, *said) for place, said in _statements(trace).items()],
    )
    return code


def _known(index: sqlite3.Connection, code: int) -> dict[Place, int]:
    """Return which row of the table each statement of a version is."""
    rows = index.execute("SELECT source, statement, id FROM statements WHERE code = ?", (code,))
    return {(source, statement): row for source, statement, row in rows}


def _follow(
    index: sqlite3.Connection, lecture: str, load: Callable[[str], Trace | None], loaded: dict[int, Trace]
) -> None:
    """Match each version that has come to stand behind another one with that, and number the lineages anew."""
    versions = index.execute(
        "SELECT codes.id, codes.before FROM codes JOIN runs ON runs.code = codes.id WHERE codes.lecture = ?"
        " GROUP BY codes.id ORDER BY min(runs.started), codes.digest",
        (lecture,),
    ).fetchall()
    order = [code for code, _ in versions]
    moved = [pair for pair, (_, before) in zip(pairwise([0, *order]), versions, strict=True) if pair[0] != before]
    for before, code in moved:
        for one in (before, code):
            if one and one not in loaded:
                paths = [path for (path,) in index.execute("SELECT path FROM runs WHERE code = ?", (one,))]
                found = next((trace for path in paths if (trace := load(path)) is not None), None)
                if found is None:  # the files are damaged by now: as if they had gone
                    return forget(index, paths, load)
                loaded[one] = found
        index.execute("UPDATE codes SET before = ? WHERE id = ?", (before, code))
        index.execute("UPDATE statements SET before = NULL WHERE code = ?", (code,))
        if before:
            there, here = _known(index, before), _known(index, code)
            matching = match_code(codes_of(Tree(loaded[before])), codes_of(Tree(loaded[code])))
            pairs = [(there[old], here[new]) for new, old in matching.to_a.items() if old in there and new in here]
            index.executemany("UPDATE statements SET before = ? WHERE id = ?", pairs)
    if moved:
        _number(index, order)


def _number(index: sqlite3.Connection, order: Sequence[int]) -> None:
    """Give each statement of a lecture's versions the number of its lineage: that of the one before it, or the next.

    One that was away, and is in its function again as it was, goes on where it ended.
    """
    ages: dict[int, int] = {}
    fresh = 0
    last: dict[int, tuple[str, str]] = {}  # of the version before: what each lineage is called there
    gone: dict[tuple[str, str], list[int]] = defaultdict(list)  # lineages that ended earlier, by what they were called
    for code in order:
        here: dict[int, tuple[str, str]] = {}
        rows = index.execute(
            "SELECT id, before, function, text FROM statements WHERE code = ? ORDER BY source, statement", (code,)
        )
        for row, before, *words in rows.fetchall():
            called = words[0], words[1]
            if before is not None:
                ages[row] = ages[before]
            elif gone[called]:
                ages[row] = gone[called].pop(0)
            else:
                ages[row] = fresh = fresh + 1
            here[ages[row]] = called
        for age in sorted(last.keys() - here.keys()):
            gone[last[age]].append(age)
        last = here
    index.executemany("UPDATE statements SET lineage = ? WHERE id = ?", [(age, row) for row, age in ages.items()])


def _statements(trace: Trace) -> dict[Place, tuple[str, int, str]]:
    """Return each statement's function, line and first line of code."""
    found: dict[Place, tuple[str, int, str]] = {}
    tree = Tree(trace)
    ran = {(tree.frames[step.frame].source, step.statement): step for step in tree.by_id.values()}
    for number, source in enumerate(trace.sources):
        lines = source.text.split("\n")
        try:
            for one in parse_source(source.text, source.path).statements:
                end = one.node.end_col_offset if one.node.end_lineno == one.node.lineno else None
                text = lines[one.line - 1].encode()[:end].decode(errors="replace").strip()
                found[number, one.number] = one.function, one.line, text
        except (LectureError, RecursionError):  # another Python's syntax: what ran is known by its lines
            found |= {place: _by_line(tree, step, lines) for place, step in ran.items() if place[0] == number}
    return found


def _by_line(tree: Tree, step: Step, lines: list[str]) -> tuple[str, int, str]:
    text = lines[step.line - 1].strip() if step.line <= len(lines) else ""
    return tree.frames[step.frame].function, step.line, text
