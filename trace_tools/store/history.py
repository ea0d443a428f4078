"""The history of a statement in a store: its times on each machine, and where they changed.

    statement = find(store, "x @ w", lecture="lecture.py")     # or "216": a line of the newest version
    history = history_of(store, statement, machine="H100")
    history.series["nvidia-h100"].points[0]   # Point("lecture.py/1bba177/…", "2026-11-24T00:24:27+00:00", …, 2.1e6, …)
    history.series["nvidia-h100"].changes     # (Change(at=17, before=2.1e6, after=2.9e6),)

ruptures finds change points (Truong, Oudre and Vayatis, "Selective review of offline change point detection methods",
Signal Processing 167, 2020) in the logarithms of a machine's times: shifts of the mean (linear kernel, PELT) with a
penalty of `PENALTY` σ² ln n each, where σ comes from the median absolute difference of neighbours. As in a diff,
changes below 10% are ignored.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from trace_tools.errors import UsageError, not_installed
from trace_tools.store.store import Store
from trace_tools.util import formats

SHORTEST = 3  # fewest runs between two changes
FEWEST = 6  # fewest runs in which changes are searched
PENALTY = 4.0
LEAST = 1.1  # smallest ratio that is reported, as in a diff
QUIETEST = 0.01  # of the log: repeated runs do not reveal smaller noise
NORMAL = 0.6745 * math.sqrt(2)  # median |difference of neighbours| of normal noise, in σ
TOO_FEW = f"change points are looked for where a machine has {FEWEST} runs or more"
MISSING = not_installed("ruptures", "history", "marking change points")


@dataclass(frozen=True, slots=True)
class Followed:
    """A statement followed through all versions of a lecture, with the code of the newest version that has it."""

    lecture: str
    lineage: int
    function: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Point:
    """The time of one execution in one run (ns): median and extremes over the passes."""

    path: str
    started: str
    commit: str
    ns: float
    low: float
    high: float
    line: int  # of the statement in that run


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a statement's time at the point `at`: medians of the runs before and after it (ns)."""

    at: int
    before: float
    after: float

    @property
    def ratio(self) -> float:
        """The time after the change relative to that before."""
        return self.after / self.before


@dataclass(frozen=True, slots=True)
class MachineSeries:
    """One machine's runs in order of time."""

    name: str
    points: tuple[Point, ...]
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class History:
    """A statement's times on each machine, by the machine's slug; and why changes were not searched, if so."""

    statement: Followed
    series: dict[str, MachineSeries] = field(default_factory=dict)
    why_no_changes: str = ""


def find(store: Store, wanted: str, *, lecture: str = "") -> Followed:
    """Return the statement at a line of the newest version, or the one whose code contains a text.

    Raises UsageError unless exactly one statement matches; the message lists the lines of several.
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
            f"{wanted!r}: not found in the newest version of {lecture}; expected a line number or a piece of its code"
        )
    if len(rows) > 1:
        lines = ", ".join(str(row[2]) for row in rows[:8]) + (", …" if len(rows) > 8 else "")
        raise UsageError(f"{wanted!r}: {len(rows)} statements of {lecture} match (lines {lines}); give the line number")
    return Followed(lecture, *rows[0])


def histories(store: Store, *, lecture: str = "", machine: str = "") -> list[History]:
    """Return the histories of all annotated and timed statements of the newest version, in order."""
    lecture = _lecture(store, lecture)
    rows = store.ask(
        "SELECT lineage, function, line, text FROM statements WHERE code ="
        " (SELECT code FROM runs WHERE lecture = ? ORDER BY started DESC, path DESC LIMIT 1) AND EXISTS"
        " (SELECT 1 FROM times WHERE times.statement = statements.id AND times.annotated) ORDER BY source, line",
        (lecture,),
    )
    followed = [_timed(store, Followed(lecture, *row), machine) for row in rows]
    return [history for history in followed if history.series]


def _lecture(store: Store, named: str) -> str:
    """Return the named lecture, or the only one."""
    lectures = [name for (name,) in store.ask("SELECT DISTINCT lecture FROM runs ORDER BY lecture")]
    if named in lectures:
        return named
    listed = ", ".join(lectures[:10]) or "none"
    if named or len(lectures) != 1:
        raise UsageError(f"--lecture {named or '?'}: expected a lecture of this store, {listed}")
    return str(lectures[0])


def history_of(store: Store, statement: Followed, *, machine: str = "") -> History:
    """Return the times of a statement in all runs, or in those on machines whose name contains a text.

    Raises UsageError if no such run timed it.
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
    points: dict[str, list[Point]] = defaultdict(list)
    names: dict[str, str] = {}
    for slug, name, *point in rows:
        points[slug].append(Point(*point))
        names[slug] = name
    series, why = {}, TOO_FEW if max(map(len, points.values()), default=0) < FEWEST else ""
    for slug in sorted(points):
        times = [point.ns for point in points[slug]]
        try:
            changes = changes_in(times)
        except ImportError:
            changes, why = (), MISSING
        series[slug] = MachineSeries(names[slug], tuple(points[slug]), changes)
    return History(statement, series, why)


def changes_in(times: Sequence[float]) -> tuple[Change, ...]:
    """Return the changes in a series of times (ns, positive). Raises ImportError if ruptures is not installed."""
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
    changes = [Change(at, before, after) for at, (before, after) in zip(ends, pairwise(medians), strict=False)]
    return tuple(change for change in changes if max(change.ratio, 1 / change.ratio) >= LEAST)


def brief(started: str) -> str:
    """Return when a run started, to the minute: "2026-11-24 00:24"."""
    return started[:16].replace("T", " ")


def changes_text(history: History) -> list[str]:
    """Describe each change in a sentence, the largest first."""
    changes = [(abs(math.log(c.ratio)), slug, c) for slug, one in history.series.items() for c in one.changes]
    return [
        f"{slug}: {formats.ratio(max(c.ratio, 1 / c.ratio))}× {'slower' if c.ratio > 1 else 'faster'} from "
        f"{brief(history.series[slug].points[c.at].started)} on (commit {history.series[slug].points[c.at].commit}): "
        f"{formats.duration(c.before)} → {formats.duration(c.after)}"
        for _, slug, c in sorted(changes, key=lambda one: (-one[0], one[1], one[2].at))
    ]
