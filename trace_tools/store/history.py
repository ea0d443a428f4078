"""The history of a statement in a store: its times on each machine, and where they changed.

    statement = find(store, "x @ w", lecture="lecture.py")     # or "216": a line of the newest version
    history = history_of(store, statement, machine="H100")
    history.series["nvidia-h100"].points[0]   # Point("lecture.py/1bba177/…", "2026-11-24T00:24:27+00:00", …, 2.1e6, …)
    history.series["nvidia-h100"].changes     # (Change(at=17, before=2.1e6, after=2.9e6),)

ruptures finds change points (Truong, Oudre and Vayatis, "Selective review of offline change point detection methods",
Signal Processing 167, 2020) in the logarithms of a machine's times: shifts of the mean (linear kernel, PELT) with a
penalty of `PENALTY` σ² ln n each, where σ comes from the median absolute difference of neighbours. As in a diff,
changes below 10% are ignored.

    history_files([history])                  # pages with a drawing and a table of each history, by name
"""

from __future__ import annotations

import math
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from trace_tools.diff.report.report import Chart, Content, Grid, Part, Phrase, Report, html
from trace_tools.errors import UsageError, not_installed
from trace_tools.presentation.charts.plot import SERIES, plot
from trace_tools.store.store import Store
from trace_tools.trace.model import Series
from trace_tools.util import formats

SHORTEST = 3  # fewest runs between two changes
FEWEST = 6  # fewest runs in which changes are searched
PENALTY = 4.0
LEAST = 1.1  # smallest ratio that is reported, as in a diff
QUIETEST = 0.01  # least noise of the logarithm: repeated runs do not reveal smaller noise
NORMAL = 0.6745 * math.sqrt(2)  # median |difference of neighbours| of normal noise, in σ
TOO_FEW = f"change points are computed only for machines with {FEWEST} or more runs"
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
    """Return the statement at a line of the newest version, or the statement whose code contains a text.

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
    differences = [abs(after - before) for before, after in pairwise(logs)]
    noise = max(statistics.median(differences) / NORMAL, QUIETEST)
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


# --- pages of histories ---------------------------------------------------------------------------

MADE_HERE = re.compile(r"index\.html|\d+-[a-z0-9-]+\.html")
RECENT = 20  # runs in the table before the fold
UNCHANGED = f"No machine with at least {FEWEST} runs changed by 10% or more for at least {SHORTEST} runs."
FOOT = (
    "Times are for one warm execution: the mean over the executions in each pass, then the median over the passes. "
    "A statement is matched between versions as `diff` does it, even if it moved or was edited."
)


def history_files(histories: Iterable[History]) -> dict[str, bytes]:
    """Return the pages by name; all histories must be of one lecture."""
    files: dict[str, bytes] = {}
    rows: list[list[Phrase]] = []
    lecture = ""
    for history in histories:
        lecture, name = history.statement.lecture, page_name(history)
        files[name] = html(report_of(history), "index.html").encode("utf-8")
        changes = changes_text(history)
        runs = sum(len(one.points) for one in history.series.values())
        summary = changes[0] if changes else history.why_no_changes or "no change found"
        rows.append(
            [
                Phrase(f"line {history.statement.line}", soft=formats.one_line(history.statement.text, 70), link=name),
                Phrase(f"{runs:,}"),
                Phrase(str(len(changes)) if changes else ""),
                Phrase(summary),
            ]
        )
    changed = sum(bool(row[2].text) for row in rows)
    parts: list[Content] = [Phrase(f"{formats.plural(len(rows), 'statement')}; {changed} changed at least once.")]
    rows.sort(key=lambda row: not row[2].text)
    parts += [
        Grid("index", ("statement", "runs", "changes", "the largest"), rows, "Statements"),
        Phrase(FOOT, style="foot"),
    ]
    files["index.html"] = html(Report(lecture, ": statements over time", parts)).encode("utf-8")
    return files


def _seconds(time: float) -> str:
    return formats.duration(time * 1e9)


def page_name(history: History) -> str:
    """Return the name of a statement's page, which depends only on its lineage."""
    words = re.sub(r"[^a-z0-9]+", "-", history.statement.text.lower()).strip("-")[:40].strip("-")
    return f"{history.statement.lineage}-{words or 'statement'}.html"


def report_of(history: History) -> Report:
    """Return one statement's report: its changes, its times on each machine, all runs."""
    statement, changes = history.statement, changes_text(history)
    code = formats.one_line(statement.text, 200)
    where = f"Line {statement.line} of the newest version, in {statement.function}: {code}"
    parts: list[Content] = [Phrase(where)]
    if history.why_no_changes:
        parts.append(Phrase(history.why_no_changes, style="note"))
    elif changes:
        parts.append(Part("Changes", [Grid("list", (), [[Phrase(change)] for change in changes])], "changes"))
    else:
        parts.append(Phrase(UNCHANGED, style="note"))
    shown = sorted(history.series.items(), key=lambda item: -len(item[1].points))
    drawn = _chart(history)
    if drawn is not None:
        parts.append(Part("Over time", [drawn], "time"))
    if len(shown) > SERIES:
        parts.append(Phrase(f"The chart shows the {SERIES} machines with most runs, of {len(shown)}.", style="note"))
    dated: list[tuple[str, list[Phrase]]] = []
    for slug, series in history.series.items():
        changed = {change.at: change for change in series.changes}
        for at, point in enumerate(series.points):
            change = changed.get(at)
            remark = f"from here on {formats.ratio(change.ratio)}× the time before" if change is not None else ""
            ends = f"{formats.duration(point.low)} … {formats.duration(point.high)}"
            cells = (
                brief(point.started),
                slug,
                point.commit,
                str(point.line),
                formats.duration(point.ns),
                ends,
                remark,
            )
            dated.append((point.started + slug, [Phrase(cell) for cell in cells]))
    rows = [row for _, row in sorted(dated, key=lambda row: row[0], reverse=True)]
    columns = ("started", "machine", "commit", "line", "time", "passes", "")
    fold_label = formats.plural(len(rows) - RECENT, "earlier run") if len(rows) > RECENT else ""
    table = Grid("index", columns, rows[:RECENT], "Runs", rows[RECENT:], fold_label)
    parts += [Part("Runs", [table], "runs"), Phrase(FOOT, style="foot")]
    return Report(statement.lecture, f": line {statement.line} over time", parts)


def _chart(history: History) -> Chart | None:
    """Draw each machine's times over all runs in order, and mark the changes."""
    order = sorted({(p.started, p.path) for one in history.series.values() for p in one.points})
    numbers = {run: number for number, run in enumerate(order, start=1)}

    def at(point: Point) -> int:
        return numbers[point.started, point.path]

    most = sorted(history.series.items(), key=lambda item: -len(item[1].points))[:SERIES]
    drawn = [
        Series(slug, [at(p) for p in one.points], [p.ns / 1e9 for p in one.points], "points") for slug, one in most
    ]
    marks = [one.points[change.at] for _, one in most for change in one.changes]
    if marks:
        drawn.append(Series("changed here", [at(p) for p in marks], [p.ns / 1e9 for p in marks], "points"))
    words = " ".join(changes_text(history)) or "No change."
    title = "Time of one execution, run by run"
    svg = plot(drawn, "history", title, words, labels=("run, in order of time", ""), log=(False, True), write=_seconds)
    return Chart("history", title, svg) if svg is not None else None
