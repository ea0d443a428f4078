"""Which asserts raise in other processes, according to the journals of the timed runs.

`test_plainly` compares claims that are caught in many ways with plain Python, in every process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tracing.probed import Probed
from trace_tools.tracing.journal import Evaluated, Journal
from trace_tools.tracing.recorder.claims import MEASURED, Evaluations, TimedClaims


def write_process(folder: Path, name: str, *records: tuple[Any, ...]) -> None:
    """Write the journal and the status file of a process that has ended."""
    journal = Journal(folder / f"{name}.journal")
    journal.write(records)
    journal.close()
    (folder / f"{name}.status").write_text("0", encoding="utf-8")


def test_evaluations_and_failures_are_counted() -> None:
    evaluations = Evaluations()
    for n in range(1, 10):
        evaluation = evaluations.next(5, measured=False)
        assert evaluation == (5, n)
        if n in (2, 3, 4, 8):
            evaluations.note_raised(evaluation)
    evaluations.next(6, measured=True)
    evaluations.note_raised(evaluations.next(7, measured=True))
    assert [row[1:] for row in evaluations.rows()] == [
        (5, 9, [[2, 4], [8, 8]], None),
        (6, 0, [], False),
        (7, 0, [], True),
    ]


def test_ranges_of_failed_evaluations_are_bounded() -> None:
    evaluations = Evaluations()
    for n in range(1, 10_001):
        evaluation = evaluations.next(0, measured=False)
        if n % 2:
            evaluations.note_raised(evaluation)
    [(_, _, count, ranges, _)] = evaluations.rows()
    assert count == 10_000 and len(ranges) == 1000 and ranges[-1] == [1999, 9999]


@pytest.mark.parametrize(
    ("evaluation", "raises"),
    [((3, 1), False), ((3, 2), True), ((3, 4), True), ((3, 6), None), ((4, 1), None), ((3, MEASURED), True)],
)
def test_an_evaluation_raises_if_it_did_in_any_timed_run(
    evaluation: tuple[int, int], raises: bool | None, tmp_path: Path
) -> None:
    write_process(tmp_path, "pass-1", (Evaluated, 3, 5, [[2, 2]], False), (Evaluated, 3, 3, [], True))
    write_process(tmp_path, "pass-2", (Evaluated, 3, 5, [[4, 5]], None))
    write_process(tmp_path, "metering", (Evaluated, 3, 9, [[1, 9]], None))
    assert TimedClaims(tmp_path, passes=2).raises(evaluation) is raises


def test_timed_claims_wait_for_unfinished_passes(tmp_path: Path) -> None:
    write_process(tmp_path, "pass-1", (Evaluated, 3, 1, [], None))
    timer = threading.Timer(0.2, lambda: write_process(tmp_path, "pass-2", (Evaluated, 3, 1, [[1, 1]], None)))
    timer.start()
    assert TimedClaims(tmp_path, passes=2).raises((3, 1)) is True


def test_measured_calls_do_not_shift_other_evaluations(tmp_path: Path) -> None:
    """`measure` calls a function 500 times in a timed run and once in the metering process."""

    def measured(f: Callable[[], object], times: int) -> None:
        for _ in range(times):
            f()

    text = """
def main():
    measured(lambda: check(1), times)
    try:
        check(-1)
    except AssertionError:
        return "caught"
def check(x):
    assert x > 0
"""
    for name, times, timed in (("pass-1", 500, None), ("metering", 1, TimedClaims(tmp_path, passes=1))):
        names = {"measured": measured, "times": times}
        opaque = frozenset({measured.__code__})
        with Probed(
            text, "x.py", tmp_path / f"{name}.journal", given=names, opaque=opaque, timed_claims=timed
        ) as lecture:
            assert lecture.module.main() == "caught"
            lecture.journal.write(lecture.recorder.claims.evaluations.rows())
        (tmp_path / f"{name}.status").write_text("0", encoding="utf-8")


def swallow(call: Callable[[], None]) -> int:
    """Call, and catch a failing claim, as a library may. Return the address of its error."""
    try:
        call()
    except AssertionError as error:
        return id(error)
    return 0


def raise_at(address: int) -> None:
    """Raise an error at the address of an earlier one."""
    errors = []
    while len(errors) < 100_000:
        error = AssertionError("of a library")
        if id(error) == address:
            raise error
        errors.append(error)
    pytest.skip("no new error got the address of the earlier one")


def test_errors_at_a_reused_address_are_not_confused(tmp_path: Path) -> None:
    text = """
def main():
    section()

def section():
    address = swallow(check)
    raise_at(address)

def check():
    assert 1 > 2
"""
    lecture = Probed(text, "lecture.py", tmp_path / "x.journal", given={"swallow": swallow, "raise_at": raise_at})
    with pytest.raises(AssertionError, match="of a library"):
        lecture.main()
    [step] = lecture.steps("assert")
    assert step.claim is not None and step.claim[1] == "raised" and not step.left


def test_a_claim_fails_if_a_library_reraises_its_error(tmp_path: Path) -> None:
    text = """
from concurrent.futures import ThreadPoolExecutor

def main():
    section()

def section():
    with ThreadPoolExecutor(1) as pool:
        later = pool.submit(check)
    between = 1
    later.result()

def check():
    assert 1 > 2
"""
    lecture = Probed(text, "lecture.py", tmp_path / "x.journal")
    with pytest.raises(AssertionError):
        lecture.main()
    assert [step.left for step in lecture.steps("assert")] == [True]
