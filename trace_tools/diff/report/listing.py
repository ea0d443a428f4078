"""List both sides of a difference along the lecture: sections, calls, statements, and observations of each execution.

    listing_of(difference).sections[2].calls[0].statements[4].rows[0]     # StepPair(number=31, …)
    listing.entries[31]     # (ReportEntry(…, name="y.stride()", a="(4, 1)", b="(1, 4)", verdict="changed", level=2), …)

Of a statement that got slower, only the execution that lost most is emphasised; the calls around it are not, because
their time follows from it. Every row with level 2 is shown. If the page would become too large, equal rows are left out
first; `left_out` counts them.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from markupsafe import Markup

from trace_tools.analysis.rates import WORTH_SAYING_ANNOTATED_NS, WORTH_SAYING_NS, Clock, call_ns, timing_of
from trace_tools.analysis.summaries import claim_summary, summary
from trace_tools.diff.difference import Aspect, Difference, Kind, Side, StepPair, Subject, TimeFinding
from trace_tools.diff.judge.findings import paired
from trace_tools.diff.judge.times import HARNESS, LAUNCH
from trace_tools.diff.report.entries import ReportEntry, entries, entry_of, roof_texts
from trace_tools.diff.wording import subject_text
from trace_tools.errors import LectureError
from trace_tools.presentation.highlight import highlighted
from trace_tools.source.catalogue import title_and_rest
from trace_tools.source.layout import cut_source, split_lines
from trace_tools.trace.model import Machine, SourceFile, Step
from trace_tools.util import formats
from trace_tools.util.languages import N_, _

MOST_ROWS = 1_500  # most rows of a page
CLOCKS: dict[Clock, str] = {"device": N_("device time"), "launch": N_("launch time")}
SIDE = 160  # characters of a side


@dataclass(frozen=True, slots=True)
class ListedStatement:
    """One statement of a call, with the executions that are shown."""

    code: tuple[tuple[str, int, Markup], ...]  # (mark, line number, HTML); a single entry if both sides are equal
    rows: tuple[StepPair, ...]
    more: int  # omitted executions, all of level 0
    level: int
    gain: bool  # the only difference that matters is a faster time


@dataclass(frozen=True, slots=True)
class ListedCall:
    """One call of a function."""

    frame: int  # its index in `Difference.frames`
    function: str
    which: str  # "call 2 of 12", "called hidden in A"
    statements: tuple[ListedStatement, ...]
    level: int
    differences: int


@dataclass(frozen=True, slots=True)
class ListedSection:
    """One section (as defined in `trace.tree`), with the calls inside it."""

    anchor: str
    title: str  # title in Markdown
    calls: tuple[ListedCall, ...]
    differences: int
    matters: int
    omitted: int  # calls without a difference, which are not listed


@dataclass(frozen=True, slots=True)
class Listing:
    """The difference along the lecture; a row is named by its number."""

    sections: tuple[ListedSection, ...]
    rows: frozenset[int]  # rows that are shown
    entries: Mapping[int, tuple[ReportEntry, ...]]  # entries of each of them
    opened: Mapping[int, tuple[tuple[int, str], ...]]  # calls shown on the page that a row opened: (frame, function)
    left_out: int  # rows with observations that are omitted for lack of room


def listing_of(difference: Difference, most: int = MOST_ROWS) -> Listing:
    """List a difference along the lecture, in about `most` rows, and all rows that matter."""
    slowest = {entry.row.number for entry in entries(difference, "time")}
    listed = {row.number: tuple(observations(difference, row, leads=row.number in slowest)) for row in difference.rows}
    levels: dict[int, int] = {}
    in_frame: dict[int, list[StepPair]] = defaultdict(list)
    for row in difference.rows:
        least = 2 if any(finding.matters for finding in row.findings) else 0
        levels[row.number] = max([least, *(entry.level for entry in listed[row.number])])
        in_frame[row.frame].append(row)
    recorded = [n for n in listed if listed[n] or levels[n]]
    least = next((level for level in (0, 1) if sum(levels[n] >= level for n in recorded) <= most), 2)
    kept = {n for n in recorded if levels[n] >= least}

    # Calls with a difference are shown, else a function's first call in its section.
    same_function: dict[tuple[str | None, str], list[int]] = defaultdict(list)
    for frame, pair in enumerate(difference.frames):
        same_function[pair.section, pair.frame.function].append(frame)
    call_texts: dict[int, str] = {}
    for frames in same_function.values():
        for number, frame in enumerate(frames, 1):
            level = max((levels[row.number] for row in in_frame[frame] if row.number in kept), default=-1)
            if level > 0 or (level == 0 and number == 1):
                call_texts[frame] = (
                    _("call {number:,} of {n:,}").format(number=number, n=len(frames)) if len(frames) > 1 else ""
                )
    opened: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for frame in sorted(call_texts):
        pair = difference.frames[frame]
        if pair.parent is not None:
            opened[pair.parent].append((frame, formats.one_line(pair.frame.function, 60)))

    # Executions that differ or open a shown call are shown, else the first and the last.
    def statements(frame: int) -> Iterator[ListedStatement]:
        executions: dict[tuple[int | None, int | None], list[StepPair]] = defaultdict(list)
        for row in in_frame[frame]:
            executions[row.a.statement if row.a else None, row.b.statement if row.b else None].append(row)
        for same in executions.values():
            kept_rows = [row for row in same if row.number in kept]
            shown = [row for row in kept_rows if levels[row.number]] or kept_rows[:1] + kept_rows[1:][-1:]
            shown += [row for row in same if row.number in opened and row not in shown]
            if shown:
                shown.sort(key=lambda row: row.number)
                verdicts = {
                    e.verdict for row in shown if row.number in kept for e in listed[row.number] if e.level == 2
                }
                code = tuple(_code(difference, shown[0]))
                level = max(levels[row.number] for row in shown)
                yield ListedStatement(code, tuple(shown), len(same) - len(shown), level, verdicts == {"faster"})

    titles = titles_of(difference.b)
    grouped: dict[str | None, list[int]] = {None: []}
    for frame, pair in enumerate(difference.frames):
        grouped.setdefault(pair.section, []).append(frame)
    sections = []
    for section, frames in grouped.items():
        calls = []
        for frame in frames:
            if frame in call_texts:
                pair, differing = difference.frames[frame], [levels[row.number] for row in in_frame[frame]]
                parts = [call_texts[frame]] if call_texts[frame] else []
                if pair.a and pair.b and pair.a.function != pair.b.function:
                    parts.append(_("{function} in A").format(function=formats.one_line(pair.a.function, 60)))
                parts += [_("only in A")] if pair.b is None else [_("only in B")] if pair.a is None else []
                count, function = sum(level > 0 for level in differing), pair.frame.function
                shown = tuple(statements(frame))
                calls.append(ListedCall(frame, function, ", ".join(parts), shown, max(differing, default=0), count))
        if calls:
            every = [levels[row.number] for frame in frames for row in in_frame[frame]]
            sections.append(
                ListedSection(
                    anchor="around" if section is None else f"s{frames[0]}",
                    title=_("Outside the sections") if section is None else titles.get(section) or section,
                    calls=tuple(calls),
                    differences=sum(level > 0 for level in every),
                    matters=sum(level == 2 for level in every),
                    omitted=len(frames) - len(calls),
                )
            )
    rows = frozenset(row.number for s in sections for call in s.calls for at in call.statements for row in at.rows)
    shown_entries = {number: listed[number] if number in kept else () for number in rows}
    calls_of = {number: tuple(frames) for number, frames in opened.items()}
    return Listing(tuple(sections), rows, shown_entries, calls_of, len(recorded) - len(kept))


# --- code -----------------------------------------------------------------------------------------


def shown_line(side: Side, source: int, number: int) -> str:
    """Return a line of a side without directives, as pages show it; "" past the end."""
    lines = _shown(side.trace.sources[source])
    return lines[number - 1] if number <= len(lines) else ""


@lru_cache(maxsize=8)
def _shown(source: SourceFile) -> tuple[str, ...]:
    try:
        return tuple(line or "" for line in cut_source(source.text, source.path).lines)
    except LectureError:  # the syntax of another Python version
        return tuple(split_lines(source.text))


@lru_cache(maxsize=8)
def _html(source: SourceFile) -> tuple[str, ...]:
    return highlighted(_shown(source))


def _code(difference: Difference, row: StepPair) -> Iterator[tuple[str, int, Markup]]:
    """Yield a statement's lines as (mark, number, HTML): one if both sides are equal, else A's and B's."""
    pair = difference.frames[row.frame]
    lines_by_mark: dict[str, tuple[int, Markup]] = {}
    for mark, side, frame, step in (("−", difference.a, pair.a, row.a), ("+", difference.b, pair.b, row.b)):
        lines = _html(side.trace.sources[frame.source]) if frame is not None else ()
        if step is not None and step.line <= len(lines):
            lines_by_mark[mark] = step.line, Markup(lines[step.line - 1].replace("\t", "    ").lstrip(" "))
    if len(lines_by_mark) == 2 and not row.edited:
        yield "", *lines_by_mark["+"]
    else:
        yield from ((mark, *line) for mark, line in lines_by_mark.items())


def titles_of(side: Side) -> dict[str, str]:
    """Return the title of each top-level function of a lecture, which is the first line of its docstring."""
    try:
        tree = ast.parse(side.trace.sources[0].text) if side.trace.sources else ast.Module([], [])
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    docs = {n.name: ast.get_docstring(n) for n in tree.body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))}
    titles = {name: text.splitlines()[0] for name, text in docs.items() if text and text.strip()}
    if side.words is None:
        return titles
    return {name: side.words.translation(name, title_and_rest(title)[0]) or title for name, title in titles.items()}


# --- observations of one execution ----------------------------------------------------------------


def observations(difference: Difference, row: StepPair, *, leads: bool = True) -> Iterator[ReportEntry]:
    """Yield the observations of both sides at a row: values, the claim, time, and other findings.

    Values and claims are included if they are equal; then `b` is None. `leads` is whether this execution has the
    largest time difference of its statement.
    """
    waiting = list(row.findings)

    def observed(aspect: Aspect, kind: Kind, index: int, name: str, a: str | None, b: str | None) -> ReportEntry:
        """Take the finding on a subject from the remaining ones; without one, both sides are equal."""
        only_in_a = b is None and row.b is not None
        for position, finding in enumerate(waiting):
            about = finding.subject
            if (about.kind, about.index) == (kind, index) and (finding.verdict == "only in A") is only_in_a:
                return entry_of(difference, row, waiting.pop(position), SIDE)
        alike = row.a is not None and row.b is not None and a == b
        return ReportEntry(row, aspect, "same", Subject(kind, index, name), name, a, None if alike else b)

    a, b = (row.a.values or []) if row.a else [], (row.b.values or []) if row.b else []
    for in_a, in_b in paired(a, b, difference.renamed(row)):
        name, index = (b[in_b][0], in_b) if in_b is not None else (a[in_a or 0][0], in_a or 0)
        texts = (None if at is None else summary(values[at][1]) for at, values in ((in_a, a), (in_b, b)))
        yield observed("values", "value", index, subject_text(Subject("value", index, name)), *texts)
    claims = [step.claim if step is not None else None for step in (row.a, row.b)]
    if any(claims):
        texts = (None if c is None else f"{'✓' if c.held else '✗'} {claim_summary(c)}".rstrip() for c in claims)
        yield observed("claims", "claim", 0, _("the claim"), *texts)
    for time in row.times:
        yield from _time(difference, row, time, leads=leads)
    yield from (entry_of(difference, row, finding, SIDE) for finding in waiting if finding.verdict != "same")


def _time(difference: Difference, row: StepPair, time: TimeFinding, *, leads: bool) -> Iterator[ReportEntry]:
    """Yield the time if it is worth a line: judged different, or long, or long for an annotated statement."""
    least = WORTH_SAYING_ANNOTATED_NS if row.step.annotated else WORTH_SAYING_NS
    measured = time.subject.kind == "measured"
    if time.why == HARNESS or (not time.matters and not measured and max(time.a_ns, time.b_ns) < least):
        return
    differs = time.matters or (time.verdict == "ratio" and row.step.annotated)
    level = 2 if time.matters and leads else 1 if differs else 0
    name = _("one call") if measured else _("time") if time.clock == "host" else _(CLOCKS[time.clock])
    name += f" #{time.subject.index + 1}" if measured and len(row.times) > 1 else ""

    def spread(step: Step | None, machine: Machine) -> str | None:
        """Format the duration of a step, of its launch, or of one call by its n-th `measure`."""
        if step is None:
            return None
        if measured and step.measured:
            return formats.spread(call_ns(step.measured[time.subject.index]))
        if time.subject.kind == "launch":
            return formats.spread(step.launch_ns) if step.launch_ns else None
        timing = timing_of(step, machine)
        return None if timing is None else formats.spread(timing.whole_ns or timing.samples_ns)

    a, b = spread(row.a, difference.a.trace.machine), spread(row.b, difference.b.trace.machine)
    parts = []
    if time.overall is not None:
        span = f" ({_(' to ').join(map(formats.ratio, time.interval))})" if time.interval else ""
        together = f" over {time.executions:,} executions" if time.executions > 1 else ""
        parts.append(f"× {formats.ratio(time.overall)}{span}{together}")
    parts += roof_texts(time)
    if time.why and time.why != LAUNCH:  # a launch is named as such already
        parts.append(formats.one_line(_(time.why), 160))
    yield ReportEntry(row, "time", time.verdict, time.subject, name, a, b, ", ".join(parts), level)
