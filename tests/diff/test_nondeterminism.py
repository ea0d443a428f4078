"""Steps that a clock chose are no difference; steps that nothing excuses are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.diff.planted import differ
from tests.pages.recording import Recording
from trace_tools.commands.diff import exit_code
from trace_tools.diff.difference import Difference
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


def ran(branch: str, *, rounds: int = 2, mark: Any = None, held: bool = True, flops: int = 8) -> Trace:
    """Return a trace that took a branch; `mark` is what its steps say of how they came to run."""
    mark = mark or {}
    made = Recording(LECTURE)
    call = made.step(made.frame("main"), "section()", meters=Meters(flops + 8 * (branch == "faster()"), 0, 0, 1, 1))
    section = made.frame("section", call)
    made.step(section, "measured")
    made.step(section, "if")
    if branch == "faster()":
        faster = made.frame("faster", made.step(section, "faster()", meters=Meters(8, 0, 0, 1, 1), **mark))
        made.step(faster, "e =", **mark)
        made.step(faster, "assert", claim=Claim("e == 6", held), **mark)
    else:
        made.step(section, "elif", **mark)
        made.step(section, branch, **mark)
    for _ in range(rounds):
        made.step(section, "for")
        made.step(section, "d =")
    made.step(section, "for")
    made.step(section, "done")
    trace = made.trace()
    return replace(trace, run=replace(trace.run, timed_runs=6))


def steps_of(difference: Difference) -> set[tuple[str, bool]]:
    return {(f.verdict, f.matters) for _, f in difference.findings("steps")}


@pytest.mark.parametrize("mark", [{"clock": True}, {"runs": 4}])
@pytest.mark.parametrize("marked", ["A", "B", "both"])
def test_branches_chosen_by_a_clock_are_no_difference(mark: dict[str, Any], marked: str) -> None:
    a = ran("faster()", mark=mark if marked in ("A", "both") else None)
    b = ran("c = 3", mark=mark if marked in ("B", "both") else None)
    for difference in (differ(a, b), differ(b, a)):
        assert steps_of(difference) == {("varies", False)}
        assert all(f.detail for _, f in difference.findings("steps"))
        assert not difference.matters and exit_code(difference, ["steps"]) == 0


def test_other_branches_are_differences() -> None:
    difference = differ(ran("faster()"), ran("c = 3"))
    assert difference.matters and ("only in B", True) in steps_of(difference)


def test_a_clock_excuses_only_its_own_condition() -> None:
    longer = differ(ran("faster()", mark={"clock": True}), ran("c = 3", rounds=3))
    assert longer.matters
    assert {row.step.line for row, f in longer.findings("steps") if f.matters} == {13, 14}


def test_work_of_a_chosen_branch_does_not_count_for_its_caller() -> None:
    mark = {"clock": True}
    difference = differ(ran("faster()", mark=mark), ran("c = 3", mark=mark))
    assert {f.verdict for _, f in difference.findings("flops")} == {"varies"}
    doubled = differ(ran("c = 3", mark=mark), ran("c = 3", mark=mark, flops=16))
    assert doubled.matters and [row.step.line for row, f in doubled.findings("flops") if f.matters] == [2]


def test_a_failed_claim_in_a_chosen_branch_is_reported() -> None:
    mark = {"clock": True}
    assert differ(ran("c = 3", mark=mark), ran("faster()", mark=mark, held=False)).matters


@pytest.mark.parametrize("mark", [{"clock": True}, {"runs": 3}])
def test_iterations_that_vary_between_runs_are_no_difference(mark: dict[str, Any]) -> None:
    def looped(rounds: int, certain: int) -> Trace:
        made = Recording(LECTURE)
        section = made.call(made.frame("main"), "section()", "section")
        for n in range(rounds + 1):  # the header once more, which ends it
            made.step(section, "for", **(mark if n > certain else {}))
            if n < rounds:
                made.step(section, "d =", **(mark if n >= certain else {}))
        return made.trace()

    for a, b in ((looped(5, 3), looped(8, 8)), (looped(5, 5), looped(8, 5))):
        difference = differ(a, b)
        assert not difference.matters and steps_of(difference) == {("varies", False)}
    assert differ(looped(5, 5), looped(8, 8)).matters
