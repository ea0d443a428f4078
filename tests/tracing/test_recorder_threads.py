"""Threads, and records that do not come from probes: printed text, warnings, images, marks."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.messages import says
from tests.tracing.probed import Probed, Trace, listening
from trace_tools.lecture import vocabulary

# ------------------------------------------------------------------------------ threads


def test_thread_calls_belong_to_the_step_that_started_them(trace: Trace) -> None:
    lecture = trace("""
import threading
def main():
    results = []
    start(results)
    return results
def start(results):
    threads = [threading.Thread(target=outer, args=(n,), name=f"worker {n}") for n in range(3)]
    for thread in threads: thread.start()
    gate.set()
    for thread in threads: thread.join()
def outer(n):
    gate.wait(5)
    inner(n)
def inner(n):
    work(n)
""", given={"gate": threading.Event()})  # fmt: skip
    assert lecture.calls()["inner(n)", "inner"] == 3
    assert {frame.thread for frame in lecture.frames("outer")} == {"worker 0", "worker 1", "worker 2"}
    assert {frame.thread for frame in lecture.frames("inner")} == {None}, "its caller is in the same thread"
    [start] = lecture.frames("start")
    assert {lecture.run.steps[frame.of or 0].frame for frame in lecture.frames("outer")} == {start.id}


def test_late_thread_calls_belong_to_the_starting_step(trace: Trace) -> None:
    """The thread makes its first call after the step that started it and the calling function have ended."""
    gate = threading.Event()
    lecture = trace("""
import threading
def main():
    thread = section()
    x = 1
    gate.set()
    thread.join()
def section():
    thread = threading.Thread(target=lambda: gate.wait(5) and outer(), name="late")
    thread.start()
    return thread
def outer():
    print("from a thread")
""", given={"gate": gate})  # fmt: skip
    assert lecture.calls() == {("thread = section()", "section"): 1, ("thread.start()", "outer"): 1}
    assert lecture.frames("outer")[0].thread == "late"
    assert lecture.steps("print")[0].stdout == "from a thread\n"


def test_threads_unknown_to_python_are_recorded(trace: Trace) -> None:
    """The recorder does not add a thread that C++ started to the lecture's list of threads."""
    lecture = trace("""
import _thread, threading
def main():
    _thread.start_new_thread(f, ())
    started.wait(5)
    return g()
def f():
    try: h()
    finally: started.set()
def h(): pass
def g(): return threading.enumerate()
""", given={"started": threading.Event()})  # fmt: skip
    assert [frame.thread for frame in lecture.frames("f")] == ["native"]
    assert threading.enumerate() == [threading.main_thread()]


# ------------------------------------------------------------------------------ what happens during a step


def test_output_and_warnings_belong_to_the_innermost_step(tmp_path: Path) -> None:
    text = """
import warnings
from functools import reduce
print("module")
def main():
    print("one", 2)
    for i in range(2): f(i)
    reduce(lambda a, b: print(b), [1, 2])
    x = 1  # @inspect print("inspected")
    f(5)  # @stepover
def f(i):
    print("in f", i)
    warnings.warn("careful", stacklevel=1)
"""
    lecture = Probed(text, "lecture.py", tmp_path / "x.journal").main()
    printed = {
        'print("module")': ["module\n"], 'print("one"': ["one 2\n"], "reduce(": ["2\n"], "f(5)": ["in f 5\n"],
        'print("in f"': ["in f 0\n", "in f 1\n"], "x = 1": [""],
    }  # fmt: skip
    assert {code: [step.stdout for step in lecture.steps(code)] for code in printed} == printed
    assert any(step.warnings for step in lecture.steps("warnings.warn"))


def test_marks_apply_to_every_open_step(tmp_path: Path) -> None:
    text = "def main():\n    x = 1\n    f()\ndef f():\n    y = 1\n    mark()\n"
    lecture = Probed(text, "lecture.py", tmp_path / "x.journal")
    lecture.module.mark = lambda: lecture.recorder.mark("compiled")
    lecture.main()
    compiled = {"x = 1": False, "f()": True, "y = 1": False, "mark()": True}
    assert {code: lecture.steps(code)[0].compiled for code in compiled} == compiled


def test_images_that_the_lecture_makes_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs in a copy of its folder, which is deleted afterwards."""
    real, copy = tmp_path / "real", tmp_path / "copy"
    for folder in (real, copy):
        folder.mkdir()
        (folder / "beside.svg").touch()
    (copy / "made.svg").write_text("<svg/>")
    (copy / "large.png").write_bytes(bytes(2 << 20))
    monkeypatch.chdir(copy)
    given = {"image": vocabulary.image, "names": ["made.svg", "beside.svg", "gone.svg", "large.png"]}
    text = "def main():\n    [image(name) for name in names]\n"
    lecture = Probed(text, "lecture.py", tmp_path / "x.journal", given=given)
    with listening(lecture.recorder, str, real), lecture:
        lecture.module.main()
    [step] = lecture.steps("[image")
    made, *others = [entry["url"] for entry in step.narrative]
    assert made == "data:image/svg+xml;base64,PHN2Zy8+" and others == ["beside.svg", "gone.svg", "large.png"]
    assert len(step.warnings) == 2 and says(step.warnings[0], "NotShown", "'gone.svg'")
    assert says(step.warnings[1], "NotShown", "large.png", "2,097,152 bytes", "1,048,576")
