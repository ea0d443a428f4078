"""Whole traces through the command line: real processes and real failures."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import yaml

import trace_tools
from tests import signals
from tests.messages import says
from tests.programs import require
from tests.traces import example_trace
from trace_tools.analysis.outcome import problems
from trace_tools.commands.trace import trace as trace_command
from trace_tools.errors import UsageError
from trace_tools.machines.machine import STORED
from trace_tools.trace.file import load, write
from trace_tools.trace.model import Frame, Machine, Step, Trace, Value
from trace_tools.tracing.options import DEFAULTS, OPTIONS, TraceOptions, flag_of
from trace_tools.tracing.tracer import StoppedError, Tracer

Traced = Callable[..., tuple[Trace, list[str]]]


@pytest.fixture
def traced(environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Traced:
    """Return a function that traces a text as lecture.py, for a known machine; it returns the trace and its errors."""
    for name in ("PYTHONPATH", STORED):
        monkeypatch.setenv(name, environment[name])

    def run(text: str, passes: int = 1, **settings: bool) -> tuple[Trace, list[str]]:
        options = TraceOptions(device="cpu", passes=passes, name="cpu", force=True, **settings)
        traced = Tracer(lecture(tmp_path, text), tmp_path / "rendered", options).run()
        assert load(traced.path) == traced.trace
        return traced.trace, problems(traced.trace)

    return run


def lecture(folder: Path, text: str) -> Path:
    path = folder / "lecture.py"
    path.write_text(text, encoding="utf-8")
    return path


def tool(
    folder: Path, environment: dict[str, str], *arguments: str, limit_bytes: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder; it can write no file larger than `limit_bytes`."""

    def limit() -> None:
        if limit_bytes:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))

    command = [sys.executable, "-m", "trace_tools", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=170, preexec_fn=limit
    )


def already_traced(folder: Path, machine: str = "cpu") -> bytes:
    """Write a complete trace, of the machine that `environment` describes, to lecture.py's path; return its bytes."""
    path = folder / f"rendered/{machine}/trace.yaml"
    path.parent.mkdir(parents=True)
    write(example_trace(machine=Machine("A processor", "cpu", "cpu")), path)
    return path.read_bytes()


def steps(trace: Trace, fragment: str) -> list[Step]:
    """Return the steps of the only line that contains a text."""
    [line] = [number for number, text in enumerate(trace.source.text.splitlines(), 1) if fragment in text]
    return [event for event in trace.steps if isinstance(event, Step) and event.line == line]


def calls(trace: Trace, function: str) -> list[Frame]:
    return [event for event in trace.steps if isinstance(event, Frame) and event.function == function]


def values(trace: Trace) -> dict[str, Value]:
    """Return the last value of each inspected expression."""
    return {source: value for event in trace.steps if isinstance(event, Step) for source, value in event.values or ()}


EVERYTHING = '''"""A lecture that does a bit of everything.

And says so."""
import os
import sys
import time
import warnings
from pathlib import Path

import torch
import torch.utils.flop_counter

from trace_tools import count, image, measure, peak_flops, text

def main():
    tensors()
    loops()
    peaks()
    leaks()

def tensors():
    text("Matrices multiply in $2BDK$ FLOPs.")
    Path("made.svg").write_text("<svg/>")
    image("made.svg")
    x = torch.randn(4, 8)  # @inspect x
    w = torch.randn(8, 16)
    y = x @ w  # @inspect y
    view = y.T  # @inspect view
    assert y.shape == (4, 16), "shape"
    seconds = measure(lambda: x @ w).seconds  # @inspect seconds [s]

def loops():
    total = 0
    for i in range(300):
        total += square(i)  # @inspect total
    hidden = square(3)  # @inspect hidden @stepover
    when = time.perf_counter()  # @inspect when [s]
    broken = 1  # @inspect missing
    print("to", end=" ")
    sys.stdout.buffer.write(b"the reader\\n")
    warnings.warn("take care")

def square(i):  # @inspect i
    return i * i

def peaks():
    peak = peak_flops("float32")  # @inspect peak
    ones = torch.ones(64, 64)
    done = count(lambda: ones @ ones)  # @inspect done.flops
    took = measure(lambda: ones @ ones, repeats=3, min_seconds=0.001).seconds
    sane = 0 < took < 1e3  # @inspect sane

def leaks():
    assert torch.get_default_dtype() == torch.float64, "not yet"
    torch.set_default_dtype(torch.float64)
    os.environ["LEFT"] = "behind"
    os.chdir("/")
    torch.utils.flop_counter.register_flop_formula(torch.ops.aten.mv)(lambda a, b, **_: 1)  # an error if repeated
    try:
        raise ValueError("caught")
    except ValueError as error:
        message = str(error)  # @inspect message
'''


class Everything(NamedTuple):
    completed: subprocess.CompletedProcess[str]
    rendered: Path
    trace: Trace


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Everything:
    folder = tmp_path_factory.mktemp("everything")
    (folder / "rendered/cpu/partial").mkdir(parents=True)
    lecture(folder, EVERYTHING)
    completed = tool(folder, environment, "trace", "lecture.py", "--passes", "2", "--keep-going")
    return Everything(completed, folder / "rendered", load(folder / "rendered/cpu/trace.yaml"))


def test_complete_trace_is_written(everything: Everything) -> None:
    completed, rendered, trace = everything
    assert completed.returncode == 1, completed.stderr  # because of `missing` and of a failed claim
    [missing], [claim] = steps(trace, "inspect missing"), steps(trace, "not yet")
    assert f"lecture.py:{missing.line}: @inspect missing: NameError" in completed.stderr
    assert claim.claim and not claim.claim.held and f"lecture.py:{claim.line}: claim failed" in completed.stderr
    assert (trace.title, trace.run.complete, trace.run.passes) == ("A lecture that does a bit of everything", True, 2)
    assert [process.name for process in trace.run.processes] == ["pass 1", "pass 2"]
    assert yaml.safe_load((rendered / "cpu/trace.yaml").read_text(encoding="utf-8"))["schema"] == 1
    assert not list(rendered.glob(".run-*")) and not (rendered / "cpu/partial").exists()
    restored = set(trace.run.processes[0].restored or ())
    assert restored >= {"default dtype", "environment", "working directory", "FLOP formulas"}


def test_values_equal_those_of_a_plain_run(everything: Everything) -> None:
    recorded = values(everything.trace)
    torch.manual_seed(0)
    x, w = torch.randn(4, 8), torch.randn(8, 16)
    tensors = {name: recorded[name].tensor for name in ("x", "y", "view")}
    assert tensors["x"] and tensors["x"].elements == x.flatten().tolist()
    assert tensors["y"] and tensors["y"].elements == (x @ w).flatten().tolist()
    assert tensors["view"] and tensors["view"].strides == list((x @ w).T.stride())
    assert tensors["view"].storage == tensors["y"].storage != tensors["x"].storage
    scalars = {name: recorded[name].value for name in ("total", "message", "hidden", "done.flops", "sane")}
    total = sum(i * i for i in range(300))
    assert scalars == {"total": total, "message": "caught", "hidden": 9, "done.flops": 2 * 64**3, "sane": True}
    assert recorded["missing"].type == "error"
    assert {name for name, value in recorded.items() if value.varies} == {"seconds", "when"}
    when = recorded["when"]
    assert len(when.samples or []) == len(when.cold_samples or []) == 2 and when.unit == "s"


def test_steps_have_meters_times_claims_and_output(everything: Everything) -> None:
    trace = everything.trace
    [product], [timed] = steps(trace, "y = x @ w"), steps(trace, "took = measure")
    assert product.meters and product.meters.flops == 2 * 4 * 8 * 16
    assert product.meters.bytes_written == 4 * 4 * 16 and product.meters.bytes_read == 4 * (4 * 8 + 8 * 16)
    assert product.host_ns and len(product.host_ns) == 2 and product.cold_ns and len(product.cold_ns) == 2
    [measured] = timed.measured or []
    assert timed.harness and measured.flops == 2 * 64**3 and measured.dtype == "float32" and len(measured.seconds) == 2
    assert trace.run.timed_runs == 4
    assert values(trace)["peak"].value == next(p.per_second for p in trace.machine.peaks if p.name == "float32")
    claim = steps(trace, "assert y.shape")[0].claim
    assert claim and claim.held and [source for source, _ in claim.sides] == ["y.shape", "(4, 16)"]
    assert [steps(trace, code)[0].stdout for code in ('print("to', "stdout.buffer")] == ["to ", "the reader\n"]
    assert steps(trace, "warnings.warn(")[0].warnings == ["UserWarning: take care"]
    assert "2BDK" in str(steps(trace, "2BDK")[0].narrative)
    assert "data:image/svg+xml" in str(steps(trace, "image(")[0].narrative), "the file is deleted after the run"
    raised = steps(trace, "raise ValueError")[0].raised
    assert raised and raised.type == "ValueError"


# ------------------------------------------------------------------------------ failures


def test_a_lecture_that_raises_leaves_a_partial_trace(
    traced: Traced, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONOPTIMIZE", "2")  # removes asserts, but not claims
    complete = already_traced(tmp_path)
    partial, errors = traced("def main():\n    x = 2  # @inspect x\n    assert x == 1, f'x is {x}'\n")
    claim = steps(partial, "assert")[0].claim
    assert partial.run.ended == "AssertionError at line 3 (pass 1)" and claim and not claim.held
    assert errors == [
        "incomplete: AssertionError at line 3 (pass 1)",
        "lecture.py:3: claim failed: x == 1: 2 == 1: x is 2 (pass 1, cold)",
    ]
    assert claim.message == "x is 2" and [value.value for _, value in claim.sides] == [2, 1]
    assert (tmp_path / "rendered/cpu/trace.yaml").read_bytes() == complete
    assert (tmp_path / "rendered/cpu/partial/trace.yaml").exists()


WAITING = """
import time
def main():
    x = 1  # @inspect x
    wait(x)
def wait(x):
    open("ready", "w").close()
    time.sleep(100)
"""


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.05)


def started(folder: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    """Start a trace; return once its journal says that the lecture is waiting."""
    command = [sys.executable, "-m", "trace_tools", "trace", str(lecture(folder, WAITING)), "--passes", "1"]
    pipe: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    tracer = subprocess.Popen(command, cwd=folder, env=environment, preexec_fn=signals.heard, **pipe)
    until(lambda: any(b'"line":8' in path.read_bytes() for path in folder.glob("rendered/.run-*/pass-1.journal")))
    time.sleep(0.3)
    return tracer


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 1), (signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_ctrl_c_and_signals_leave_a_partial_trace(
    environment: dict[str, str], tmp_path: Path, number: int, code: int
) -> None:
    tracer = started(tmp_path, environment)
    tracer.send_signal(number)
    _, err = tracer.communicate(timeout=30)
    assert tracer.returncode == code and "Traceback" not in err
    if number == signal.SIGKILL:
        recovered = tool(tmp_path, environment, "recover", "rendered")
        assert recovered.returncode == 0 and "killed at line 8" in recovered.stdout
    else:
        assert "KeyboardInterrupt at line 8" in err
        assert re.search(r"^recording took [\d.<% ]+ of the [\d.]+ m?s before Ctrl-C; `# @stepover`", err, re.M)
    trace = load(next(tmp_path.glob("rendered/*/partial/trace.yaml")))
    assert trace.run.ended.endswith("at line 8 (pass 1)") and values(trace)["x"].value == 1
    assert (steps(trace, "sleep(100)")[0].cold_ns is None) is (number == signal.SIGKILL)
    assert not list(tmp_path.glob("rendered/.run-*"))


@pytest.mark.slow
def test_trace_on_a_full_disk_can_be_recovered(environment: dict[str, str], tmp_path: Path) -> None:
    complete = already_traced(tmp_path)
    lecture(tmp_path, "def main():\n" + "".join(f"    x{n} = '{n}' * 900  # @inspect x{n}\n" for n in range(100)))
    failed = tool(tmp_path, environment, "trace", "lecture.py", "--passes", "1", limit_bytes=50_000)
    assert failed.returncode == 2 and "Traceback" not in failed.stderr and "File too large" in failed.stderr
    assert (tmp_path / "rendered/cpu/trace.yaml").read_bytes() == complete
    recovered = tool(tmp_path, environment, "recover", "rendered")  # with enough room again
    assert "its journal could not be written" in recovered.stdout
    assert values(load(next(tmp_path.glob("rendered/*/partial/trace.yaml"))))["x10"].value == "10" * 900


def test_process_that_cannot_start_is_reported_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess.Popen, "__init__", refused)
    with pytest.raises(UsageError, match=r"^\S+: Resource temporarily unavailable$"):
        Tracer(lecture(tmp_path, "def main(): pass\n"), tmp_path / "rendered").run()
    assert not list((tmp_path / "rendered").iterdir())


SECTIONS = """
import weakref
import torch
kept = []
def main():
    first()
    second(4)
    try: second(5)
    except ValueError: pass
    third()
    raise SystemExit("the end")
def first():
    assert 1 == 2, "no"
    x = 1  # @inspect x
def second(n):
    held = torch.ones(1000)
    kept.append(weakref.ref(held))
    raise ValueError(f"there is no {n}")
def third():
    alive = kept[0]()  # @inspect alive
"""


@pytest.mark.slow
def test_keep_going_continues_after_a_failed_section(traced: Traced) -> None:
    trace, errors = traced(SECTIONS, keep_going=True)
    claim = "lecture.py:13: claim failed: 1 == 2: 1 == 2"
    end, second = "lecture.py:11: SystemExit: the end", "lecture.py:18: ValueError: there is no 4"
    assert errors == ["incomplete: SystemExit at line 11 (pass 1)", f"{claim} (pass 1, cold)", second, end]
    recorded = values(trace)
    assert recorded["x"].value == 1 and recorded["alive"].type == "none", "the variables of a failed section are freed"
    trace, errors = traced(SECTIONS)
    assert errors == ["incomplete: AssertionError at line 13 (pass 1)", f"{claim}: no (pass 1, cold)"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("os._exit(0)", "exited with status 0"),
        ("os.execlp('false', 'false')", "exited with status 1"),
        ("import ctypes; ctypes.string_at(0)", "killed by SIGSEGV"),
        ("import io, sys; os.remove(__file__); sys.stdout = io.StringIO(); sys.exit(3)", "SystemExit"),
    ],
)
def test_line_of_an_abrupt_end_is_reported(end: str, reason: str, traced: Traced, tmp_path: Path) -> None:
    if "exec" in end:
        require("false")
    trace, errors = traced(
        f"import os\ndef main():\n    n = 7  # @inspect n\n    print(n)\n    part(n)\ndef part(n):\n    {end}\n"
    )
    assert errors[0] == f"incomplete: {reason} at line 7 (pass 1)" and (tmp_path / "lecture.py").exists()
    if "SIG" not in reason:  # a signal may lose the records of the last 50 ms
        assert values(trace)["n"].value == 7 and steps(trace, "print(n)")[0].stdout == "7\n"


def test_claim_that_fails_only_in_warm_runs_has_failed(traced: Traced) -> None:
    trace, errors = traced("""
import json
def main():
    runs = vars(json.dumps).setdefault("runs", [])  # a function of a library: that is not undone
    runs.append(1)
    assert len(runs) < 2
""", passes=2)  # fmt: skip
    assert errors == ["lecture.py:6: claim failed: len(runs) < 2: 1 < 2 (pass 1, warm, pass 2, warm)"]
    [step] = steps(trace, "assert")
    assert step.claim and (step.claim.held, step.claim.failed_runs) == (False, ["pass 1, warm", "pass 2, warm"])
    assert trace.run.complete and step.host_ns is None
    processes = [(process.warm_ns, process.why_no_warm) for process in trace.run.processes]
    assert processes == [(None, "AssertionError at line 6")] * 2


ONE_SECTION = """
def main():
    one()
    two(2)
def one(): raise ValueError
def two(n):
    a, b = 1, n
    for c, (d, *e) in [(3, "4")]:
        b += c
    g: int
    h: int = 6
    with memoryview(b"7") as i, memoryview(b"8"): vars(f)["j"] = i[0]
    [f() for d in range(1003)]
def f(): return 0
"""


@pytest.mark.slow
def test_one_section_replaces_another_lectures_trace_only_by_force(environment: dict[str, str], tmp_path: Path) -> None:
    already_traced(tmp_path, "my-machine")
    (tmp_path / "other.py").write_text(ONE_SECTION, encoding="utf-8")
    command = ["trace", "other.py", "--only", "two", "--name", "my-machine", "--passes", "1", "--inspect-all"]
    refused = tool(tmp_path, environment, *command)
    assert refused.returncode == 2 and says(refused.stderr.splitlines()[-1], "lecture.py", "other.py", "-o", "--force")
    assert tool(tmp_path, environment, *command, "--force").returncode == 0
    trace = load(tmp_path / "rendered/my-machine/partial/trace.yaml")
    assert trace.run.complete and trace.run.only == "two" and not calls(trace, "one")
    assert [*values(trace)] == ["a", "b", "c", "d", "e", "h", "i"] and values(trace)["b"].value == 5
    assert "released" not in str(values(trace)["i"])
    assert len(calls(trace, "f")) == 1000
    assert any(says(omission, "3 further calls of f", "1,000") for omission in trace.run.dropped or [])


@pytest.mark.slow
def test_stopped_run_leaves_nothing(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`serve` stops a run like this when the lecture is saved again: from another thread, with a known machine."""
    monkeypatch.setenv(STORED, environment[STORED])
    complete, processes = already_traced(tmp_path), set[str]()
    path, options = lecture(tmp_path, "import torch\n" + WAITING), TraceOptions(device="cpu", draft=True)
    tracer = Tracer(path, tmp_path / "rendered", options, lambda message: processes.add(message.process))
    threading.Timer(0, lambda: (until(lambda: "pass 1" in processes), tracer.stop())).start()
    with pytest.raises(StoppedError):
        tracer.run()
    assert processes == {"describe", "pass 1"}
    assert [path.name for path in (tmp_path / "rendered").rglob("*")] == ["cpu", "trace.yaml"]
    assert (tmp_path / "rendered/cpu/trace.yaml").read_bytes() == complete


def test_a_trace_of_the_cpu_sees_no_gpu(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    source = 'import os\ndef main():\n    seen = os.environ["CUDA_VISIBLE_DEVICES"]  # @inspect seen\n'
    trace, errors = traced(source, draft=True)
    assert not errors and values(trace)["seen"].value == ""


@pytest.mark.slow
def test_generators_that_end_after_a_run_are_not_recorded(traced: Traced) -> None:
    source = "kept = []\ndef main():\n    kept.append(stubborn())\n    next(kept[0])\ndef stubborn():\n"
    source += "    while True:\n        try:\n            yield\n        except GeneratorExit:\n            x = 1\n"
    trace, errors = traced(source)
    assert (errors, trace.run.complete, trace.run.dropped) == ([], True, [])


# ------------------------------------------------------------------------------ mistakes of the tools

MERGING, RECORDER, WORKER = (f"tracing/{name}.py" for name in ("merge/merging", "recorder/recorder", "worker"))
STEPS, CALLS = "    steps = events(runs)", "        call.code = python_frame.f_code"
IN_CHILD = "import sys\nif 'trace_tools.cli' not in sys.modules: raise RuntimeError('mistaken')"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "before", "mistake", "kind", "is_partial"),
    [
        (RECORDER, "FLUSH_S = ", IN_CHILD, "RuntimeError", False),
        (WORKER, "            recorder.namespace = {}", "raise SystemExit(0)", "SystemExit", True),
        (WORKER, "        source = parse_source(", "raise SystemExit('mistaken')", "SystemExit", False),
        (RECORDER, CALLS, "if number > 1: raise TypeError('mistaken')", "TypeError", True),
        (MERGING, STEPS, "raise SystemExit(0)", "SystemExit", False),
        (MERGING, STEPS, "raise KeyError('mistaken')", "KeyError", False),
    ],
    ids=["import", "exit after lecture", "exit before lecture", "probe", "exit in merging", "merging"],
)
def test_a_failure_of_the_tools_is_reported_with_its_traceback(
    tmp_path: Path, module: str, before: str, mistake: str, kind: str, *, is_partial: bool
) -> None:
    """In a copy of the tools, a mistake is inserted before a line of one module."""
    shutil.copytree(Path(trace_tools.__file__).parent, tmp_path / "trace_tools")
    path = tmp_path / "trace_tools" / module
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1
    indented = "".join(before[: len(before) - len(before.lstrip())] + f"{line}\n" for line in mistake.splitlines())
    path.write_text(text.replace(before, indented + before), encoding="utf-8")
    lecture(tmp_path, "def main():\n    section()\ndef section():\n    x = 1\n    print('done')\n")
    completed = tool(tmp_path, {**os.environ, "PYTHONPATH": str(tmp_path)}, "trace", "lecture.py", "--passes", "1")
    assert completed.returncode == 70 and "trace-tools failed" in completed.stderr, completed.stderr
    assert "exited with" not in completed.stderr and "Traceback" not in completed.stderr
    [kept] = (tmp_path / "rendered").rglob("*.traceback")
    assert kept.read_text().startswith("Traceback (most recent call last)")
    assert kept.read_text().rstrip().splitlines()[-1].startswith(kind) and kept.parent.name in completed.stderr
    if kind in ("TypeError", "KeyError"):
        assert list(kept.parent.glob("*.journal"))
    runs = [load(path).run for path in (tmp_path / "rendered").rglob("trace.yaml")]
    ended = [(run.complete, run.ended.startswith(f"trace-tools failed: {kind}")) for run in runs]
    assert ended == [(False, True)] * is_partial


# ------------------------------------------------------------------------------ options


def test_trace_has_the_options_of_the_table() -> None:
    by_name = {option.name: option for option in trace_command.params}
    assert by_name.keys() - OPTIONS.keys() == {"lecture", "out"}
    for name in OPTIONS:
        assert flag_of(name) in by_name[name].opts
        assert by_name[name].default in (getattr(DEFAULTS, name), None)
