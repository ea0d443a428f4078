"""Matched executions → how their durations compare: judged on one machine, as ratios across machines.

    judged = judge_times(findings_between(a, b))
    judged.rows[7].times    # (TimeFinding("slower", "host", a_ns=11.2e6, b_ns=13.5e6, ratio=1.21, …),)
    judged.times            # TimeStatistics(judged=807, different=1, …)

What is judged is a statement of a function: per process, all its matched executions together. A loop's body
is one question then, not one for each time round, and what a slow moment does to one execution weighs less.
A step that called `measure` takes about as long whatever the function costs: what is compared is its measurements,
the n-th with the n-th, in seconds of one call.
Between two machines nothing is judged, and each execution has its own ratio.

Three stages, of which `bench` shares the first two: `durations` gathers what both sides timed, and says what can't be
judged; `by_statement` puts executions together; a test says which statements differ.
"""

from __future__ import annotations

import math
import statistics as samples
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trace_tools.comparing.difference import (
    OWN_TIME,
    Difference,
    FramePair,
    StepPair,
    Subject,
    TimeFinding,
    TimeStatistics,
    Verdict,
)
from trace_tools.comparing.judging import statistics
from trace_tools.comparing.judging.settings import load_of
from trace_tools.rates import WORTH_SAYING_ANNOTATED_NS, Timing, rates_of, timing_of
from trace_tools.schema import Machine, Measured, Step

SHORTEST_NS = 1_000  # of a step worth judging: a probe and its clock take about 200 ns
SMALLEST_SHARE = 1e-4  # of the run, that an unannotated statement takes in all its executions

HEAVY_LOAD = 1.5  # load average over cores: the lecture itself makes one of about 1

LOADED = "others were using the machine, so that times say little"
SHORT = "shorter than 1 µs, of which the clock takes too large a share"
SMALL = "in statements that take less than 1/10,000 of the run, or annotated and less than 10 µs"
COMPILED = "torch.compile ran during it"
LAUNCH = "launch time: an unannotated statement on a device that works on its own"
COLD = "one side has a first run only"
CLOCKS = "one side was timed on the device, the other on the host"
HARNESS = "its own time is that of all the calls that `measure` or `count` made"
UNLIKE = "another number of measurements in it"
FEW = f"fewer than {statistics.FEWEST_PROCESSES} processes on a side"
GRAVEST = (LOADED, FEW, COLD, CLOCKS, COMPILED, LAUNCH, UNLIKE, HARNESS, SMALL, SHORT)  # where nothing is judged

RowTime = tuple[StepPair, TimeFinding]  # an execution that both sides timed, or one of the calls that it measured


@dataclass(frozen=True, slots=True)
class StatementTimes:
    """What is judged as one: executions of a statement, with what they took together in each process (ns)."""

    executions: Sequence[RowTime]
    a_ns: Sequence[float]
    b_ns: Sequence[float]

    @property
    def typical_ns(self) -> float:
        """What it takes, whichever side takes longer."""
        return max(samples.median(self.a_ns), samples.median(self.b_ns))

    @property
    def logs(self) -> statistics.Samples:
        """The logarithms of the sums, in A and in B."""
        return _logs(self.a_ns), _logs(self.b_ns)


def judge_times(difference: Difference, *, asked: bool = False) -> Difference:
    """Compare the durations of every matched execution; `asked` says that it is for their own sake."""
    a, b = difference.a.trace, difference.b.trace
    load = max(load_of(a.run), load_of(b.run))
    found = durations(difference, LOADED if difference.same_machine and load > HEAVY_LOAD else None)
    comparable = [(row, time) for row, time in found if time.why is None]
    reasons = Counter(time.why for _, time in found if time.why is not None)
    counted = TimeStatistics(
        not_judged=tuple(reasons.most_common()),
        a_processes=max((len(time.a_samples_ns) for _, time in found), default=0),
        b_processes=max((len(time.b_samples_ns) for _, time in found), default=0),
    )
    judged: list[RowTime] = []
    if comparable and difference.same_machine:
        judged, counted = _on_one_machine(by_statement(comparable, difference.frames), counted, difference)
    elif comparable:
        judged = _across_machines(comparable)
    not_judged = None
    if not counted.judged and not difference.same_machine:
        not_judged = "two machines: their times are ratios" if asked else None
    elif not counted.judged and not (a is b or a == b):  # of one recording no time can differ
        not_judged = min(reasons, key=GRAVEST.index, default="no statement was timed on both sides")
    return with_times(difference, found, judged, counted, not_judged)


def with_times(
    difference: Difference,
    found: Sequence[RowTime],
    judged: Sequence[RowTime],
    counted: TimeStatistics,
    not_judged: str | None,
) -> Difference:
    """Put times in their rows, those that were judged in place of what was found before; none is explained yet."""
    latest = {(row.number, time.subject): time for row, time in (*found, *judged)}  # in the order of `found`
    of_rows: dict[int, tuple[TimeFinding, ...]] = {}
    for (number, _), time in latest.items():
        of_rows[number] = (*of_rows.get(number, ()), time)
    rows = tuple(replace(row, times=of_rows[row.number]) if row.number in of_rows else row for row in difference.rows)
    return replace(difference, rows=rows, times=counted, time_not_judged=not_judged)


# --- what both sides timed ------------------------------------------------------------------------


def durations(difference: Difference, busy: str | None = None) -> list[RowTime]:
    """Return the durations of what both sides timed, with `why` where they can't be judged; `busy` is why none can."""
    machines = difference.a.trace.machine, difference.b.trace.machine
    found = [(row, time) for row in difference.rows for time in _durations(row, *machines, difference.same_machine)]
    if busy is not None:
        return [(row, replace(time, why=busy)) for row, time in found]
    small: set[int] = set()
    if difference.same_machine:
        statements = by_statement([(row, time) for row, time in found if time.why is None], difference.frames)
        least_ns = SMALLEST_SHARE * max((statement.typical_ns for statement in statements), default=0.0)
        for statement in statements:
            asked = any(row.step.annotated for row, _ in statement.executions)
            enough_ns = min(least_ns, WORTH_SAYING_ANNOTATED_NS) if asked else least_ns
            if statement.executions[0][1].subject == OWN_TIME and statement.typical_ns < enough_ns:
                small.update(row.number for row, _ in statement.executions)
    found = [(row, replace(time, why=SMALL) if row.number in small else time) for row, time in found]
    return [(row, _compared(row, time, difference) if time.why is None else time) for row, time in found]


def _durations(row: StepPair, on_a: Machine, on_b: Machine, same_machine: bool) -> Iterator[TimeFinding]:
    """Yield how long a step took on both sides; of one that measured, one call of each thing that it measured."""
    a, b = row.a, row.b
    if a is None or b is None:
        return
    timings: list[tuple[Subject, Timing | None, Timing | None]] = [(OWN_TIME, timing_of(a, on_a), timing_of(b, on_b))]
    if a.measured and len(a.measured) == len(b.measured or ()):
        calls = [[_of_call(call) for call in step.measured or ()] for step in (a, b)]
        timings = [(Subject("measured", n), *of_both) for n, of_both in enumerate(zip(*calls, strict=True))]
    for subject, in_a, in_b in timings:
        if in_a is not None and in_b is not None:
            why = _why_not(a, b, in_a, in_b, own=subject == OWN_TIME, same_machine=same_machine)
            medians = samples.median(in_a.samples_ns), samples.median(in_b.samples_ns)
            yield TimeFinding("not judged", in_b.clock, *medians, why=why, subject=subject,
                              a_samples_ns=in_a.samples_ns, b_samples_ns=in_b.samples_ns)  # fmt: skip


def _of_call(call: Measured) -> Timing | None:
    return Timing("call", tuple(max(1, round(s * 1e9)) for s in call.seconds)) if call.seconds else None


def _why_not(a: Step, b: Step, in_a: Timing, in_b: Timing, *, own: bool, same_machine: bool) -> str | None:
    if a.compiled or b.compiled:
        return COMPILED
    if own:
        if len(a.measured or ()) != len(b.measured or ()):
            return UNLIKE
        if a.harness or b.harness:
            return HARNESS
        if "launch" in (in_a.clock, in_b.clock):
            return LAUNCH
        if bool(a.device_ns or a.host_ns) != bool(b.device_ns or b.host_ns):
            return COLD
        if in_a.clock != in_b.clock and same_machine:
            return CLOCKS
        if max(samples.median(in_a.samples_ns), samples.median(in_b.samples_ns)) < SHORTEST_NS:
            return SHORT
    few = min(len(in_a.samples_ns), len(in_b.samples_ns)) < statistics.FEWEST_PROCESSES
    return FEW if few and same_machine else None


def _compared(row: StepPair, time: TimeFinding, difference: Difference) -> TimeFinding:
    """Add what can be said of one execution: its ratio, and what fraction of its own machine's roof each side came to.

    On one machine its durations are geometric means: what the test compares.
    """
    a_ns, b_ns = time.a_ns, time.b_ns
    if difference.same_machine:
        a_ns, b_ns = (math.exp(math.fsum(_logs(ns)) / len(ns)) for ns in (time.a_samples_ns, time.b_samples_ns))
    a_share, a_roof = _best_share(row.a, time.subject, difference.a.trace.machine)
    b_share, b_roof = _best_share(row.b, time.subject, difference.b.trace.machine)
    roof = f"A: {a_roof}, B: {b_roof}" if a_roof and b_roof and a_roof != b_roof else a_roof or b_roof
    ratio = max(b_ns, 1.0) / max(a_ns, 1.0)
    return replace(time, a_ns=a_ns, b_ns=b_ns, ratio=ratio, a_share=a_share, b_share=b_share, roof=roof)


def _best_share(step: Step | None, subject: Subject, machine: Machine) -> tuple[float | None, str | None]:
    """Return the largest share of a roof that a step came to, or the call that it measured, with the roof's peak."""
    assert step is not None
    call = subject.index + 1 if subject.kind == "measured" else None
    rates = rates_of(step, timing_of(step, machine), machine)
    shares = [(rate.share, rate.peak) for rate in rates if rate.share and rate.peak and rate.call == call]
    return max(shares, default=(None, None))


def by_statement(executions: Sequence[RowTime], frames: Sequence[FramePair]) -> list[StatementTimes]:
    """Gather executions by statement and function; those that fewer processes timed are apart."""
    grouped: dict[tuple[object, ...], list[RowTime]] = {}
    for row, time in executions:
        frame = frames[row.frame].frame
        processes = len(time.a_samples_ns), len(time.b_samples_ns)
        key = (frame.source, frame.function, row.step.statement, time.subject, time.clock, processes)
        grouped.setdefault(key, []).append((row, time))
    return [
        StatementTimes(
            together,
            [sum(in_process) for in_process in zip(*(time.a_samples_ns for _, time in together), strict=True)],
            [sum(in_process) for in_process in zip(*(time.b_samples_ns for _, time in together), strict=True)],
        )
        for together in grouped.values()
    ]


def _logs(durations_ns: Sequence[float]) -> list[float]:
    return [math.log(ns or 1) for ns in durations_ns]


# --- one machine ----------------------------------------------------------------------------------


def _on_one_machine(
    found: Sequence[StatementTimes], counted: TimeStatistics, difference: Difference
) -> tuple[list[RowTime], TimeStatistics]:
    """Test which statements differ, and give each execution its statement's verdict beside its own durations."""
    # Other operators in a statement: it may well take another time, whatever its clocks say.
    suspected = [any(_operators(row.a) != _operators(row.b) for row, _ in s.executions) for s in found]
    test = statistics.moderated([s.logs for s in found], _most_drift(difference), suspected)
    low, high = test.intervals()
    detectable = test.detectable()
    judged = [
        execution
        for place, statement in enumerate(found)
        for execution in with_verdict(
            statement,
            float(test.effect[place]),
            called=bool(test.called[place]),
            interval=(float(low[place]), float(high[place])),
            p=float(test.p[place]),
            adjusted_p=float(test.adjusted_p[place]),
            detectable=float(detectable[place]),
        )
    ]
    return judged, replace(
        counted,
        judged=len(judged),
        different=sum(time.matters for _, time in judged),
        statements=len(found),
        noise=math.sqrt(test.typical.variance),
        degrees_of_freedom=test.prior.degrees_of_freedom,
        drift=math.exp(test.drift),
        detectable=float(np.median(detectable)),
        passes_for_20_percent=statistics.processes_needed(1.2, test.typical, test.threshold),
    )


def with_verdict(statement: StatementTimes, effect: float, *, called: bool, **found: Any) -> list[RowTime]:
    """Give each execution what was found of its statement, beside its own durations; `effect` is log(B / A)."""
    verdict = verdict_of(effect, called=called)
    found |= {"verdict": verdict, "executions": len(statement.executions), "overall": math.exp(effect)}
    return [(row, replace(time, **found)) for row, time in statement.executions]


def verdict_of(effect: float, *, called: bool) -> Verdict:
    """Name what a test found."""
    return ("slower" if effect > 0 else "faster") if called else "no difference detected"


def _operators(step: Step | None) -> list[tuple[str, int]] | None:
    return step.meters.operators if step is not None and step.meters is not None else None


def _most_drift(difference: Difference) -> float:
    """Return up to what (of the logarithm) a change that most statements share is put down to the machine.

    To all that it may be when others were using it; to nothing when the runs themselves were set up differently:
    half the threads may well make everything slower.
    """
    if any(setting.group in ("version", "machine") for setting in difference.settings):
        return 0.0
    loaded = load_of(difference.a.trace.run) or load_of(difference.b.trace.run)
    return math.inf if loaded else math.log(statistics.SMALLEST_EFFECT)


# --- two machines ---------------------------------------------------------------------------------


def _across_machines(found: Sequence[RowTime]) -> list[RowTime]:
    """Give each execution its ratio, with an interval where both sides have several processes."""
    several = [n for n, (_, t) in enumerate(found) if min(len(t.a_samples_ns), len(t.b_samples_ns)) > 1]
    logs = [(_logs(time.a_samples_ns), _logs(time.b_samples_ns)) for _, time in (found[n] for n in several)]
    factors = dict(zip(several, statistics.side_by_side(logs) if logs else (), strict=True))
    judged = []
    for n, (row, time) in enumerate(found):
        ratio = time.ratio or 1.0
        interval = (ratio / float(factors[n]), ratio * float(factors[n])) if n in factors else None
        judged.append((row, replace(time, verdict="ratio", overall=ratio, interval=interval)))
    return judged
