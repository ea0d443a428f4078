"""Steps and their times, by a clock that only the lecture advances; `checks/fuzz.py` counts those of random code."""

from __future__ import annotations

import itertools
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tracing.probed import Clock, Probed, Trace
from trace_tools.describing import arrays, torch_modes  # noqa: F401  (else an alarm may arrive in their import)
from trace_tools.describing.guarded_repr import Guard
from trace_tools.tracing.recorder.recorder import Call


def test_ctrl_c_in_a_probe_ends_the_run_like_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may come when a probe has just kept one step and has not opened the next."""
    keep, kept = Call._keep, itertools.count(1)

    def interrupted(call: Call, seconds: float | None) -> None:
        keep(call, seconds)
        if next(kept) == 6:
            raise KeyboardInterrupt

    monkeypatch.setattr(Call, "_keep", interrupted)
    text = "def main():\n    for i in range(9):\n        x = i  # @inspect x\n"
    lecture = Probed(text, "lecture.py", tmp_path / "1.journal")
    with pytest.raises(KeyboardInterrupt):
        lecture.main()
    assert [step.execution for step in lecture.steps("x = i")] == [1, 2, 3, 4, 5]


def test_step_times_equal_the_work_of_each_execution(trace: Trace) -> None:
    lecture = trace("""
def main():
    x = work(1)  #: [1]
    for i in range(3):  #: [0] * 4
        if i == 1:
            continue  #: [0]
        x += work(10)  #: [10, 10]
    n = 2
    while n > 0:  #: [0] * 3
        n -= 1
    with Manager() as m:  #: [50]
        work(100)  #: [100]
    try:
        helper(-1)  #: [3]
    except ValueError:
        work(1000)  #: [1000]
    else:
        work(1)  #: []
    finally:
        work(5)  #: [5]
    return helper(2) + work(7)  #: [12]
class Manager:
    def __enter__(self): work(20); return self
    def __exit__(self, *args): work(30)
def helper(x):
    work(3)  #: [3, 3]
    if x < 0:
        raise ValueError("negative")  #: [0]
    return work(x)  #: [2]
""").check("ns")  # fmt: skip
    assert [step.execution for step in lecture.steps("for i")] == [1, 2, 3, 4]
    assert [step.execution for step in lecture.steps("work(3)")] == [1, 1]  # in two frames
    main = lecture.frames("main")[0].id
    in_order = sorted((s for s in lecture.run.steps.values() if s.frame == main), key=lambda step: step.seq)
    assert [lecture.source.statements[s.statement].line for s in in_order][:9] == [3, 4, 5, 7, 4, 5, 6, 4, 5]


def test_step_times_exclude_recording(trace: Trace, clock: Clock) -> None:
    """Steps exclude the time of inspected expressions and of describing values, even if that takes a second."""
    text = """
def main():
    whole()  # @inspect work(4)  #: [5 * (10 + 10) + 7 + 8 + 10]
def whole():
    for i in range(5):  # @inspect i, part(work(50))  #: [0] * 6
        x = part(i)  # @inspect x, i  #: [10] * 5
        assert part(1) < 3 and x == x, "never"  #: [10] * 5
    with Manager():  # @inspect i, work(60)
        if x: raise KeyError(x)  # @inspect work(70)
    y: int = 3  # @inspect y  #: [0]
    assert Manager() is not None  #: [0]
    return part(5)  # @inspect work(80)  #: [10]
def part(n):  # @inspect n, work(90)
    work(10)  # @inspect n, work(90)  #: [10] * 11
    return n
class Manager:
    def __enter__(self): return work(7)
    def __exit__(self, *args): return bool(work(8))
"""

    def describe(value: object) -> Any:
        clock.work(10**9)
        return {"type": "error", "text": ""}

    trace(text, describer=types.SimpleNamespace(describe=describe, error=describe, guard=Guard())).check("ns")


def test_recording_takes_little_time(tmp_path: Path) -> None:
    """On the real clock, a step with many calls lasts about as long as without probes."""
    text = """
def main():
    for i in range(3):
        many()
def many():
    for i in range(3000): one(i)
def one(i):
    x = i  # @inspect x
    return sum(range(20))
"""

    def timed(call: Callable[[], object]) -> int:
        started = time.perf_counter_ns()
        call()
        return time.perf_counter_ns() - started

    lecture = Probed(text, "lecture.py", tmp_path / "x.journal")
    traced_ns, module = timed(lecture.main), types.ModuleType("plain")
    exec(text, vars(module))
    plain_ns = min(timed(module.many) for _ in range(5))
    many = min(step.ns or 0 for step in lecture.steps("many()"))
    assert plain_ns < many * 2
    assert many < plain_ns + traced_ns / 3 / 2, "the step contains less than half of the recording time"


def test_the_line_that_runs_is_found_without_frames(tmp_path: Path) -> None:
    """Python's own frame is the oracle. A suspended generator does not run, and its line is its caller's."""
    text = """
def main():
    here()
    for i in range(2):
        part(i)
        here()
    numbers = count()
    next(numbers)
    here()
def part(i):
    here()
def count():
    here()
    yield 1
"""
    found: list[tuple[int | None, int]] = []

    def here() -> None:
        found.append((lecture.recorder.line("lecture.py"), sys._getframe(1).f_lineno))

    lecture = Probed(text, "lecture.py", tmp_path / "journal", given={"here": here})
    lecture.main()
    assert len(found) == 7 and [line for line, _ in found] == [line for _, line in found]
    assert lecture.recorder.line("lecture.py") is None
