"""A Difference → what reports list: one entry per statement and thing that changed, the most important first.

    for entry in leads(difference):                 what explains others: an edit, another number of executions
    for entry in entries(difference, "time"):
        entry.line, entry.name, entry.a, entry.b, entry.detail, entry.executions

The executions of one statement are one entry; what another row says too is not an entry of its own, but
counted in that row's (`follows`). What may follow from a lead is an entry, and says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from trace_tools import formats
from trace_tools.comparing.difference import Aspect, Difference, Finding, StepPair, Subject, TimeFinding, Verdict
from trace_tools.comparing.judging.times import HARNESS
from trace_tools.comparing.wording import sides_text, subject_text, texts_apart

ORDER: tuple[Aspect, ...] = ("claims", "values", "memory", "flops", "time", "steps", "output")
BY_SIZE: frozenset[Aspect] = frozenset({"memory", "flops", "time"})  # the others stand in the lecture's order
MILD: frozenset[Verdict] = frozenset({"same", "varies", "random", "no difference detected", "not judged"})
WORTH_A_SHARE = 0.1  # of its roof, that a step reaches: on one machine its time says the rest
TOO_NOISY = "clocks too noisy to show it"


@dataclass(frozen=True, slots=True)
class ReportEntry:
    """One thing that is said about an execution, or about several of one statement; both sides in words."""

    row: StepPair  # the first execution of which this is said
    aspect: Aspect
    verdict: Verdict
    subject: Subject
    name: str  # what it is about; of times, their ratio
    a: str | None = None
    b: str | None = None
    detail: str = ""
    level: int = 0  # how much it asks for attention: 2 it matters, 1 it differs, 0 it is the same
    executions: int = 1
    follows: int = 0  # findings elsewhere that this one explains
    after_line: int | None = None  # the line of the lead that it may follow from
    size: float = 0.0  # for ranking; of times, nanoseconds

    @property
    def line(self) -> int:
        """Where it is, in B's source if B has it."""
        return self.row.step.line


def entry_of(difference: Difference, row: StepPair, finding: Finding, limit: int = 80) -> ReportEntry:
    """Put a finding into words; a side has at most `limit` characters."""
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
    """Whether times could not show a change in FLOPs; not where they could, or were not asked."""
    if finding.subject.expression != "flops" or not isinstance(finding.a, int) or not isinstance(finding.b, int):
        return False
    if not difference.same_machine or "time" in difference.ignored or any(time.matters for time in row.times):
        return False
    more = max(finding.a, finding.b) / max(min(finding.a, finding.b), 1)
    blind = any(time.detectable is not None and time.detectable > more for time in row.times)
    return blind or difference.time_not_judged is not None


def blocks(difference: Difference, *, everything: bool = False) -> Iterator[tuple[Aspect, bool, list[ReportEntry]]]:
    """Yield (aspect, whether they lead, entries) in the order of reports: edits, claims, counts that lead, the rest.

    What a lead says already is no entry beside it; nor are, beside a statement that was edited, its executions.
    """
    first = leads(difference)
    said = {(lead.row.number, lead.subject) for lead in first}
    edited = {lead.row.number for lead in first if lead.verdict == "edited"}
    code = [e for e in first if e.aspect in ("steps", "output")]
    yield "steps", True, code
    for aspect in ORDER:
        found = entries(difference, aspect, everything=everything)
        beside = [e for e in found if (e.row.number, e.subject) not in said]
        yield aspect, False, [e for e in beside if aspect != "steps" or e.row.number not in edited]
        if aspect == "claims":
            yield "values", True, [e for e in first if e not in code]


def leads(difference: Difference) -> list[ReportEntry]:
    """Return what others may follow from, in the lecture's order: edits, numbers of executions, changed counts."""
    explained = Counter(f.origin for row in difference.rows for f in row.all if f.matters)
    found = [(_lead(difference, row), explained[row.number]) for row in difference.rows if explained[row.number]]
    return [replace(lead, follows=follows, level=2) for lead, follows in found]


def _lead(difference: Difference, row: StepPair) -> ReportEntry:
    """Return what a row began: an edit before what ran more often for it, that before what was counted."""
    own = [f for f in row.findings if f.matters and f.origin is None and f.cause is None]
    first = ran = next((f for f in own if f.subject.kind in ("executions", "step")), None)
    if first is None and not row.edited:
        first = min(own, key=lambda f: f.subject.expression != "flops", default=None)
    if first is not None and not (row.edited and row.a is not None and row.b is not None):
        return entry_of(difference, row, first)
    pair = difference.frames[row.frame]
    lines: list[str | None] = []  # the statement on both sides
    for side, frame, step in ((difference.a, pair.a, row.a), (difference.b, pair.b, row.b)):
        text = side.trace.sources[frame.source].text.split("\n") if frame is not None else []
        lines.append(text[step.line - 1].strip() if step is not None and step.line <= len(text) else None)
    a, b = lines
    if a is not None and b is not None:
        a, b = texts_apart(a, b)
    counted = "" if ran is None else f"executions {' → '.join(side or '–' for side in sides_text(ran))}"
    name = "the statement"
    return ReportEntry(row, "steps", "edited", Subject("step", expression=name), name, a, b, counted)


def entries(difference: Difference, aspect: Aspect, *, everything: bool = False) -> list[ReportEntry]:
    """Return an aspect's entries, the most important first; without `everything` those that matter only."""
    found = _times(difference, everything) if aspect == "time" else _findings(difference, aspect, everything)
    return sorted(found, key=lambda e: (e.after_line is not None, -e.size if aspect in BY_SIZE else 0))


def _findings(difference: Difference, aspect: Aspect, everything: bool) -> list[ReportEntry]:
    every = [(row, f, f.cause not in (None, row.number)) for row, f in difference.findings(aspect)]
    explained = Counter(f.cause for _, f, follows in every if follows)
    first: dict[tuple[object, ...], tuple[StepPair, Finding]] = {}
    executions: Counter[tuple[object, ...]] = Counter()
    for row, f, follows in every:
        if follows or not (f.matters or everything):
            continue
        statement = (difference.function_of(row), row.b is None, row.step.statement)
        key = (*statement, f.subject, f.verdict, f.matters)
        first.setdefault(key, (row, f))
        executions[key] += 1
    return [
        replace(entry_of(difference, row, f), follows=explained[row.number], executions=executions[key])
        for key, (row, f) in first.items()
    ]


def _times(difference: Difference, everything: bool) -> list[ReportEntry]:
    every = [(row, time) for row in difference.rows for time in row.times]
    explained = Counter(time.cause for _, time in every if time.cause is not None)
    grouped: dict[tuple[object, ...], list[tuple[StepPair, TimeFinding]]] = {}
    for row, time in every:
        if time.cause is None and (time.matters or everything or row.number in explained):
            key = (difference.function_of(row), row.step.statement, time.subject, time.verdict, time.why)
            grouped.setdefault(key, []).append((row, time))
    return [_timed(difference, found, sum(explained[row.number] for row, _ in found)) for found in grouped.values()]


def _timed(difference: Difference, found: Sequence[tuple[StepPair, TimeFinding]], follows: int) -> ReportEntry:
    """Say how the times of one statement's executions compare: together, and led by the one that differs most."""
    a_ns, b_ns = sum(time.a_ns for _, time in found), sum(time.b_ns for _, time in found)
    first, time = max(found, key=lambda item: abs(item[1].change_ns))
    ratio = time.overall if time.overall and time.verdict != "ratio" else b_ns / a_ns if a_ns and b_ns else None
    measured = time.subject.kind == "measured"
    calls = len(found) if measured else 1  # of a measurement what one call takes is said
    if measured:  # ranked by what its change would have cost, had `measure` made as many calls all the same
        spent = [max(step.host_ns or [0]) for row, _ in found for step in (row.a, row.b) if step is not None]
        size = sum(spent) / 2 * abs((time.overall or 1.0) - 1)
    else:
        size = abs(b_ns - a_ns)
    return ReportEntry(
        row=first,
        aspect="time",
        verdict=time.verdict,
        subject=time.subject,
        name=times_text(ratio) if ratio else time.verdict,
        a=formats.duration(a_ns / calls) if first.a is not None and time.why != HARNESS else None,
        b=formats.duration(b_ns / calls) if first.b is not None and time.why != HARNESS else None,
        detail=_time_detail(time),
        level=2 if time.matters or follows else 0,
        executions=len(found),
        follows=follows,
        after_line=_after(difference, time),
        size=size,
    )


def _time_detail(time: TimeFinding) -> str:
    if time.why:
        return time.why
    parts = [f"one call, measurement {time.subject.index + 1}"] if time.subject.kind == "measured" else []
    if time.interval is not None and time.overall:
        low, high = time.interval
        ends = (low, high) if time.overall >= 1 or low <= 0 else (1 / high, 1 / low)  # as the name says it: faster
        parts.append(" to ".join(map(formats.ratio, ends)) + "×")
    if time.adjusted_p is not None and time.matters:
        parts.append(f"q = {time.adjusted_p:.2g}")
    return ", ".join([*parts, *roof_texts(time)])


def roof_texts(time: TimeFinding) -> list[str]:
    """Say what share of its own roof each side reached, where one came near or the roofs are two machines'."""
    near = max(time.a_share or 0.0, time.b_share or 0.0) >= WORTH_A_SHARE
    if time.roof is None or not (near or time.verdict == "ratio"):
        return []
    shares = (formats.percent(s) if s is not None else "unknown" for s in (time.a_share, time.b_share))
    return [f"{' → '.join(shares)} of the {formats.one_line(time.roof, 60)} roof"]


def times_text(ratio: float) -> str:
    """Write a ratio of times as a reader says it: 1.21× slower, 2× faster, as long."""
    if ratio >= 1.005:
        return f"{formats.ratio(ratio)}× slower"
    return f"{formats.ratio(1 / ratio)}× faster" if 0 < ratio <= 1 / 1.005 else "as long"
