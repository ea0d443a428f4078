"""List the entries of a report: one per statement and subject that changed, the most important first.

    for entry in leads(difference):                 possible causes: an edit, another number of executions
    for entry in entries(difference, "time"):
        entry.line, entry.name, entry.a, entry.b, entry.detail, entry.executions

The executions of one statement are one entry. A finding with a cause in another row has no entry of its own and is
counted in that row's entry (`follows`). A finding that may follow from a lead is an entry that names the lead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from trace_tools.analysis.rates import above_roof
from trace_tools.diff.difference import Aspect, Difference, Finding, StepPair, Subject, TimeFinding, Verdict
from trace_tools.diff.judge.times import HARNESS
from trace_tools.diff.wording import sides_text, subject_text, texts_apart
from trace_tools.util import formats

ORDER: tuple[Aspect, ...] = ("claims", "values", "memory", "flops", "time", "steps", "output")
BY_SIZE: frozenset[Aspect] = frozenset({"memory", "flops", "time"})  # the others keep the lecture's order
MILD: frozenset[Verdict] = frozenset({"same", "varies", "random", "no difference detected", "not judged"})
WORTH_A_SHARE = 0.1  # least share of its roof for a step's share to be shown; on one machine its time is enough
TOO_NOISY = "times too noisy to show it"


@dataclass(frozen=True, slots=True)
class ReportEntry:
    """One statement of the report about one or more executions of a statement, with both sides as text."""

    row: StepPair  # the first execution with this finding
    aspect: Aspect
    verdict: Verdict
    subject: Subject
    name: str  # the subject; of times, their ratio
    a: str | None = None
    b: str | None = None
    detail: str = ""
    level: int = 0  # importance: 2 matters, 1 differs, 0 is the same
    executions: int = 1
    follows: int = 0  # findings elsewhere that this one explains
    after_line: int | None = None  # the line of the lead that it may follow from
    size: float = 0.0  # for ranking; of times, nanoseconds

    @property
    def line(self) -> int:
        """The line in B's source, or in A's if only A has it."""
        return self.row.step.line


def entry_of(difference: Difference, row: StepPair, finding: Finding, limit: int = 80) -> ReportEntry:
    """Format a finding; a side has at most `limit` characters."""
    a, b = sides_text(finding, limit)
    mild = finding.verdict in MILD or finding.setting is not None
    unseen = TOO_NOISY if finding.matters and is_unseen(difference, row, finding) else ""
    return ReportEntry(
        row=row,
        aspect=finding.aspect,
        verdict=finding.verdict,
        subject=finding.subject,
        name=subject_text(finding.subject),
        a=a,
        b=b,
        detail=formats.one_line("; ".join(part for part in (finding.detail, unseen) if part), 240),
        level=2 if finding.matters else 0 if mild else 1,
        after_line=_after(difference, finding),
        size=finding.size,
    )


def _after(difference: Difference, finding: Finding | TimeFinding) -> int | None:
    return None if finding.origin is None else difference.rows[finding.origin].step.line


def is_unseen(difference: Difference, row: StepPair, finding: Finding) -> bool:
    """Return whether times were compared but too uncertain to show a change in FLOPs."""
    if finding.subject.expression != "flops" or not isinstance(finding.a, int) or not isinstance(finding.b, int):
        return False
    if not difference.same_machine or "time" in difference.ignored or any(time.matters for time in row.times):
        return False
    more = max(finding.a, finding.b) / max(min(finding.a, finding.b), 1)
    blind = any(time.detectable is not None and time.detectable > more for time in row.times)
    return blind or difference.time_not_judged is not None


def blocks(difference: Difference, *, everything: bool = False) -> Iterator[tuple[Aspect, bool, list[ReportEntry]]]:
    """Yield (aspect, whether they lead, entries) in the order of reports: edits, claims, counts that lead, the rest.

    A finding that a lead covers has no other entry. The executions of an edited statement have no entry of their own.
    """
    first = leads(difference)
    leading = {(lead.row.number, lead.subject) for lead in first}
    edited = {lead.row.number for lead in first if lead.verdict == "edited"}
    code = [e for e in first if e.aspect in ("steps", "output")]
    yield "steps", True, code
    for aspect in ORDER:
        of_aspect = entries(difference, aspect, everything=everything)
        beside = [e for e in of_aspect if (e.row.number, e.subject) not in leading]
        yield aspect, False, [e for e in beside if aspect != "steps" or e.row.number not in edited]
        if aspect == "claims":
            yield "values", True, [e for e in first if e not in code]


def leads(difference: Difference) -> list[ReportEntry]:
    """Return possible causes of others, in the lecture's order.

    A row's lead is an edit, else a changed number of executions, else a changed count.
    """
    explained = Counter(f.origin for row in difference.rows for f in row.all if f.matters)
    causes = []
    for row in difference.rows:
        if not explained[row.number]:
            continue
        own = [f for f in row.findings if f.matters and f.origin is None and f.cause is None]
        first = ran = next((f for f in own if f.subject.kind in ("executions", "step")), None)
        if first is None and not row.edited:
            first = min(own, key=lambda f: f.subject.expression != "flops", default=None)
        if first is not None and not (row.edited and row.a is not None and row.b is not None):
            lead = entry_of(difference, row, first)
        else:
            pair = difference.frames[row.frame]
            statement: list[str | None] = []  # on both sides
            for side, frame, step in ((difference.a, pair.a, row.a), (difference.b, pair.b, row.b)):
                lines = side.lines[frame.source] if frame is not None else []
                statement.append(lines[step.line - 1].strip() if step is not None and step.line <= len(lines) else None)
            a, b = statement
            if a is not None and b is not None:
                a, b = texts_apart(a, b)
            counts = "" if ran is None else " → ".join(side or "–" for side in sides_text(ran))
            detail = counts and f"executions {counts}"
            name = "the statement"
            lead = ReportEntry(row, "steps", "edited", Subject("step", expression=name), name, a, b, detail)
        causes.append(replace(lead, follows=explained[row.number], level=2))
    return causes


def entries(difference: Difference, aspect: Aspect, *, everything: bool = False) -> list[ReportEntry]:
    """Return an aspect's entries, the most important first; without `everything`, only entries that matter."""
    explained: Counter[int | None]  # row → findings that it explains
    key: tuple[object, ...]  # of findings in one entry
    if aspect == "time":
        times = [(row, time) for row in difference.rows for time in row.times]
        explained = Counter(time.cause for _, time in times if time.cause is not None)
        grouped: dict[tuple[object, ...], list[tuple[StepPair, TimeFinding]]] = {}
        for row, time in times:
            if time.cause is None and (time.matters or everything or row.number in explained):
                key = (difference.function_of(row), row.step.statement, time.subject, time.verdict, time.why)
                grouped.setdefault(key, []).append((row, time))
        unsorted = [
            _timed(difference, group, sum(explained[row.number] for row, _ in group)) for group in grouped.values()
        ]
    else:
        findings = [(row, f, f.cause not in (None, row.number)) for row, f in difference.findings(aspect)]
        explained = Counter(f.cause for _, f, follows in findings if follows)
        first: dict[tuple[object, ...], tuple[StepPair, Finding]] = {}
        executions: Counter[tuple[object, ...]] = Counter()
        for row, f, follows in findings:
            if follows or not (f.matters or everything):
                continue
            statement = (difference.function_of(row), row.b is None, row.step.statement)
            key = (*statement, f.subject, f.verdict, f.matters)
            first.setdefault(key, (row, f))
            executions[key] += 1
        unsorted = [
            replace(entry_of(difference, row, f), follows=explained[row.number], executions=executions[key])
            for key, (row, f) in first.items()
        ]
    return sorted(unsorted, key=lambda e: (e.after_line is not None, -e.size if aspect in BY_SIZE else 0))


def _timed(difference: Difference, executions: Sequence[tuple[StepPair, TimeFinding]], follows: int) -> ReportEntry:
    """Compare the times of one statement's executions together; the execution with the largest difference leads."""
    a_ns, b_ns = sum(time.a_ns for _, time in executions), sum(time.b_ns for _, time in executions)
    first, time = max(executions, key=lambda item: abs(item[1].change_ns))
    ratio = time.overall if time.overall and time.verdict != "ratio" else b_ns / a_ns if a_ns and b_ns else None
    measured = time.subject.kind == "measured"
    calls = len(executions) if measured else 1  # of a measurement, the time of one call is shown
    if measured:  # ranked by the cost of its change for the same number of calls by `measure`
        spent = [max(step.host_ns or [0]) for row, _ in executions for step in (row.a, row.b) if step is not None]
        size = sum(spent) / 2 * abs((time.overall or 1.0) - 1)
    else:
        size = abs(b_ns - a_ns)
    of = {
        "measured": f"one call, measurement {time.subject.index + 1}",
        "launch": "the host's time to launch it",
    }
    parts = [of[time.subject.kind]] if time.subject.kind in of else []
    if time.interval is not None and time.overall:
        low, high = time.interval
        ends = (low, high) if time.overall >= 1 or low <= 0 else (1 / high, 1 / low)  # matches the word "faster"
        parts.append(" to ".join(map(formats.ratio, ends)) + "×")
    if time.adjusted_p is not None and time.matters:
        parts.append(f"adjusted p = {time.adjusted_p:.2g}")
    return ReportEntry(
        row=first,
        aspect="time",
        verdict=time.verdict,
        subject=time.subject,
        name=times_text(ratio) if ratio else time.verdict,
        a=formats.duration(a_ns / calls) if first.a is not None and time.why != HARNESS else None,
        b=formats.duration(b_ns / calls) if first.b is not None and time.why != HARNESS else None,
        detail=(time.why and time.why) or ", ".join([*parts, *roof_texts(time)]),
        level=2 if time.matters or follows else 0,
        executions=len(executions),
        follows=follows,
        after_line=_after(difference, time),
        size=size,
    )


def roof_texts(time: TimeFinding) -> list[str]:
    """Return each side's share of its own roof if a side came near it or the roofs are of two machines."""
    near = max(time.a_share or 0.0, time.b_share or 0.0) >= WORTH_A_SHARE
    if time.roof is None or not (near or time.verdict == "ratio"):
        return []
    shares = (formats.percent(s) if s is not None else "unknown" for s in (time.a_share, time.b_share))
    share_text = "{names} of the {roof} roof".format(names=" → ".join(shares), roof=formats.one_line(time.roof, 60))
    name, most = "B/s" if "memory" in time.roof else "FLOP/s", max(time.a_share or 0.0, time.b_share or 0.0)
    return [share_text, *filter(None, [above_roof(name, most, measured=True)])]


def times_text(ratio: float) -> str:
    """Format a ratio of times in words: 1.21× slower, 2× faster, as long."""
    if ratio >= 1.005:
        return f"{formats.ratio(ratio)}× slower"
    return f"{formats.ratio(1 / ratio)}× faster" if 0 < ratio <= 1 / 1.005 else "equally long"
