"""What a process killed at this moment would leave on disk: read from inside the lecture, while it runs."""

from __future__ import annotations

import random
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.checks.kills import kill_probed, lost
from tests.tracing.probed import Probed
from trace_tools.source.statements import parse_source
from trace_tools.tracing.journal import FrameStart, Journal, Observation, RunEnd, RunStart, Said, StepTime
from trace_tools.tracing.merge.reader import UNFINISHED, RunRecord, read_process


def let_50_ms_go_by() -> None:
    """Wait for longer than that, in turns that every thread of this process gets: a busy machine gives it few."""
    for _ in range(80):
        time.sleep(0.001)


def seen_at_look(text: str, folder: Path, **settings: int) -> tuple[Probed, RunRecord]:
    """Run a lecture; return what could be read 80 ms into its last call of `look()`."""
    seen: list[RunRecord] = []

    def look() -> None:
        let_50_ms_go_by()
        seen.append(lecture.run)

    lecture = Probed(text, "lecture.py", folder / "x.journal", given={"look": look}, **settings)
    lecture.main()
    return lecture, seen[-1]


def executions(lecture: Probed, run: RunRecord, code: str, frame: int | None = None) -> set[int]:
    """Return which executions of a statement were there, in one frame or in all."""
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


def test_everything_older_than_50_ms_is_there(tmp_path: Path) -> None:
    lecture, run = seen_at_look(FIRST_AND_LAST, tmp_path)
    assert run.ending == UNFINISHED
    assert executions(lecture, run, "x = i") == {*range(1, 51), *range(1951, 2001)}
    assert executions(lecture, run, "y = called") == {*range(1, 51), *range(251, 301)}
    values = [step.values[0][2]["value"] for step in run.steps.values() if step.statement == lecture.number("y =")]
    assert sorted(values) == [*range(50), *range(250, 300)]
    assert sum(lecture.program.functions[f.function] == "called" for f in run.frames.values()) == 100
    assert lecture.source.statements[run.open_statement or 0].line == lecture_line(FIRST_AND_LAST, "look()")
    assert executions(lecture, run, "after = 1") == set()
    totals = {lecture.source.statements[statement].line: n for (_, statement), (n, _) in run.omitted.items()}
    assert totals[lecture_line(FIRST_AND_LAST, "x = i")] == 1900
    assert totals[lecture_line(FIRST_AND_LAST, "y = called")] == 200


def lecture_line(text: str, code: str) -> int:
    return next(n for n, line in enumerate(text.splitlines(), 1) if line.strip().startswith(code))


def test_what_a_killed_run_leaves_is_what_the_whole_one_has(tmp_path: Path) -> None:
    """Step by step: what was seen at the last look is, but for what was open, what is read in the end."""
    lecture, run = seen_at_look(FIRST_AND_LAST, tmp_path)
    whole = lecture.run
    for seq, step in run.steps.items():
        if step.ns is not None and seq in whole.steps and step.statement != lecture.number("with open"):
            assert step == whole.steps[seq]
    finished = {seq for seq in whole.steps if seq < max(run.steps)}
    assert finished - run.steps.keys() <= {seq for seq in finished if whole.steps[seq].ns is None}


INNER = """
def main():
    for i in range(80):
        outer(i)

def outer(i):  # @inspect i
    for j in range(200):
        x = j
    if i == 79: look()
"""


def test_calls_in_the_last_executions_have_theirs(tmp_path: Path) -> None:
    """The open call was made beyond the first 50 executions: it, and its own last executions, may yet be left out."""
    lecture, run = seen_at_look(INNER, tmp_path)
    frames = {f.arguments[0][2]["value"]: f.id for f in run.frames.values() if f.arguments}
    assert executions(lecture, run, "x = j", frames[49]) == {*range(1, 51), *range(151, 201)}
    assert executions(lecture, run, "x = j", frames[79]) == {*range(1, 51), *range(151, 201)}


def test_a_long_statement_hides_nothing(tmp_path: Path) -> None:
    """Nothing is executed any more, so no probe flushes: a thread of the recorder's does."""
    lecture, run = seen_at_look("def main():\n    x = 1  # @inspect x\n    look()\n", tmp_path)
    assert executions(lecture, run, "x = 1") == {1}
    assert [value[0] for step in run.steps.values() for value in step.values] == ["x"]


def test_other_threads_are_there(tmp_path: Path) -> None:
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
    seen: list[RunRecord] = []

    def look() -> None:
        let_50_ms_go_by()
        seen.append(lecture.run)

    lecture.module.look = look
    lecture.main()
    assert executions(lecture, seen[0], "x = i") == {*range(1, 51), *range(151, 201)}
    assert executions(lecture, seen[0], "done.wait") == {1}


@pytest.mark.parametrize("limit", [2, 7])
def test_a_small_limit(tmp_path: Path, limit: int) -> None:
    lecture, run = seen_at_look(FIRST_AND_LAST, tmp_path, limit=limit)
    head, tail = limit // 2, limit - limit // 2
    assert executions(lecture, run, "x = i") == {*range(1, head + 1), *range(2001 - tail, 2001)}


@pytest.mark.slow
def test_looking_at_any_time_finds_a_run_that_holds_together(tmp_path: Path) -> None:
    """Read again and again while it runs: every step's frame is there, every frame's calling step, no step twice."""
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
    looks = []

    def check() -> None:
        lecture.recorder.writer.flush(wait_s=-1)
        with lecture.recorder.writer.flushing:  # between the reading of the journal and that of its tail nobody writes
            run = lecture.run
        looks.append(len(run.steps))
        for step in run.steps.values():
            assert step.frame in run.frames
        for frame in run.frames.values():
            assert frame.of is None or frame.of in run.steps
        keys = [(s.frame, s.statement, s.execution) for s in run.steps.values()]
        assert len(keys) == len(set(keys))

    lecture = Probed(text, "lecture.py", tmp_path / "x.journal", given={"check": check})
    lecture.main()
    assert len(looks) == 10


def test_the_run_before_leaves_nothing(tmp_path: Path) -> None:
    """The warm run's frames have the numbers that the cold run's had, its tail the same file."""
    seen: list[RunRecord] = []

    def look() -> None:
        let_50_ms_go_by()
        seen.append(lecture.run)

    text = "def main():\n    for i in range(n):\n        x = i\n    look()\n"
    lecture = Probed(text, "lecture.py", tmp_path / "x.journal", given={"look": look, "n": 300})
    lecture.start()
    exec(lecture.code, vars(lecture.module))
    lecture.module.main()
    lecture.finish(last=False)
    Probed(text, "lecture.py", lecture.journal, given={"look": look, "n": 60}).main()
    cold, warm = seen
    assert executions(lecture, cold, "x = i") == {*range(1, 51), *range(251, 301)}
    assert executions(lecture, warm, "x = i") == {*range(1, 61)}
    assert warm.omitted == {}


@pytest.mark.slow
@pytest.mark.parametrize("after_s", [0.0, 0.2, 0.7, 1.3])
def test_a_killed_process_has_every_step_that_had_ended_50_ms_before(tmp_path: Path, after_s: float) -> None:
    """As the lecture itself wrote it down; `python -m tests.checks.kills` does it to a hundred whole traces."""
    missing, _ = kill_probed(tmp_path, after_s + random.random() / 5)
    assert missing == []


def test_what_the_kills_have_lost_is_found() -> None:
    tick = "tick\n" * 50
    assert lost(f"run 1\n0\n1\n2\n{tick}3\n", [0, 1, 2]) == []  # 3 had ended too late
    assert lost(f"run 1\n0\n1\n2\n{tick}3\n", [0, 2]) == [1]
    assert lost(f"run 1\n0\n1\n2\n{tick}3\n", [0, 1]) == [2, 2]
    assert lost("run 1\n0\n1\nrun 1\n", [0]) == [1, 1]  # the first run was over
    assert lost("run 1\n0\n1\ntick\n", []) == []


def test_nothing_is_lost_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recorder's thread may be flushing at the very moment the run ends: the rest is written all the same."""
    lecture = Probed("def main():\n    x = 1\n", "lecture.py", tmp_path / "x.journal")
    write: Callable[..., None] = lecture.journal.write
    slowly = threading.Event()

    def write_slowly(records: list[object]) -> None:
        if threading.get_ident() != threading.main_thread().ident:
            slowly.set()
            time.sleep(0.1)
        write(records)

    monkeypatch.setattr(lecture.journal, "write", write_slowly)
    lecture.start()
    exec(lecture.code, vars(lecture.module))
    assert slowly.wait(5)
    lecture.module.main()
    lecture.finish()
    assert isinstance(lecture.records[-1], RunEnd)
    assert len(lecture.steps("x = 1")) == 1


@pytest.mark.slow
def test_runs_take_little_memory_for_each_step(tmp_path: Path) -> None:
    """Eight runs of 100,000 steps fit in a gigabyte: what is observed alike is there once, and no list of records."""
    source, steps, value = parse_source("def main():\n    x = 1\n", "x.py"), 4_000, {"type": "int", "value": 12345}
    paths = [tmp_path / f"{n}.journal" for n in range(4)]
    for path in paths:
        rows: list[Any] = [(RunStart, "cold"), (FrameStart, 0, 0, None, None)]
        for n in range(steps):
            rows += [(StepTime, n, 0, 1, n + 1, 10**6 + n), (Observation, n, "values", ("x", None, value))]
        Journal(path).write([*rows, (RunEnd, "complete", 1, [])])
    said: Said = {}
    tracemalloc.start()
    try:
        runs = [run for path in paths for run in read_process(path, source, interned=said).runs]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [len(run.steps) for run in runs] == [steps] * 4
    assert peak / (4 * steps) < 600  # with lists of records, and of each step, it was 1,200
