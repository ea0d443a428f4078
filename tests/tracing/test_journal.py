"""A journal keeps its lines, whatever they contain, and what a killed process leaves in it is a run."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tracing.probed import Probed
from trace_tools.errors import TraceFileError
from trace_tools.trace.model import Claim, Frame, Omitted, Raised, Step
from trace_tools.tracing.journal import KINDS, Error, Failed, Journal, Note, RunEnd, RunStart, read_journal, start_apart
from trace_tools.tracing.merge.reader import UNFINISHED, read_process


def step(number: int, **content: Any) -> Step:
    return Step(number, 0, 3, 12, 1, [1200], **content)


LINES = [
    RunStart("cold"),
    Frame(0, "main"),
    Frame(1, "f", of=7, arguments=[("x", {"type": "int", "value": 3})]),  # type: ignore[list-item]
    step(7),
    step(8, values=[("x", {"type": "float", "value": 0.1})], claim=Claim("x > 3", held=True)),
    Omitted(5, 0, 3, 12, 900),
    Error(0, 8, 12, Raised("ValueError", "", 12)),
    Failed(8),
    RunEnd("complete", 10**9, [("f", 2)]),
    Note("notes", ["it was hot"]),
]


def written(path: Path, lines: list[Any]) -> Path:
    journal = Journal(path)
    journal.write(lines)
    journal.close()
    return path


def test_written_lines_can_be_read(tmp_path: Path) -> None:
    path = written(tmp_path / "a.journal", LINES)
    assert {type(line) for line in LINES} == set(KINDS)
    read = list(read_journal(path))
    again = written(tmp_path / "b.journal", read)
    assert [type(line) for line in read] == [type(line) for line in LINES]
    assert again.read_bytes() == path.read_bytes() and list(read_journal(again)) == read
    assert read[3] == step(7) and read[-2:] == LINES[-2:]


def test_numbers_that_json_lacks_and_text_that_is_no_unicode_are_kept(tmp_path: Path) -> None:
    """A journal with `null` in place of such a number would lose a loss that has become nan."""
    numbers = [math.inf, -math.inf, math.nan]
    steps = [step(n, values=[("loss", {"type": "float", "value": number})]) for n, number in enumerate(numbers)]
    read: list[Any] = list(read_journal(written(tmp_path / "a.journal", [step(0), *steps, step(4)])))
    assert [repr(value.value) for one in read for _, value in one.values or ()] == ["inf", "-inf", "nan"]
    assert len(read) == 5
    lines = [step(1, stdout="é\ud800\n"), step(2, warnings=["half a pair: \udfff", "whole: \U0001f600"]), step(3)]
    assert list(read_journal(written(tmp_path / "b.journal", lines))) == lines


def test_an_unfinished_line_is_left_out_and_a_damaged_line_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path / "a.journal", [RunStart("cold"), step(1), step(2)])
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert list(read_journal(path)) == [RunStart("cold"), step(1)]
    for damaged in (b"\xff\n", b'{"what": 1}\n', b"\n", whole[:-9] + b"\n"):
        path.write_bytes(whole + damaged)
        with pytest.raises(TraceFileError, match=r"a\.journal: line \d: is damaged"):
            list(read_journal(path))


def test_a_full_disk_leaves_no_partial_line_and_loses_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path / "a.journal")
    write, room = os.write, [40]

    def nearly_full(descriptor: int, content: bytes) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        written = write(descriptor, content[: room[0]])
        room[0] -= written
        return written

    monkeypatch.setattr(os, "write", nearly_full)
    journal.write([Failed(n) for n in (1, 2, 3, 4)])  # 13 bytes each
    assert journal.path.read_bytes() == b'{"failed":1}\n{"failed":2}\n{"failed":3}\n' and journal.failed
    journal.write([Failed(5)])
    room[0] = 1000
    journal.write([Failed(6)])
    assert list(read_journal(journal.path)) == [Failed(n) for n in (1, 2, 3, 4, 5, 6)]


def test_it_writes_after_a_directory_change_but_not_in_a_forked_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    journal = Journal(Path("pass-1.journal"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    journal.write([Failed(1)])
    journal.forget()
    journal.write([Failed(2)])
    assert not journal.failed and list(read_journal(tmp_path / "pass-1.journal")) == [Failed(1)]
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["elsewhere", "pass-1.journal"]


# ------------------------------------------------------------------------------ what a killed process leaves
#
# The tests read the journal from inside the lecture, while it runs. In calls that are open, it has each finished step
# among the first executions of its statement, with what it called. Which of the later executions are kept is known when
# their call ends.


def read_at_looks(text: str, folder: Path, **given: Any) -> tuple[Probed, list[Any]]:
    """Run a lecture; return the run as read 80 ms after the beginning of each call of `look()`."""
    runs: list[Any] = []

    def look() -> None:
        for _ in range(80):  # short sleeps, so that the recorder's thread also runs on a busy machine
            time.sleep(0.001)
        runs.append(lecture.run)

    limit = given.pop("limit", 100)
    lecture = Probed(text, "lecture.py", folder / "x.journal", given={"look": look, **given}, limit=limit)
    return lecture.main(), runs


def executions(lecture: Probed, run: Any, code: str) -> list[int]:
    number = lecture.number(code)
    return [step.execution for step in run.steps.values() if step.statement == number]


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
    """No probe runs during a long statement, so the recorder's thread flushes the journal."""
    lecture, [run] = read_at_looks(FIRST_AND_LAST, tmp_path)
    first = [*range(1, 51)]
    assert (run.ending, run.open_line, run.omitted) == (UNFINISHED, 11, {})
    assert executions(lecture, run, "x = i") == executions(lecture, run, "y = called") == first
    values = [step.values[0][2]["value"] for step in run.steps.values() if step.statement == lecture.number("y =")]
    assert values == [*range(50)] and executions(lecture, run, "after = 1") == []
    functions = {frame.id: lecture.program.functions[frame.function] for frame in run.frames.values()}
    called = [frame for frame, function in functions.items() if function == "called"]
    assert [s.frame for s in run.steps.values() if s.statement == lecture.number("return j")] == called
    assert len(called) == 50
    complete = lecture.run  # in which each step that had ended is the same
    ended = {seq: step for seq, step in run.steps.items() if step.ns is not None and seq in complete.steps}
    del ended[next(seq for seq, step in ended.items() if step.statement == lecture.number("with open"))]
    assert len(ended) > 500 and all(step == complete.steps[seq] for seq, step in ended.items())
    missing = {seq for seq in complete.steps if seq < max(run.steps)} - run.steps.keys()
    still_open = {frame for frame, function in functions.items() if function != "called"}
    assert all(complete.steps[seq].execution > 50 or complete.steps[seq].frame not in still_open for seq in missing)


def test_steps_of_other_threads_are_on_disk(tmp_path: Path) -> None:
    lecture, [run] = read_at_looks("""
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
""", tmp_path, ready=threading.Event(), done=threading.Event())  # fmt: skip
    assert executions(lecture, run, "x = i") == [*range(1, 51)]


def test_a_run_is_whole_after_each_line(tmp_path: Path) -> None:
    """A kill may leave any beginning of a journal: every step's call and every call's calling step are in it, and no
    step is in it twice.
    """
    lecture = Probed("""
import contextlib
def main():
    for i in range(12):
        part(i)
        with contextlib.nullcontext(): part(i)
def part(i):
    for j in range(i):
        x = j  # @inspect x
        if j == 9: deeper(j)
def deeper(j):
    try:
        raise ValueError(j)
    except ValueError as error:  # @inspect error
        return j
""", "lecture.py", tmp_path / "x.journal", limit=6).main()  # fmt: skip
    lines = lecture.journal.path.read_bytes().splitlines(keepends=True)
    assert len(lines) > 200
    for end in range(1, len(lines)):
        lecture.journal.path.write_bytes(b"".join(lines[:end]))
        run = read_process(lecture.journal.path, lecture.source).runs[-1]
        assert all(step.frame in run.frames for step in run.steps.values())
        assert all(frame.of is None or frame.of in run.steps for frame in run.frames.values())
        keys = {(step.frame, step.statement, step.execution) for step in run.steps.values()}
        assert len(keys) == len(run.steps)


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
    assert isinstance(lecture.records[-1], RunEnd) and len(lecture.steps("x = 1")) == 1


def test_threads_of_the_tools_block_signals() -> None:
    masks: list[tuple[int, set[int]]] = []
    done = threading.Event()

    def record_mask() -> None:
        masks.append((threading.get_ident(), set(signal.pthread_sigmask(signal.SIG_BLOCK, []))))
        done.set()

    before, count = signal.pthread_sigmask(signal.SIG_BLOCK, []), threading.active_count()
    start_apart(record_mask)
    assert done.wait(10)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before and threading.active_count() == count
    assert masks[0][0] != threading.get_ident() and {signal.SIGINT, signal.SIGALRM, signal.SIGUSR2} <= masks[0][1]
    assert signal.SIGSEGV not in masks[0][1], "faults are reported at once"
