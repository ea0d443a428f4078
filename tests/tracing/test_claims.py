"""Which asserts raise in the counted run, according to the timed runs before it in the same process.

`test_plainly` compares claims that are caught in many ways with plain Python, in every process.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tracing.probed import Probed
from trace_tools.tracing.recorder.claims import MEASURED, Claims


def evaluated(claims: Claims, *raise_: bool, measured: bool = False) -> Claims:
    """Evaluate the claim of statement 3 once for each argument, which says whether it raises."""
    for raises in raise_:
        if raises:
            assert claims.raises(3, measured=measured, is_caught=lambda: False)
        else:
            claims.evaluated(3, measured=measured)
    return claims


def test_evaluations_and_failures_are_counted() -> None:
    claims = evaluated(Claims(), False, True, True, False)
    evaluated(claims, True, measured=True)
    assert claims.counts == {3: 4} and claims.measured == {3}
    assert claims.raised == {(3, 2), (3, 3), (3, MEASURED)}


def raises(claims: Claims, *, times: int = 1, measured: bool = False, is_caught: bool = False) -> list[bool]:
    return [claims.raises(3, measured=measured, is_caught=lambda: is_caught) for _ in range(times)]


def test_an_evaluation_raises_if_it_did_in_any_earlier_run() -> None:
    cold = evaluated(Claims(), False, True, False, False, False)
    warm = evaluated(Claims(), False, False, False, True)
    evaluated(warm, True, measured=True)
    counted = Claims([cold, warm], failing_raise=False)
    assert raises(counted, times=6) == [False, True, False, True, False, False], "none reached the sixth"
    assert raises(counted, measured=True) == [True]
    assert raises(Claims([cold, warm]), times=6)[-1], "unless the user has asked to continue after failed claims"
    assert raises(Claims([Claims()], failing_raise=False), is_caught=True) == [True], "its handler is the lecture's"


def test_measured_calls_do_not_shift_other_evaluations(tmp_path: Path) -> None:
    """`measure` calls a function 500 times in a timed run and once in the counted run."""

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
    earlier: list[Claims] = []
    for name, times in (("timed", 500), ("counted", 1)):
        names = {"measured": measured, "times": times}
        opaque = frozenset({measured.__code__})
        with Probed(
            text, "x.py", tmp_path / f"{name}.journal", given=names, opaque=opaque, earlier=[*earlier]
        ) as lecture:
            assert lecture.module.main() == "caught"
        earlier.append(lecture.recorder.claims)
    assert earlier[0].counts == earlier[1].counts and earlier[0].raised == earlier[1].raised


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
