"""Code of the lecture that only observation runs, and threads and processes that the lecture leaves running.

The command line traces one lecture, which is observed in the main thread, in another thread, and while it uses the
alarm; its run in plain Python is the oracle. Each process first imports a module that shortens the tools' limits.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.programs import require
from trace_tools.trace.file import load
from trace_tools.trace.model import Frame, Step, Trace, Value

pytestmark = pytest.mark.slow  # all tests share one trace, which takes many seconds

SHORTER = """
import trace_tools.tracing.isolation.ending as ending
ending.WAIT_S = 0.5
"""

LECTURE = """
import dataclasses, multiprocessing, random, signal, subprocess, sys, threading, time, warnings
import numpy, torch

class Own(BaseException): pass

class Meta(type):
    def __getattr__(cls, name):
        while True: time.sleep(1)
    def __hash__(cls): raise Own
    def __instancecheck__(cls, x): raise Own
    __subclasscheck__ = __eq__ = __instancecheck__

class LoopsToo(tuple, metaclass=Meta): pass

class Sleeps:
    def __repr__(self): time.sleep(1000)

class Properties:
    @property
    def ends(self): sys.exit(3)
    @property
    def own(self): raise Own("mine")
    __class__ = property(lambda self: sys.exit(4))
    def __repr__(self): raise SystemExit
    __eq__ = __len__ = __iter__ = __bool__ = __format__ = __hash__ = lambda *_: sys.exit(5)

class Message(Exception):
    def __str__(self): raise Own
    __bool__ = __len__ = __str__
    __class__ = property(__str__)

class Locks:
    lock = threading.Lock()
    def __repr__(self): return str(self.lock.acquire())

class Prints:
    def __repr__(self):
        print("observed"); warnings.warn("observed")
        return f"{len(str((random.random(), random.gauss(0, 1), numpy.random.randn(), torch.rand(1))))}"[:0] + "Prints"

@dataclasses.dataclass
class Fields:
    x: int = 3
    y: int = 4

class MadeUp(Fields):
    y = property(lambda self: sys.exit(6), lambda self, y: None)

class Functions(torch.Tensor):
    @classmethod
    def __torch_function__(cls, *_, **__): raise Own

class Network(torch.nn.Module):
    def extra_repr(self):
        while True: time.sleep(1)
    def named_parameters(self, *_, **__): raise Own

class Array(numpy.ndarray):
    def __repr__(self): raise Own
    shape = size = dtype = base = property(__repr__)
    __array_finalize__ = lambda *_: None

class Threads(threading.Thread):
    __bool__ = __len__ = lambda *_: sys.exit(7)

def main():
    observed()
    thread = Threads(target=in_thread, name="other"); thread.start(); thread.join()
    signal.signal(signal.SIGALRM, print)
    in_use()
    assert signal.getsignal(signal.SIGALRM) is print
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    draw()
    leave()

def observed():
    x, held = Properties(), Locks.lock.acquire()
    a = 1  # @inspect x.ends, x.own, x, Sleeps(), Locks()
    b = 2  # @inspect LoopsToo([1]), MadeUp(), Functions([1.0]), Network(), numpy.arange(3).view(Array)
    c = 3  # @inspect list((x, Sleeps())), numpy.array([Properties()]), torch.ones(2).nothing
    try:
        raise Message
    except Message:
        print("caught")
    Locks.lock.release()
    done = 4  # @inspect done

def in_thread():
    x = Properties()
    d = 1  # @inspect x.ends, x, Prints()
    print("in the thread")

def in_use():
    x = Properties()
    e = 1  # @inspect x.own, x

def draw():
    random.seed(0), numpy.random.seed(0), torch.manual_seed(0)
    f = numpy.random.randn(), Prints()  # @inspect f, random.random(), numpy.random.randn(), torch.rand(2), print()
    print(random.random(), random.gauss(0, 1), numpy.random.randn(), torch.rand(1).item(), torch.is_grad_enabled())

def leave():
    threading.Thread(target=late, name="late").start()
    sleeper = subprocess.Popen(["sleep", "1000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    pid = sleeper.pid  # @inspect pid

def late():
    time.sleep(0.2)
    print("late")
"""


@pytest.fixture(scope="module")
def traced(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Trace, str, str]:
    """Return the trace, the standard error of the command, and the output of a run in plain Python."""
    require("sleep")
    folder = tmp_path_factory.mktemp("observed")
    (folder / "lecture.py").write_text(LECTURE, encoding="utf-8")
    (folder / "site").mkdir()
    (folder / "site/sitecustomize.py").write_text(SHORTER, encoding="utf-8")
    path = f"{environment['PYTHONPATH']}:{folder / 'site'}"
    command = [
        sys.executable,
        "-m",
        "trace_tools",
        "trace",
        "lecture.py",
        "--passes",
        "1",
        "--device",
        "cpu",
        "-o",
        "out",
    ]
    completed = subprocess.run(
        command, cwd=folder, env=environment | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=200
    )
    assert completed.returncode == 1, completed.stderr
    plain = [sys.executable, "-c", "import lecture; lecture.main()"]
    with subprocess.Popen(
        plain, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        output = process.communicate(timeout=60)[0]
        os.killpg(process.pid, signal.SIGKILL)  # the lecture leaves a process
    return load(folder / "out/cpu/trace.yaml").trace, completed.stderr, output


@pytest.fixture(scope="module")
def values(traced: tuple[Trace, str, str]) -> Callable[[str], dict[str, Value]]:
    """Return a function that returns the values of the statement that begins with a text."""

    def values_of(start: str) -> dict[str, Value]:
        text = traced[0].sources[0].text.splitlines()
        (step,) = (s for s in traced[0].steps if isinstance(s, Step) and text[s.line - 1].strip().startswith(start))
        return dict(step.values or ())

    return values_of


def test_all_processes_complete_and_print_the_plain_output(traced: tuple[Trace, str, str]) -> None:
    trace, _, plain = traced
    assert trace.run.complete and [process.ended for process in trace.run.processes] == ["complete"]
    assert all(process.why_no_warm is None for process in trace.run.processes)
    outputs = [step.stdout for step in trace.steps if isinstance(step, Step) and step.stdout]
    assert "".join(outputs) == plain
    assert not [step for step in trace.steps if isinstance(step, Step) and step.warnings]


def test_failed_and_slow_observations_are_recorded(values: Callable[[str], dict[str, Value]]) -> None:
    a, b, c = values("a = 1"), values("b = 2"), values("c = 3")
    assert {source: value.text for source, value in a.items() if value.type == "error"} == {
        "x.ends": "SystemExit: 3",
        "x.own": "Own: mine",
    }
    notes = {source: value.note for source, value in a.items() if value.note}
    assert notes.pop("x") == "repr raised SystemExit"
    assert set(notes.values()) == {"repr took too long"} and notes.keys() == {"Sleeps()", "Locks()"}
    assert b["LoopsToo([1])"].items == [Value("int", value=1)]
    assert (b["MadeUp()"].entries or [])[1][1].text == "y raised SystemExit: 6"
    assert b["Functions([1.0])"].tensor and b["numpy.arange(3).view(Array)"].tensor
    assert "took too long" in (b["Network()"].note or "")
    assert [item.note for item in c["list((x, Sleeps()))"].items or ()] == [
        "repr raised SystemExit",
        "repr took too long",
    ]
    assert (c["torch.ones(2).nothing"].text or "").startswith("AttributeError")
    assert values("done = 4")["done"].value == 4


def test_failed_observations_in_threads_and_with_alarms_are_recorded(
    values: Callable[[str], dict[str, Value]],
) -> None:
    d, e = values("d = 1"), values("e = 1")
    assert (d["x.ends"].text, e["x.own"].text) == ("SystemExit: 3", "Own: mine")
    assert d["x"].note == e["x"].note == "repr raised SystemExit"
    assert d["Prints()"].text == "Prints"


def test_threads_are_awaited_and_other_processes_are_ended(
    traced: tuple[Trace, str, str], values: Callable[[str], dict[str, Value]]
) -> None:
    (late,) = (frame for frame in traced[0].steps if isinstance(frame, Frame) and frame.function == "late")
    assert late.thread == "late"
    assert "sleep" not in command_of(str(values("pid = sleeper.pid")["pid"].value))


def command_of(pid: str) -> str:
    """Return the command of the process with this number, which may be a new process; "" if there is none."""
    try:
        return Path("/proc", pid, "cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
