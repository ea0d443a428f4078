"""What timed runs note of their asserts, and what other processes make of it: in every one the plain run's outcome."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tracing.probed import Probed
from trace_tools.file_format.trace_file import load
from trace_tools.outcome import problems
from trace_tools.schema import Step
from trace_tools.tracing.claims import MEASURED, Evaluations, TimedClaims
from trace_tools.tracing.journal import Evaluated, Journal


def noted(folder: Path, name: str, *records: tuple[Any, ...]) -> None:
    """Leave what a process noted, and its status."""
    journal = Journal(folder / f"{name}.journal")
    journal.write(records)
    journal.close(complete=True)
    (folder / f"{name}.status").write_text("0", encoding="utf-8")


def test_evaluations_are_counted_and_those_that_raise_noted() -> None:
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


def test_what_is_noted_is_bounded() -> None:
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
def test_an_evaluation_raises_where_it_did_in_any_timed_run(
    evaluation: tuple[int, int], raises: bool | None, tmp_path: Path
) -> None:
    noted(tmp_path, "pass-1", (Evaluated, 3, 5, [[2, 2]], False), (Evaluated, 3, 3, [], True))
    noted(tmp_path, "pass-2", (Evaluated, 3, 5, [[4, 5]], None))
    noted(tmp_path, "metering", (Evaluated, 3, 9, [[1, 9]], None))
    assert TimedClaims(tmp_path, passes=2).raises(evaluation) is raises


def test_where_processes_run_side_by_side_the_passes_are_waited_for(tmp_path: Path) -> None:
    noted(tmp_path, "pass-1", (Evaluated, 3, 1, [], None))
    later = threading.Timer(0.2, lambda: noted(tmp_path, "pass-2", (Evaluated, 3, 1, [[1, 1]], None)))
    later.start()
    assert TimedClaims(tmp_path, passes=2).raises((3, 1)) is True


def test_measured_calls_do_not_shift_those_of_the_lecture(tmp_path: Path) -> None:
    """A function that is measured 500 times in a timed run and once in another is evaluated alike all the same."""

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
        given = {"measured": measured, "times": times}
        opaque = frozenset({measured.__code__})
        with Probed(
            text, "x.py", tmp_path / f"{name}.journal", given=given, opaque=opaque, timed_claims=timed
        ) as lecture:
            assert lecture.module.main() == "caught"
            lecture.journal.write(lecture.recorder.evaluations.rows())
        (tmp_path / f"{name}.status").write_text("0", encoding="utf-8")


LECTURE = '''
import asyncio, contextlib, functools, time
from concurrent.futures import ThreadPoolExecutor
from trace_tools import measure
import checks
def main():
    caught()
    asyncio.run(awaited())
    timed()
def check(x):
    assert x > 0, f"{x}"
    return x
def caught():
    found = []
    try:
        check(-1)
    except AssertionError:
        found.append("in the lecture")
    found.append(checks.catching(lambda: check(-2)))
    with contextlib.suppress(AssertionError):
        check(-3)
        found.append("never")
    with ThreadPoolExecutor(1) as pool:
        found.append(str(pool.submit(check, -4).exception()))
        with contextlib.suppress(AssertionError):
            pool.submit(check, -5).result()
            found.append("never")
    found += [tolerant(1), tolerant(-6), *numbers()]
    n = 0
    while True:
        try:
            assert n < 5
            n += 1
        except AssertionError:
            break
    print(found, n)
def catching(f):
    @functools.wraps(f)
    def tried(x):
        try:
            return f(x)
        except Exception as error:
            return str(error)
    return tried
@catching
def tolerant(x):
    assert x == 1, f"{x} is not 1"
    return x
def numbers():
    for n in (1, -1):
        try:
            yield check(n)
        except AssertionError:
            yield "in a generator"
async def awaited():
    async def task():
        check(-7)
    print([str(error) for error in await asyncio.gather(task(), task(), return_exceptions=True)])
def timed():
    """Holds in every timed run, never where something is metered nor where clocks are wrong."""
    wall, steady = time.perf_counter(), time.monotonic()
    time.sleep(0.05)
    assert abs((time.perf_counter() - wall) / (time.monotonic() - steady) - 1) < 0.2, "clocks agree"
    assert not metered(), "as fast as it should be"
    measure(lambda: check(3))
    try:
        check(-8)
    except AssertionError as error:
        print("caught", error)
def metered():
    import torch.utils._python_dispatch as modes
    return any("metering" in type(mode).__module__ for mode in modes._get_current_dispatch_mode_stack())
'''

CHECKS = """
def catching(f):
    try:
        return f()
    except AssertionError as error:
        return str(error)
"""


def test_every_process_does_what_the_plain_run_does(environment: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(LECTURE, encoding="utf-8")
    (tmp_path / "checks.py").write_text(CHECKS, encoding="utf-8")
    plain = [sys.executable, "-c", "import lecture; lecture.main()"]
    printed = subprocess.run(plain, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout
    command = [sys.executable, "-m", "trace_tools", "trace", str(path), "--passes", "1"]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    trace = load(tmp_path / "rendered/cpu/trace.yaml").trace
    assert [(p.name, p.ended, p.why_no_warm) for p in trace.run.processes] == [
        (name, "complete", None) for name in ("pass 1", "metering", "shaken")
    ]
    there = [step for step in trace.steps if isinstance(step, Step)]
    assert "".join(step.stdout or "" for step in there) == printed
    assert not problems(trace) and all(step.claim.held for step in there if step.claim)
    assert all(step.meters is None or step.meters.why is None for step in there)


def swallow(call: Callable[[], None]) -> int:
    """Do what a library may: call, and let no claim's failure through. Return where the error was."""
    try:
        call()
    except AssertionError as error:
        return id(error)
    return 0


def raise_at(address: int) -> None:
    """Raise an error that lies where another one did."""
    others = []
    while len(others) < 100_000:
        error = AssertionError("of a library")
        if id(error) == address:
            raise error
        others.append(error)
    pytest.skip("the memory was used for something else")


def test_an_error_where_a_swallowed_one_lay_is_not_its_claim(tmp_path: Path) -> None:
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
    [claim] = lecture.steps("assert")
    assert claim.claim is not None and claim.claim[1] == "raised" and not claim.left


def test_a_claim_fails_whose_error_is_handed_on_by_a_library(tmp_path: Path) -> None:
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
    assert [claim.left for claim in lecture.steps("assert")] == [True]
