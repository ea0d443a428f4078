"""Compare two traces made in alternate passes, judging times round by round.

    judged = judge_rounds(Side("A.py", a), Side("B.py", b), rounds=8)
    judged.difference         # as from `diff`, except for the times
    judged.functions[0]       # FunctionTime("losses_of", a_ns=2.1e8, b_ns=3.1e8, ratio=1.49, …)
    judged.would_find         # 1.18: the change that could have been detected

Sample number n of both traces is from round n. Of the cold and the warm run of a process, each execution counts with
the shorter time, because a burst of load rarely hits both. Statements, measurements (as in `times`) and whole
functions are judged.

The moderated t of `statistics` is not suitable for rounds. In simulated rounds with bursts on 30% of the durations, it
found 12% of the changes by half when it used all rounds; the test of `judge_pairs` finds all of them. When it used the
quicker half of the rounds, it called a difference in 20% to 56% of comparisons of a lecture with itself.

Other work on a machine only makes a run longer, sometimes tenfold, so the quickest runs show the speed of the code best
(Chen and Revels, "Robust benchmarking in noisy environments", 2016). For each side, the test compares the mean of the k
quickest rounds. k ranges from all rounds down to a quarter of them; the k with the smallest error counts. The error is
that of a trimmed mean (Tukey and McLaughlin, 1963; only slow rounds are trimmed), shrunk towards the typical error so
that a small error alone makes no large statistic (Tusher, Tibshirani and Chu, "Significance analysis of microarrays",
2001). A machine may also be slower for minutes. So the common part of all durations of a round, on its quicker side, is
subtracted from both sides first; otherwise the few rounds of a quick minute would decide the result.

If A and B do not differ, the labels of the two runs of a round are exchangeable. The largest statistic over all
durations in such swaps shows what chance produces (Westfall and Young, "Resampling-based multiple testing", 1993): for
any noise and any dependence between durations, at most 5% of comparisons of a lecture with itself report a difference.
These 5% are divided among groups, which are defined before any clock is read: most for durations with a reason for
suspicion, least for the many short ones (Genovese, Roeder and Wasserman, "False discovery control with p-value
weighting", 2006).
"""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trace_tools.diff.difference import Difference, Side, StepPair, TimeFinding, TimeStatistics, Verdict
from trace_tools.diff.judge.between import DEFAULT, Choices, explained, findings_between
from trace_tools.diff.judge.statistics import POWER, SMALLEST_EFFECT, Floats, TimeTest, quantiles
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

FALSE_ALARMS = 0.05  # share of comparisons that report a difference although there is none
SUSPECTED, LARGE, OTHERS = range(3)  # groups of durations
# shares of FALSE_ALARMS; the share of an empty group goes to the others
OF_ALARMS = {SUSPECTED: 0.8, LARGE: 0.15, OTHERS: 0.05}
MOST_ROUNDS = 50  # most rounds that are proposed
FEWEST_ROUNDS = 6  # one of 2⁵ swaps is the original: 3%; with fewer rounds no result is as rare as 5%
SWAPS = 1000  # number of random swaps if there are more
AT_ONCE = 50_000  # numbers per side that are processed at once
SHARES = (1.0, 0.5, 0.33, 0.25)  # shares of the rounds that may count as the quickest
LEAST_ERROR = 1e-9  # of a logarithm: durations are whole nanoseconds, and most are shorter than a second
FEWEST_QUICK = 3  # fewest quickest rounds: the error of two rounds has no meaning


@dataclass(frozen=True)
class SwapTest(TimeTest):
    """The test of paired rounds; an adjusted p is the probability that chance makes any statistic so large."""

    a: Floats  # logarithm of the duration, in the quickest rounds
    b: Floats
    detectable: Floats  # the ratio that would have been called with 80% probability


def judge_pairs(a: Floats, b: Floats, groups: NDArray[np.int_] | None = None, seed: int = 0) -> SwapTest:
    """Judge durations with at least FEWEST_ROUNDS rounds on both sides, column by column of the same round.

    `groups` gives for each duration SUSPECTED (its code or counts differ), LARGE (a relevant share of the run) or
    OTHERS; None treats all alike.
    """
    groups = np.full(len(a), LARGE) if groups is None else groups
    # by how much each round is slower as a whole: the quicker side counts, because a burst of load
    # may hit one process only, and swapping the sides changes nothing
    quicker = np.minimum(a, b)
    common = np.asarray(np.median(quicker - np.median(quicker, axis=1, keepdims=True), axis=0))
    a, b = a - common, b - common
    shared = sum(OF_ALARMS[group] for group in set(groups.tolist()))
    effect, error, low_a, low_b = _compared(a, b)
    statistic = _statistic(effect, error)
    # the statistics after each swap, a row each, in chunks that keep arrays small
    swaps = _swaps(a.shape[1], seed)
    at_once = max(1, AT_ONCE // a.size)
    blocks = [swaps[start : start + at_once, np.newaxis] for start in range(0, len(swaps), at_once)]
    both = ((np.where(block, b, a), np.where(block, a, b)) for block in blocks)
    swapped = np.concatenate([_statistic(*_compared(*sides)[:2]) for sides in both])
    adjusted, critical = np.ones(len(a)), np.zeros(len(a))
    for group in set(groups.tolist()):
        family, share = groups == group, OF_ALARMS[group] / shared
        largest = swapped[:, family].max(axis=1)
        rare = np.array([float((largest >= s - 1e-12).mean()) for s in statistic[family]])
        adjusted[family] = np.minimum(rare / share, 1.0)
        critical[family] = np.quantile(largest, 1 - share * FALSE_ALARMS, method="higher")
    p = np.mean(swapped >= statistic - 1e-12, axis=0)
    steadied = np.sqrt((error**2 + np.median(error) ** 2) / 2)
    degrees = np.full(len(a), 2.0 * (FEWEST_QUICK - 1))  # at least: of two sides
    reach = critical * _steadied(error) + quantiles(POWER, degrees) * steadied
    with np.errstate(over="ignore"):
        detectable = np.maximum(np.exp(reach), SMALLEST_EFFECT)
    called = (adjusted <= FALSE_ALARMS) & (np.abs(effect) >= math.log(SMALLEST_EFFECT))
    return SwapTest(effect, steadied, degrees, p, adjusted, called, low_a, low_b, np.asarray(detectable))


def _compared(a: Floats, b: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the difference between the means of the quickest rounds, its error, and both means.

    Rounds are the last axis. The axes before it are durations, or swaps and durations.
    """
    rounds = a.shape[-1]
    ordered = np.sort(a, axis=-1), np.sort(b, axis=-1)
    candidates = []
    for quickest in sorted({min(rounds, max(FEWEST_QUICK, round(rounds * share))) for share in SHARES}):
        means, squared_errors = [], []
        for side in ordered:
            kept = side[..., :quickest]
            winsorised = np.minimum(side, kept[..., -1:])  # larger values count as the largest kept one
            squares = ((winsorised - winsorised.mean(axis=-1, keepdims=True)) ** 2).sum(axis=-1)
            means.append(kept.mean(axis=-1))
            squared_errors.append(squares / (quickest * (quickest - 1)))
        candidates.append((np.sqrt(squared_errors[0] + squared_errors[1]), *means))
    errors, lows_a, lows_b = (np.array(part) for part in zip(*candidates, strict=True))
    best = errors.argmin(axis=0)[np.newaxis]
    error, low_a, low_b = (np.take_along_axis(part, best, axis=0)[0] for part in (errors, lows_a, lows_b))
    return low_b - low_a, error, low_a, low_b


def _steadied(error: Floats) -> Floats:
    return (error + np.median(error, axis=-1, keepdims=True)) / 2


def _statistic(effect: Floats, error: Floats) -> Floats:
    statistic: Floats = np.abs(effect) / np.maximum(_steadied(error), LEAST_ERROR)
    return statistic


def _swaps(rounds: int, seed: int) -> NDArray[np.bool_]:
    """Return which rounds each swap exchanges, a row per swap; all possible swaps if these are few. The first row is
    the original order.

    Swapping the complement gives the same statistic, so the first round is never swapped.
    """
    if 2 ** (rounds - 1) <= SWAPS:
        ways = np.arange(2 ** (rounds - 1))[:, np.newaxis] >> np.arange(rounds - 1) & 1
    else:
        ways = np.random.default_rng(seed).integers(0, 2, (SWAPS, rounds - 1))
        ways[0] = 0
    return np.asarray(np.pad(ways, ((0, 0), (1, 0))) == 1)


# --- the judgement of two traces ------------------------------------------------------------------


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
    needed = math.ceil(rounds * (math.log(in_half) / math.log(1.2)) ** 2)  # the error falls with their square root
    noise = float(np.median(test.error)) * math.sqrt(rounds / 2)  # as if all rounds were used
    counted = replace(
        counted,
        judged=len(judged),
        different=sum(time.matters for _, time in judged),
        statements=len(statements),
        noise=noise,
        detectable=in_half,
        passes_for_20_percent=max(FEWEST_ROUNDS, needed) if needed <= MOST_ROUNDS else None,
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
    measuring = {difference.function_of(row) for row in difference.rows if row.step.harness}
    for row in difference.rows:
        sides = durations.setdefault(difference.function_of(row), ([], []))
        for step, of_function in zip((row.a, row.b), sides, strict=True):
            of_step = _durations(step, None, difference.a.trace.machine, rounds) if step is not None else None
            if of_step is not None:
                of_function.append(of_step)
    units = {
        name: StatementTimes((), _summed(a), _summed(b))
        for name, (a, b) in durations.items()
        if a and b and name not in measuring
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
