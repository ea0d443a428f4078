"""Steps that ran only in some runs are not differences; others are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.diff.planted import differ
from tests.pages.recording import Recording
from trace_tools.commands.diff import exit_code
from trace_tools.diff.difference import Difference
from trace_tools.diff.wording import word_of
from trace_tools.trace.model import Claim, Meters, Trace

LECTURE = """\
def main():
    section()


def section():
    measured = 1
    if measured > 0.5:
        faster()
    elif measured > 0.25:
        b = 2
    else:
        c = 3
    for i in numbers:
        d = 4
    done = 5


def faster():
    e = 6
    assert e == 6
"""
MARK: dict[str, Any] = {"runs": 4}  # of 6
CERTAIN: dict[str, Any] = {}


def taking(branch: str, mark: dict[str, Any], *, rounds: int = 2, held: bool = True, flops: int = 8) -> Trace:
    """Return a trace that took `branch`; the fields in `mark` state that the branch is nondeterministic."""
    recording = Recording(LECTURE)
    meters = Meters(flops + 8 * (branch == "faster()"), 0, 0, 1, 1)
    section = recording.frame("section", recording.step(recording.frame("main"), "section()", meters=meters))
    recording.step(section, "measured")
    recording.step(section, "if")
    if branch == "faster()":
        faster = recording.frame("faster", recording.step(section, "faster()", meters=Meters(8, 0, 0, 1, 1), **mark))
        recording.step(faster, "e =", **mark)
        recording.step(faster, "assert", claim=Claim("e == 6", held), **mark)
    else:
        recording.step(section, "elif", **mark)
        recording.step(section, branch, **mark)
    for _ in range(rounds):
        recording.step(section, "for")
        recording.step(section, "d =")
    recording.step(section, "for")
    recording.step(section, "done")
    trace = recording.trace()
    return replace(trace, run=replace(trace.run, timed_runs=6))


def steps_of(difference: Difference) -> set[tuple[str, bool]]:
    return {(word_of(f), f.matters) for _, f in difference.findings("steps")}


@pytest.mark.parametrize("marks", [(MARK, CERTAIN), (CERTAIN, MARK), (MARK, MARK)])
def test_nondeterministic_branches_are_not_differences(marks: tuple[dict[str, Any], dict[str, Any]]) -> None:
    a, b = taking("faster()", marks[0]), taking("c = 3", marks[1])
    for difference in (differ(a, b), differ(b, a)):
        assert steps_of(difference) == {("varies", False)}
        assert all(f.detail for _, f in difference.findings("steps"))
        assert not difference.matters and exit_code(difference, ["steps"]) == 0


def test_other_branches_rounds_and_claims_are_differences() -> None:
    branches = differ(taking("faster()", CERTAIN), taking("c = 3", CERTAIN))
    assert branches.matters and ("only in B", True) in steps_of(branches)
    rounds = differ(taking("faster()", MARK), taking("c = 3", CERTAIN, rounds=3))
    assert rounds.matters and {row.step.line for row, f in rounds.findings("steps") if f.matters} == {13, 14}
    assert differ(taking("c = 3", MARK), taking("faster()", MARK, held=False)).matters  # a claim that failed


def test_flops_of_nondeterministic_branches_do_not_count_in_callers() -> None:
    difference = differ(taking("faster()", MARK), taking("c = 3", MARK))
    assert {word_of(f) for _, f in difference.findings("flops")} == {"varies"}
    doubled = differ(taking("c = 3", MARK), taking("c = 3", MARK, flops=16))
    assert doubled.matters and [row.step.line for row, f in doubled.findings("flops") if f.matters] == [2]


def test_nondeterministic_loop_rounds_are_not_differences() -> None:
    def looped(rounds: int, deterministic_rounds: int) -> Trace:
        recording = Recording(LECTURE)
        section = recording.call(recording.frame("main"), "section()", "section")
        for n in range(rounds + 1):  # the header runs once more to end the loop
            recording.step(section, "for", **(MARK if n > deterministic_rounds else {}))
            if n < rounds:
                recording.step(section, "d =", **(MARK if n >= deterministic_rounds else {}))
        return recording.trace()

    for a, b in ((looped(5, 3), looped(8, 8)), (looped(5, 5), looped(8, 5))):
        difference = differ(a, b)
        assert not difference.matters and steps_of(difference) == {("varies", False)}
    assert differ(looped(5, 5), looped(8, 8)).matters
