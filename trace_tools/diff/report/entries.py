"""List the entries of a report: one per statement and subject that changed, the most important first.

    for entry in leads(difference):                 possible causes: an edit, another number of executions
    for entry in entries(difference, "time"):
        entry.line, entry.name, entry.a, entry.b, entry.detail, entry.executions
    timings_of(difference)                          the times that a page lists

The executions of one statement are one entry. A finding with a cause in another row has no entry of its own and is
counted in that row's entry (`follows`). A finding that may follow from leads is an entry that names them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from trace_tools.analysis.rates import HARNESS, above_roof
from trace_tools.diff.difference import Aspect, Difference, Finding, StepPair, Subject
from trace_tools.diff.wording import sides_text, subject_text, texts_apart, word_of
from trace_tools.util import formats

ORDER: tuple[Aspect, ...] = ("claims", "values", "memory", "flops", "time", "steps", "output")
BY_SIZE: frozenset[Aspect] = frozenset({"memory", "flops", "time"})  # the others keep the lecture's order
WORTH_A_SHARE = 0.1  # least share of its roof for a step's share to be shown; on one machine its time is enough


@dataclass(frozen=True, slots=True)
class ReportEntry:
    """A report's line about one or more executions of a statement, with both sides as text."""

    row: StepPair  # the first execution
    finding: Finding  # its finding
    word: str  # the verdict as readers see it
    name: str  # the subject; of times, their ratio
    a: str | None = None
    b: str | None = None
    detail: str = ""
    executions: int = 1
    follows: int = 0  # findings elsewhere that this one explains
    after_lines: tuple[int, ...] = ()  # the lines of the leads that it may follow from
    size: float = 0.0  # for ranking; of times, nanoseconds

    @property
    def line(self) -> int:
        """The line in B's source, or in A's if only A has it."""
        return self.row.step.line


def entry_of(difference: Difference, row: StepPair, finding: Finding, limit: int = 80) -> ReportEntry:
    """Format a finding; a side has at most `limit` characters."""
    a, b = sides_text(finding, limit)
    return ReportEntry(
        row=row,
        finding=finding,
        word=word_of(finding),
        name=subject_text(finding.subject),
        a=a,
        b=b,
        detail=finding.detail or "",
        after_lines=tuple(difference.rows[origin].step.line for origin in finding.origins),
        size=finding.size,
    )


def blocks(difference: Difference, *, everything: bool = False) -> Iterator[tuple[Aspect, bool, list[ReportEntry]]]:
    """Yield (aspect, whether they lead, entries) in the order of reports: what leads, then the others by aspect.

    A finding that a lead covers has no other entry. The executions of an edited statement have no entry of their own.
    """
    first = leads(difference)
    leading = {(lead.row.number, lead.finding.subject) for lead in first}
    edited = {lead.row.number for lead in first if lead.finding.subject.kind == "code"}
    yield "steps", True, first
    for aspect in ORDER:
        of_aspect = entries(difference, aspect, everything=everything)
        beside = [e for e in of_aspect if (e.row.number, e.finding.subject) not in leading]
        yield aspect, False, [e for e in beside if aspect != "steps" or e.row.number not in edited]


def leads(difference: Difference) -> list[ReportEntry]:
    """Return possible causes of others, in the lecture's order.

    A row's lead is an edit, else a changed number of executions.
    """
    explained = Counter(n for row in difference.rows for f in row.findings if f.matters for n in f.origins)
    causes = []
    for row in difference.rows:
        if not explained[row.number]:
            continue
        own = [f for f in row.findings if f.matters and not f.origins and f.cause is None]
        ran = next((f for f in own if f.subject.kind in ("executions", "step")), None)
        if ran is not None and not (row.edited and row.a is not None and row.b is not None):
            lead = entry_of(difference, row, ran)
        else:
            statement: list[str | None] = []  # on both sides
            for lines, step in ((difference.a.lines, row.a), (difference.b.lines, row.b)):
                statement.append(lines[step.line - 1].strip() if step is not None and step.line <= len(lines) else None)
            a, b = statement
            if a is not None and b is not None:
                a, b = texts_apart(a, b)
            counts = "" if ran is None else " → ".join(side or "–" for side in sides_text(ran))
            detail = counts and f"executions {counts}"
            edit = Finding("steps", "changed", Subject("code"))
            lead = ReportEntry(row, edit, "edited", "the statement", a, b, detail)
        causes.append(replace(lead, follows=explained[row.number]))
    return causes


def entries(difference: Difference, aspect: Aspect, *, everything: bool = False) -> list[ReportEntry]:
    """Return an aspect's entries, the most important first; without `everything`, only entries that matter or explain
    others.
    """
    findings = [(row, f, f.cause not in (None, row.number)) for row, f in difference.findings(aspect)]
    explained = Counter(f.cause for _, f, follows in findings if follows)
    grouped: dict[tuple[object, ...], list[tuple[StepPair, Finding]]] = {}
    for row, f, is_explained in findings:
        leads_others = row.number in explained and f.verdict != "not judged"
        if is_explained or not (f.matters or everything or leads_others):
            continue
        if aspect == "flops" and any(f.subject.kind == "step" for f in row.findings):
            continue  # one side lacks the step, which is an entry already
        compared = (f.detail, f.durations.overall) if aspect == "time" else None
        statement = (difference.function_of(row), row.b is None, row.step.statement)
        grouped.setdefault((*statement, f.subject, f.verdict, f.matters, compared), []).append((row, f))
    unsorted = []
    for group in grouped.values():
        entry = entry_of(difference, *group[0])
        if aspect == "time":
            entry = _timed(entry, group)
        follows = sum(explained[row.number] for row, _ in group)
        unsorted.append(replace(entry, executions=len(group), follows=follows))
    return sorted(unsorted, key=lambda e: (bool(e.after_lines), -e.size if aspect in BY_SIZE else 0))


def timings_of(difference: Difference) -> list[ReportEntry]:
    """Return the times that a page lists, in the lecture's order. On one machine these are times that differ, on two
    machines the times of annotated statements.
    """
    times = entries(difference, "time", everything=True)
    listed = [t for t in times if t.finding.matters or (t.finding.verdict == "ratio" and t.row.step.annotated)]
    return sorted(listed, key=lambda timing: timing.row.number)


def _timed(entry: ReportEntry, executions: Sequence[tuple[StepPair, Finding]]) -> ReportEntry:
    """Complete the entry of a time with the times of all executions that were judged together."""
    a_ns, b_ns = (
        sum(side for side in sides if isinstance(side, (int, float)))
        for sides in ([f.a for _, f in executions], [f.b for _, f in executions])
    )
    time = entry.finding
    of, ratio = time.durations, time.durations.overall
    measured = time.subject.kind == "measured"
    calls = len(executions) if measured else 1  # of a measurement, the time of one call is shown
    if measured:  # ranked by the cost of its change for the same number of calls by `measure`
        spent = [max(step.host_ns or [0]) for row, _ in executions for step in (row.a, row.b) if step is not None]
        size = sum(spent) / 2 * abs((of.overall or 1.0) - 1)
    else:
        size = abs(b_ns - a_ns)
    subjects = {
        "measured": f"one call, measurement {time.subject.index + 1}",
        "launch": "the host's time to launch it",
    }
    parts = [subjects[time.subject.kind]] if time.subject.kind in subjects else []
    if of.interval is not None and of.overall:
        low, high = of.interval
        ends = (low, high) if of.overall >= 1 or low <= 0 else (1 / high, 1 / low)  # matches the word "faster"
        parts.append(" to ".join(map(formats.three_digits, ends)) + "×")
    if of.adjusted_p is not None and time.matters:
        parts.append(f"adjusted p = {of.adjusted_p:.2g}")
    return replace(
        entry,
        name=times_text(ratio) if ratio else time.verdict,
        a=formats.duration(a_ns / calls) if time.a is not None and time.detail != HARNESS else None,
        b=formats.duration(b_ns / calls) if time.b is not None and time.detail != HARNESS else None,
        detail=time.detail or "" if time.verdict == "not judged" else ", ".join([*parts, *roof_texts(time)]),
        size=size,
    )


def roof_texts(time: Finding) -> list[str]:
    """Return each side's share of its own roof if a side came near it or the roofs are of two machines."""
    of = time.durations
    near = max(of.a_share or 0.0, of.b_share or 0.0) >= WORTH_A_SHARE
    if of.roof is None or not (near or time.verdict == "ratio"):
        return []
    shares = (formats.percent(s) if s is not None else "unknown" for s in (of.a_share, of.b_share))
    share_text = f"{' → '.join(shares)} of the {of.roof} roof"
    name, most = "B/s" if "memory" in of.roof else "FLOP/s", max(of.a_share or 0.0, of.b_share or 0.0)
    return [share_text, *filter(None, [above_roof(name, most, measured=True)])]


def times_text(ratio: float) -> str:
    """Format a ratio of times in words: 1.21× slower, 2× faster, as long."""
    if ratio >= 1.005:
        return f"{formats.three_digits(ratio)}× slower"
    return f"{formats.three_digits(1 / ratio)}× faster" if 0 < ratio <= 1 / 1.005 else "equally long"
