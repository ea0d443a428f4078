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

from trace_tools.comparing.difference import Aspect, Difference, Finding, FramePair, Row, TimeFinding, Verdict
from trace_tools.comparing.entries import entries
from trace_tools.comparing.report_text import time_text
from trace_tools.rendering import formats
from trace_tools.rendering.observe import timing_of
from trace_tools.rendering.remarks import WORTH_SAYING_ANNOTATED_NS, WORTH_SAYING_NS
from trace_tools.rendering.summaries import claim_summary, summary
from trace_tools.schema import Frame, Machine, Step, Value

MOST_ROWS = 1_500  # of a page
SHOWN = 80  # characters by which findings name what they are about
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

    row: Row
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
    """One function that `main` called, with the calls inside it."""

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


def _least(row: Row) -> int:
    return 2 if any(finding.matters for finding in row.findings) else 0


# --- one execution --------------------------------------------------------------------------------


def observations(difference: Difference, row: Row, *, leads: bool = True) -> Iterator[Observed]:
    """Yield what both sides observed at a row: values, the claim, time, and whatever else was found.

    `leads` says that of all executions of its statement this one's time differs most.
    """
    waiting = list(row.findings)
    yield from _values(row, waiting)
    yield from _claim(row, waiting)
    if row.time is not None:
        yield from _time(difference, row, row.time, leads=leads)
    for finding in waiting:
        if finding.verdict != "same":
            yield _of(finding)


def _of(finding: Finding) -> Observed:
    a, b = finding.a, finding.b
    alone = a is None and b is None
    return Observed(
        formats.one_line(finding.name, SHOWN),
        None if a is None or alone else formats.one_line(a, 160),
        None if b is None or alone else formats.one_line(b, 160),
        finding.verdict,
        finding.aspect,
        2 if finding.matters else 0 if finding.verdict in MILD else 1,
        formats.one_line(finding.detail or "", 240),
    )


def _taken(waiting: list[Finding], aspect: Aspect, name: str) -> Finding | None:
    """Take the finding about `name` out of those that wait; None when there is none: it is the same."""
    for place, finding in enumerate(waiting):
        if finding.aspect == aspect and finding.name == name:
            return waiting.pop(place)
    return None


def _values(row: Row, waiting: list[Finding]) -> Iterator[Observed]:
    left: dict[str, list[Value]] = defaultdict(list)
    for name, value in (row.a.values or ()) if row.a else ():
        left[name].append(value)
    for name, value in (row.b.values or ()) if row.b else ():
        other = left[name].pop(0) if left.get(name) else None
        yield _value(name, other, value, row, waiting)
    if row.b is None:
        for name, values in left.items():
            yield from (_value(name, value, None, row, waiting) for value in values)


def _value(name: str, a: Value | None, b: Value | None, row: Row, waiting: list[Finding]) -> Observed:
    shown = formats.one_line(name, SHOWN)
    finding = _taken(waiting, "values", shown)
    if finding is not None and finding.verdict != "same":
        return _of(finding)
    left, right = (None if value is None else summary(value) for value in (a, b))
    if row.a is not None and row.b is not None and (left is None or left == right):
        return Observed(shown, right, None, "same", "values")
    return Observed(shown, left, right, "same", "values")


def _claim(row: Row, waiting: list[Finding]) -> Iterator[Observed]:
    a, b = row.a.claim if row.a else None, row.b.claim if row.b else None
    claim = b or a
    if claim is None:
        return
    finding = _taken(waiting, "claims", formats.one_line(claim.source, SHOWN))
    if finding is not None and finding.verdict != "same":
        yield _of(finding)
        return
    texts = [None if c is None else f"{'✓' if c.held else '✗'} {claim_summary(c)}".rstrip() for c in (a, b)]
    alike = texts[0] == texts[1]
    yield Observed("claim", texts[0], None if alike else texts[1], "same", "claims")


def _time(difference: Difference, row: Row, time: TimeFinding, *, leads: bool) -> Iterator[Observed]:
    """Yield the time where it is worth a line: called different, or long, or long for something annotated."""
    least = WORTH_SAYING_ANNOTATED_NS if row.step.annotated else WORTH_SAYING_NS
    if not time.matters and max(time.a_ns, time.b_ns) < least:
        return
    differs = time.matters or (time.verdict == "ratio" and row.step.annotated)
    level = 2 if time.matters and leads else 1 if differs else 0
    name = "time" if time.clock == "host" else f"{time.clock} time"
    a, b = _spread(row.a, difference.a.trace.machine), _spread(row.b, difference.b.trace.machine)
    yield Observed(name, a, b, time.verdict, "time", level, time_text(time))


def _spread(step: Step | None, machine: Machine) -> str | None:
    timing = timing_of(step, machine) if step is not None else None
    return None if timing is None else formats.spread(timing.samples_ns)


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
        self.rows: dict[int, list[Row]] = defaultdict(list)  # by frame
        for row in difference.rows:
            self.rows[row.frame].append(row)
        self.section_of = _section_of(difference)
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
        totals: dict[tuple[int | None, str], int] = defaultdict(int)
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
        grouped: dict[int | None, list[int]] = defaultdict(list)
        for frame in range(len(self.difference.frames)):
            grouped[self.section_of[frame]].append(frame)
        for section, frames in sorted(grouped.items(), key=lambda item: -1 if item[0] is None else item[0]):
            passages = tuple(self._passage(frame) for frame in frames if frame in self.shown)
            if not passages:
                continue
            name = "" if section is None else _function(self.difference.frames[section])
            levels = [self.levels[row.number] for frame in frames for row in self.rows[frame]]
            yield Section(
                anchor="around" if section is None else f"s{section}",
                title=name or "Around the sections",
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

    def _places(self, rows: Sequence[Row]) -> Iterator[Place]:
        """Yield a call's statements with the executions to show: those that differ, the first and the last."""
        by_statement: dict[tuple[int | None, int | None], list[Row]] = defaultdict(list)
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

    def _execution(self, row: Row) -> Execution:
        only = "A" if row.b is None else "B" if row.a is None else ""
        calls = tuple(self.calls.get(row.number, ()))
        observed = self.observed[row.number] if row.number in self.kept else ()
        return Execution(row, observed, self.levels[row.number], calls, row.step.execution, only)


def _section_of(difference: Difference) -> list[int | None]:
    """Return, for each frame, the frame of its section; None for the module, `main` and what nothing called."""
    found: list[int | None] = []
    for place, pair in enumerate(difference.frames):
        caller = difference.rows[pair.parent].frame if pair.parent is not None else None
        if caller is None or caller >= place:
            found.append(None)
        elif _function(difference.frames[caller]) == "main":
            found.append(place)
        else:
            found.append(found[caller])
    return found


def _function(pair: FramePair) -> str:
    frame = pair.b or pair.a
    return frame.function if frame is not None else ""


def _source(frame: Frame | None) -> int | None:
    return None if frame is None else frame.source


def _statement(row: Row) -> tuple[int | None, int | None]:
    return row.a.statement if row.a else None, row.b.statement if row.b else None


def aspects(observed: Iterable[Observed]) -> str:
    """Return the aspects in which something differs, for filters: "time values"."""
    return " ".join(sorted({o.aspect for o in observed if o.level}))
