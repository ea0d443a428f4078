"""Matched executions → how their durations compare: judged on one machine, as ratios across machines.

times = judge_times(aligned, a, b, same_machine=True)
times.findings[7]  # (TimeFinding("slower", "host", a_ns=11.2e6, b_ns=13.5e6, ratio=1.21, …),)
times.statistics   # TimeStatistics(judged=807, different=1, …)

What is judged is a statement of a function: per process, all its matched executions together. A loop's body
is one question then, not one for each time round, and what a slow moment does to one execution weighs less.
A step that called `measure` takes about as long whatever the function costs: what is compared is its measurements,
the n-th with the n-th, in seconds of one call.
Between two machines nothing is judged, and each execution has its own ratio.
"""

from __future__ import annotations

import math
import statistics as samples
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from trace_tools.comparing.difference import OWN_TIME, Subject, TimeFinding, TimeStatistics, Verdict
from trace_tools.comparing.judging import statistics
from trace_tools.comparing.judging.settings import load_of, settings_of
from trace_tools.comparing.matching.align import Aligned
from trace_tools.rates import WORTH_SAYING_ANNOTATED_NS, Timing, rates_of, timing_of
from trace_tools.schema import Machine, Step, Trace

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


@dataclass(frozen=True, slots=True)
class Times:
    """Findings for each place that both sides timed, by its number, and how they were come by."""

    findings: Mapping[int, tuple[TimeFinding, ...]]
    statistics: TimeStatistics


@dataclass(frozen=True, slots=True)
class _Timed:
    """Two matched steps with their clocks."""

    number: int
    a: Step
    b: Step
    of_a: Timing
    of_b: Timing
    subject: Subject = OWN_TIME

    @property
    def key(self) -> tuple[int, int]:
        """What tells it from all others: the place's number, and which of its measurements it is."""
        return self.number, self.subject.index

    @property
    def is_measured(self) -> bool:
        """Whether it is how long one call took."""
        return self.subject.kind == "measured"


@dataclass(frozen=True, slots=True)
class _Statement:
    """The matched executions of one statement of a function, and what they took together in each process (ns)."""

    executions: Sequence[_Timed]
    a_ns: Sequence[int]
    b_ns: Sequence[int]

    @property
    def logs(self) -> statistics.Samples:
        """The logarithms of the sums, in A and in B."""
        return _logs(self.a_ns), _logs(self.b_ns)

    @property
    def is_suspected(self) -> bool:
        """Whether other operators ran in it: it may well take another time, whatever its clocks say."""
        return any(_operators(t.a) != _operators(t.b) for t in self.executions)

    @property
    def typical_ns(self) -> float:
        """What it takes, whichever side takes longer."""
        return max(samples.median(self.a_ns), samples.median(self.b_ns))


def _operators(step: Step) -> list[tuple[str, int]] | None:
    return step.meters.operators if step.meters is not None else None


def _logs(durations_ns: Sequence[int]) -> list[float]:
    return [math.log(ns or 1) for ns in durations_ns]


def judge_times(aligned: Aligned, a: Trace, b: Trace, *, same_machine: bool) -> Times:
    """Compare the durations of every matched execution; places keep their numbers."""
    timed = list(_timed(aligned, a.machine, b.machine))
    busy = LOADED if same_machine and max(load_of(a.run), load_of(b.run)) > HEAVY_LOAD else None
    reasons = {t.key: why for t in timed if (why := busy or _why_not(t, same_machine=same_machine))}
    comparable = [t for t in timed if t.key not in reasons]
    if same_machine:
        statements, small = _worth_judging(_statements(aligned, comparable))
        reasons |= {t.key: SMALL for statement in small for t in statement.executions}
    else:
        statements = [_Statement([t], t.of_a.samples_ns, t.of_b.samples_ns) for t in comparable]
    findings = {t.key: _plain(t, reasons[t.key]) for t in timed if t.key in reasons}
    most = tuple(max((len(x) for t in timed if (x := (t.of_a, t.of_b)[s].samples_ns)), default=0) for s in (0, 1))
    counted = TimeStatistics(0, 0, 0, tuple(Counter(reasons.values()).most_common()), most[0], most[1])
    if statements:
        if same_machine:
            found, counted = _on_one_machine(statements, counted, _most_drift(a, b))
        else:
            found = _across_machines(statements)
        findings |= {t.key: _own(of_all, t, a.machine, b.machine) for t, of_all in _spread(statements, found)}
    of_places: dict[int, tuple[TimeFinding, ...]] = {}
    for t in timed:
        of_places[t.number] = (*of_places.get(t.number, ()), findings[t.key])
    return Times(of_places, counted)


def _timed(aligned: Aligned, on_a: Machine, on_b: Machine) -> Iterator[_Timed]:
    for number, place in enumerate(aligned.places):
        if place.a is None or place.b is None:
            continue
        calls = place.a.measured or (), place.b.measured or ()
        if calls[0] and len(calls[0]) == len(calls[1]):
            for index, sides in enumerate(zip(*calls, strict=True)):
                of_a, of_b = (Timing("call", tuple(max(1, round(s * 1e9)) for s in side.seconds)) for side in sides)
                if of_a.samples_ns and of_b.samples_ns:
                    yield _Timed(number, place.a, place.b, of_a, of_b, Subject("measured", index))
            continue
        whole_a, whole_b = timing_of(place.a, on_a), timing_of(place.b, on_b)
        if whole_a is not None and whole_b is not None:
            yield _Timed(number, place.a, place.b, whole_a, whole_b)


def _why_not(timed: _Timed, *, same_machine: bool) -> str | None:
    a, b = timed.of_a, timed.of_b
    if timed.a.compiled or timed.b.compiled:
        return COMPILED
    if not timed.is_measured:
        if len(timed.a.measured or ()) != len(timed.b.measured or ()):
            return UNLIKE
        if timed.a.harness or timed.b.harness:
            return HARNESS
        if "launch" in (a.clock, b.clock):
            return LAUNCH
        if _is_cold(timed.a) != _is_cold(timed.b):
            return COLD
        if a.clock != b.clock and same_machine:
            return CLOCKS
        if max(samples.median(a.samples_ns), samples.median(b.samples_ns)) < SHORTEST_NS:
            return SHORT
    few = min(len(a.samples_ns), len(b.samples_ns)) < statistics.FEWEST_PROCESSES
    return FEW if few and same_machine else None


def _is_cold(step: Step) -> bool:
    return not step.device_ns and not step.host_ns


def _statements(aligned: Aligned, timed: Sequence[_Timed]) -> list[_Statement]:
    """Gather executions by statement and function; those that fewer processes timed are apart."""
    grouped: dict[tuple[object, ...], list[_Timed]] = {}
    for t in timed:
        frame = aligned.frames[aligned.places[t.number].frame].b
        function = (frame.source, frame.function) if frame is not None else None
        key = (function, t.b.statement, t.subject, t.of_b.clock, len(t.of_a.samples_ns), len(t.of_b.samples_ns))
        grouped.setdefault(key, []).append(t)
    return [_Statement(ts, _summed([t.of_a for t in ts]), _summed([t.of_b for t in ts])) for ts in grouped.values()]


def _summed(timings: Sequence[Timing]) -> list[int]:
    """Return what executions took together, in each process."""
    return [sum(in_process) for in_process in zip(*(timing.samples_ns for timing in timings), strict=True)]


def _worth_judging(statements: Sequence[_Statement]) -> tuple[list[_Statement], list[_Statement]]:
    """Divide statements into those that take a share of the run that anybody would notice, and the others."""
    least_ns = SMALLEST_SHARE * max((statement.typical_ns for statement in statements), default=0.0)
    found: tuple[list[_Statement], list[_Statement]] = ([], [])
    for statement in statements:
        asked = any(t.b.annotated for t in statement.executions)
        measured = any(t.is_measured for t in statement.executions)
        enough_ns = 0.0 if measured else min(least_ns, WORTH_SAYING_ANNOTATED_NS) if asked else least_ns
        found[statement.typical_ns < enough_ns].append(statement)
    return found


def _plain(timed: _Timed, why: str | None = None) -> TimeFinding:
    a_ns, b_ns = samples.median(timed.of_a.samples_ns), samples.median(timed.of_b.samples_ns)
    return TimeFinding("not judged", timed.of_b.clock, a_ns, b_ns, why=why, subject=timed.subject)


def _spread(statements: Sequence[_Statement], found: Sequence[TimeFinding]) -> Iterator[tuple[_Timed, TimeFinding]]:
    for statement, of_all in zip(statements, found, strict=True):
        yield from ((t, replace(of_all, executions=len(statement.executions))) for t in statement.executions)


def _own(of_all: TimeFinding, timed: _Timed, on_a: Machine, on_b: Machine) -> TimeFinding:
    """Give what was found of a statement to one execution, with that one's durations and shares of the roof."""
    a_ns, b_ns = timed.of_a.samples_ns, timed.of_b.samples_ns
    typical = samples.median if of_all.verdict == "ratio" else _geometric_mean
    a, b = typical(a_ns), typical(b_ns)
    own = replace(of_all, a_ns=a, b_ns=b, ratio=max(b, 1.0) / max(a, 1.0))
    return _with_shares(own, timed, on_a, on_b)


def _geometric_mean(durations_ns: Sequence[int]) -> float:
    """Return what the test compares."""
    return math.exp(math.fsum(_logs(durations_ns)) / len(durations_ns))


# --- one machine ----------------------------------------------------------------------------------


def _most_drift(a: Trace, b: Trace) -> float:
    """Return up to what (of the logarithm) a change that most statements share is put down to the machine.

    To all that it may be when others were using it; to nothing when the runs themselves were set up differently:
    half the threads may well make everything slower.
    """
    if any(setting.group in ("version", "machine") for setting in settings_of(a, b)):
        return 0.0
    return math.inf if load_of(a.run) or load_of(b.run) else math.log(statistics.SMALLEST_EFFECT)


def _on_one_machine(
    statements: Sequence[_Statement], counted: TimeStatistics, most_drift: float
) -> tuple[list[TimeFinding], TimeStatistics]:
    judged = statistics.moderated([s.logs for s in statements], most_drift, [s.is_suspected for s in statements])
    low, high = judged.intervals()
    detectable = judged.detectable()
    found = []
    for place, statement in enumerate(statements):
        effect = float(judged.effect[place])
        verdict: Verdict = "no difference detected"
        if judged.called[place]:
            verdict = "slower" if effect > 0 else "faster"
        found.append(
            replace(
                _plain(statement.executions[0]),
                verdict=verdict,
                overall=math.exp(effect),
                interval=(float(low[place]), float(high[place])),
                p=float(judged.p[place]),
                adjusted_p=float(judged.adjusted_p[place]),
                detectable=float(detectable[place]),
            )
        )
    sizes = [len(s.executions) for s in statements]
    return found, replace(
        counted,
        judged=sum(sizes),
        different=sum(n for n, called in zip(sizes, judged.called, strict=True) if called),
        statements=len(statements),
        noise=math.sqrt(judged.typical.variance),
        degrees_of_freedom=judged.prior.degrees_of_freedom,
        drift=math.exp(judged.drift),
        detectable=float(np.median(detectable)),
        passes_for_20_percent=statistics.processes_needed(1.2, judged.typical, judged.threshold),
    )


# --- two machines ---------------------------------------------------------------------------------


def _across_machines(statements: Sequence[_Statement]) -> list[TimeFinding]:
    found = [_ratio(statement) for statement in statements]
    several = [n for n, s in enumerate(statements) if min(len(s.a_ns), len(s.b_ns)) > 1]
    factors = statistics.side_by_side([statements[n].logs for n in several]) if several else ()
    for n, factor in zip(several, factors, strict=True):
        ratio = found[n].overall or 1.0
        found[n] = replace(found[n], interval=(ratio / float(factor), ratio * float(factor)))
    return found


def _ratio(statement: _Statement) -> TimeFinding:
    a_ns, b_ns = samples.median(statement.a_ns), samples.median(statement.b_ns)
    plain = _plain(statement.executions[0])
    return replace(plain, verdict="ratio", overall=max(b_ns, 1.0) / max(a_ns, 1.0))


def _with_shares(found: TimeFinding, timed: _Timed, on_a: Machine, on_b: Machine) -> TimeFinding:
    """Add what fraction of its own machine's roof each side came to."""
    sides = [_best_share(timed.a, timed.subject, on_a), _best_share(timed.b, timed.subject, on_b)]
    names = list(dict.fromkeys(name for _, name in sides if name))
    if not names:
        return found
    roof = names[0] if len(names) == 1 else f"A: {names[0]}, B: {names[1]}"
    return replace(found, a_share=sides[0][0], b_share=sides[1][0], roof=roof)


def _best_share(step: Step, subject: Subject, machine: Machine) -> tuple[float | None, str | None]:
    """Return the largest share of a roof that a step came to, or the call that it measured, with the roof's peak."""
    call = subject.index + 1 if subject.kind == "measured" else None
    rates = rates_of(step, timing_of(step, machine), machine)
    shares = [(rate.share, rate.peak) for rate in rates if rate.share and rate.peak and rate.call == call]
    return max(shares, default=(None, None))
