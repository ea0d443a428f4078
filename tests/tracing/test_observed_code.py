"""Code of the lecture that only observation runs, and threads and processes that the lecture leaves running.

The command line traces one lecture, which is observed in the main thread, in another thread, and while it uses the
alarm; its run in plain Python is the oracle. `describing/test_values_hostile` has more kinds of hostile values.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import require
from trace_tools.trace.file import load
from trace_tools.trace.model import Frame, Step, Value

SHORTER = "import trace_tools.tracing.isolation.ending as ending\nending.WAIT_S = 0.5\n"  # imported by each process
LECTURE = """
import random, signal, subprocess, sys, threading, time, warnings
import numpy, torch

class Own(BaseException): pass

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
    a = 1  # @inspect x.ends, x.own, x, Sleeps(), Locks(), list((x, Sleeps())), torch.ones(2).nothing
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


@pytest.mark.slow
def test_a_lecture_that_is_hard_to_observe(environment: dict[str, str], tmp_path: Path) -> None:
    require("sleep")
    (tmp_path / "lecture.py").write_text(LECTURE, encoding="utf-8")
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text(SHORTER, encoding="utf-8")
    variables = environment | {"PYTHONPATH": f"{environment['PYTHONPATH']}:{tmp_path / 'site'}"}
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
    completed = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=200)
    assert completed.returncode == 1, completed.stderr
    command = [sys.executable, "-c", "import lecture; lecture.main()"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        output = process.communicate(timeout=60)[0]
        os.killpg(process.pid, signal.SIGKILL)  # the lecture leaves a process
    trace = load(tmp_path / "out/cpu/trace.yaml").trace
    assert trace.run.complete
    assert [(str(process.ended), process.why_no_warm) for process in trace.run.processes] == [("complete", None)]
    steps = [step for step in trace.steps if isinstance(step, Step)]
    assert "".join(step.stdout or "" for step in steps) == output and not any(step.warnings for step in steps)

    lines = LECTURE.splitlines()

    def values(start: str) -> dict[str, Value]:
        (step,) = (step for step in steps if lines[step.line - 1].strip().startswith(start))
        return dict(step.values or ())

    a, d, e = values("a = 1"), values("d = 1"), values("e = 1")
    failed, slow = "repr raised SystemExit", "repr took too long"
    assert (a["x.ends"].text, a["x.own"].text) == (d["x.ends"].text, e["x.own"].text) == ("SystemExit: 3", "Own: mine")
    assert (a["x"].note, d["x"].note, e["x"].note) == (failed, failed, failed)
    assert (a["Sleeps()"].note, a["Locks()"].note) == (slow, slow)
    assert [item.note for item in a["list((x, Sleeps()))"].items or ()] == [failed, slow]
    assert (a["torch.ones(2).nothing"].text or "").startswith("AttributeError")
    assert (values("done = 4")["done"].value, d["Prints()"].text) == (4, "Prints")
    (late,) = (frame for frame in trace.steps if isinstance(frame, Frame) and frame.function == "late")
    assert late.thread == "late"  # it was awaited, and other processes are ended:
    assert "sleep" not in command_of(str(values("pid = sleeper.pid")["pid"].value))


def command_of(pid: str) -> str:
    """Return the command of the process with this number, which may be a new process; "" if there is none."""
    try:
        return Path("/proc", pid, "cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
