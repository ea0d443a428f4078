"""State that a lecture leaves behind is restored and named; state that cannot be restored is reported."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.messages import says
from tests.traces import example_trace
from trace_tools.trace.model import Step, Trace
from trace_tools.tracing.isolation import process_state
from trace_tools.tracing.isolation.process_settings import ProcessSetting
from trace_tools.tracing.isolation.process_state import ProcessState, same, seed_everything
from trace_tools.tracing.options import TraceOptions
from trace_tools.tracing.supervisor import Tracer

# Each change in `leave` is undone before the warm run; otherwise `look` records other values there.
LEAVES = '''"""Looks at its process, then leaves things behind in it."""
import asyncio, builtins, contextvars, copyreg, decimal, gc, json, locale, logging, math, multiprocessing
import os, random, resource, signal, sys, threading, time, types, warnings
from unittest import mock
import numpy as np
import torch
import torch.nn.functional as F
import beside

variable = contextvars.ContextVar("variable", default=0)

def main():
    look()
    leave()
    go_on()  # of which the parent is told

def go_on(): pass

def look():
    names = math.pi, json.dumps([1]), hasattr(torch, "foo"), hasattr(torch.Tensor, "twice")  # @inspect names
    relu = F.relu(torch.tensor([-1.0])).tolist(), torch.nn.Linear(1, 1).extra_repr()  # @inspect relu
    built_in = hasattr(builtins, "left"), os.getlogin.__name__, "fake" in sys.modules  # @inspect built_in
    own = beside.call()  # @inspect own
    start = multiprocessing.get_start_method(allow_none=True)  # @inspect start
    sharing = torch.multiprocessing.get_sharing_strategy()  # @inspect sharing
    numbers = decimal.getcontext().prec, locale.setlocale(locale.LC_ALL), variable.get()  # @inspect numbers
    loggers = logging.root.level, len(logging.root.handlers), len(logging.getLogger("my").handlers)  # @inspect loggers
    level = logging.getLogger("asyncio").level  # @inspect level
    collector = gc.get_threshold(), len(gc.callbacks), gc.get_freeze_count() > 0, sys.getswitchinterval()
    collected = len(collector), collector  # @inspect collected
    signals = signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL, signal.getitimer(signal.ITIMER_REAL)[0]
    signalled = len(signals), signals  # @inspect signalled
    hooks = sys.excepthook is sys.__excepthook__, threading.excepthook is threading.__excepthook__  # @inspect hooks
    old, new = torch.get_float32_matmul_precision(), torch.backends.cuda.matmul.fp32_precision  # @inspect old new
    modes = torch._C._len_torch_function_stack(), torch.is_autocast_enabled("cpu")  # @inspect modes
    tiny = (torch.tensor([1e-310], dtype=torch.float64) / 2).item() == 0  # @inspect tiny
    shown = str(torch.tensor(1 / 3)), str(np.array([1 / 3])), np.geterr()["divide"]  # @inspect shown
    limits = os.umask(0o022), resource.getrlimit(resource.RLIMIT_NOFILE)[0]  # @inspect limits
    policy = type(asyncio.get_event_loop_policy()).__name__  # @inspect policy
    place = os.environ.get("LEFT"), time.tzname, len(sys.meta_path), len(sys.path), os.getcwd() == "/"  # @inspect place
    reduced = int in copyreg.dispatch_table, Mine in torch.serialization.get_safe_globals()  # @inspect reduced
    drawn = torch.rand(1).item(), np.random.rand(), random.random()  # @inspect drawn
    threads = threading.active_count()  # @inspect threads
    warnings.warn("each time")
    seen = json.dumps.__dict__.setdefault("seen", {})  # as a library has them, of what it warned
    warnings.warn_explicit("by a library", UserWarning, "library.py", 1, registry=seen)
    globals()["operators"] = torch.library.Library("leaves", "DEF")
    operators.define("once(Tensor x) -> Tensor")
    torch.library.define("leaves_too::once", "(Tensor x) -> Tensor")
    torch.backends.fp32_precision = "ieee"

class Mine: pass
class Policy(asyncio.DefaultEventLoopPolicy): pass
class Finder:
    @staticmethod
    def find_spec(*_): return None

def leave():
    math.pi = 3
    json.dumps = lambda *_, **__: 1 / 0
    F.relu = F.gelu
    torch.Tensor.twice = lambda self: 2 * self
    torch.nn.Linear.extra_repr = lambda self: "patched"
    setattr(torch, "foo", 3)
    builtins.left, builtins.print = 1, str
    mock.patch("os.getlogin").start()
    sys.modules["fake"] = types.ModuleType("fake")
    multiprocessing.set_start_method("spawn")
    torch.multiprocessing.set_sharing_strategy("file_system")
    decimal.getcontext().prec = decimal.DefaultContext.prec = 5
    variable.set(7)
    logging.basicConfig(level=logging.DEBUG)
    logging.getLogger("my").addHandler(logging.NullHandler())
    logging.getLogger("asyncio").setLevel(7)
    gc.set_threshold(5000); gc.callbacks.append(lambda *_: None); gc.freeze(); sys.setswitchinterval(0.1)
    signal.signal(signal.SIGUSR1, lambda *_: None); signal.setitimer(signal.ITIMER_REAL, 100)
    sys.excepthook = threading.excepthook = print
    torch.backends.cuda.matmul.fp32_precision = "tf32"  # now the older interface refuses to be read
    torch.autocast("cpu").__enter__()
    torch.overrides.TorchFunctionMode().__enter__()
    torch.set_flush_denormal(True)
    torch.set_printoptions(precision=1); np.set_printoptions(precision=1); np.seterr(all="ignore")
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_NOFILE, (500, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    asyncio.set_event_loop_policy(Policy())
    os.environ.update(LEFT="behind", TZ="Asia/Tokyo"); time.tzset(); os.chdir("/")
    sys.meta_path.append(Finder()); sys.path.append("elsewhere")
    copyreg.pickle(int, lambda x: (int, (x,))); torch.serialization.add_safe_globals([Mine])
    threading.Thread(target=lambda: time.sleep(0.1)).start()  # Python would wait for it
'''
STUCK = """import threading
import torch
def main():
    torch.set_num_interop_threads(1 + torch.get_num_interop_threads())
    threading.Thread(target=wait, daemon=True).start()
def wait():
    threading.Event().wait()
"""


@pytest.fixture
def traced(environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Trace]:
    monkeypatch.setenv("PYTHONPATH", environment["PYTHONPATH"])
    (tmp_path / "beside.py").write_text("calls = 0\ndef call():\n    global calls\n    calls += 1\n    return calls\n")

    def run(source: str) -> Trace:
        lecture = tmp_path / "lecture.py"
        lecture.write_text(source, encoding="utf-8")
        options = TraceOptions(device="cpu", passes=1)
        return Tracer(lecture, tmp_path / "rendered", options, like=example_trace()).run().trace

    return run


@pytest.mark.slow
def test_warm_run_equals_a_run_in_a_new_process(traced: Callable[[str], Trace]) -> None:
    """No value, warning or line differs from the cold run, which is the first run of a new process."""
    trace = traced(LEAVES)
    timed, metering, _ = trace.run.processes
    assert trace.run.complete and timed.why_no_warm is None and timed.warm_ns and metering.ended == "complete"
    steps = [event for event in trace.steps if isinstance(event, Step)]
    values = [(name, value) for step in steps for name, value in step.values or ()]
    assert len(values) == 23 and not [name for name, value in values if "varies=True" in str(value)]
    assert not [name for name, value in values if value.type == "error"]
    assert [step.runs for step in steps if step.runs] == [] and trace.run.story == "pass 1, warm"
    messages = [warning for step in steps for warning in step.warnings or ()]
    assert messages == ["UserWarning: each time", "UserWarning: by a library"]
    names = {"math.pi", "json.dumps", "torch.nn.functional.relu", "torch.Tensor.twice", "torch.foo", "os.getlogin"}
    names |= {"builtins.left", "builtins.print", "module beside", "module fake", "start method of processes"}
    names |= {
        "float32 precision",
        "torch.library definitions",
        "denormal numbers",
        "limit RLIMIT_NOFILE",
        "autocast",
    }
    names |= {"environment", "working directory", "logging", "decimal defaults", "SIGUSR1 handler", "ITIMER_REAL"}
    assert names <= set(timed.restored or ()), names - set(timed.restored or ())


@pytest.mark.slow
def test_unrestorable_state_is_reported_and_prevents_the_warm_run(traced: Callable[[str], Trace]) -> None:
    timed = traced(STUCK).run.processes[0]
    assert (timed.ended, timed.warm_ns) == ("complete", None)
    assert says(timed.why_no_warm, "thread", "line 7", "threads between operators")


@pytest.mark.slow
def test_unreadable_and_unwritable_settings_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    states: dict[str, Any] = {"mended": 1, "refused": 1}

    def refuse(*_: object) -> Any:
        raise RuntimeError("not today\nnor tomorrow")

    def read(name: str) -> Any:
        return states[name] if states[name] != "unreadable" else refuse()

    settings = [
        ProcessSetting("unreadable", refuse, refuse),
        ProcessSetting("unknown", lambda: random.no_such_thing, refuse),  # type: ignore[attr-defined]
        ProcessSetting("mended", lambda: read("mended"), lambda value: states.update(mended=value)),
        ProcessSetting("refused", lambda: read("refused"), refuse),
    ]
    monkeypatch.setattr(process_state, "process_settings", lambda: settings)
    before = ProcessState.read(tmp_path)
    assert len(before.unread) == 1 and says(before.unread[0], "unreadable", "RuntimeError: not today")
    states.update(mended="unreadable", refused=2)
    restoration = before.restore()
    assert restoration.restored == ["mended"] and states["mended"] == 1
    assert len(restoration.stuck) == 1 and says(restoration.stuck[0], "refused", "RuntimeError: not today")


def test_comparison_never_calls_eq_of_lecture_objects() -> None:
    class NotComparable:
        def __eq__(self, other: object) -> bool:
            raise AssertionError

        __hash__ = None  # type: ignore[assignment]

    not_comparable = NotComparable()
    assert same([not_comparable, {"a": (1, not_comparable)}], [not_comparable, {"a": (1, not_comparable)}])
    assert not same([not_comparable], [NotComparable()]) and not same((1, 2), (1, 3)) and not same({"a": 1}, {"b": 1})
    assert not same(1, True) and same(torch.float32, torch.float32)


@pytest.mark.slow
def test_threads_started_before_the_run_are_not_awaited(tmp_path: Path) -> None:
    done = threading.Event()
    threading.Thread(target=done.wait).start()
    try:
        assert ProcessState.read(tmp_path).restore() == process_state.Restoration([], [])
    finally:
        done.set()


def test_seed_everything_equals_seeding_each_library() -> None:
    seed_everything(7)
    drawn = (random.random(), np.random.rand(), torch.rand(1).item())
    random.seed(7), np.random.seed(7), torch.manual_seed(7)
    assert drawn == (random.random(), np.random.rand(), torch.rand(1).item())


LATE_IMPORT = """
import random, sys
from trace_tools.tracing.isolation.process_state import seed_everything, seed_what_comes
assert "numpy" not in sys.modules
seed_what_comes(7), seed_everything(7)
import numpy
late = random.random(), numpy.random.rand()
random.seed(7), numpy.random.seed(7)
assert late == (random.random(), numpy.random.rand())
print("done")
"""


def test_libraries_imported_later_are_seeded() -> None:
    completed = subprocess.run([sys.executable, "-c", LATE_IMPORT], capture_output=True, text=True, timeout=100)
    assert completed.stdout == "done\n", completed.stderr
