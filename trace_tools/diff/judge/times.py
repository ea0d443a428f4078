"""Compare the durations of matched executions: judged on one machine, as ratios across machines.

    judged = judge_times(findings_between(a, b))
    judged.rows[7].times    # (TimeFinding("slower", "host", a_ns=11.2e6, b_ns=13.5e6, ratio=1.21, …),)
    judged.times            # TimeStatistics(judged=807, different=1, …)

Judgement applies to statements of a function: per process, all matched executions of a statement together. A loop's
body is then a single question instead of a question per iteration, and a slow moment during one execution has less
weight. A step that called `measure` takes about as long whatever the function costs, so its measurements are compared:
the n-th with the n-th, in seconds per call. For a step on a device, the device time and the host's launch time are
compared separately. Between two machines, each execution has its own ratio and is not judged.

The three stages are `durations`, which collects the times of both sides with the reason if they cannot be judged,
`by_statement`, which groups executions, and a test that finds the statements that differ. `bench` shares the first two.

A longer time on one side may be no difference, because a side's own runs show both durations:

    slow = SideDurations(warm=[2.67, 2.64, 2.37], cold=[2.16, 2.14, -0.24], loaded=[False] * 3)  # log(milliseconds)
    fast = SideDurations(warm=[-0.46, -0.51, -0.46], cold=[-0.51, -0.49, 2.20], loaded=[False] * 3)
    why_two_modes(slow, fast, 0.15)     # FIRST_RUN: 0.79 ms in one of the first runs

A test of warm runs uses half of the observations. A matrix product on two threads takes 20 times as long if its second
thread must be woken. On a busy machine that may happen in all warm runs of one trace and in no warm run of another. The
warm runs of three processes then agree, and the test takes a mode for a difference. Three observations reveal a mode:

1. Load makes a run longer, never shorter, so a pass under load gives an upper bound. The slower side must be as slow
   without load, in at least half of its passes.
2. A first run has at least as much to do as a warm run. If the slower side's code were slower, its first runs would be
   slower as well. A first run of the slower side that was as fast as the faster side's warm runs shows that its code is
   not slower. If the faster side's first runs are quicker than its own warm runs, that difference is subtracted.
3. First runs may be slow for their own reasons: they touch files and memory for the first time and load kernels. Every
   process pays for that. So a slow first run of the faster side excuses a difference only if another first run was as
   fast as the warm runs, if it falls among the slower side's own durations, and if the sides differ by a factor of 2
   or more, because smaller factors are within the noise of first runs.

An observation is in the other mode if it is nearer to that mode, and at least three standard deviations from its own
side's mode. If a side has more than four first runs, a quarter of them must be in the other mode. `tests/README.md`
gives the cost in power.
"""

from __future__ import annotations

import math
import statistics as samples
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trace_tools.analysis.outcome import is_run_loaded, load_average_of, loaded_passes
from trace_tools.analysis.rates import WORTH_SAYING_ANNOTATED_NS, Timing, call_ns, rates_of, timing_of
from trace_tools.diff.difference import (
    LAUNCH_TIME,
    OWN_TIME,
    Difference,
    FramePair,
    StepPair,
    Subject,
    TimeFinding,
    TimeStatistics,
    Verdict,
)
from trace_tools.diff.judge import statistics
from trace_tools.source.vocabularies import narrating_in
from trace_tools.trace.model import Machine, Step

SHORTEST_NS = 1_000  # shorter steps are not judged, because a probe and its clock take about 200 ns
SMALLEST_SHARE = 1e-4  # least share of the run, for an unannotated statement with all its executions

HEAVY_LOAD = 1.5  # load average per core, of which the lecture itself causes about 1

LOADED = "the machine was busy"
SHORT = "shorter than 1 µs, too short for the clock"
SMALL = "in statements that take less than 1/10,000 of the run (if annotated, also less than 10 µs)"
COMPILED = "torch.compile ran during it"
LAUNCH = "launch time only: an unannotated statement on an asynchronous device"
COLD = "one side has only a first run"
CLOCKS = "one side was timed on the device, the other on the host"
NARRATES = "narrative calls, which are not the lecture's work"
HARNESS = "its own time covers all the calls that `measure` or `count` made"
UNLIKE = "the two sides made different numbers of measurements"
FEW = f"fewer than {statistics.FEWEST_PROCESSES} processes on a side"
LOAD = "two modes: the slower side shared the machine with other processes and is faster without them"
FIRST_RUN = "two modes: some first runs of the slower side were as fast as the other side"
OTHER_FIRST_RUN = "two modes: some first runs of the faster side were as slow as the other side, and some were not"
TWO_MODES = (LOAD, FIRST_RUN, OTHER_FIRST_RUN)
# If no time was judged, the first of these reasons that occurred leads the report.
GRAVEST = (LOADED, FEW, *TWO_MODES, COLD, CLOCKS, COMPILED, LAUNCH, UNLIKE, HARNESS, SMALL, SHORT, NARRATES)
NO_QUESTION = frozenset({SMALL, SHORT, NARRATES})  # if all times have these reasons, no time is long enough to matter
OF_A_CALL = 0.5  # least share of a call's change that statements with two modes inside it must explain

RowTime = tuple[StepPair, TimeFinding]  # an execution timed on both sides, or a single measured call of it


@dataclass(frozen=True, slots=True)
class StatementTimes:
    """Executions of a statement that are judged together, with their total time in each process (ns)."""

    executions: Sequence[RowTime]
    a_ns: Sequence[float]
    b_ns: Sequence[float]

    @property
    def typical_ns(self) -> float:
        """The typical duration, of the slower side."""
        return max(samples.median(self.a_ns), samples.median(self.b_ns))

    @property
    def logs(self) -> statistics.Samples:
        """The logarithms of the totals, in A and in B."""
        return _logs(self.a_ns), _logs(self.b_ns)


def judge_times(difference: Difference, *, asked: bool = False) -> Difference:
    """Compare the durations of every matched execution; `asked` is whether the user asked for times."""
    a, b = difference.a.trace, difference.b.trace
    load = max(load_average_of(a.run), load_average_of(b.run))
    timed = durations(difference, LOADED if difference.same_machine and load > HEAVY_LOAD else None)
    comparable = [(row, time) for row, time in timed if time.why is None]
    reasons = Counter(time.why for _, time in timed if time.why is not None)
    counted = TimeStatistics(
        not_judged=tuple(reasons.most_common()),
        a_processes=max((len(time.a_samples_ns) for _, time in timed), default=0),
        b_processes=max((len(time.b_samples_ns) for _, time in timed), default=0),
    )
    judged: list[RowTime] = []
    if comparable and difference.same_machine:
        judged, counted = _on_one_machine(by_statement(comparable, difference.frames), counted, difference)
    elif comparable:
        several = [n for n, (_, t) in enumerate(comparable) if min(len(t.a_samples_ns), len(t.b_samples_ns)) > 1]
        logs = [(_logs(time.a_samples_ns), _logs(time.b_samples_ns)) for _, time in (comparable[n] for n in several)]
        factors = dict(zip(several, statistics.side_by_side(logs) if logs else (), strict=True))
        judged = []
        for n, (row, time) in enumerate(comparable):
            ratio = time.ratio or 1.0
            interval = (ratio / float(factors[n]), ratio * float(factors[n])) if n in factors else None
            judged.append((row, replace(time, verdict="ratio", overall=ratio, interval=interval)))
    not_judged = None
    if not counted.judged and not difference.same_machine:
        not_judged = "two machines: times are shown as ratios" if asked else None
    elif not counted.judged and not (a is b or a == b):  # the same recording has equal times
        whys = [why for why, _ in counted.not_judged]
        if not whys:
            not_judged = "no statement was timed on both sides"
        elif not NO_QUESTION.issuperset(whys):
            not_judged = min(whys, key=GRAVEST.index)
    return with_times(difference, timed, judged, counted, not_judged)


def with_times(
    difference: Difference,
    timed: Sequence[RowTime],
    judged: Sequence[RowTime],
    counted: TimeStatistics,
    not_judged: str | None,
) -> Difference:
    """Store times in their rows; judged ones replace those found before. They are not explained yet."""
    latest = {(row.number, time.subject): time for row, time in (*timed, *judged)}  # in the order of `timed`
    of_rows: dict[int, tuple[TimeFinding, ...]] = {}
    for (number, _subject), time in latest.items():
        of_rows[number] = (*of_rows.get(number, ()), time)
    rows = tuple(replace(row, times=of_rows[row.number]) if row.number in of_rows else row for row in difference.rows)
    return replace(difference, rows=rows, times=counted, time_not_judged=not_judged)


# --- times of both sides --------------------------------------------------------------------------


def durations(difference: Difference, busy: str | None = None) -> list[RowTime]:
    """Return the durations of steps timed on both sides, with `why` if they cannot be judged; `busy` applies to all."""
    machines = difference.a.trace.machine, difference.b.trace.machine
    timed = [(row, time) for row in difference.rows for time in _durations(row, *machines, difference.same_machine)]
    narrating = [narrating_in(side.tree) for side in (difference.a, difference.b)]
    for n, (row, time) in enumerate(timed):
        pair = difference.frames[row.frame]
        for step, frame, keys in zip((row.a, row.b), (pair.a, pair.b), narrating, strict=True):
            if step is not None and frame is not None and (frame.source, step.statement) in keys:
                timed[n] = row, replace(time, why=NARRATES)
    if busy is not None:
        return [(row, replace(time, why=busy)) for row, time in timed]
    small: set[int] = set()
    if difference.same_machine:
        statements = by_statement([(row, time) for row, time in timed if time.why is None], difference.frames)
        least_ns = SMALLEST_SHARE * max((statement.typical_ns for statement in statements), default=0.0)
        for statement in statements:
            asked = any(row.step.annotated for row, _ in statement.executions)
            enough_ns = min(least_ns, WORTH_SAYING_ANNOTATED_NS) if asked else least_ns
            if statement.executions[0][1].subject == OWN_TIME and statement.typical_ns < enough_ns:
                small.update(row.number for row, _ in statement.executions)
    compared = []
    for row, time in timed:
        if row.number in small:
            time = replace(time, why=SMALL)
        if time.why is None:
            a_ns, b_ns = time.a_ns, time.b_ns
            if difference.same_machine:  # geometric means, which the test compares
                a_ns, b_ns = (math.exp(math.fsum(_logs(ns)) / len(ns)) for ns in (time.a_samples_ns, time.b_samples_ns))
            a_share, peak_a = _best_share(row.a, time.subject, machines[0])
            b_share, peak_b = _best_share(row.b, time.subject, machines[1])
            roof = f"A: {peak_a}, B: {peak_b}" if peak_a and peak_b and peak_a != peak_b else peak_a or peak_b
            ratio = max(b_ns, 1.0) / max(a_ns, 1.0)
            time = replace(time, a_ns=a_ns, b_ns=b_ns, ratio=ratio, a_share=a_share, b_share=b_share, roof=roof)
        compared.append((row, time))
    return compared


def _durations(row: StepPair, on_a: Machine, on_b: Machine, same_machine: bool) -> Iterator[TimeFinding]:
    """Yield the durations of a step on both sides; for a step that measured, the duration of one call of each
    measurement.

    If both sides waited for a device, the host's launch time is included.
    """
    a, b = row.a, row.b
    if a is None or b is None:
        return
    timings: list[tuple[Subject, Timing | None, Timing | None]] = [(OWN_TIME, timing_of(a, on_a), timing_of(b, on_b))]
    if a.launch_ns and b.launch_ns:
        timings.append((LAUNCH_TIME, Timing("launch", tuple(a.launch_ns)), Timing("launch", tuple(b.launch_ns))))
    if a.measured and len(a.measured) == len(b.measured or ()):
        timings = []
        for n, calls in enumerate(zip(a.measured, b.measured or (), strict=True)):
            of_a, of_b = (Timing("call", call_ns(call)) if call.seconds else None for call in calls)
            timings.append((Subject("measured", n), of_a, of_b))
    for subject, in_a, in_b in timings:
        if in_a is not None and in_b is not None:
            why = _why_not(a, b, in_a, in_b, subject, same_machine=same_machine)
            medians = samples.median(in_a.samples_ns), samples.median(in_b.samples_ns)
            yield TimeFinding("not judged", in_b.clock, *medians, why=why, subject=subject,
                              a_samples_ns=in_a.samples_ns, b_samples_ns=in_b.samples_ns)  # fmt: skip


def _why_not(a: Step, b: Step, in_a: Timing, in_b: Timing, subject: Subject, *, same_machine: bool) -> str | None:
    if a.compiled or b.compiled:
        return COMPILED
    if subject.kind != "measured":
        if len(a.measured or ()) != len(b.measured or ()):
            return UNLIKE
        if a.harness or b.harness:
            return HARNESS
        if subject == OWN_TIME and "launch" in (in_a.clock, in_b.clock):
            return LAUNCH
        if bool(a.device_ns or a.host_ns) != bool(b.device_ns or b.host_ns):
            return COLD
        if in_a.clock != in_b.clock and same_machine:
            return CLOCKS
        if max(samples.median(in_a.samples_ns), samples.median(in_b.samples_ns)) < SHORTEST_NS:
            return SHORT
    processes = min(len(in_a.samples_ns), len(in_b.samples_ns))
    return FEW if processes < statistics.FEWEST_PROCESSES and same_machine else None


def _best_share(step: Step | None, subject: Subject, machine: Machine) -> tuple[float | None, str | None]:
    """Return the largest share of a roofline that a step, or its measured call, reached, with the name of the peak."""
    assert step is not None
    if subject == LAUNCH_TIME:
        return None, None
    call = subject.index + 1 if subject.kind == "measured" else None
    rates = rates_of(step, timing_of(step, machine), machine)
    shares = [(rate.share, rate.peak) for rate in rates if rate.share and rate.peak and rate.call == call]
    return max(shares, default=(None, None))


def by_statement(executions: Sequence[RowTime], frames: Sequence[FramePair]) -> list[StatementTimes]:
    """Group executions by statement and function; those timed by fewer processes are separate."""
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
    statements: Sequence[StatementTimes], counted: TimeStatistics, difference: Difference
) -> tuple[list[RowTime], TimeStatistics]:
    """Test which statements differ, and give each execution its statement's verdict and its own durations."""
    # A statement that runs other operators is likely to take another time.
    suspected = [any(_operators(row.a) != _operators(row.b) for row, _ in s.executions) for s in statements]
    # A change common to most statements, up to `most_drift`, is attributed to the machine. Not if the runs were set up
    # differently, because half the threads may well make everything slower.
    most_drift = 0.0
    if not any(setting.group in ("version", "machine") for setting in difference.settings):
        loaded = is_run_loaded(difference.a.trace.run) or is_run_loaded(difference.b.trace.run)
        most_drift = math.inf if loaded else math.log(statistics.SMALLEST_EFFECT)
    test = statistics.moderated([s.logs for s in statements], most_drift, suspected)
    low, high = test.intervals()
    detectable = test.detectable()
    modes = _two_modes(statements, test, difference)
    judged = [
        execution
        for index, statement in enumerate(statements)
        for execution in with_verdict(
            statement,
            float(test.effect[index]),
            called=bool(test.called[index]),
            why=modes.get(index),
            interval=(float(low[index]), float(high[index])),
            p=float(test.p[index]),
            adjusted_p=float(test.adjusted_p[index]),
            detectable=float(detectable[index]),
        )
    ]
    of_two_modes = Counter(time.why for _, time in judged if time.why is not None)
    return judged, replace(
        counted,
        judged=len(judged) - of_two_modes.total(),
        different=sum(time.matters for _, time in judged),
        statements=len(statements) - len(modes),
        not_judged=(*counted.not_judged, *of_two_modes.most_common()),
        noise=math.sqrt(test.typical.variance),
        degrees_of_freedom=test.prior.degrees_of_freedom,
        drift=math.exp(test.drift),
        detectable=float(np.median(detectable)),
        passes_for_20_percent=statistics.processes_needed(1.2, test.typical, test.threshold),
    )


def _two_modes(
    statements: Sequence[StatementTimes], test: statistics.ModeratedTest, difference: Difference
) -> dict[int, str]:
    """Return, by index, why a statement that differs is not judged: its own runs show both durations.

    The same holds for calls if such statements make up half of their difference.
    """
    why: dict[int, str] = {}
    differing = [index for index in range(len(statements)) if test.called[index]]
    for index in differing:
        statement, slower_b = statements[index], bool(test.effect[index] > 0)
        spread = float(test.error[index]) / math.sqrt(1 / len(statement.a_ns) + 1 / len(statement.b_ns))
        sides = []
        for side, warm_ns in ((0, statement.a_ns), (1, statement.b_ns)):
            cold = [(row.a, row.b)[side] for row, time in statement.executions if time.clock == "host"]
            colds_ns = [step.cold_ns for step in cold if step is not None and step.cold_ns]
            complete = len(colds_ns) == len(statement.executions) and {*map(len, colds_ns)} == {len(warm_ns)}
            cold_ns = [sum(in_process) for in_process in zip(*colds_ns, strict=True)] if complete else []
            run = (difference.a, difference.b)[side].trace.run
            sides.append(SideDurations(_logs(warm_ns), _logs(cold_ns), loaded_passes(run, len(warm_ns))))
        fast, slow = (sides[0], sides[1])[:: 1 if slower_b else -1]
        if reason := why_two_modes(slow, fast, spread):
            why[index] = reason
    while more := _around(statements, [index for index in differing if index not in why], why, difference):
        why |= more
    return why


def _around(
    statements: Sequence[StatementTimes], differing: Sequence[int], why: Mapping[int, str], difference: Difference
) -> dict[int, str]:
    """Return the differing statements that owe most of their difference to statements with two modes inside."""
    reasons = {row.number: (time, why[index]) for index in why for row, time in statements[index].executions}
    # row → change of statements with two modes in its calls (ns), and the reason
    inside: dict[int, tuple[float, str]] = {}
    for row in reversed(difference.rows):  # callers come before their callees
        parent = difference.frames[row.frame].parent
        if row.number in reasons:
            time, reason = reasons[row.number]
            change_ns = time.change_ns
        elif row.number in inside:
            change_ns, reason = inside[row.number]
        else:
            continue
        if parent is not None:
            inside[parent] = inside.get(parent, (0.0, reason))[0] + change_ns, reason
    explained: dict[int, str] = {}
    for index in differing:
        rows = [(row.number, time) for row, time in statements[index].executions if row.number in inside]
        change_ns = sum(time.change_ns for _, time in statements[index].executions)
        if rows and change_ns and sum(inside[number][0] for number, _ in rows) / change_ns >= OF_A_CALL:
            explained[index] = inside[rows[0][0]][1]
    return explained


def with_verdict(
    statement: StatementTimes, effect: float, *, called: bool, why: str | None = None, **figures: Any
) -> list[RowTime]:
    """Give each execution the verdict on its statement, and its own durations; `effect` is log(B / A).

    `why` is the reason why it is not judged although the test found a difference.
    """
    verdict: Verdict = verdict_of(effect, called=called) if why is None else "two modes"
    figures["why"] = why
    figures |= {"verdict": verdict, "executions": len(statement.executions), "overall": math.exp(effect)}
    return [(row, replace(time, **figures)) for row, time in statement.executions]


def verdict_of(effect: float, *, called: bool) -> Verdict:
    """Return the verdict for a test's result."""
    return ("slower" if effect > 0 else "faster") if called else "no difference detected"


def _operators(step: Step | None) -> list[tuple[str, int]] | None:
    return step.meters.operators if step is not None and step.meters is not None else None


# --- two modes ------------------------------------------------------------------------------------


APART = 3.0  # least distance of two modes, in standard deviations
OFTEN = 0.25  # least share of a side's first runs in the other mode, because a few may be there by chance
NORMAL = 1.4826  # standard deviation ÷ median absolute deviation of normally distributed numbers
FIRST_RUNS_VARY = math.log(2.0)  # between processes, in 1 statement of 20 of the lecture on a quiet machine


@dataclass(frozen=True, slots=True)
class SideDurations:
    """The durations of a statement on one side: logarithms, one per process."""

    warm: Sequence[float]
    cold: Sequence[float]  # from the first runs; empty if these cannot be compared
    loaded: Sequence[bool]  # whether other processes used the machine, by process


def why_two_modes(slow: SideDurations, fast: SideDurations, spread: float) -> str | None:
    """Return why a difference between warm runs may be a difference between modes; None without evidence of two modes.

    `spread` is the standard deviation of a logarithm between processes.
    """
    high, low = samples.fmean(slow.warm), samples.fmean(fast.warm)
    # the standard deviation of most first runs around their side's median, ignoring outliers
    deviations = [abs(log - samples.median(side)) for side in (slow.cold, fast.cold) for log in side]
    first_runs = max(spread, NORMAL * samples.median(deviations)) if deviations else spread

    def is_slow(log: float, spread: float) -> bool:
        """Return whether an observation belongs to the slower side's duration rather than to the faster side's."""
        return log - low >= max((high - low) / 2, APART * spread)

    def is_fast(log: float, spread: float) -> bool:
        return high - log >= max((high - low) / 2, APART * spread)

    without_load = [log for log, loaded in zip(slow.warm, slow.loaded, strict=True) if not loaded]
    if any(slow.loaded) and (2 * len(without_load) < len(slow.warm) or is_fast(samples.median(without_load), spread)):
        return LOAD
    if not slow.cold or not fast.cold:
        return None
    quicker = min(0.0, samples.median(fast.cold) - low)
    as_fast = [log for log in slow.cold if is_fast(log - quicker, first_runs)]
    if len(as_fast) >= OFTEN * len(slow.cold):
        return FIRST_RUN
    own = [log for log in (*slow.warm, *slow.cold) if is_slow(log, first_runs)] if high - low >= FIRST_RUNS_VARY else []
    as_slow = [log for log in fast.cold if own and min(own) <= log <= max(own)]
    not_always = any(is_fast(log, first_runs) for log in fast.cold)
    return OTHER_FIRST_RUN if not_always and len(as_slow) >= OFTEN * len(fast.cold) else None
