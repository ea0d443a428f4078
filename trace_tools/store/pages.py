"""Make pages from the histories of statements: one for each statement, and a list.

history_files([history_of(store, statement)]).keys()      # index.html, 00000217-hidden-x-w.html, …
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from trace_tools.diff.report.html import html
from trace_tools.diff.report.report import Chart, Content, Grid, Part, Phrase, Report
from trace_tools.presentation.charts.plot import SERIES, plot
from trace_tools.store.history import FEWEST, SHORTEST, History, Point, brief, changes_text
from trace_tools.trace.model import Series
from trace_tools.util import formats

MADE_HERE = re.compile(r"index\.html|\d+-[a-z0-9-]+\.html")
RECENT = 20  # runs in the table before the fold
UNCHANGED = f"No machine with {FEWEST} runs or more changed by 10% or more for {SHORTEST} runs or longer."
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
    one, changes = history.statement, changes_text(history)
    where = f"Line {one.line} of the newest version, in {one.function}: {formats.one_line(one.text, 200)}"
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
        parts.append(Phrase(f"Drawn are the {SERIES} machines with the most runs, of {len(shown)}.", style="note"))
    rows = [row for _, row in sorted(_rows(history), key=lambda row: row[0], reverse=True)]
    columns = ("started", "machine", "commit", "line", "time", "passes", "")
    rest = formats.plural(len(rows) - RECENT, "earlier run") if len(rows) > RECENT else ""
    table = Grid("index", columns, rows[:RECENT], "Runs", rows[RECENT:], rest)
    parts += [Part("Runs", [table], "runs"), Phrase(FOOT, style="foot")]
    return Report(one.lecture, f": line {one.line} over time", parts)


def _rows(history: History) -> Iterator[tuple[str, list[Phrase]]]:
    for slug, series in history.series.items():
        changes = {change.at: change for change in series.changes}
        for at, point in enumerate(series.points):
            change = changes.get(at)
            remark = f"from here on {formats.ratio(change.ratio)} of the time before" if change is not None else ""
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
            yield point.started + slug, [Phrase(cell) for cell in cells]


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
