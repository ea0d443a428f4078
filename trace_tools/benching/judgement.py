"""Two traces whose passes ran in turn → their Difference, its times judged round by round.

    judged = judge_rounds(Side("A.py", a), Side("B.py", b), rounds=8)
    judged.difference         # as `diff` makes it, but for the times
    judged.functions[0]       # FunctionTime("losses_of", a_ns=2.1e8, b_ns=3.1e8, ratio=1.49, …)
    judged.would_find         # 1.18: what could have been found

Samples number n of both traces are from round n. Of a process's cold and its warm run each execution counts with the
shorter time: a burst of load seldom hits both. What is judged are statements and measurements, as `times` has them, and
whole functions.
"""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from trace_tools.benching.paired import FEWEST_ROUNDS, LARGE, OTHERS, SUSPECTED, Floats, Judged, judge_pairs
from trace_tools.comparing.difference import Aspect, Difference, Row, Side, TimeFinding, TimeStatistics, Verdict
from trace_tools.comparing.judging.between import DEFAULT, Choices, difference_between
from trace_tools.comparing.judging.causes import with_causes
from trace_tools.comparing.judging.origins import with_origins
from trace_tools.comparing.judging.settings import LOAD
from trace_tools.comparing.judging.times import COLD
from trace_tools.schema import Machine, Step, Trace
from trace_tools.statements import parse_source

WORTH_NAMING = 0.05  # of the run, that a function takes which a reader would call slow
MISSED = "it did not run in every round"
SHORT = "nothing in it lasts long enough"


@dataclass(frozen=True, slots=True)
class FunctionTime:
    """All calls of one function together, what they called included; ratios are B / A."""

    function: str
    a_ns: float  # in the quickest rounds
    b_ns: float
    ratio: float
    interval: tuple[float, float]  # 95%
    verdict: Verdict
    would_find: float  # the smallest ratio that it would probably have shown


@dataclass(frozen=True, slots=True)
class JudgedRounds:
    """What differs between two versions, and how finely their times could be told apart."""

    difference: Difference
    functions: tuple[FunctionTime, ...]  # those that take a share of the run that matters, the longest first
    would_find: float | None  # the ratio that half of what takes such a share would probably have shown
    noise: float | None  # standard deviation of a typical logarithm between processes, in the quickest rounds


@dataclass(frozen=True, slots=True)
class _Unit:
    """What is judged as one: its durations in each round (ns)."""

    a_ns: Sequence[float]
    b_ns: Sequence[float]
    places: Sequence[tuple[int, int]] = ()  # of the executions of a statement: row, and which of the row's times
    function: str = ""

    @property
    def longest_ns(self) -> float:
        return max(_quick(self.a_ns), _quick(self.b_ns))


def judge_rounds(a: Side, b: Side, rounds: int, choices: Choices = DEFAULT) -> JudgedRounds:
    """Compare two traces of one machine, made in turn in `rounds` rounds.

    Raises `ValueError` for fewer than FEWEST_ROUNDS, of which nothing can be said.
    """
    if rounds < FEWEST_ROUNDS:
        raise ValueError(f"{rounds} rounds; expected at least {FEWEST_ROUNDS}")
    # Load is no reason to judge nothing: it weighed on both.
    compared = difference_between(replace(a, trace=_quiet(a.trace)), replace(b, trace=_quiet(b.trace)), choices)
    compared = replace(compared, a=a, b=b)
    times = {row.number: list(row.times) for row in compared.rows}
    statements = _statements(compared, rounds, times)
    if not statements:
        return JudgedRounds(replace(_with_times(compared, times), time_not_judged=SHORT), (), None, None)
    functions = _functions(compared, rounds)
    units = (*statements, *functions)
    run_ns = max(unit.longest_ns for unit in units)
    large = np.array([unit.longest_ns >= WORTH_NAMING * run_ns for unit in units])
    suspects = _Suspects(compared)
    suspected = np.array([suspects.has(unit) for unit in units])
    groups = np.where(suspected, SUSPECTED, np.where(large, LARGE, OTHERS))
    judged = judge_pairs(_logs([unit.a_ns for unit in units]), _logs([unit.b_ns for unit in units]), groups)
    for place, unit in enumerate(statements):
        for number, which in unit.places:
            row = compared.rows[number]
            own = _own(times[number][which], unit, row, compared.a.trace.machine, rounds)
            times[number][which] = _found(own, judged, place)
    named = tuple(_named(judged, len(statements) + n, unit) for n, unit in enumerate(functions))
    in_half = float(np.median(judged.detectable[: len(statements)]))
    noise = float(np.median(judged.error)) * math.sqrt(rounds / 2)  # as if all rounds were alike
    difference = replace(_with_times(compared, times), time_not_judged=None)
    found = [time for row in difference.rows for time in row.times]
    statistics = TimeStatistics(
        judged=sum(time.overall is not None for time in found),
        different=sum(time.matters for time in found),
        statements=len(statements),
        not_judged=difference.times.not_judged,
        a_processes=rounds,
        b_processes=rounds,
        noise=noise,
        detectable=in_half,
        passes_for_20_percent=_rounds_needed(1.2, in_half, rounds),
    )
    return JudgedRounds(replace(difference, times=statistics), named, float(np.median(judged.detectable[large])), noise)


def _quiet(trace: Trace) -> Trace:
    """Return a trace without its notes on load."""
    processes = [
        replace(process, notes=[note for note in process.notes or () if not LOAD.match(note)] or None)
        for process in trace.run.processes
    ]
    return replace(trace, run=replace(trace.run, processes=processes))


# --- what is judged -------------------------------------------------------------------------------


def _statements(difference: Difference, rounds: int, times: dict[int, list[TimeFinding]]) -> list[_Unit]:
    """Gather what `diff` would judge, by statement; what some round lacks is marked in `times`."""
    grouped: dict[tuple[object, ...], tuple[list[tuple[int, int]], list[Sequence[float]], list[Sequence[float]]]] = {}
    machine = difference.a.trace.machine
    for row in difference.rows:
        for which, time in enumerate(row.times):
            if row.a is None or row.b is None or (time.verdict == "not judged" and time.why != COLD):
                continue
            a_ns, b_ns = (_durations(step, time, machine, rounds) for step in (row.a, row.b))
            if a_ns is None or b_ns is None:
                times[row.number][which] = replace(_bare(time), why=MISSED)
                continue
            frame = difference.frames[row.frame].b
            function = (frame.source, frame.function) if frame is not None else None
            key = (function, row.b.statement, time.subject, time.clock)
            places, of_a, of_b = grouped.setdefault(key, ([], [], []))
            places.append((row.number, which))
            of_a.append(a_ns)
            of_b.append(b_ns)
    return [_Unit(_summed(of_a), _summed(of_b), places) for places, of_a, of_b in grouped.values()]


def _functions(difference: Difference, rounds: int) -> list[_Unit]:
    """Gather what functions took in all their calls, also where only one side has them; the longest first.

    Without those in which `measure` or `count` ran: theirs is the time of as many calls as were made.
    """
    found: dict[str, tuple[list[Sequence[float]], list[Sequence[float]]]] = {}
    harness = {difference.function_of(row) for row in difference.rows if row.step.harness}
    for row in difference.rows:
        sides = found.setdefault(difference.function_of(row), ([], []))
        for step, durations in zip((row.a, row.b), sides, strict=True):
            took = _durations(step, None, difference.a.trace.machine, rounds) if step is not None else None
            if took is not None:
                durations.append(took)
    units = [
        _Unit(_summed(a), _summed(b), function=name)
        for name, (a, b) in found.items()
        if a and b and name not in harness
    ]
    longest_ns = max((unit.longest_ns for unit in units), default=0.0)
    return sorted((u for u in units if u.longest_ns >= WORTH_NAMING * longest_ns), key=lambda u: -u.longest_ns)


def _durations(step: Step, time: TimeFinding | None, machine: Machine, rounds: int) -> Sequence[float] | None:
    """Return what a step took in each round (ns), or a call that it measured; None where not every round has it."""
    if time is not None and time.subject.kind == "measured":
        seconds = (step.measured or [])[time.subject.index].seconds
        return [1e9 * s for s in seconds] if len(seconds) == rounds else None
    if step.suspended or step.compiled or (machine.device != "cpu" and not step.annotated):
        return None
    of_first_runs = time is not None and time.why == COLD  # as the other side has no others
    runs = [step.cold_ns] if of_first_runs else [step.device_ns] if step.device_ns else [step.host_ns, step.cold_ns]
    complete = [run for run in runs if run is not None and len(run) == rounds]
    return [float(min(ns)) for ns in zip(*complete, strict=True)] if complete else None


def _summed(durations: Sequence[Sequence[float]]) -> list[float]:
    return [math.fsum(in_round) for in_round in zip(*durations, strict=True)]


def _logs(durations: Sequence[Sequence[float]]) -> Floats:
    logs: Floats = np.log(np.maximum(np.array(durations, dtype=np.float64), 1.0))
    return logs


def _quick(durations: Sequence[float]) -> float:
    """Return what something takes in the quickest third of the rounds."""
    return float(np.mean(sorted(durations)[: max(1, len(durations) // 3)]))


class _Suspects:
    """What may well take another time, whatever its clocks say: its code, or what it calls, or its counts differ."""

    def __init__(self, difference: Difference) -> None:
        self.difference = difference
        self.names: dict[tuple[int, int], set[str]] = {}  # (source, statement) of B → the names in it
        uses: dict[str, set[str]] = {}  # function → the names in its body
        for place, source in enumerate(difference.b.trace.sources):
            for statement in parse_source(source.text, source.path).statements:
                inner = (node for child in ast.iter_child_nodes(statement.node) if not isinstance(child, ast.stmt)
                         for node in ast.walk(child))  # fmt: skip
                names = {node.id if isinstance(node, ast.Name) else node.attr for node in inner
                         if isinstance(node, (ast.Name, ast.Attribute))}  # fmt: skip
                self.names[place, statement.number] = names
                uses.setdefault(_last(statement.function), set()).update(names)
        self.functions = {_last(f.b or f.a or "") for f in difference.functions if f.how != "same"}
        while more := {name for name, used in uses.items() if used & self.functions} - self.functions:
            self.functions |= more

    def has(self, unit: _Unit) -> bool:
        if unit.function:
            return _last(unit.function) in self.functions
        return any(self._differs(self.difference.rows[number]) for number, _ in unit.places)

    def _differs(self, row: Row) -> bool:
        frame = self.difference.frames[row.frame].b
        names = self.names.get((frame.source, row.b.statement), set()) if frame is not None and row.b else set()
        counted = any(f.aspect == "flops" and f.verdict == "changed" for f in row.findings)
        return row.edited or counted or bool(names & self.functions)


def _last(function: str) -> str:
    """Return the name by which a function is called: "forward" of "Block.forward"."""
    return function.rpartition(".")[2]


# --- what was found -------------------------------------------------------------------------------


def _bare(time: TimeFinding) -> TimeFinding:
    """Return a finding without what was concluded from processes that were no pairs."""
    cleared = replace(time, verdict="not judged", ratio=None, overall=None, interval=None, p=None, adjusted_p=None)
    return replace(cleared, detectable=None, why=None, cause=None, origin=None)


def _found(time: TimeFinding, judged: Judged, place: int) -> TimeFinding:
    return replace(
        time,
        verdict=_verdict(judged, place),
        overall=math.exp(judged.effect[place]),
        interval=judged.interval(place),
        p=float(judged.p[place]),
        adjusted_p=float(judged.adjusted_p[place]),
        detectable=float(judged.detectable[place]),
    )


def _verdict(judged: Judged, place: int) -> Verdict:
    if not judged.called[place]:
        return "no difference detected"
    return "slower" if judged.effect[place] > 0 else "faster"


def _own(time: TimeFinding, unit: _Unit, row: Row, machine: Machine, rounds: int) -> TimeFinding:
    """Return the finding of one execution of a statement, with that one's durations."""
    sides = (_durations(step, time, machine, rounds) for step in (row.a, row.b) if step is not None)
    a_ns, b_ns = (_quick(durations or [0.0]) for durations in sides)
    ratio = max(b_ns, 1.0) / max(a_ns, 1.0)
    return replace(_bare(time), a_ns=a_ns, b_ns=b_ns, ratio=ratio, executions=len(unit.places))


def _named(judged: Judged, place: int, unit: _Unit) -> FunctionTime:
    return FunctionTime(
        unit.function,
        a_ns=math.exp(judged.a[place]),
        b_ns=math.exp(judged.b[place]),
        ratio=math.exp(judged.effect[place]),
        interval=judged.interval(place),
        verdict=_verdict(judged, place),
        would_find=float(judged.detectable[place]),
    )


def _rounds_needed(ratio: float, detectable: float, rounds: int, most: int = 50) -> int | None:
    """Return how many rounds would find a ratio, as an error falls with their root; None when `most` are too few."""
    needed = math.ceil(rounds * (math.log(detectable) / math.log(ratio)) ** 2)
    return max(FEWEST_ROUNDS, needed) if needed <= most else None


def _with_times(difference: Difference, times: dict[int, list[TimeFinding]]) -> Difference:
    """Put times in place, and what is the cause of which; what was found of everything else stays."""
    plain = {number: tuple(replace(time, cause=None, origin=None) for time in own) for number, own in times.items()}
    bare = [replace(row, findings=(), times=plain[row.number]) for row in difference.rows]
    caused = with_causes(bare, difference.frames)
    rows = [replace(row, times=c.times) for row, c in zip(difference.rows, caused, strict=True)]
    rows = with_origins(rows, difference.frames, difference.sections)
    reasons = Counter(time.why for row in rows for time in row.times if time.why)
    statistics = replace(difference.times, judged=0, different=0, not_judged=tuple(reasons.most_common()))
    return replace(difference, rows=tuple(rows), times=statistics, counts=_counts(difference, rows))


def _counts(difference: Difference, rows: Sequence[Row]) -> tuple[tuple[Aspect, Verdict, int], ...]:
    times = Counter(time.verdict for row in rows for time in row.times)
    others = [count for count in difference.counts if count[0] != "time"]
    return tuple(sorted([*others, *(("time", verdict, n) for verdict, n in times.items())]))
