"""What a killed process leaves on disk: the tests read the journal from inside the lecture, while it runs.

In calls that are open, that is each finished step among the first executions of its statement, with what it called.
Which of the later executions are kept is known when their call ends.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tracing.probed import Probed
from trace_tools.source.statements import parse_source
from trace_tools.trace.model import Frame, Step
from trace_tools.tracing.journal import Journal, RunEnd, RunStart
from trace_tools.tracing.merge.reader import UNFINISHED, RunRecord, read_process


def wait_more_than_50_ms() -> None:
    """Wait in short sleeps, so that the recorder's thread also runs on a busy machine."""
    for _ in range(80):
        time.sleep(0.001)


def read_at_last_look(text: str, folder: Path, **settings: int) -> tuple[Probed, RunRecord]:
    """Run a lecture; return the run as read 80 ms after the beginning of its last call of `look()`."""
    runs: list[RunRecord] = []

    def look() -> None:
        wait_more_than_50_ms()
        runs.append(lecture.run)

    lecture = Probed(text, "lecture.py", folder / "x.journal", given={"look": look}, **settings)
    lecture.main()
    return lecture, runs[-1]


def executions(lecture: Probed, run: RunRecord, code: str, frame: int | None = None) -> set[int]:
    """Return the numbers of the recorded executions of a statement, in one frame or in all."""
    number = lecture.number(code)
    return {s.execution for s in run.steps.values() if s.statement == number and frame in (None, s.frame)}


FIRST_AND_LAST = """
def main():
    for i in range(2000):
        x = i  # @inspect x
    section()
    after = 1

def section():
    for j in range(300):
        y = called(j)  # @inspect y
    with open("/dev/null"):
        look()

def called(j):
    for k in range(3): z = k
    return j
"""


def test_everything_older_than_50_ms_is_on_disk(tmp_path: Path) -> None:
    lecture, run = read_at_last_look(FIRST_AND_LAST, tmp_path)
    assert run.ending == UNFINISHED
    assert executions(lecture, run, "x = i") == executions(lecture, run, "y = called") == {*range(1, 51)}
    values = [step.values[0][2]["value"] for step in run.steps.values() if step.statement == lecture.number("y =")]
    assert sorted(values) == [*range(50)]
    frames = {f.id for f in run.frames.values() if lecture.program.functions[f.function] == "called"}
    assert len(frames) == 50
    assert {frame: len(executions(lecture, run, "return j", frame)) for frame in frames} == dict.fromkeys(frames, 1)
    assert run.open_line == lecture_line(FIRST_AND_LAST, "look()")
    assert executions(lecture, run, "after = 1") == set() and not run.omitted


def lecture_line(text: str, code: str) -> int:
    return next(n for n, line in enumerate(text.splitlines(), 1) if line.strip().startswith(code))


def test_killed_run_matches_the_complete_run(tmp_path: Path) -> None:
    """Each step that had ended at the last look is the same when the complete journal is read."""
    lecture, run = read_at_last_look(FIRST_AND_LAST, tmp_path)
    complete = lecture.run
    for seq, step in run.steps.items():
        if step.ns is not None and seq in complete.steps and step.statement != lecture.number("with open"):
            assert step == complete.steps[seq]
    missing = {seq for seq in complete.steps if seq < max(run.steps)} - run.steps.keys()
    open_calls = {frame.id for frame in run.frames.values() if lecture.program.functions[frame.function] != "called"}
    assert all(complete.steps[seq].execution > 50 or complete.steps[seq].frame not in open_calls for seq in missing)


def test_steps_before_a_long_statement_are_on_disk(tmp_path: Path) -> None:
    """No probe runs during a long statement, so the recorder's thread flushes the journal."""
    lecture, run = read_at_last_look("def main():\n    x = 1  # @inspect x\n    look()\n", tmp_path)
    assert executions(lecture, run, "x = 1") == {1}
    assert [value[0] for step in run.steps.values() for value in step.values] == ["x"]


def test_steps_of_other_threads_are_on_disk(tmp_path: Path) -> None:
    text = """
import threading
def main():
    thread = threading.Thread(target=work)
    thread.start()
    ready.wait(5)
    look()
    done.set()
    thread.join()
def work():
    for i in range(200):
        x = i
    ready.set()
    done.wait(5)
"""
    ready, done = threading.Event(), threading.Event()
    lecture = Probed(text, "lecture.py", tmp_path / "x.journal", given={"ready": ready, "done": done})
    runs: list[RunRecord] = []

    def look() -> None:
        wait_more_than_50_ms()
        runs.append(lecture.run)

    lecture.module.look = look
    lecture.main()
    assert executions(lecture, runs[0], "x = i") == {*range(1, 51)}


@pytest.mark.parametrize("limit", [2, 7])
def test_small_limits_keep_the_first_executions(tmp_path: Path, limit: int) -> None:
    lecture, run = read_at_last_look(FIRST_AND_LAST, tmp_path, limit=limit)
    assert executions(lecture, run, "x = i") == {*range(1, limit // 2 + 1)}
    complete = executions(lecture, lecture.run, "x = i")
    assert complete == {*range(1, limit // 2 + 1), *range(2001 - limit + limit // 2, 2001)}


KILLED = """
import time

def main():
    first()
    second()

def first():
    x = 1  # @inspect x

def second():
    z = 5  # @inspect z
    for i in range(200):
        y = called(i)  # @inspect y
        if i == 120:
            print("before the kill")
            end_soon()
            time.sleep(60)

def called(i):
    a = i
    return a + 1
"""

PROCESS = """
import _thread, os, pathlib, sys, time
from tests.tracing.probed import Probed

def end_soon():
    _thread.start_new_thread(lambda: (time.sleep(0.3), os.kill(os.getpid(), 9)), ())

Probed(sys.argv[1], "lecture.py", pathlib.Path(sys.argv[2]), given={"end_soon": end_soon}).main()
"""


def test_a_killed_section_keeps_its_finished_steps(tmp_path: Path) -> None:
    """The section is running, and so is its loop, when SIGKILL ends the process."""
    journal, source = tmp_path / "x.journal", parse_source(KILLED, "lecture.py")
    killed = subprocess.run(
        [sys.executable, "-c", PROCESS, KILLED, str(journal)], cwd=Path(__file__).parents[2], check=False
    )
    assert killed.returncode == -signal.SIGKILL
    [run] = read_process(journal, source).runs
    line = {code: lecture_line(KILLED, code) for code in ("first()", "second()", "x =", "z =", "y =", "print", "time")}
    steps = {code: [s for s in run.steps.values() if s.line == at] for code, at in line.items()}
    values = {code: [value.value for s in steps[code] for _, value in s.values or ()] for code in ("x =", "y =", "z =")}
    assert values == {"x =": [1], "y =": [*range(1, 51)], "z =": [5]}
    assert [s.stdout for s in steps["print"]] == ["before the kill\n"]
    calls = [frame for frame in run.frames.values() if frame.function == "called"]
    assert [frame.of for frame in calls] == [s.id for s in steps["y ="]]
    of_calls = [s for s in run.steps.values() if s.frame in {frame.frame for frame in calls}]
    assert len(of_calls) == 100 and all(s.host_ns for s in of_calls)
    assert [s.host_ns for s in (*steps["second()"], *steps["time"])] == [None, None], "these had not ended"
    assert run.open_line == line["time"] and run.ending == UNFINISHED


@pytest.mark.slow
def test_unfinished_run_is_consistent_at_any_time(tmp_path: Path) -> None:
    """At each reading, every step's frame and every frame's calling step exist, and no step exists twice."""
    text = """
def main():
    for i in range(200):
        part(i)
        if i % 20 == 0: check()
def part(i):
    for j in range(i % 90):
        x = j  # @inspect x
        if j == 60: deeper(j)
def deeper(j):
    try:
        raise ValueError(j)
    except ValueError as error:  # @inspect error
        return j
"""
    step_counts = []

    def check() -> None:
        lecture.recorder.flush(wait_s=-1)
        run = lecture.run
        step_counts.append(len(run.steps))
        for step in run.steps.values():
            assert step.frame in run.frames
        for frame in run.frames.values():
            assert frame.of is None or frame.of in run.steps
        keys = [(s.frame, s.statement, s.execution) for s in run.steps.values()]
        assert len(keys) == len(set(keys))

    lecture = Probed(text, "lecture.py", tmp_path / "x.journal", given={"check": check})
    lecture.main()
    assert len(step_counts) == 10


def test_warm_run_contains_nothing_of_the_cold_run(tmp_path: Path) -> None:
    """Both runs use the same numbers for their frames and steps."""
    runs: list[RunRecord] = []

    def look() -> None:
        wait_more_than_50_ms()
        runs.append(lecture.run)

    text = "def main():\n    for i in range(n):\n        x = i\n    look()\n"
    lecture = Probed(text, "lecture.py", tmp_path / "x.journal", given={"look": look, "n": 300})
    lecture.start()
    exec(lecture.code, vars(lecture.module))
    lecture.module.main()
    lecture.finish(last=False)
    Probed(text, "lecture.py", lecture.journal, given={"look": look, "n": 60}).main()
    cold, warm = runs
    assert executions(lecture, cold, "x = i") == executions(lecture, warm, "x = i") == {*range(1, 51)}
    assert len(cold.steps) == len(warm.steps) and warm.omitted == {}


def test_flush_during_the_end_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is written even if the recorder's thread is flushing when the run ends."""
    lecture = Probed("def main():\n    x = 1\n", "lecture.py", tmp_path / "x.journal")
    write: Callable[..., None] = lecture.journal.write
    is_writing = threading.Event()

    def write_slowly(records: list[object]) -> None:
        if threading.get_ident() != threading.main_thread().ident:
            is_writing.set()
            time.sleep(0.1)
        write(records)

    monkeypatch.setattr(lecture.journal, "write", write_slowly)
    lecture.start()
    exec(lecture.code, vars(lecture.module))
    assert is_writing.wait(5)
    lecture.module.main()
    lecture.finish()
    assert isinstance(lecture.records[-1], RunEnd)
    assert len(lecture.steps("x = 1")) == 1


@pytest.mark.slow
def test_runs_take_little_memory_per_step(tmp_path: Path) -> None:
    """Eight runs of 100,000 steps fit in a gigabyte."""
    source, steps, value = parse_source("def main():\n    x = 1\n", "x.py"), 4_000, {"type": "int", "value": 12345}
    paths = [tmp_path / f"{n}.journal" for n in range(4)]
    for path in paths:
        rows: list[Any] = [RunStart("cold"), Frame(0, "main")]
        for n in range(steps):
            rows += [Step(n, 0, 1, 2, n + 1, [10**6 + n], values=[("x", value)])]
        Journal(path).write([*rows, RunEnd("complete", 1, [])])
    tracemalloc.start()
    try:
        runs = [run for path in paths for run in read_process(path, source).runs]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [len(run.steps) for run in runs] == [steps] * 4
    assert peak / (4 * steps) < 1000
