"""Which claims have failed. `test_plainly` compares claims that are caught in many ways with plain Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tracing.probed import Probed


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


def test_in_the_counted_run_a_claim_raises_if_it_did_before(tmp_path: Path) -> None:
    text = """
def main(): return swallow(check), swallow(slow)
def check(): assert 1 > 2
def slow(): assert is_fast
"""
    raised: set[int] = set()
    for name, fast in (("timed", True), ("counted", False)):
        settings = {"failing_claims_raise": fast, "raised": raised, "given": {"swallow": swallow, "is_fast": fast}}
        with Probed(text, "lecture.py", tmp_path / f"{name}.journal", **settings) as lecture:
            caught, slow = lecture.module.main()
        assert caught and not slow, name
