"""Two traces → their Difference: align, judge, explain.

difference = difference_between(Side("a.yaml", a), Side("b.yaml", b), Choices(aspects=frozenset({"time"})))
difference.matters  # whether anything differs that matters
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from statistics import median

from trace_tools.comparing.difference import (
    ASPECTS,
    Aspect,
    Difference,
    Finding,
    FramePair,
    Row,
    Side,
    Subject,
    TimeFinding,
    TimeStatistics,
    Verdict,
)
from trace_tools.comparing.judging.causes import with_causes
from trace_tools.comparing.judging.chosen import Chosen
from trace_tools.comparing.judging.origins import with_origins, with_settings
from trace_tools.comparing.judging.settings import is_same_machine, notes_of, settings_of
from trace_tools.comparing.judging.times import GRAVEST, Times, judge_times
from trace_tools.comparing.judging.tolerance import Tolerances
from trace_tools.comparing.judging.values import Context
from trace_tools.comparing.judging.verdict import RowJudge, absence
from trace_tools.comparing.matching.align import Aligned, Place, align
from trace_tools.comparing.matching.sections import sections_of
from trace_tools.comparing.wording import subject_text
from trace_tools.errors import UsageError
from trace_tools.rates import timing_of
from trace_tools.schema import Step, Trace

UNRELATED = 0.1  # share of the shorter trace's steps that have a counterpart, below which it is another lecture


@dataclass(frozen=True, slots=True)
class Choices:
    """What to compare, and how strictly."""

    aspects: frozenset[Aspect] = frozenset(ASPECTS)
    ignored: tuple[str, ...] = ()  # patterns of expressions and functions to leave out, as in a shell
    tolerances: Tolerances = field(default_factory=Tolerances)
    force: bool = False  # compare lectures that have nothing to do with each other
    time_asked: bool = False  # for its own sake: then two machines leave a question open

    def wants(self, finding: Finding, function: str) -> bool:
        """Whether a finding was asked for."""
        names = (subject_text(finding.subject), finding.subject.expression, function)
        return finding.aspect in self.aspects and not any(fnmatchcase(n, p) for p in self.ignored for n in names)


DEFAULT = Choices()


def difference_between(a: Side, b: Side, choices: Choices = DEFAULT) -> Difference:
    """Compare two traces.

    Raises `UsageError` when one has no steps, or when they are of unrelated lectures and `force` is off.
    """
    aligned = align(a.trace, b.trace)
    _check_related(a, b, aligned, force=choices.force)
    same_machine = is_same_machine(a.trace.machine, b.trace.machine)
    context = Context(choices.tolerances, (a.trace.machine.device, b.trace.machine.device))
    times = Times({}, TimeStatistics(0, 0, 0, (), 0, 0))
    if "time" in choices.aspects:
        times = judge_times(aligned, a.trace, b.trace, same_machine=same_machine)
    rows = _Rows((a, b), aligned, context, choices)
    settings, sections = settings_of(a.trace, b.trace), sections_of(aligned.frames, a.trace, b.trace)
    judged = with_settings(list(rows.judged(times)), settings, sections, rows.code)
    judged = with_origins(rows.excusing(with_causes(judged, aligned.frames)), aligned.frames, sections)
    left_out = [aspect for aspect in ASPECTS if aspect not in choices.aspects]
    return Difference(
        a=a,
        b=b,
        same_machine=same_machine,
        same_source=aligned.matching is None,
        settings=settings,
        functions=aligned.matching.functions if aligned.matching else (),
        frames=aligned.frames,
        rows=tuple(judged),
        times=times.statistics,
        counts=tuple((aspect, verdict, n) for (aspect, verdict), n in sorted(rows.counts.items())),
        tolerances=tuple(choices.tolerances.of(dtype) for dtype in sorted(context.used)),
        notes=tuple(_notes(a, b, aligned, same_machine=same_machine)),
        ignored=(*left_out, *choices.ignored),
        sections=sections,
        time_not_judged=_why_not_judged(times, choices, a.trace, b.trace, same_machine=same_machine),
    )


def _why_not_judged(times: Times, choices: Choices, a: Trace, b: Trace, *, same_machine: bool) -> str | None:
    """Say why no time could be judged though that was asked for; None where one was, or nothing was recorded twice."""
    if "time" not in choices.aspects or times.statistics.judged:
        return None
    if not same_machine:
        return "two machines: their times are ratios" if choices.time_asked else None
    if a is b or a == b:  # one recording: no time of it can differ
        return None
    reasons = [why for why, _ in times.statistics.not_judged]
    return min(reasons, key=GRAVEST.index, default="no statement was timed on both sides")


def _check_related(a: Side, b: Side, aligned: Aligned, *, force: bool) -> None:
    steps = [sum(isinstance(e, Step) for e in side.trace.steps) for side in (a, b)]
    for side, count in zip((a, b), steps, strict=True):
        if not count:
            raise UsageError(f"{side.name}: has no steps to compare")
    matched = sum(place.a is not None and place.b is not None for place in aligned.places)
    if matched < UNRELATED * min(steps) and not force:
        raise UsageError(
            f"{a.name} and {b.name} are traces of different lectures: {matched:,} of {steps[0]:,} and {steps[1]:,} "
            "steps have a counterpart; --force compares them all the same"
        )


def _notes(a: Side, b: Side, aligned: Aligned, *, same_machine: bool) -> Iterator[str]:
    if not same_machine:
        yield "two machines: times are compared as ratios and as shares of each machine's own roof, not judged"
    yield from notes_of(a, "A")
    yield from notes_of(b, "B")
    if aligned.matching is not None and not aligned.matching.parsed:
        yield "a source is not Python that this Python reads: statements were matched by their lines"


class _Rows:
    """Turns places into judged rows, counting every verdict."""

    def __init__(self, sides: tuple[Side, Side], aligned: Aligned, context: Context, choices: Choices) -> None:
        self.sides, self.aligned, self.choices = sides, aligned, choices
        a, b = (side.trace for side in sides)
        exact = a.machine.device == b.machine.device and dict(a.versions).get("torch") == dict(b.versions).get("torch")
        self.judge = RowJudge(context, exact)
        self.chosen = Chosen(aligned, a, b)
        self.lines = [[source.text.split("\n") for source in trace.sources] for trace in (a, b)]
        self.counts: Counter[tuple[Aspect, Verdict]] = Counter()
        self.called: dict[int, list[FramePair]] = {}
        for pair in aligned.frames:
            if pair.parent is not None:
                self.called.setdefault(pair.parent, []).append(pair)
        matched = [n for n, place in enumerate(aligned.places) if place.a and place.b]
        self.last_matched = matched[-1] if matched else -1
        places = aligned.places
        self.last_execution = {(places[n].frame, _step(places[n]).statement): n for n in matched}

    def code(self, row: Row) -> str:
        """Return a row's line of source, as B has it if it does."""
        pair, side = self.aligned.frames[row.frame], 1 if row.b is not None else 0
        frame = (pair.a, pair.b)[side]
        lines = self.lines[side][frame.source] if frame is not None else []
        return lines[row.step.line - 1] if row.step.line <= len(lines) else ""

    def excusing(self, rows: Sequence[Row]) -> list[Row]:
        """Excuse, beside the steps that a clock chose, what calls around them count and take because of them."""
        found = []
        for row in rows:
            findings = [
                replace(f, verdict="varies", matters=False, detail=why)
                if f.aspect in ("flops", "memory")
                and (why := self.chosen.why_absent(row.number if f.cause is None else f.cause)) is not None
                else f
                for f in row.findings
            ]
            times = (
                replace(time, verdict="not judged", why=why, cause=None)
                if time.cause is not None and (why := self.chosen.why_absent(time.cause)) is not None
                else time
                for time in row.times
            )
            found.append(replace(row, findings=tuple(findings), times=tuple(times)))
        return found

    def judged(self, times: Times) -> Iterator[Row]:
        """Yield each place as a row with its findings."""
        for number, place in enumerate(self.aligned.places):
            pair = self.aligned.frames[place.frame]
            frame = pair.b or pair.a
            function = frame.function if frame is not None else ""
            findings = []
            for finding in self._findings(number, place):
                if self.choices.wants(finding, function):
                    self.counts[finding.aspect, finding.verdict] += 1
                    if finding.verdict != "same":
                        findings.append(finding)
            alone = self._alone(number, place)
            found = times.findings.get(number, (alone,) if alone is not None else ())
            if any(fnmatchcase(function, pattern) for pattern in self.choices.ignored):
                found = tuple(replace(time, verdict="not judged", why="ignored") for time in found)
            self.counts.update(("time", time.verdict) for time in found)
            yield Row(number, place.frame, place.a, place.b, place.edited, tuple(findings), found)

    def _findings(self, number: int, place: Place) -> Iterator[Finding]:
        if place.a is None or place.b is None:
            side = "A" if place.b is None else "B"
            alone = self._alone(number, place)
            reasons = self.chosen.why_absent(number), self._why_absent(number, place)
            yield absence(side, _step(place), *reasons, alone)
            return
        pair = self.aligned.frames[place.frame]
        yield from self.judge.findings(place, self._renamed(pair))
        if self.last_execution.get((place.frame, place.b.statement)) == number:
            yield from self._executions(number, place)
        yield from self._arguments(number)

    def _why_absent(self, number: int, place: Place) -> str | None:
        """Say why a step that one side lacks says nothing about the lecture."""
        other, letter = (self.sides[1], "B") if place.b is None else (self.sides[0], "A")
        if place.beyond_limit:
            return f"{letter} only counted this execution: it is beyond the limit"
        if not other.is_complete and number > self.last_matched:
            return f"{letter} is partial: it ended before"
        a_only, b_only = (side.trace.run.only for side in self.sides)
        only = other.trace.run.only
        return f"{letter} ran only {only}" if only and a_only != b_only else None

    def _alone(self, number: int, place: Place) -> TimeFinding | None:
        """Say how long a step took that one side does not have: it may be why a call around it got slower."""
        if (place.a is not None and place.b is not None) or "time" not in self.choices.aspects:
            return None
        side = self.sides[0] if place.b is None else self.sides[1]
        timing = timing_of(_step(place), side.trace.machine)
        if timing is None or timing.clock == "launch" or self._why_absent(number, place) is not None:
            return None
        took = median(timing.whole_ns or timing.samples_ns)
        if place.b is None:
            return TimeFinding("only in A", timing.clock, took, 0.0)
        return TimeFinding("only in B", timing.clock, 0.0, took)

    def _renamed(self, pair: FramePair) -> Mapping[str, str]:
        matching = self.aligned.matching
        if matching is None or pair.a is None:
            return {}
        return matching.names.get((pair.a.source, pair.a.function), {})

    def _executions(self, number: int, place: Place) -> Iterator[Finding]:
        pair = self.aligned.frames[place.frame]
        if place.a is None or place.b is None or pair.a is None or pair.b is None:
            return
        in_a = self.aligned.executions[0].get((pair.a.frame, place.a.statement), 0)
        in_b = self.aligned.executions[1].get((pair.b.frame, place.b.statement), 0)
        if in_a != in_b and all(side.is_complete for side in self.sides):
            why = self.chosen.why_executions(number)
            verdict: Verdict = "changed" if why is None else "varies"
            size = abs(in_b - in_a)
            yield Finding("steps", verdict, Subject("executions"), in_a, in_b, why, why is None, size)

    def _arguments(self, number: int) -> Iterator[Finding]:
        """Compare what functions were called with, at the statement that called them."""
        before = 0
        for pair in self.called.get(number, ()):
            if pair.a is None or pair.b is None or not (pair.a.arguments or pair.b.arguments):
                continue
            arguments = pair.a.arguments or [], pair.b.arguments or []
            for finding in self.judge.named(*arguments, self._renamed(pair)):
                subject = finding.subject
                of = Subject("argument", before + subject.index, subject.expression, pair.b.function)
                yield replace(finding, subject=of)
            before += max(map(len, arguments))


def _step(place: Place) -> Step:
    step = place.b or place.a
    assert step is not None
    return step
