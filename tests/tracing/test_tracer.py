"""Whole traces through the command line: real processes, real failures, compared with plain runs."""

from __future__ import annotations

import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
import yaml

from tests import signals
from tests.messages import says
from tests.programs import require
from tests.traces import example_trace
from tests.tracing.dead_runs import LECTURE, dead_run
from trace_tools.analysis.outcome import problems
from trace_tools.errors import UsageError
from trace_tools.machines.machine import STORED
from trace_tools.trace.file import load, write
from trace_tools.trace.model import Frame, Machine, Step, Trace, Value
from trace_tools.tracing import run_folder
from trace_tools.tracing.options import TraceOptions
from trace_tools.tracing.process import UNFIT
from trace_tools.tracing.process import environment as interpreters_environment
from trace_tools.tracing.run_folder import KeptError, recover
from trace_tools.tracing.tracer import StoppedError, Tracer


@dataclass(frozen=True)
class Completed:
    code: int
    out: str
    err: str


@pytest.fixture
def lecture(tmp_path: Path) -> Callable[[str], Path]:
    def write(source: str) -> Path:
        path = tmp_path / "lecture.py"
        path.write_text(source, encoding="utf-8")
        return path

    return write


@pytest.fixture
def tool(environment: dict[str, str], tmp_path: Path) -> Callable[..., Completed]:
    def run(*arguments: object, limit_bytes: int | None = None) -> Completed:
        def limit() -> None:
            if limit_bytes:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))

        command = [sys.executable, "-m", "trace_tools", *map(str, arguments)]
        completed = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, preexec_fn=limit
        )
        return Completed(completed.returncode, completed.stdout, completed.stderr)

    return run


@pytest.fixture
def traced(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[Trace, list[str]]]:
    """Return a function that calls the tracer directly, for a known machine; it returns the trace and its errors."""
    for name in ("PYTHONPATH", STORED):
        monkeypatch.setenv(name, environment[name])

    def run(lecture: Path, passes: int = 1, **settings: bool) -> tuple[Trace, list[str]]:
        options = TraceOptions(device="cpu", passes=passes, name="cpu", force=True, **settings)
        traced = Tracer(lecture, tmp_path / "rendered", options).run()
        assert load(traced.path).trace == traced.trace
        return traced.trace, problems(traced.trace)

    return run


def already_traced(folder: Path, machine: str = "cpu") -> bytes:
    """Write a complete trace, of the machine that `environment` describes, to lecture.py's path; return its bytes."""
    path = folder / f"rendered/{machine}/trace.yaml"
    path.parent.mkdir(parents=True)
    write(example_trace(machine=Machine("A processor", "cpu", "cpu")), path)
    return path.read_bytes()


def line_of(source: str, fragment: str) -> int:
    """Return the number of the only line that contains `fragment`."""
    (line,) = [number for number, text in enumerate(source.splitlines(), 1) if fragment in text]
    return line


def steps(trace: Trace, fragment: str) -> list[Step]:
    line = line_of(trace.sources[0].text, fragment)
    return [event for event in trace.steps if isinstance(event, Step) and event.line == line]


def values(trace: Trace) -> dict[str, Value]:
    """Return the last value of each inspected expression."""
    return {source: value for event in trace.steps if isinstance(event, Step) for source, value in event.values or ()}


EVERYTHING = '''"""A lecture that does a bit of everything.

And says so."""
import contextlib
import io
import os
import sys
import time
import warnings

import torch
import torch.utils.flop_counter

from trace_tools import count, measure, peak_flops, text


def main():
    tensors()
    loops()
    peaks()
    leaks()


def tensors():
    """Tensors."""
    text("Matrices multiply in $2BDK$ FLOPs.")
    x = torch.randn(4, 8)  # @inspect x
    w = torch.randn(8, 16)
    y = x @ w  # @inspect y
    view = y.T  # @inspect view
    assert y.shape == (4, 16), "shape"
    assert count(lambda: x @ w).flops == 2 * 4 * 8 * 16
    seconds = measure(lambda: x @ w).seconds  # @inspect seconds [s]


def loops():
    """Loops."""
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
    """What follows from them."""
    peak = peak_flops("float32")  # @inspect peak
    ones = torch.ones(64, 64)
    done = count(lambda: ones @ ones)  # @inspect done.flops
    took = measure(lambda: ones @ ones, repeats=3, min_seconds=0.001).seconds
    sane = 0 < took < 1e3  # @inspect sane


def leaks():
    """What it leaves behind."""
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


@pytest.fixture(scope="module")
def everything(
    tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]
) -> tuple[subprocess.CompletedProcess[str], Path]:
    folder = tmp_path_factory.mktemp("everything")
    path = folder / "lecture.py"
    path.write_text(EVERYTHING, encoding="utf-8")
    (folder / "rendered/cpu/partial").mkdir(parents=True)
    command = [sys.executable, "-m", "trace_tools", "trace", str(path), "--passes", "2", "--keep-going"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=170), folder


def test_complete_trace_is_written(everything: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    completed, folder = everything
    assert completed.returncode == 1, completed.stderr  # because of `missing` and of a failed claim
    line = line_of(EVERYTHING, "inspect missing")
    assert f"lecture.py:{line}: @inspect missing: NameError: name 'missing' is not defined" in completed.stderr
    trace = load(folder / "rendered/cpu/trace.yaml").trace
    assert (trace.title, trace.run.complete, trace.run.passes) == ("A lecture that does a bit of everything", True, 2)
    assert [process.name for process in trace.run.processes] == ["pass 1", "pass 2"]
    assert yaml.safe_load((folder / "rendered/cpu/trace.yaml").read_text(encoding="utf-8"))["schema"] == 1
    assert not list((folder / "rendered").glob(".run-*")) and not (folder / "rendered/cpu/partial").exists()


def test_values_equal_those_of_a_plain_run(everything: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    recorded = values(load(everything[1] / "rendered/cpu/trace.yaml").trace)
    torch.manual_seed(0)
    x, w = torch.randn(4, 8), torch.randn(8, 16)
    assert recorded["x"].tensor and recorded["x"].tensor.elements == x.flatten().tolist()
    assert recorded["y"].tensor and recorded["y"].tensor.elements == (x @ w).flatten().tolist()
    assert recorded["view"].tensor and recorded["view"].tensor.strides == list((x @ w).T.stride())
    assert recorded["view"].tensor.storage == recorded["y"].tensor.storage != recorded["x"].tensor.storage
    assert recorded["total"].value == sum(i * i for i in range(300))
    assert (recorded["message"].value, recorded["hidden"].value, recorded["missing"].type) == ("caught", 9, "error")


def test_varying_values_are_marked(everything: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    recorded = values(load(everything[1] / "rendered/cpu/trace.yaml").trace)
    varying = {name for name, value in recorded.items() if value.varies}
    assert varying == {"seconds", "when"}
    when = recorded["when"]
    assert len(when.samples or []) == len(when.cold_samples or []) == 2 and when.unit == "s"


def test_first_and_last_iterations_are_kept(everything: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    trace = load(everything[1] / "rendered/cpu/trace.yaml").trace
    executions = [step.execution for step in steps(trace, "total += square")]
    assert executions == [*range(1, 51), *range(251, 301)]
    calls = [event for event in trace.steps if isinstance(event, Frame) and event.function == "square"]
    assert len(calls) == 100  # the call under @stepover is not among them
    assert [call.arguments[0][1].value for call in calls if call.arguments] == [n - 1 for n in executions]


def test_steps_have_meters_times_claims_and_output(everything: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    trace = load(everything[1] / "rendered/cpu/trace.yaml").trace
    product = steps(trace, "y = x @ w")[0]
    assert product.meters and product.meters.flops == 2 * 4 * 8 * 16
    assert product.meters.bytes_written == 4 * 4 * 16 and product.meters.bytes_read == 4 * (4 * 8 + 8 * 16)
    assert product.host_ns and len(product.host_ns) == 2 and product.cold_ns and len(product.cold_ns) == 2
    claim = steps(trace, "assert y.shape")[0].claim
    assert claim and claim.held and [source for source, _ in claim.sides] == ["y.shape", "(4, 16)"]
    assert [step.stdout for step in (steps(trace, 'print("to')[0], steps(trace, "stdout.buffer")[0])] == [
        "to ",
        "the reader\n",
    ]
    assert steps(trace, "warnings.warn(")[0].warnings == ["UserWarning: take care"]
    assert steps(trace, "2BDK")[0].narrative and "2BDK" in str(steps(trace, "2BDK")[0].narrative)
    assert (
        steps(trace, "raise ValueError")[0].raised and steps(trace, "raise ValueError")[0].raised.type == "ValueError"
    )


def test_peaks_and_measurements_are_those_of_the_trace(
    everything: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    trace = load(everything[1] / "rendered/cpu/trace.yaml").trace
    recorded = values(trace)
    assert recorded["peak"].value == next(p.per_second for p in trace.machine.peaks if p.name == "float32")
    assert recorded["done.flops"].value == 2 * 64**3 and recorded["sane"].value is True
    [timed] = steps(trace, "took = measure")
    [measured] = timed.measured or []
    assert timed.harness and measured.flops == 2 * 64**3 and measured.dtype == "float32" and len(measured.seconds) == 2
    assert trace.run.timed_runs == 4


def test_keep_going_passes_over_failed_claims(
    everything: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    completed, folder = everything
    trace = load(folder / "rendered/cpu/trace.yaml").trace
    [step] = steps(trace, "not yet")
    assert step.claim and not step.claim.held
    assert "claim failed: torch.get_default_dtype() == torch.float64" in completed.stderr
    assert values(trace)["message"].value == "caught"  # the statements after it ran


def test_restored_settings_are_named(everything: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    process = load(everything[1] / "rendered/cpu/trace.yaml").trace.run.processes[0]
    assert set(process.restored or ()) >= {"default dtype", "environment", "working directory", "FLOP formulas"}


# ------------------------------------------------------------------------------ failures


def test_a_lecture_that_raises_leaves_a_partial_trace(
    lecture: Callable[[str], Path],
    traced: Callable[..., tuple[Trace, list[str]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONOPTIMIZE", "2")  # removes asserts, but not claims
    complete = already_traced(tmp_path)
    partial, errors = traced(lecture("def main():\n    x = 2  # @inspect x\n    assert x == 1, f'x is {x}'\n"))
    claim = steps(partial, "assert")[0].claim
    ended = "AssertionError at line 3 (pass 1)"
    assert partial.run.ended == ended and claim and not claim.held
    assert errors == [f"incomplete: {ended}", "lecture.py:3: claim failed: x == 1: 2 == 1: x is 2 (pass 1, cold)"]
    assert claim.message == "x is 2" and [value.value for _, value in claim.sides] == [2, 1]
    assert (tmp_path / "rendered/cpu/trace.yaml").read_bytes() == complete
    assert (tmp_path / "rendered/cpu/partial/trace.yaml").exists()


KILLED = """
import os, signal, sys, time
def main():
    section()
def section():
    total = 0
    for i in range(200):
        total += f(i)  # @inspect total
        if i == 120:
            print("soon")
            time.sleep(0.5)
            os.kill(os.getpid(), signal.SIGKILL)
def f(i):
    return i
"""


def test_killed_process_leaves_its_steps(
    lecture: Callable[[str], Path], traced: Callable[..., tuple[Trace, list[str]]]
) -> None:
    """The section and its loop are running: the first executions are certain, with their calls."""
    trace, errors = traced(lecture(KILLED))
    assert "killed by SIGKILL" in errors[0]
    assert values(trace)["total"].value == sum(range(50))
    assert [step.execution for step in steps(trace, "total +=")] == [*range(1, 51)]
    assert len(steps(trace, "return i")) == 50 and steps(trace, "print")[0].stdout == "soon\n"
    assert [step.cold_ns for step in trace.steps if isinstance(step, Step) and step.line == 4] == [None]


WAITING = """
import time
def main():
    x = 1  # @inspect x
    wait(x)
def wait(x):
    open("ready", "w").close()
    time.sleep(100)
"""


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.05)


def _started(lecture: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    """Start a trace; return once its journal says that the lecture is waiting."""
    tracer = subprocess.Popen(
        [sys.executable, "-m", "trace_tools", "trace", str(lecture), "--passes", "1"],
        cwd=lecture.parent, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=signals.heard,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        journals = list(lecture.parent.glob("rendered/.run-*/pass-1.journal"))
        if any('"line":8' in journal.read_text(encoding="utf-8") for journal in journals):
            time.sleep(0.3)
            return tracer
        time.sleep(0.05)
    raise AssertionError("the lecture did not start")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 1), (signal.SIGTERM, 128 + signal.SIGTERM)])
def test_ctrl_c_and_sigterm_leave_a_partial_trace(
    lecture: Callable[[str], Path], environment: dict[str, str], tmp_path: Path, number: int, code: int
) -> None:
    tracer = _started(lecture(WAITING), environment)
    tracer.send_signal(number)
    _, err = tracer.communicate(timeout=30)
    trace = load(next(tmp_path.glob("rendered/*/partial/trace.yaml"))).trace
    assert tracer.returncode == code and "KeyboardInterrupt at line 8" in err and "Traceback" not in err
    assert re.search(r"^recording took [\d.<% ]+ of the [\d.]+ m?s before Ctrl-C; `# @stepover`", err, re.M)
    assert trace.run.ended == "KeyboardInterrupt at line 8 (pass 1)"
    assert values(trace)["x"].value == 1


def test_a_killed_tracer_is_recovered(
    lecture: Callable[[str], Path], environment: dict[str, str], tool: Callable[..., Completed], tmp_path: Path
) -> None:
    tracer = _started(lecture(WAITING), environment)
    tracer.kill()
    tracer.communicate(timeout=10)
    completed = tool("recover", tmp_path / "rendered")
    trace = load(next(tmp_path.glob("rendered/*/partial/trace.yaml"))).trace
    assert completed.code == 0 and "killed at line 8" in completed.out
    assert values(trace)["x"].value == 1 and steps(trace, "sleep(100)")[0].cold_ns is None
    assert not list(tmp_path.glob("rendered/.run-*"))


@pytest.mark.slow
def test_trace_on_a_full_disk_can_be_recovered(
    lecture: Callable[[str], Path], tool: Callable[..., Completed], tmp_path: Path
) -> None:
    complete = already_traced(tmp_path)
    lines = "".join(f"    x{n} = '{n}' * 900  # @inspect x{n}\n" for n in range(100))
    completed = tool("trace", lecture(f"def main():\n{lines}"), "--passes", 1, limit_bytes=50_000)
    assert completed.code == 2 and "Traceback" not in completed.err and "File too large" in completed.err
    assert (tmp_path / "rendered/cpu/trace.yaml").read_bytes() == complete
    completed = tool("recover", tmp_path / "rendered")  # with enough room again
    assert "its journal could not be written" in completed.out
    assert values(load(next(tmp_path.glob("rendered/*/partial/trace.yaml"))).trace)["x10"].value == "10" * 900


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[bytes], bytes]], Tracer]:
    """Return a function that makes a tracer whose processes have already run; `change` alters their journal."""

    def tracer(change: Callable[[bytes], bytes]) -> Tracer:
        run = dead_run(tmp_path / "elsewhere")
        journal = run / "pass-1.journal"
        journal.write_bytes(change(journal.read_bytes()))
        (tmp_path / "lecture.py").write_text(LECTURE)
        prepared = Tracer(tmp_path / "lecture.py", tmp_path / "rendered", TraceOptions(passes=1))
        monkeypatch.setattr(prepared, "prepare", lambda folder: shutil.copytree(run, folder, dirs_exist_ok=True) and [])
        monkeypatch.setattr(prepared, "_run_pass", lambda process, folder: True)
        return prepared

    return tracer


def test_trace_is_validated_before_it_replaces_another(recorded: Callable[..., Tracer], tmp_path: Path) -> None:
    complete = already_traced(tmp_path)
    tracer = recorded(lambda journal: journal.replace(b'"width":"50%"', b'"width":"0%"'))
    line = line_of(LECTURE, "image(")
    hint = r"its journals are kept in \S+/rendered/\.unmerged-\w+$"
    with pytest.raises(KeptError, match=rf"^lecture.py:{line}: .*narrative\[0\]\.width: found '0%'.*; {hint}"):
        tracer.run()
    [unmerged] = (tmp_path / "rendered").glob(".unmerged-*")
    assert b'"width":"0%"' in (unmerged / "pass-1.journal").read_bytes()
    assert (tmp_path / "rendered/cpu/trace.yaml").read_bytes() == complete
    assert sorted(path.name for path in (tmp_path / "rendered").iterdir()) == [unmerged.name, "cpu"]
    assert [path.name for path in (tmp_path / "rendered/cpu").iterdir()] == ["trace.yaml"]


def test_journals_stay_if_the_trace_cannot_be_written(recorded: Callable[..., Tracer], tmp_path: Path) -> None:
    tracer = recorded(bytes)
    (tmp_path / "rendered").mkdir()
    (tmp_path / "rendered/cpu").touch()
    out = tmp_path / "rendered"
    message = rf"{out}/cpu: can't be written: File exists; .*`trace-tools recover {out}`"
    with pytest.raises(UsageError, match=message):
        tracer.run()
    (out / "cpu").unlink()
    [traced], kept = recover(out)
    assert traced.trace.run.complete and not kept


def test_ctrl_c_while_writing_the_trace_keeps_the_journals(
    recorded: Callable[..., Tracer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    tracer = recorded(bytes)
    monkeypatch.setattr(run_folder, "write", interrupted)
    with pytest.raises(KeyboardInterrupt, match=r"^interrupted; `trace-tools recover \S+/rendered` "):
        tracer.run()
    monkeypatch.undo()
    assert len(recover(tmp_path / "rendered")[0]) == 1


def test_process_that_cannot_start_is_reported_in_one_line(
    lecture: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess.Popen, "__init__", refused)
    with pytest.raises(UsageError, match=r"^\S+: Resource temporarily unavailable$"):
        Tracer(lecture("def main(): pass\n"), tmp_path / "rendered").run()
    assert not list((tmp_path / "rendered").iterdir())


UNKIND = """
import io, os, sys, threading
import torch
import torch.library
library = torch.library.Library("unkind", "DEF")
library.define("twice(Tensor x) -> Tensor")
def main():
    os.remove(__file__)
    sys.stdout = io.StringIO()
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join()
    sys.exit(3)
def work():
    z = 5  # @inspect z
"""


@pytest.mark.slow
def test_lecture_that_deletes_itself_and_replaces_stdout(
    lecture: Callable[[str], Path], traced: Callable[..., tuple[Trace, list[str]]]
) -> None:
    path = lecture(UNKIND)
    trace, errors = traced(path)
    assert errors == ["incomplete: SystemExit at line 13 (pass 1)", "lecture.py:13: SystemExit: 3"]
    assert values(trace)["z"].value == 5
    frames = {event.function: event for event in trace.steps if isinstance(event, Frame)}
    assert frames["work"].thread and frames["work"].of == steps(trace, "thread.start()")[0].id
    assert path.exists() and trace.sources[0].text == UNKIND


DRAWING = """
from pathlib import Path
from trace_tools import image
def main():
    draws()
def draws():
    Path("made.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    image("made.svg")
    image("beside.svg")
    image("gone.svg")
    Path("large.png").write_bytes(bytes(2 << 20))
    image("large.png")
"""


@pytest.mark.slow
def test_images_made_by_the_lecture_are_in_the_trace(
    lecture: Callable[[str], Path], traced: Callable[..., tuple[Trace, list[str]]]
) -> None:
    path = lecture(DRAWING)
    path.with_name("beside.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>", encoding="utf-8")
    trace, errors = traced(path, draft=True)
    urls = {step.line: entry.url for step in trace.steps if isinstance(step, Step) for entry in step.narrative or ()}
    assert urls[8] and urls[8].startswith("data:image/svg+xml;base64,") and not path.with_name("made.svg").exists()
    assert [urls[line] for line in (9, 10, 12)] == ["beside.svg", "gone.svg", "large.png"] and not errors
    warnings = {step.line: step.warnings for step in trace.steps if isinstance(step, Step) and step.warnings}
    assert [*warnings] == [10, 12] and says(*warnings[10], "NotShown", "'gone.svg'")
    assert says(*warnings[12], "NotShown", "large.png", "2,097,152 bytes", "1,048,576")


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
    fourth()
def first():
    assert 1 == 2, "no"
    x = 1  # @inspect x
def second(n):
    held = torch.ones(1000)
    kept.append(weakref.ref(held))
    inner(held, n)
def inner(held, n): raise ValueError(f"there is no {n}")
def third():
    alive = kept[0]()  # @inspect alive
def fourth(): raise SystemExit("the end")
"""


@pytest.mark.slow
def test_keep_going_continues_after_a_failed_section(
    lecture: Callable[[str], Path], traced: Callable[..., tuple[Trace, list[str]]]
) -> None:
    trace, errors = traced(lecture(SECTIONS), keep_going=True)
    claim = "lecture.py:13: claim failed: 1 == 2: 1 == 2"
    assert errors == [
        "incomplete: SystemExit at line 22 (pass 1)",
        f"{claim} (pass 1, cold)",
        "lecture.py:19: ValueError: there is no 4",
        "lecture.py:22: SystemExit: the end",
    ]
    recorded = values(trace)
    assert recorded["x"].value == 1 and recorded["alive"].type == "none", "the variables of a failed section are freed"
    trace, errors = traced(lecture(SECTIONS))
    assert errors == ["incomplete: AssertionError at line 13 (pass 1)", f"{claim}: no (pass 1, cold)"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("os._exit(0)", "exited with status 0"),
        ("os.execlp('false', 'false')", "exited with status 1"),
        ("import ctypes; ctypes.string_at(0)", "killed by SIGSEGV"),
    ],
)
def test_line_of_an_abrupt_end_is_reported(
    end: str, reason: str, lecture: Callable[[str], Path], traced: Callable[..., tuple[Trace, list[str]]]
) -> None:
    if "exec" in end:
        require("false")
    source = f"import os\ndef main():\n    n = 7  # @inspect n\n    print(n)\n    part(n)\ndef part(n):\n    {end}\n"
    trace, errors = traced(lecture(source))
    assert errors == [f"incomplete: {reason} at line 7 (pass 1)"]
    if "SIG" not in reason:  # a signal may lose the records of the last 50 ms
        assert values(trace)["n"].value == 7 and steps(trace, "print(n)")[0].stdout == "7\n"


CLOCKS = """
import time
def main():
    n = sum(range(1000))  # @inspect n
    for name in ("time", "monotonic", "perf_counter", "process_time", "sleep"):
        setattr(time, name, lambda *_: -1e12)
        setattr(time, f"{name}_ns", lambda: -10**21)
    try: assert n < 0
    except AssertionError: print(part(n), time.time())
def part(n):
    total = sum(range(n))  # @inspect total
    return total
"""


@pytest.mark.slow
def test_lecture_may_turn_back_all_clocks(
    lecture: Callable[[str], Path], traced: Callable[..., tuple[Trace, list[str]]]
) -> None:
    trace, errors = traced(lecture(CLOCKS))
    assert errors == [] and trace.run.complete
    times = [ns for step in trace.steps if isinstance(step, Step) for ns in (step.cold_ns or []) + (step.host_ns or [])]
    assert all(0 <= ns < 60e9 for ns in times) and len(trace.run.processes) == 1
    assert all(
        0 < ns < 60e9 for process in trace.run.processes for ns in (process.cold_ns, process.warm_ns) if ns is not None
    )
    assert steps(trace, "total = ")[0].host_ns and steps(trace, "print(")[0].stdout == "124749875250 -1000000000000.0\n"


def test_claim_that_fails_only_in_warm_runs_has_failed(
    lecture: Callable[[str], Path], traced: Callable[..., tuple[Trace, list[str]]]
) -> None:
    source = "import os\nimport json\ndef main():\n    runs = json.dumps.__dict__.setdefault('runs', [])\n"
    source += "    runs.append(1)\n    assert len(runs) < 2\n"
    trace, errors = traced(lecture(source), passes=2)
    (claim,) = [step.claim for step in trace.steps if isinstance(step, Step) and step.claim is not None]
    assert errors == ["lecture.py:6: claim failed: len(runs) < 2: 1 < 2 (pass 1, warm, pass 2, warm)"]
    assert trace.run.complete
    assert (claim.held, claim.failed_runs) == (False, ["pass 1, warm", "pass 2, warm"])
    assert [process.why_no_warm for process in trace.run.processes][:2] == ["AssertionError at line 6"] * 2


ONE_SECTION = """import time, json
import torch.library
library = 1 / (1 - len(vars(json.dumps)))
json.dumps.left = "behind"  # a function of a library: that is not undone
def main():
    one()
    two(2)
def one(): raise ValueError
def two(n):
    a, b = 1, n
    for c in [3]:
        b += c
    [f() for d in range(1003)]
    wall, steady = time.perf_counter(), time.monotonic()
    time.sleep(0.05)
    if abs((time.perf_counter() - wall) / (time.monotonic() - steady) - 1) > 0.2:
        raise ValueError("no two clocks agree")
def f(): return 0
"""
OneSection = tuple[list[subprocess.CompletedProcess[str]], Path]


@pytest.fixture(scope="module")
def one_section(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> OneSection:
    """Trace one section into the folder of another lecture's trace, first without --force, then with it."""
    folder = tmp_path_factory.mktemp("one-section")
    already_traced(folder, "my-machine")
    (folder / "other.py").write_text(ONE_SECTION, encoding="utf-8")
    options = ["--only", "two", "--name", "my-machine", "--passes", "1", "--inspect-all"]
    command = [sys.executable, "-m", "trace_tools", "trace", "other.py", *options]
    completed = [
        subprocess.run([*command, *force], cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
        for force in ([], ["--force"])
    ]
    return completed, folder / "rendered/my-machine/partial/trace.yaml"


@pytest.mark.slow
def test_another_lectures_trace_is_not_replaced(one_section: OneSection) -> None:
    (refused, forced), _ = one_section
    assert refused.returncode == 2 and says(refused.stderr.splitlines()[-1], "lecture.py", "other.py", "-o", "--force")
    assert forced.returncode == 0, forced.stderr


@pytest.mark.slow
def test_only_the_chosen_section_is_traced(one_section: OneSection) -> None:
    trace = load(one_section[1]).trace
    assert trace.run.complete and trace.run.only == "two"
    assert {event.function for event in trace.steps if isinstance(event, Frame)} == {"<module>", "main", "two", "f"}


@pytest.mark.slow
def test_inspect_all_records_all_assigned_variables(one_section: OneSection) -> None:
    trace = load(one_section[1]).trace
    recorded = {name: value.value for name, value in values(trace).items()}
    assert set(recorded) == {"library", "a", "b", "c", "wall", "steady"}
    assert (recorded["a"], recorded["b"], recorded["c"]) == (1, 5, 3)
    assert sum(isinstance(event, Frame) and event.function == "f" for event in trace.steps) == 1000
    assert any(says(omission, "3 further calls of f", "1,000") for omission in trace.run.dropped or [])


@pytest.mark.slow
def test_reason_for_a_missing_warm_run_is_recorded(one_section: OneSection) -> None:
    trace = load(one_section[1]).trace
    process = trace.run.processes[0]
    assert process.warm_ns is None and process.why_no_warm == "ZeroDivisionError at line 3"
    assert all(step.host_ns is None for step in trace.steps if isinstance(step, Step))


@pytest.mark.slow
def test_stopped_run_leaves_nothing(
    lecture: Callable[[str], Path], environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`serve` stops a run like this when the lecture is saved again: from another thread, with a known machine."""
    monkeypatch.setenv(STORED, environment[STORED])
    complete = already_traced(tmp_path)
    processes: set[str] = set()
    tracer = Tracer(
        lecture("import torch\n" + WAITING),
        tmp_path / "rendered",
        TraceOptions(device="cpu", draft=True),
        lambda message: processes.add(message.process),
    )
    stopping = threading.Timer(0, lambda: (_until(lambda: "pass 1" in processes), tracer.stop()))
    stopping.start()
    with pytest.raises(StoppedError):
        tracer.run()
    assert processes == {"describe", "pass 1"}
    assert [path.name for path in (tmp_path / "rendered").rglob("*")] == ["cpu", "trace.yaml"]
    assert (tmp_path / "rendered/cpu/trace.yaml").read_bytes() == complete


def test_interpreter_variables_do_not_change_exit_statuses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in UNFIT:
        monkeypatch.setenv(name, "1")
    code = "import sys; assert sys.exit(3), 'kept'"
    completed = subprocess.run(
        [sys.executable, "-c", code],
        env=interpreters_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert (completed.returncode, completed.stderr) == (3, "")


def test_a_trace_of_the_cpu_sees_no_gpu(
    lecture: Callable[[str], Path], traced: Callable[..., tuple[Trace, list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    source = 'import os\ndef main():\n    seen = os.environ["CUDA_VISIBLE_DEVICES"]  # @inspect seen\n'
    trace, errors = traced(lecture(source), draft=True)
    assert not errors and values(trace)["seen"].value == ""


def test_unknown_device_is_refused_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "lecture.py").write_text("def main(): pass\n", encoding="utf-8")
    with pytest.raises(UsageError, match="device 'tpu'; expected cpu, cuda or cuda:N"):
        Tracer(tmp_path / "lecture.py", options=TraceOptions(device="tpu"))


@pytest.mark.slow
def test_generators_that_end_after_a_run_are_not_recorded(
    traced: Callable[..., tuple[Trace, list[str]]], lecture: Callable[[str], Path]
) -> None:
    source = "kept = []\ndef main():\n    kept.append(stubborn())\n    next(kept[0])\ndef stubborn():\n"
    source += "    while True:\n        try:\n            yield\n        except GeneratorExit:\n            x = 1\n"
    trace, errors = traced(lecture(source))
    assert (errors, trace.run.complete, trace.run.dropped) == ([], True, [])


def test_output_folder_may_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "talks").mkdir()
    (tmp_path / "talks/one.py").write_text("def main():\n    one()\ndef one():\n    x = 1  # @inspect x\n")
    monkeypatch.chdir(tmp_path)
    traced = Tracer(Path("talks/one.py"), Path("out"), TraceOptions(passes=1)).run()
    assert [process.ended for process in traced.trace.run.processes] == ["complete"]
    assert traced.trace.run.dropped == []
