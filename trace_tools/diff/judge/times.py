"""Compare the durations of matched executions: judged on one machine, as ratios across machines.

    judged = judge_times(findings_between(a, b))
    judged.rows[7].times    # [Finding("time", "changed", OWN_TIME, 11.2e6, 13.5e6, …, durations=Durations("host", …))]
    judged.times            # TimeStatistics(judged=807, different=1, …)

All matched executions of a statement are judged together, per process, so a loop's body is a single question. Of a step
that called `measure`, the n-th measurements are compared; on a device, its time and the launch time separately. Between
two machines, each execution has its own ratio and interval. diff/README.md explains why a slower side is not called if
its own first or unloaded runs were as fast.
"""

from __future__ import annotations

import math
import statistics as samples
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from trace_tools.analysis.outcome import is_run_loaded, loaded_passes, others_share
from trace_tools.analysis.rates import HARNESS, WORTH_SHOWING_ANNOTATED_NS, Timing, call_ns, rates_of, timing_of
from trace_tools.diff.difference import (
    LAUNCH_TIME,
    OWN_TIME,
    UNDETECTED,
    Difference,
    Durations,
    Finding,
    FramePair,
    StepPair,
    Subject,
    TimeStatistics,
)
from trace_tools.diff.judge import statistics
from trace_tools.trace.model import Machine, Step

SHORTEST_NS = 1_000  # shorter steps are not judged, because a probe and its clock take about 200 ns
SMALLEST_SHARE = 1e-4  # least share of the run, for an unannotated statement with all its executions

HEAVY_LOAD = 0.5  # share of the cores that other processes used

LOADED = "the machine was busy"
SHORT = "shorter than 1 µs, too short for the clock"
SMALL = "in statements that take less than 1/10,000 of the run (if annotated, also less than 10 µs)"
COMPILED = "torch.compile ran during it"
LAUNCH = "launch time only: an unannotated statement on an asynchronous device"
COLD = "one side has only a first run"
CLOCKS = "one side was timed on the device, the other on the host"
NARRATES = "narrative calls, which are not the lecture's work"
UNLIKE = "the two sides made different numbers of measurements"
FEW = f"fewer than {statistics.FEWEST_PROCESSES} processes on a side"
# If no time was judged, the first of these reasons that occurred leads the report.
GRAVEST = (LOADED, FEW, COLD, CLOCKS, COMPILED, LAUNCH, UNLIKE, HARNESS, SMALL, SHORT, NARRATES)
NO_QUESTION = frozenset({SMALL, SHORT, NARRATES})  # if all times have these reasons, no time is long enough to matter
OFTEN = 0.25  # least share of a side's first runs that must be as fast, because a few may be by chance

RowTime = tuple[StepPair, Finding]  # an execution timed on both sides, or a single measured call of it


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
    load = max(others_share(a), others_share(b))
    timed = durations_of(difference, LOADED if difference.same_machine and load > HEAVY_LOAD else None)
    comparable = [(row, time) for row, time in timed if time.detail is None]
    reasons = Counter(time.detail for _, time in timed if time.detail is not None)
    totals = TimeStatistics(
        not_judged=tuple(reasons.most_common()),
        a_processes=max((len(time.durations.a_samples_ns) for _, time in timed), default=0),
        b_processes=max((len(time.durations.b_samples_ns) for _, time in timed), default=0),
    )
    judged: list[RowTime] = []
    if comparable and difference.same_machine:
        judged, totals = _on_one_machine(by_statement(comparable, difference.frames), totals, difference)
    elif comparable:
        logs = [_logs_of(time) for _, time in comparable]
        several = [n for n, sides in enumerate(logs) if min(map(len, sides)) > 1]
        factors = dict(
            zip(several, statistics.side_by_side([logs[n] for n in several]) if several else (), strict=True)
        )
        for n, (row, time) in enumerate(comparable):
            time = replace(time, verdict="ratio")
            ratio = time.ratio or 1.0
            interval = (ratio / float(factors[n]), ratio * float(factors[n])) if n in factors else None
            judged.append((row, replace(time, durations=replace(time.durations, overall=ratio, interval=interval))))
    not_judged = None
    if not totals.judged and not difference.same_machine:
        not_judged = "two machines: times are shown as ratios" if asked else None
    elif not totals.judged and not (a is b or a == b):  # the same recording has equal times
        whys = [why for why, _ in totals.not_judged]
        if not whys:
            not_judged = "no statement was timed on both sides"
        elif not NO_QUESTION.issuperset(whys):
            not_judged = min(whys, key=GRAVEST.index)
    latest = {(row.number, time.subject): time for row, time in (*timed, *judged)}  # in the order of `timed`
    of_rows: dict[int, list[Finding]] = {}
    for (number, _subject), time in latest.items():
        of_rows.setdefault(number, []).append(time)
    rows = tuple(
        replace(row, findings=(*row.findings, *of_rows[row.number])) if row.number in of_rows else row
        for row in difference.rows
    )
    return replace(difference, rows=rows, times=totals, time_not_judged=not_judged)


# --- times of both sides --------------------------------------------------------------------------


def durations_of(difference: Difference, busy: str | None = None) -> list[RowTime]:
    """Return the times of steps timed on both sides, with a detail if they cannot be judged; `busy` applies to all."""
    machines = difference.a.trace.machine, difference.b.trace.machine
    timed = [(row, time) for row in difference.rows for time in _durations(row, *machines, difference.same_machine)]
    timed = [(row, replace(time, detail=NARRATES) if row.prose else time) for row, time in timed]
    if busy is not None:
        return [(row, replace(time, detail=busy)) for row, time in timed]
    small: set[int] = set()
    if difference.same_machine:
        statements = by_statement([(row, time) for row, time in timed if time.detail is None], difference.frames)
        least_ns = SMALLEST_SHARE * max((statement.typical_ns for statement in statements), default=0.0)
        for statement in statements:
            asked = any(row.step.annotated for row, _ in statement.executions)
            enough_ns = min(least_ns, WORTH_SHOWING_ANNOTATED_NS) if asked else least_ns
            if statement.executions[0][1].subject == OWN_TIME and statement.typical_ns < enough_ns:
                small.update(row.number for row, _ in statement.executions)
    compared = []
    for row, time in timed:
        if row.number in small:
            time = replace(time, detail=SMALL)
        if time.detail is None:
            if difference.same_machine:  # geometric means, which the test compares
                a_ns, b_ns = (math.exp(math.fsum(logs) / len(logs)) for logs in _logs_of(time))
                time = replace(time, a=a_ns, b=b_ns)
            a_share, peak_a = _best_share(row.a, time.subject, machines[0])
            b_share, peak_b = _best_share(row.b, time.subject, machines[1])
            roof = f"A: {peak_a}, B: {peak_b}" if peak_a and peak_b and peak_a != peak_b else peak_a or peak_b
            with_roof = replace(time.durations, a_share=a_share, b_share=b_share, roof=roof)
            time = replace(time, durations=with_roof)
        compared.append((row, time))
    return compared


def _durations(row: StepPair, on_a: Machine, on_b: Machine, same_machine: bool) -> Iterator[Finding]:
    """Yield the durations of a step on both sides; for a step that measured, the duration of one call of each
    measurement.

    If both sides waited for a device, the host's launch time is included.
    """
    a, b = row.a, row.b
    if a is None or b is None:
        return
    timings: list[tuple[Subject, Timing | None, Timing | None]] = [(OWN_TIME, timing_of(a, on_a), timing_of(b, on_b))]
    if a.launch_ns and b.launch_ns:
        timings.append((LAUNCH_TIME, Timing("launch", a.launch_ns), Timing("launch", b.launch_ns)))
    if a.measured and len(a.measured) == len(b.measured or ()):
        timings = []
        for n, calls in enumerate(zip(a.measured, b.measured or (), strict=True)):
            of_a, of_b = (Timing("call", call_ns(call)) if call.seconds else None for call in calls)
            timings.append((Subject("measured", n), of_a, of_b))
    for subject, in_a, in_b in timings:
        if in_a is not None and in_b is not None:
            why = _why_not(a, b, in_a, in_b, subject, same_machine=same_machine)
            medians = samples.median(in_a.samples_ns), samples.median(in_b.samples_ns)
            samples_ns = Durations(in_b.clock, in_a.samples_ns, in_b.samples_ns)
            yield Finding("time", "not judged", subject, *medians, why, durations=samples_ns)


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
        of = time.durations
        processes = len(of.a_samples_ns), len(of.b_samples_ns)
        key = (frame.function, row.step.statement, time.subject, of.clock, processes)
        grouped.setdefault(key, []).append((row, time))
    return [
        StatementTimes(
            together,
            _per_process(time.durations.a_samples_ns for _, time in together),
            _per_process(time.durations.b_samples_ns for _, time in together),
        )
        for together in grouped.values()
    ]


def _per_process(durations_ns: Iterable[Sequence[float]]) -> list[float]:
    """Return the total of several executions in each process."""
    return [sum(in_process) for in_process in zip(*durations_ns, strict=True)]


def _logs(durations_ns: Sequence[float]) -> list[float]:
    return [math.log(ns or 1) for ns in durations_ns]


def _logs_of(time: Finding) -> statistics.Samples:
    return _logs(time.durations.a_samples_ns), _logs(time.durations.b_samples_ns)


# --- one machine ----------------------------------------------------------------------------------


def _on_one_machine(
    statements: Sequence[StatementTimes], totals: TimeStatistics, difference: Difference
) -> tuple[list[RowTime], TimeStatistics]:
    """Test which statements differ, and give each execution its statement's verdict and its own durations."""
    # A change common to most statements, up to `most_drift`, is attributed to the machine. Not if the runs were set up
    # differently, because half the threads may well make everything slower.
    most_drift = 0.0
    if not any(setting.group in ("version", "machine") for setting in difference.settings):
        loaded = is_run_loaded(difference.a.trace.run) or is_run_loaded(difference.b.trace.run)
        most_drift = math.inf if loaded else math.log(statistics.SMALLEST_EFFECT)
    test = statistics.moderated([s.logs for s in statements], most_drift)
    low, high = test.intervals()
    detectable = test.detectable()
    judged: list[RowTime] = []
    for index, statement in enumerate(statements):
        effect = float(test.effect[index])
        called = bool(test.called[index]) and not _was_as_fast(statement, effect, difference)
        for row, time in statement.executions:
            durations = replace(
                time.durations,
                executions=len(statement.executions),
                overall=math.exp(effect),
                interval=(float(low[index]), float(high[index])),
                p=float(test.p[index]),
                adjusted_p=float(test.adjusted_p[index]),
                detectable=float(detectable[index]),
            )
            time = replace(time, verdict="changed" if called else "noise", matters=called, durations=durations)
            judged.append((row, time if called else replace(time, detail=UNDETECTED)))
    return judged, replace(
        totals,
        judged=len(judged),
        different=sum(time.matters for _, time in judged),
        statements=len(statements),
        noise=math.sqrt(test.typical.variance),
        drift=math.exp(test.drift),
        detectable=float(np.median(detectable)),
        passes_for_20_percent=statistics.processes_needed(1.2, test.typical, test.threshold),
    )


def _was_as_fast(statement: StatementTimes, effect: float, difference: Difference) -> bool:
    """Return whether the slower side's own first runs, or its runs without load, were as fast as the other side."""
    slow, fast_ns, slow_ns = (1, statement.a_ns, statement.b_ns) if effect > 0 else (0, statement.b_ns, statement.a_ns)
    as_fast_ns = math.sqrt(samples.median(fast_ns) * samples.median(slow_ns))  # nearer to the faster side
    steps = [(row.a, row.b)[slow] for row, time in statement.executions if time.durations.clock == "host"]
    colds_ns = [step.cold_ns for step in steps if step is not None and step.cold_ns]
    if len(colds_ns) == len(statement.executions) and len({*map(len, colds_ns)}) == 1:
        first_ns = _per_process(colds_ns)
        if first_runs_were_as_fast(first_ns, samples.median(fast_ns), samples.median(slow_ns)):
            return True
    loaded = loaded_passes((difference.a, difference.b)[slow].trace.run, len(slow_ns))
    if not any(loaded):
        return False
    unloaded_ns = [ns for ns, was_loaded in zip(slow_ns, loaded, strict=True) if not was_loaded]
    return 2 * len(unloaded_ns) < len(slow_ns) or samples.median(unloaded_ns) <= as_fast_ns


def first_runs_were_as_fast(first_ns: Sequence[float], fast_ns: float, slow_ns: float) -> bool:
    """Return whether enough of the slower side's first runs were nearer to the faster side's warm runs than its own."""
    return sum(ns <= math.sqrt(fast_ns * slow_ns) for ns in first_ns) >= OFTEN * len(first_ns)
