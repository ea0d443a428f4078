"""A difference → what its HTML report shows along the lecture: sections, calls, statements, both sides of each.

    along(difference).sections[2].passages[0].places[4].executions[0].observed
    # (Observed("y.stride()", "(4, 1)", "(1, 4)", verdict="changed", aspect="values", level=2), …)

A level says how much something asks for attention: 2 it matters, 1 it differs, 0 it is the same. Of a
statement that got slower the execution that lost most asks, and of the calls around it none: they follow. Every
row with level 2 is shown. Where the rest would make the page too large, the same goes first; `left_out` counts it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from trace_tools import formats
from trace_tools.comparing.difference import (
    Aspect,
    Difference,
    Finding,
    FramePair,
    Kind,
    StepPair,
    Subject,
    TimeFinding,
    Verdict,
)
from trace_tools.comparing.judging.findings import paired
from trace_tools.comparing.judging.times import HARNESS
from trace_tools.comparing.reports.entries import entries
from trace_tools.comparing.reports.report_text import time_text
from trace_tools.comparing.wording import sides_text, subject_text
from trace_tools.rates import WORTH_SAYING_ANNOTATED_NS, WORTH_SAYING_NS, timing_of
from trace_tools.schema import Frame, Machine, Step
from trace_tools.summaries import claim_summary, summary

MOST_ROWS = 1_500  # of a page
SIDE = 160  # characters of a side
MILD: frozenset[Verdict] = frozenset({"same", "varies", "random", "no difference detected", "not judged"})


@dataclass(frozen=True, slots=True)
class Observed:
    """One thing observed at an execution, on both sides; `b` is None where both are the same."""

    name: str
    a: str | None
    b: str | None
    verdict: Verdict
    aspect: Aspect
    level: int = 0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution of a statement."""

    row: StepPair
    observed: tuple[Observed, ...]
    level: int
    calls: tuple[int, ...] = ()  # frames shown on the page that it opened
    number: int = 1  # the n-th in its call
    only: str = ""  # "A", "B", or "" where both have it


@dataclass(frozen=True, slots=True)
class Place:
    """One statement of a call, with the executions shown; the line of each side, counted from 1."""

    a_line: int | None
    b_line: int | None
    edited: bool
    executions: tuple[Execution, ...]
    more: int  # executions that are not shown: their level is 0
    level: int


@dataclass(frozen=True, slots=True)
class Passage:
    """One call of a function."""

    frame: int  # its place in `Difference.frames`
    function: str
    sources: tuple[int | None, int | None]
    which: str  # "call 2 of 12", "called hidden in A"
    places: tuple[Place, ...]
    level: int
    differences: int


@dataclass(frozen=True, slots=True)
class Section:
    """One section (`call_tree` says what that is), with the calls inside it."""

    anchor: str
    title: str
    passages: tuple[Passage, ...]
    differences: int
    matters: int
    quiet: int  # calls that are not shown: nothing in them differs


@dataclass(frozen=True, slots=True)
class Along:
    """The difference along the lecture."""

    sections: tuple[Section, ...]
    rows: frozenset[int]  # those that are shown
    left_out: int  # rows in which something was observed, and that the page has no room for


def along(difference: Difference, most: int = MOST_ROWS) -> Along:
    """Lay a difference out along the lecture, in at most about `most` rows, but all that matter."""
    first = {entry.row for entry in entries(difference, "time")}
    observed = {row.number: tuple(observations(difference, row, leads=row.number in first)) for row in difference.rows}
    levels = {row.number: max([_least(row), *(o.level for o in observed[row.number])]) for row in difference.rows}
    worth = [n for n in observed if observed[n] or levels[n]]
    least = next((level for level in (0, 1) if sum(levels[n] >= level for n in worth) <= most), 2)
    kept = {n for n in worth if levels[n] >= least}
    layout = _Layout(difference, observed, levels, kept)
    sections = tuple(layout.sections())
    shown = frozenset(
        e.row.number for s in sections for p in s.passages for place in p.places for e in place.executions
    )
    return Along(sections, shown, len(worth) - len(kept))


def _least(row: StepPair) -> int:
    return 2 if any(finding.matters for finding in row.findings) else 0


# --- one execution --------------------------------------------------------------------------------


def observations(difference: Difference, row: StepPair, *, leads: bool = True) -> Iterator[Observed]:
    """Yield what both sides observed at a row: values, the claim, time, and whatever else was found.

    `leads` says that of all executions of its statement this one's time differs most.
    """
    waiting = list(row.findings)
    yield from _values(difference, row, waiting)
    yield from _claim(row, waiting)
    for time in row.times:
        yield from _time(difference, row, time, leads=leads)
    for finding in waiting:
        if finding.verdict != "same":
            yield _of(finding)


def _of(finding: Finding) -> Observed:
    a, b = sides_text(finding, SIDE)
    return Observed(
        subject_text(finding.subject),
        a,
        b,
        finding.verdict,
        finding.aspect,
        2 if finding.matters else 0 if finding.verdict in MILD or finding.setting is not None else 1,
        formats.one_line(finding.detail or "", 240),
    )


def _taken(waiting: list[Finding], kind: Kind, index: int, *, only_in_a: bool = False) -> Finding | None:
    """Take a finding out of those that wait; None when there is none: what it would be about is the same."""
    for place, finding in enumerate(waiting):
        subject = finding.subject
        if (subject.kind, subject.index) == (kind, index) and (finding.verdict == "only in A") is only_in_a:
            return waiting.pop(place)
    return None


def _values(difference: Difference, row: StepPair, waiting: list[Finding]) -> Iterator[Observed]:
    a, b = (row.a.values or []) if row.a else [], (row.b.values or []) if row.b else []
    for in_a, in_b in paired(a, b, difference.renamed(row)):
        index = in_b if in_b is not None else in_a
        assert index is not None
        finding = _taken(waiting, "value", index, only_in_a=in_b is None)
        if finding is not None:
            yield _of(finding)
            continue
        name = subject_text(Subject("value", index, b[in_b][0] if in_b is not None else a[index][0]))
        left, right = (None if place is None else summary(side[place][1]) for side, place in ((a, in_a), (b, in_b)))
        alike = row.a is not None and row.b is not None and left == right
        yield Observed(name, left, None if alike else right, "same", "values")


def _claim(row: StepPair, waiting: list[Finding]) -> Iterator[Observed]:
    a, b = row.a.claim if row.a else None, row.b.claim if row.b else None
    claim = b or a
    if claim is None:
        return
    finding = _taken(waiting, "claim", 0, only_in_a=b is None and row.b is not None)
    if finding is not None:
        yield _of(finding)
        return
    texts = [None if c is None else f"{'✓' if c.held else '✗'} {claim_summary(c)}".rstrip() for c in (a, b)]
    alike = texts[0] == texts[1]
    yield Observed("claim", texts[0], None if alike else texts[1], "same", "claims")


def _time(difference: Difference, row: StepPair, time: TimeFinding, *, leads: bool) -> Iterator[Observed]:
    """Yield the time where it is worth a line: called different, or long, or long for something annotated."""
    least = WORTH_SAYING_ANNOTATED_NS if row.step.annotated else WORTH_SAYING_NS
    measured = time.subject.kind == "measured"
    if time.why == HARNESS or (not time.matters and not measured and max(time.a_ns, time.b_ns) < least):
        return
    differs = time.matters or (time.verdict == "ratio" and row.step.annotated)
    level = 2 if time.matters and leads else 1 if differs else 0
    name = "one call" if measured else "time" if time.clock == "host" else f"{time.clock} time"
    name += f" #{time.subject.index + 1}" if len(row.times) > 1 else ""
    index = time.subject.index if measured else None
    a, b = _spread(row.a, difference.a.trace.machine, index), _spread(row.b, difference.b.trace.machine, index)
    yield Observed(name, a, b, time.verdict, "time", level, time_text(time))


def _spread(step: Step | None, machine: Machine, measurement: int | None) -> str | None:
    """Write how long a step took, or one call of what its n-th `measure` was given."""
    if step is not None and measurement is not None and step.measured:
        return formats.spread([max(1, round(s * 1e9)) for s in step.measured[measurement].seconds])
    timing = timing_of(step, machine) if step is not None else None
    return None if timing is None else formats.spread(timing.whole_ns or timing.samples_ns)


# --- the whole lecture ----------------------------------------------------------------------------


class _Layout:
    """Lays rows out by section, call and statement."""

    def __init__(
        self,
        difference: Difference,
        observed: Mapping[int, tuple[Observed, ...]],
        levels: Mapping[int, int],
        kept: set[int],
    ) -> None:
        self.difference, self.observed, self.levels, self.kept = difference, observed, levels, kept
        self.rows: dict[int, list[StepPair]] = defaultdict(list)  # by frame
        for row in difference.rows:
            self.rows[row.frame].append(row)
        self.section_of = [pair.section for pair in difference.frames]
        self.shown = self._choose()
        self.calls: dict[int, list[int]] = defaultdict(list)  # shown frames by the row that opened them
        for frame in sorted(self.shown):
            parent = difference.frames[frame].parent
            if parent is not None:
                self.calls[parent].append(frame)

    def _choose(self) -> dict[int, str]:
        """Return the frames to show with their numbers: those that differ, else a function's first in its section."""
        frames = self.difference.frames
        numbers: dict[int, int] = {}
        totals: dict[tuple[str | None, str], int] = defaultdict(int)
        for place, pair in enumerate(frames):
            key = (self.section_of[place], _function(pair))
            totals[key] += 1
            numbers[place] = totals[key]
        found = {}
        for place, pair in enumerate(frames):
            level = max((self.levels[row.number] for row in self.rows[place] if row.number in self.kept), default=-1)
            if level > 0 or (level == 0 and numbers[place] == 1):
                total = totals[self.section_of[place], _function(pair)]
                found[place] = f"call {numbers[place]:,} of {total:,}" if total > 1 else ""
        return found

    def sections(self) -> Iterator[Section]:
        """Yield the sections that have anything to show, in the order of the lecture."""
        grouped: dict[str | None, list[int]] = {None: []}
        for frame in range(len(self.difference.frames)):
            grouped.setdefault(self.section_of[frame], []).append(frame)
        for section, frames in grouped.items():
            passages = tuple(self._passage(frame) for frame in frames if frame in self.shown)
            if not passages:
                continue
            levels = [self.levels[row.number] for frame in frames for row in self.rows[frame]]
            yield Section(
                anchor="around" if section is None else f"s{frames[0]}",
                title=section or "Around the sections",
                passages=passages,
                differences=sum(level > 0 for level in levels),
                matters=sum(level == 2 for level in levels),
                quiet=len(frames) - len(passages),
            )

    def _passage(self, frame: int) -> Passage:
        pair = self.difference.frames[frame]
        places = tuple(self._places(self.rows[frame]))
        renamed = pair.a and pair.b and pair.a.function != pair.b.function
        which = [self.shown[frame]] if self.shown[frame] else []
        which += [f"{formats.one_line(pair.a.function, 60)} in A"] if renamed and pair.a else []
        which += ["only in A"] if pair.b is None else ["only in B"] if pair.a is None else []
        levels = [self.levels[row.number] for row in self.rows[frame]]
        return Passage(
            frame,
            _function(pair),
            (_source(pair.a), _source(pair.b)),
            ", ".join(which),
            places,
            max(levels, default=0),
            sum(level > 0 for level in levels),
        )

    def _places(self, rows: Sequence[StepPair]) -> Iterator[Place]:
        """Yield a call's statements with the executions to show: those that differ, the first and the last."""
        by_statement: dict[tuple[int | None, int | None], list[StepPair]] = defaultdict(list)
        for row in rows:
            by_statement[_statement(row)].append(row)
        for same in by_statement.values():
            kept = [row for row in same if row.number in self.kept]
            shown = [row for row in kept if self.levels[row.number]] or kept[:1] + kept[1:][-1:]
            shown += [row for row in same if row.number in self.calls and row not in shown]
            if not shown:
                continue
            first = min(shown, key=lambda row: row.number)
            yield Place(
                a_line=first.a.line if first.a else None,
                b_line=first.b.line if first.b else None,
                edited=first.edited,
                executions=tuple(self._execution(row) for row in sorted(shown, key=lambda row: row.number)),
                more=len(same) - len(shown),
                level=max(self.levels[row.number] for row in shown),
            )

    def _execution(self, row: StepPair) -> Execution:
        only = "A" if row.b is None else "B" if row.a is None else ""
        calls = tuple(self.calls.get(row.number, ()))
        observed = self.observed[row.number] if row.number in self.kept else ()
        return Execution(row, observed, self.levels[row.number], calls, row.step.execution, only)


def _function(pair: FramePair) -> str:
    frame = pair.b or pair.a
    return frame.function if frame is not None else ""


def _source(frame: Frame | None) -> int | None:
    return None if frame is None else frame.source


def _statement(row: StepPair) -> tuple[int | None, int | None]:
    return row.a.statement if row.a else None, row.b.statement if row.b else None


def aspects(observed: Iterable[Observed]) -> str:
    """Return the aspects in which something differs, for filters: "time values"."""
    return " ".join(sorted({o.aspect for o in observed if o.level}))
