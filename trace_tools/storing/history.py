"""A store and a statement → what it took over time on each machine, and where that changed.

    statement = find(store, "x @ w", lecture="lecture.py")     # or "216": a line of the newest version
    history = history_of(store, statement, machine="H100")
    history.series["nvidia-h100"].points[0]   # Point("lecture.py/1bba177/…", "2026-11-24T00:24:27+00:00", …, 2.1e6, …)
    history.series["nvidia-h100"].changes     # (Change(at=17, before=2.1e6, after=2.9e6),)

Change points are found by ruptures (Truong, Oudre and Vayatis, "Selective review of offline change point detection
methods", Signal Processing 167, 2020) in the logarithms of a machine's times: shifts of the mean (linear kernel, PELT)
at a penalty of `PENALTY` σ² ln n for each, σ from the median absolute difference of neighbours. As in a diff, less than
10% is none.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from trace_tools import formats
from trace_tools.errors import UsageError
from trace_tools.storing.store import Store

SHORTEST = 3  # runs between two changes
FEWEST = 6  # runs in which one may be looked for
PENALTY = 4.0
LEAST = 1.1  # ratio that is worth a word, as a diff has it
QUIETEST = 0.01  # of the log: below it, repeated runs do not tell
NORMAL = 0.6745 * math.sqrt(2)  # median |difference of neighbours| of normal noise, in σ
TOO_FEW = f"change points are looked for where a machine has {FEWEST} runs or more"
MISSING = "change points are not marked: ruptures is not installed; pip install 'trace-tools[history]'"


@dataclass(frozen=True, slots=True)
class Followed:
    """A statement through all versions of a lecture, as the newest that has it writes it."""

    lecture: str
    lineage: int
    function: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Point:
    """What one execution took in one run (ns): median and extremes over the passes."""

    path: str
    started: str
    commit: str
    ns: float
    low: float
    high: float
    line: int  # where the statement stood then


@dataclass(frozen=True, slots=True)
class Change:
    """From the point `at` on a statement took another time: medians of the runs before it and after it (ns)."""

    at: int
    before: float
    after: float

    @property
    def ratio(self) -> float:
        """How many times as long it took."""
        return self.after / self.before


@dataclass(frozen=True, slots=True)
class MachineSeries:
    """One machine's runs in order of time."""

    name: str
    points: tuple[Point, ...]
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class History:
    """A statement's times on each machine, by the machine's slug; why changes were not looked for, where so."""

    statement: Followed
    series: dict[str, MachineSeries] = field(default_factory=dict)
    why_no_changes: str = ""


def find(store: Store, wanted: str, *, lecture: str = "") -> Followed:
    """Return the statement at a line of the newest version, or the one whose code has a text in it.

    Raises UsageError where there is none, or where several are: their lines are named then.
    """
    lecture = _lecture(store, lecture)
    [(newest,)] = store.ask(
        "SELECT code FROM runs WHERE lecture = ? ORDER BY started DESC, path DESC LIMIT 1", (lecture,)
    )
    if re.fullmatch(r"\d{1,9}", wanted):
        where, value = "line = ? AND source = 0", int(wanted)
    else:
        where, value = "instr(text, ?)", wanted  # type: ignore[assignment]
    rows = store.ask(
        f"SELECT lineage, function, line, text FROM statements WHERE code = ? AND {where} ORDER BY source, line",
        (newest, value),
    )
    exact = [row for row in rows if row[3] == wanted]
    rows = exact if len(exact) == 1 else rows
    if not rows:
        raise UsageError(
            f"{wanted!r}: no statement of {lecture} as it was run last; expected a line, or a piece of code"
        )
    if len(rows) > 1:
        lines = ", ".join(str(row[2]) for row in rows[:8]) + (", …" if len(rows) > 8 else "")
        raise UsageError(f"{wanted!r}: {len(rows)} statements of {lecture} (lines {lines}); say which by its line")
    return Followed(lecture, *rows[0])


def histories(store: Store, *, lecture: str = "", machine: str = "") -> list[History]:
    """Return the histories of all annotated statements of the newest version that were timed, in their order."""
    lecture = _lecture(store, lecture)
    rows = store.ask(
        "SELECT lineage, function, line, text FROM statements WHERE code ="
        " (SELECT code FROM runs WHERE lecture = ? ORDER BY started DESC, path DESC LIMIT 1) AND EXISTS"
        " (SELECT 1 FROM times WHERE times.statement = statements.id AND times.annotated) ORDER BY source, line",
        (lecture,),
    )
    found = [_timed(store, Followed(lecture, *row), machine) for row in rows]
    return [history for history in found if history.series]


def _lecture(store: Store, named: str) -> str:
    """Return the lecture that is meant: the one that is named, or the only one."""
    known = [name for (name,) in store.ask("SELECT DISTINCT lecture FROM runs ORDER BY lecture")]
    if named in known:
        return named
    listed = ", ".join(known[:10]) or "none: it is empty"
    if named or len(known) != 1:
        raise UsageError(f"--lecture {named or '?'}: expected one of the store's lectures: {listed}")
    return str(known[0])


def history_of(store: Store, statement: Followed, *, machine: str = "") -> History:
    """Return what a statement took in all runs, or those on machines that have a text in their name.

    Raises UsageError where no such run timed it.
    """
    history = _timed(store, statement, machine)
    if not history.series:
        on = f" on a machine with {machine!r} in its name" if machine else ""
        raise UsageError(f"line {statement.line} of {statement.lecture}: no run{on} timed it")
    return history


def _timed(store: Store, statement: Followed, machine: str) -> History:
    rows = store.ask(
        "SELECT runs.machine, runs.name, runs.path, runs.started, runs.version, times.ns, times.low, times.high,"
        " statements.line FROM statements JOIN times ON times.statement = statements.id"
        " JOIN runs ON runs.id = times.run WHERE statements.lineage = ? AND runs.lecture = ?"
        " AND (instr(lower(runs.name), ?) OR instr(lower(runs.machine), ?)) ORDER BY runs.started, runs.path",
        (statement.lineage, statement.lecture, machine.lower(), machine.lower()),
    )
    found: dict[str, list[Point]] = defaultdict(list)
    names: dict[str, str] = {}
    for slug, name, *point in rows:
        found[slug].append(Point(*point))
        names[slug] = name
    series, why = {}, TOO_FEW if max(map(len, found.values()), default=0) < FEWEST else ""
    for slug in sorted(found):
        times = [point.ns for point in found[slug]]
        try:
            changes = changes_in(times)
        except ImportError:
            changes, why = (), MISSING
        series[slug] = MachineSeries(names[slug], tuple(found[slug]), changes)
    return History(statement, series, why)


def changes_in(times: Sequence[float]) -> tuple[Change, ...]:
    """Return where a series of times (ns, above 0) changed. Raises ImportError where ruptures is not installed."""
    if len(times) < FEWEST:
        return ()
    import numpy
    from ruptures import KernelCPD

    logs = [math.log(max(ns, 1e-3)) for ns in times]
    apart = [abs(after - before) for before, after in pairwise(logs)]
    noise = max(statistics.median(apart) / NORMAL, QUIETEST)
    penalty = PENALTY * noise**2 * math.log(len(logs))
    signal = numpy.array(logs).reshape(-1, 1)
    ends = KernelCPD(kernel="linear", min_size=SHORTEST).fit(signal).predict(pen=penalty)
    medians = [statistics.median(times[first:end]) for first, end in pairwise([0, *ends])]
    found = [Change(at, before, after) for at, (before, after) in zip(ends, pairwise(medians), strict=False)]
    return tuple(change for change in found if max(change.ratio, 1 / change.ratio) >= LEAST)


def brief(started: str) -> str:
    """Return when a run started to the minute: "2026-11-24 00:24"."""
    return started[:16].replace("T", " ")


def told(history: History) -> list[str]:
    """Say each change in a sentence, the largest first."""
    found = [(abs(math.log(c.ratio)), slug, c) for slug, one in history.series.items() for c in one.changes]
    return [
        f"{slug}: {formats.ratio(max(c.ratio, 1 / c.ratio))}× {'slower' if c.ratio > 1 else 'faster'} from "
        f"{brief(history.series[slug].points[c.at].started)} on (commit {history.series[slug].points[c.at].commit}): "
        f"{formats.duration(c.before)} → {formats.duration(c.after)}"
        for _, slug, c in sorted(found, key=lambda one: (-one[0], one[1], one[2].at))
    ]
