"""Traces → what is asked of many of them at once: which runs there are, and how long each statement took in each.

    record(index, "lecture.py/1bba177/cpu/…/trace.yaml.gz", "lecture.py", "1bba177", trace, load)
    index.execute("SELECT machine, started FROM runs")

A statement is followed through the versions of its lecture by the diff's own matching: statements that are each
other's counterparts in two versions have one number, their lineage. A new version is matched with the one known that
is nearest before it in time, or else after it. Everything here can be made again from the traces.
"""

from __future__ import annotations

import hashlib
import sqlite3
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import NamedTuple

from trace_tools.call_tree import Tree
from trace_tools.comparing.matching.code import codes_of
from trace_tools.comparing.matching.functions import Place, match_code
from trace_tools.errors import LectureError
from trace_tools.rates import timing_of
from trace_tools.schema import Step, Trace
from trace_tools.statements import parse_source

VERSION = 2  # of the tables: an index of another one is made again
NAMES = ("codes", "statements", "runs", "times")
TABLES = """
CREATE TABLE codes (id INTEGER PRIMARY KEY, lecture TEXT, digest TEXT, started TEXT,
    UNIQUE (lecture, digest));
CREATE TABLE statements (code INTEGER, source INTEGER, statement INTEGER, lineage INTEGER, function TEXT,
    line INTEGER, text TEXT, annotated INTEGER, PRIMARY KEY (code, source, statement)) WITHOUT ROWID;
CREATE INDEX by_lineage ON statements (lineage);
CREATE TABLE runs (id INTEGER PRIMARY KEY, path TEXT UNIQUE, lecture TEXT, title TEXT, version TEXT, machine TEXT,
    name TEXT, torch TEXT, started TEXT, passes INTEGER, ended TEXT, emulated INTEGER, code INTEGER);
CREATE INDEX by_start ON runs (lecture, started);
CREATE TABLE times (lineage INTEGER, run INTEGER, ns REAL, low REAL, high REAL, executions INTEGER,
    PRIMARY KEY (lineage, run)) WITHOUT ROWID;
"""


class KeptTimes(NamedTuple):
    """How long one execution of a statement took (ns): median and extremes over the passes, of the mean of each."""

    median: float
    low: float
    high: float
    executions: int


def times_of(trace: Trace) -> dict[Place, KeptTimes]:
    """Return how long each statement took that was timed, by its source and number.

    A launch is no time, nor is that of a step in which `measure` ran several times; but of a section's call it is that
    of the section, as `compare` has it.
    """
    tree = Tree(trace)
    callers = {step.id for step, _ in tree.section_calls()}
    samples: dict[Place, list[tuple[int, ...]]] = defaultdict(list)
    for step in tree.by_id.values():
        timing = timing_of(step, trace.machine)
        if timing is None or timing.clock == "launch":
            continue
        if step.harness and timing.clock != "call" and step.id not in callers:
            continue
        samples[tree.frames[step.frame].source, step.statement].append(timing.samples_ns)
    found = {}
    for place, executions in samples.items():
        passes = min(map(len, executions))
        means = [statistics.fmean(one[n] for one in executions) for n in range(passes)]
        if means:
            found[place] = KeptTimes(statistics.median(means), min(means), max(means), len(executions))
    return found


def record(
    index: sqlite3.Connection, path: str, lecture: str, version: str, trace: Trace, load: Callable[[str], Trace]
) -> None:
    """Enter a trace that lies at `path`; `load` reads another one of the same lecture that was entered before."""
    code = _code(index, lecture, trace, load)
    run, torch = trace.run, dict(trace.versions).get("torch")
    row = (path, lecture, trace.title, version, trace.machine.slug, trace.machine.name, torch, run.started)
    entered = index.execute(
        "INSERT INTO runs (path, lecture, title, version, machine, name, torch, started, passes, ended, emulated, code)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*row, run.passes, run.ended, trace.machine.emulated, code),
    )
    ages = {
        (source, statement): age
        for source, statement, age in index.execute(
            "SELECT source, statement, lineage FROM statements WHERE code = ?", (code,)
        )
    }
    found = times_of(trace)
    index.executemany(
        "INSERT OR REPLACE INTO times VALUES (?, ?, ?, ?, ?, ?)",
        [(ages[place], entered.lastrowid, *times) for place, times in found.items() if place in ages],
    )


def _code(index: sqlite3.Connection, lecture: str, trace: Trace, load: Callable[[str], Trace]) -> int:
    """Return the number of a trace's version of its lecture; a new one is matched with its nearest."""
    texts = "\0".join(f"{source.path}\0{source.text}" for source in trace.sources)
    digest = hashlib.sha256(texts.encode()).hexdigest()
    known = index.execute("SELECT id FROM codes WHERE lecture = ? AND digest = ?", (lecture, digest)).fetchone()
    if known is not None:
        return int(known[0])
    started = trace.run.started
    near = index.execute(
        "SELECT codes.id, runs.path FROM codes JOIN runs ON runs.code = codes.id WHERE codes.lecture = ?"
        " ORDER BY codes.started <= ? DESC, CASE WHEN codes.started <= ? THEN codes.started END DESC, codes.started"
        " LIMIT 1",
        (lecture, started, started),
    ).fetchone()
    ages: dict[Place, int] = {}
    if near is not None:
        before = load(near[1])
        rows = index.execute("SELECT source, statement, lineage FROM statements WHERE code = ?", (near[0],))
        there = {(source, statement): age for source, statement, age in rows}
        ages = _inherited(before, trace, there)
    entered = index.execute("INSERT INTO codes (lecture, digest, started) VALUES (?, ?, ?)", (lecture, digest, started))
    code = entered.lastrowid
    assert code is not None
    fresh = index.execute("SELECT coalesce(max(lineage), 0) FROM statements").fetchone()[0]
    rows_of = []
    for place, (function, line, text, annotated) in _statements(trace).items():
        if place not in ages:
            fresh += 1
        rows_of.append((code, *place, ages.get(place, fresh), function, line, text, annotated))
    index.executemany("INSERT INTO statements VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows_of)
    return code


def _inherited(before: Trace, trace: Trace, there: Mapping[Place, int]) -> dict[Place, int]:
    """Return the lineage of each statement that has a counterpart in an earlier version."""
    matching = match_code(codes_of(Tree(before)), codes_of(Tree(trace)))
    return {here: there[old] for here, old in matching.to_a.items() if old in there}


def _statements(trace: Trace) -> dict[Place, tuple[str, int, str, bool]]:
    """Return each statement's function, line, first line of code, and whether it was annotated."""
    found: dict[Place, tuple[str, int, str, bool]] = {}
    tree = Tree(trace)
    ran = {(tree.frames[step.frame].source, step.statement): step for step in tree.by_id.values()}
    annotated = {(tree.frames[s.frame].source, s.statement) for s in tree.by_id.values() if s.annotated}
    for number, source in enumerate(trace.sources):
        lines = source.text.split("\n")
        try:
            for one in parse_source(source.text, source.path).statements:
                place = number, one.number
                end = one.node.end_col_offset if one.node.end_lineno == one.node.lineno else None
                text = lines[one.line - 1].encode()[:end].decode(errors="replace").strip()
                found[place] = one.function, one.line, text, place in annotated
        except (LectureError, RecursionError):  # another Python's syntax: what ran is known by its lines
            found |= {p: (*_by_line(tree, step, lines), p in annotated) for p, step in ran.items() if p[0] == number}
    return found


def _by_line(tree: Tree, step: Step, lines: list[str]) -> tuple[str, int, str]:
    text = lines[step.line - 1].strip() if step.line <= len(lines) else ""
    return tree.frames[step.frame].function, step.line, text
