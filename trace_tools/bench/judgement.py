"""Compare two traces made in alternate passes, judging times round by round.

    judged = judge_rounds(Side("A.py", a), Side("B.py", b), rounds=8)
    judged.difference         # as from `diff`, except for the times
    judged.functions[0]       # FunctionTime("losses_of", a_ns=2.1e8, b_ns=3.1e8, ratio=1.49, …)
    judged.would_find         # 1.18: the change that could have been detected

Sample number n of both traces is from round n. Of the cold and the warm run of a process, each execution counts with
the shorter time, because a burst of load rarely hits both. Statements, measurements (as in `times`) and whole
functions are judged.
"""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from trace_tools.bench.paired import FEWEST_ROUNDS, LARGE, OTHERS, SUSPECTED, judge_pairs
from trace_tools.diff.difference import Difference, Side, StepPair, TimeFinding, TimeStatistics, Verdict
from trace_tools.diff.judge.between import DEFAULT, Choices, explained, findings_between
from trace_tools.diff.judge.statistics import Floats
from trace_tools.diff.judge.times import (
    COLD,
    StatementTimes,
    by_statement,
    durations,
    verdict_of,
    with_times,
    with_verdict,
)
from trace_tools.source.statements import parse_source, reached
from trace_tools.trace.model import Machine, Step

WORTH_NAMING = 0.05  # share of the run from which a function is listed as slow
MISSED = "it did not run in every round"
SHORT = "all steps are too short to time"


@dataclass(frozen=True, slots=True)
class FunctionTime:
    """All calls of one function, including their callees; ratios are B / A."""

    function: str
    a_ns: float  # in the quickest rounds
    b_ns: float
    ratio: float
    interval: tuple[float, float]  # 95%
    verdict: Verdict
    would_find: float  # the smallest ratio that would probably have been detected


@dataclass(frozen=True, slots=True)
class RoundsJudgement:
    """The difference between two versions, and the smallest change in time that could have been detected."""

    difference: Difference
    functions: tuple[FunctionTime, ...]  # with a relevant share of the run, the longest first
    would_find: float | None  # the ratio that would probably have been detected for half of these
    noise: float | None  # typical standard deviation of log durations between processes, in the quickest rounds


def judge_rounds(a: Side, b: Side, rounds: int, choices: Choices = DEFAULT) -> RoundsJudgement:
    """Compare two traces of one machine, made in turn in `rounds` rounds.

    Raises `ValueError` for fewer than FEWEST_ROUNDS, which allow no conclusion.
    """
    if rounds < FEWEST_ROUNDS:
        raise ValueError(f"{rounds} rounds; expected at least {FEWEST_ROUNDS}")
    compared = findings_between(a, b, choices)
    # Times are judged under load, because it affected both sides.
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
    intervals = list(zip(*(side.tolist() for side in test.intervals()), strict=True))
    judged = [
        execution
        for index, statement in enumerate(statements)
        for execution in with_verdict(
            statement,
            float(test.effect[index]),
            called=bool(test.called[index]),
            interval=intervals[index],
            p=float(test.p[index]),
            adjusted_p=float(test.adjusted_p[index]),
            detectable=float(test.detectable[index]),
        )
    ]
    named = [
        FunctionTime(
            function,
            a_ns=math.exp(test.a[index]),
            b_ns=math.exp(test.b[index]),
            ratio=math.exp(test.effect[index]),
            interval=intervals[index],
            verdict=verdict_of(float(test.effect[index]), called=bool(test.called[index])),
            would_find=float(test.detectable[index]),
        )
        for index, function in enumerate(functions, start=len(statements))
    ]
    in_half = float(np.median(test.detectable[: len(statements)]))
    noise = float(np.median(test.error)) * math.sqrt(rounds / 2)  # as if all rounds were used
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


# --- subjects of the judgement --------------------------------------------------------------------


def _in_rounds(row: StepPair, time: TimeFinding, machine: Machine, rounds: int) -> TimeFinding:
    """Replace a finding's durations by those of the rounds; without a duration in each round it cannot be judged."""
    if row.a is None or row.b is None or time.why not in (None, COLD):
        return time
    a_ns, b_ns = (_durations(step, time, machine, rounds) for step in (row.a, row.b))
    if a_ns is None or b_ns is None:
        return replace(time, why=MISSED)
    quick = _quick(a_ns), _quick(b_ns)
    ratio = max(quick[1], 1.0) / max(quick[0], 1.0)
    return replace(time, why=None, a_ns=quick[0], b_ns=quick[1], ratio=ratio, a_samples_ns=a_ns, b_samples_ns=b_ns)


def _functions(difference: Difference, rounds: int) -> dict[str, StatementTimes]:
    """Sum the times of each function over its calls, also if only one side has it; the longest first.

    Functions in which `measure` or `count` ran are left out: their time depends on the number of calls made.
    """
    durations: dict[str, tuple[list[Sequence[float]], list[Sequence[float]]]] = {}
    harness = {difference.function_of(row) for row in difference.rows if row.step.harness}
    for row in difference.rows:
        sides = durations.setdefault(difference.function_of(row), ([], []))
        for step, in_all in zip((row.a, row.b), sides, strict=True):
            took = _durations(step, None, difference.a.trace.machine, rounds) if step is not None else None
            if took is not None:
                in_all.append(took)
    units = {
        name: StatementTimes((), _summed(a), _summed(b))
        for name, (a, b) in durations.items()
        if a and b and name not in harness
    }
    longest_ns = {name: _longest_ns(unit) for name, unit in units.items()}
    least_ns = WORTH_NAMING * max(longest_ns.values(), default=0.0)
    return {name: units[name] for name in sorted(units, key=lambda n: -longest_ns[n]) if longest_ns[name] >= least_ns}


def _durations(step: Step, time: TimeFinding | None, machine: Machine, rounds: int) -> tuple[float, ...] | None:
    """Return the time of a step, or of a call that it measured, in each round (ns); None if a round lacks it."""
    if time is not None and time.subject.kind == "measured":
        seconds = (step.measured or [])[time.subject.index].seconds
        return tuple(1e9 * s for s in seconds) if len(seconds) == rounds else None
    if time is not None and time.subject.kind == "launch":
        return tuple(map(float, step.launch_ns)) if step.launch_ns and len(step.launch_ns) == rounds else None
    if step.suspended or step.compiled or (machine.device != "cpu" and not step.annotated):
        return None
    of_first_runs = time is not None and time.why == COLD  # because the other side has only first runs
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
    """Return the typical duration in the quickest third of the rounds."""
    return float(np.mean(sorted(durations)[: max(1, len(durations) // 3)]))


def _suspected(
    difference: Difference, statements: Sequence[StatementTimes], functions: Mapping[str, StatementTimes]
) -> list[bool]:
    """Return for each time whether a change is likely: the code, a called function, or the counts differ.

    Functions are identified by their last names, because `x.forward()` may call any `forward`.
    """
    names: dict[tuple[int, int], Set[str]] = {}  # (source, statement) of B → the names in it
    uses: dict[str, set[str]] = {}  # function → the names in its body
    for number, source in enumerate(difference.b.trace.sources):
        for statement in parse_source(source.text, source.path).statements:
            parts = (child for child in ast.iter_child_nodes(statement.node) if not isinstance(child, ast.stmt))
            inner = [node for part in parts for node in ast.walk(part)]
            own = {node.id for node in inner if isinstance(node, ast.Name)}
            own |= {node.attr for node in inner if isinstance(node, ast.Attribute)}
            names[number, statement.number] = own
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
    """Return the last part of a function's name: "forward" of "Block.forward"."""
    return function.rpartition(".")[2]


def _rounds_needed(ratio: float, detectable: float, rounds: int, most: int = 50) -> int | None:
    """Return how many rounds would detect a ratio, as the error falls with their square root; None above `most`."""
    needed = math.ceil(rounds * (math.log(detectable) / math.log(ratio)) ** 2)
    return max(FEWEST_ROUNDS, needed) if needed <= most else None
