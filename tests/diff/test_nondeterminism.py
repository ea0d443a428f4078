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

MARK: Any = {"runs": 4}  # of 6


def taking(branch: str, *, rounds: int = 2, mark: Any = None, held: bool = True, flops: int = 8) -> Trace:
    """Return a trace that took `branch`; the fields in `mark` state that the branch is nondeterministic."""
    mark = mark or {}
    recording = Recording(LECTURE)
    call = recording.step(
        recording.frame("main"), "section()", meters=Meters(flops + 8 * (branch == "faster()"), 0, 0, 1, 1)
    )
    section = recording.frame("section", call)
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


@pytest.mark.parametrize("marked", ["A", "B", "both"])
def test_nondeterministic_branches_are_not_differences(marked: str) -> None:
    a = taking("faster()", mark=MARK if marked in ("A", "both") else None)
    b = taking("c = 3", mark=MARK if marked in ("B", "both") else None)
    for difference in (differ(a, b), differ(b, a)):
        assert steps_of(difference) == {("varies", False)}
        assert all(f.detail for _, f in difference.findings("steps"))
        assert not difference.matters and exit_code(difference, ["steps"]) == 0


def test_deterministic_branches_are_differences() -> None:
    difference = differ(taking("faster()"), taking("c = 3"))
    assert difference.matters and ("only in B", True) in steps_of(difference)


def test_mark_excuses_only_its_own_branch() -> None:
    difference = differ(taking("faster()", mark=MARK), taking("c = 3", rounds=3))
    assert difference.matters
    assert {row.step.line for row, f in difference.findings("steps") if f.matters} == {13, 14}


def test_flops_of_nondeterministic_branches_do_not_count_in_callers() -> None:
    difference = differ(taking("faster()", mark=MARK), taking("c = 3", mark=MARK))
    assert {word_of(f) for _, f in difference.findings("flops")} == {"varies"}
    doubled = differ(taking("c = 3", mark=MARK), taking("c = 3", mark=MARK, flops=16))
    assert doubled.matters and [row.step.line for row, f in doubled.findings("flops") if f.matters] == [2]


def test_failed_claim_in_a_nondeterministic_branch_matters() -> None:
    assert differ(taking("c = 3", mark=MARK), taking("faster()", mark=MARK, held=False)).matters


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
