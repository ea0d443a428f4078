"""Traces whose passes are rounds, judged: the planted ones of the comparison, with known noise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.diff.planted import SLOW_LINE, made, slower, with_steps
from trace_tools.bench.judgement import MISSED, RoundsJudgement, judge_rounds
from trace_tools.diff.difference import Side
from trace_tools.trace.model import Measured, Process, Step, Trace

ROUNDS = 8


def judged(a: Trace, b: Trace, rounds: int = ROUNDS) -> RoundsJudgement:
    return judge_rounds(Side("a.py", a), Side("b.py", b), rounds)


def lines(found: RoundsJudgement) -> set[int]:
    """The lines that were called different and are the cause themselves."""
    rows = [row for row in found.difference.rows if any(t.matters and t.cause is None for t in row.times)]
    return {row.step.line for row in rows}


def pair(**changes: Any) -> tuple[Trace, Trace]:
    return made(1, passes=ROUNDS, **changes), made(2, passes=ROUNDS, **changes)


def test_the_same_is_not_called_different() -> None:
    found = judged(*pair())
    assert not lines(found)
    assert found.difference.times.judged and found.difference.time_not_judged is None
    assert found.would_find is not None and found.would_find < 1.2


def test_a_slower_statement_is_found_and_named() -> None:
    a, b = pair()
    found = judged(a, with_steps(b, slower(1.5)))
    assert lines(found) == {SLOW_LINE}
    time = next(t for row in found.difference.rows for t in row.times if t.matters)
    assert time.overall is not None and abs(time.overall - 1.5) < 0.05
    assert found.difference.matters and found.difference.times.different == 20
    work = next(f for f in found.functions if f.function == "work")
    assert abs(work.ratio - 3.5 / 3) < 0.05  # one of its three statements, each as long as the others


def test_load_that_hits_both_is_no_reason_not_to_judge() -> None:
    notes = [Process(f"pass {n + 1}", "complete", notes=["load average 8.00 on 2 cores"]) for n in range(ROUNDS)]
    a, b = (replace(t, run=replace(t.run, processes=notes)) for t in pair())
    found = judged(a, with_steps(b, slower(1.5)))
    assert lines(found) == {SLOW_LINE}
    assert found.difference.a.trace is a  # what is reported are the traces as they are


def test_bursts_in_some_rounds_of_one_side_are_no_difference() -> None:
    def burst(step: Step) -> Step:
        return replace(step, host_ns=[ns * (10 if n < 3 else 1) for n, ns in enumerate(step.host_ns or [])])

    a, b = pair()
    assert not lines(judged(a, with_steps(b, burst)))


def test_of_cold_and_warm_the_shorter_counts() -> None:
    def cold(step: Step) -> Step:
        return replace(step, cold_ns=list(step.host_ns or []), host_ns=[10 * ns for ns in step.host_ns or []])

    a, b = pair()
    assert not lines(judged(with_steps(a, cold), b))


def test_what_some_round_lacks_is_not_judged() -> None:
    def lacking(step: Step) -> Step:
        return replace(step, host_ns=(step.host_ns or [])[1:]) if step.line == SLOW_LINE else step

    a, b = pair()
    found = judged(a, with_steps(with_steps(b, slower(2)), lacking))
    assert not lines(found) & {SLOW_LINE}
    assert dict(found.difference.times.not_judged)[MISSED] == 20


def test_of_a_measurement_the_seconds_per_call_are_judged() -> None:
    def measuring(seconds: float) -> Any:
        def change(step: Step) -> Step:
            if step.line != SLOW_LINE:
                return step
            calls = [Measured([seconds * (1 + 0.01 * n) for n in range(ROUNDS)])]
            return replace(step, measured=calls, harness=True)

        return change

    a, b = pair()
    found = judged(with_steps(a, measuring(1e-3)), with_steps(b, measuring(2e-3)))
    assert lines(found) == {SLOW_LINE}
    assert {t.clock for row in found.difference.rows for t in row.times if t.matters} == {"call"}
    assert "work" not in {f.function for f in found.functions}  # its own time is the harness's


def test_fewer_rounds_than_can_say_anything() -> None:
    with pytest.raises(ValueError, match="5 rounds; expected at least 6"):
        judged(made(1, passes=5), made(2, passes=5), rounds=5)


def test_a_lecture_of_nothing_but_short_statements() -> None:
    a, b = (with_steps(t, lambda step: replace(step, host_ns=[300] * ROUNDS)) for t in pair())
    found = judged(a, b)
    assert found.difference.time_not_judged == "all steps are too short to time"
    assert found.would_find is None and not found.difference.matters
