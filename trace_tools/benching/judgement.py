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
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from trace_tools.benching.paired import FEWEST_ROUNDS, LARGE, OTHERS, SUSPECTED, Floats, judge_pairs
from trace_tools.comparing.difference import Difference, Side, StepPair, TimeFinding, TimeStatistics, Verdict
from trace_tools.comparing.judging.between import DEFAULT, Choices, explained, findings_between
from trace_tools.comparing.judging.times import (
    COLD,
    StatementTimes,
    by_statement,
    durations,
    verdict_of,
    with_times,
    with_verdict,
)
from trace_tools.schema import Machine, Step
from trace_tools.statements import parse_source, reached

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
class RoundsJudgement:
    """What differs between two versions, and how finely their times could be told apart."""

    difference: Difference
    functions: tuple[FunctionTime, ...]  # those that take a share of the run that matters, the longest first
    would_find: float | None  # the ratio that half of what takes such a share would probably have shown
    noise: float | None  # standard deviation of a typical logarithm between processes, in the quickest rounds


def judge_rounds(a: Side, b: Side, rounds: int, choices: Choices = DEFAULT) -> RoundsJudgement:
    """Compare two traces of one machine, made in turn in `rounds` rounds.

    Raises `ValueError` for fewer than FEWEST_ROUNDS, of which nothing can be said.
    """
    if rounds < FEWEST_ROUNDS:
        raise ValueError(f"{rounds} rounds; expected at least {FEWEST_ROUNDS}")
    compared = findings_between(a, b, choices)
    # Load is no reason to judge nothing: it weighed on both.
    times = [(row, _in_rounds(row, time, a.trace.machine, rounds)) for row, time in durations(compared)]
    statements = by_statement([(row, time) for row, time in times if time.why is None], compared.frames)
    reasons = Counter(time.why for _, time in times if time.why is not None)
    counted = TimeStatistics(not_judged=tuple(reasons.most_common()), a_processes=rounds, b_processes=rounds)
    if not statements:
        return RoundsJudgement(explained(with_times(compared, times, [], counted, SHORT), choices), (), None, None)
    functions = _functions(compared, rounds)
    units = (*statements, *functions.values())
    longest_ns = [_longest_ns(unit) for unit in units]
    large = np.array([ns >= WORTH_NAMING * max(longest_ns) for ns in longest_ns])
    suspected = np.array(_suspected(compared, statements, functions))
    groups = np.where(suspected, SUSPECTED, np.where(large, LARGE, OTHERS))
    test = judge_pairs(_logs([unit.a_ns for unit in units]), _logs([unit.b_ns for unit in units]), groups)
    judged = [
        execution
        for place, statement in enumerate(statements)
        for execution in with_verdict(
            statement,
            float(test.effect[place]),
            called=bool(test.called[place]),
            interval=test.interval(place),
            p=float(test.p[place]),
            adjusted_p=float(test.adjusted_p[place]),
            detectable=float(test.detectable[place]),
        )
    ]
    named = [
        FunctionTime(
            function,
            a_ns=math.exp(test.a[place]),
            b_ns=math.exp(test.b[place]),
            ratio=math.exp(test.effect[place]),
            interval=test.interval(place),
            verdict=verdict_of(float(test.effect[place]), called=bool(test.called[place])),
            would_find=float(test.detectable[place]),
        )
        for place, function in enumerate(functions, start=len(statements))
    ]
    in_half = float(np.median(test.detectable[: len(statements)]))
    noise = float(np.median(test.error)) * math.sqrt(rounds / 2)  # as if all rounds were alike
    counted = replace(
        counted,
        judged=len(judged),
        different=sum(time.matters for _, time in judged),
        statements=len(statements),
        noise=noise,
        detectable=in_half,
        passes_for_20_percent=_rounds_needed(1.2, in_half, rounds),
    )
    difference = explained(with_times(compared, times, judged, counted, None), choices)
    return RoundsJudgement(difference, tuple(named), float(np.median(test.detectable[large])), noise)


# --- what is judged -------------------------------------------------------------------------------


def _in_rounds(row: StepPair, time: TimeFinding, machine: Machine, rounds: int) -> TimeFinding:
    """Give what `diff` would judge the durations of its rounds; what some round lacks can't be judged."""
    if row.a is None or row.b is None or time.why not in (None, COLD):
        return time
    a_ns, b_ns = (_durations(step, time, machine, rounds) for step in (row.a, row.b))
    if a_ns is None or b_ns is None:
        return replace(time, why=MISSED)
    quick = _quick(a_ns), _quick(b_ns)
    ratio = max(quick[1], 1.0) / max(quick[0], 1.0)
    return replace(time, why=None, a_ns=quick[0], b_ns=quick[1], ratio=ratio, a_samples_ns=a_ns, b_samples_ns=b_ns)


def _functions(difference: Difference, rounds: int) -> dict[str, StatementTimes]:
    """Gather what functions took in all their calls, also where only one side has them; the longest first.

    Without those in which `measure` or `count` ran: theirs is the time of as many calls as were made.
    """
    found: dict[str, tuple[list[Sequence[float]], list[Sequence[float]]]] = {}
    harness = {difference.function_of(row) for row in difference.rows if row.step.harness}
    for row in difference.rows:
        sides = found.setdefault(difference.function_of(row), ([], []))
        for step, in_all in zip((row.a, row.b), sides, strict=True):
            took = _durations(step, None, difference.a.trace.machine, rounds) if step is not None else None
            if took is not None:
                in_all.append(took)
    units = {
        name: StatementTimes((), _summed(a), _summed(b))
        for name, (a, b) in found.items()
        if a and b and name not in harness
    }
    longest_ns = {name: _longest_ns(unit) for name, unit in units.items()}
    least_ns = WORTH_NAMING * max(longest_ns.values(), default=0.0)
    return {name: units[name] for name in sorted(units, key=lambda n: -longest_ns[n]) if longest_ns[name] >= least_ns}


def _durations(step: Step, time: TimeFinding | None, machine: Machine, rounds: int) -> tuple[float, ...] | None:
    """Return what a step took in each round (ns), or a call that it measured; None where not every round has it."""
    if time is not None and time.subject.kind == "measured":
        seconds = (step.measured or [])[time.subject.index].seconds
        return tuple(1e9 * s for s in seconds) if len(seconds) == rounds else None
    if step.suspended or step.compiled or (machine.device != "cpu" and not step.annotated):
        return None
    of_first_runs = time is not None and time.why == COLD  # as the other side has no others
    runs = [step.cold_ns] if of_first_runs else [step.device_ns] if step.device_ns else [step.host_ns, step.cold_ns]
    complete = [run for run in runs if run is not None and len(run) == rounds]
    return tuple(float(min(ns)) for ns in zip(*complete, strict=True)) if complete else None


def _summed(durations: Sequence[Sequence[float]]) -> list[float]:
    return [math.fsum(in_round) for in_round in zip(*durations, strict=True)]


def _logs(durations: Sequence[Sequence[float]]) -> Floats:
    logs: Floats = np.log(np.maximum(np.array(durations, dtype=np.float64), 1.0))
    return logs


def _longest_ns(unit: StatementTimes) -> float:
    return max(_quick(unit.a_ns), _quick(unit.b_ns))


def _quick(durations: Sequence[float]) -> float:
    """Return what something takes in the quickest third of the rounds."""
    return float(np.mean(sorted(durations)[: max(1, len(durations) // 3)]))


def _suspected(
    difference: Difference, statements: Sequence[StatementTimes], functions: Mapping[str, StatementTimes]
) -> list[bool]:
    """Say what may well take another time, whatever its clocks say: its code, or what it calls, or its counts differ.

    Functions go by their last names: who calls `x.forward()` may call any `forward`.
    """
    names: dict[tuple[int, int], Set[str]] = {}  # (source, statement) of B → the names in it
    uses: dict[str, set[str]] = {}  # function → the names in its body
    for place, source in enumerate(difference.b.trace.sources):
        for statement in parse_source(source.text, source.path).statements:
            parts = (child for child in ast.iter_child_nodes(statement.node) if not isinstance(child, ast.stmt))
            inner = [node for part in parts for node in ast.walk(part)]
            own = {node.id for node in inner if isinstance(node, ast.Name)}
            own |= {node.attr for node in inner if isinstance(node, ast.Attribute)}
            names[place, statement.number] = own
            uses.setdefault(_last(statement.function), set()).update(own)
    edited = {_last(match.b or match.a or "") for match in difference.functions}
    suspects = edited | {name for name in uses if not edited.isdisjoint(reached([name], uses))}

    def differs(row: StepPair) -> bool:
        counted = any(f.aspect == "flops" and f.verdict == "changed" for f in row.findings)
        used = names.get((difference.frames[row.frame].frame.source, row.step.statement), set())
        return row.edited or counted or not suspects.isdisjoint(used)

    of_statements = [any(differs(row) for row, _ in statement.executions) for statement in statements]
    return [*of_statements, *(_last(name) in suspects for name in functions)]


def _last(function: str) -> str:
    """Return the name by which a function is called: "forward" of "Block.forward"."""
    return function.rpartition(".")[2]


def _rounds_needed(ratio: float, detectable: float, rounds: int, most: int = 50) -> int | None:
    """Return how many rounds would find a ratio, as an error falls with their root; None when `most` are too few."""
    needed = math.ceil(rounds * (math.log(detectable) / math.log(ratio)) ** 2)
    return max(FEWEST_ROUNDS, needed) if needed <= most else None
