"""What a report says of rounds besides the difference, in words and as data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.diff.planted import made, slower, with_steps
from trace_tools.bench.judgement import judge_rounds
from trace_tools.bench.rounds import BenchResult, plain_rounds, summary
from trace_tools.diff.difference import Side
from trace_tools.trace.model import Step

ROUNDS = 8
DROPPED = "round 3 is left out: B ended otherwise than before"


def benched(
    a: Callable[[Step], Step] = lambda step: step, b: Callable[[Step], Step] = lambda step: step
) -> BenchResult:
    sides = (
        Side(f"{name}.py", with_steps(made(seed, passes=ROUNDS), b if seed else a)) for seed, name in enumerate("ab")
    )
    return BenchResult(judge_rounds(*sides, ROUNDS), ROUNDS, 12.3456, "enough to find 1.2×", (DROPPED,))


def test_the_function_that_is_slower_is_named_and_data_have_its_ratio() -> None:
    made_slower = benched(b=slower(2))
    first, *others, last = summary(made_slower)
    assert first.startswith("8 rounds of A and B in turn, 12 s: enough to find 1.2×; noise ") and last == DROPPED
    assert "; would have found 1." in first and first.endswith("× in half of what takes 5% of the run or more")
    [slow] = [line for line in others if line.startswith("work: ")]
    assert ", × 1.3" in slow and slow.endswith(", slower")
    plain = plain_rounds(made_slower)
    assert (plain["rounds"], plain["seconds"], plain["dropped"]) == (ROUNDS, 12.346, [DROPPED])
    [work] = [one for one in plain["functions"] if one["function"] == "work"]
    assert work["verdict"] == "slower" and abs(work["ratio"] - 4 / 3) < 0.05
    assert work["interval"][0] < work["ratio"] < work["interval"][1]


def test_where_nothing_lasts_long_enough_no_time_is_judged() -> None:
    def short(step: Step) -> Step:
        return replace(step, host_ns=[300] * ROUNDS)

    nothing = benched(a=short, b=short)
    assert summary(nothing) == [
        "8 rounds of A and B in turn, 12 s: enough to find 1.2×; TIME NOT JUDGED: all steps are too short to time",
        DROPPED,
    ]
    assert plain_rounds(nothing)["would_find"] is None
