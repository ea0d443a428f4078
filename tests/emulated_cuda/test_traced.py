"""Lectures traced on the emulated device. Slow, so only `make emulate` runs these tests."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.emulated_cuda.build import HERE, ROOT, environment
from tests.messages import says
from trace_tools.analysis.outcome import violations
from trace_tools.machines.machine import STORED
from trace_tools.trace.file import load
from trace_tools.trace.model import Frame, Step, Trace

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif("EMULATED_CUDA" not in os.environ, reason="not on the emulated device"),
]
LECTURE = """
import torch


def main():
    product()


def product():
    x = torch.ones(64, 64, device="cuda")
    y = x @ x  # @inspect y.shape
    assert y.sum().item() == 64**3
"""


@pytest.fixture(scope="module", autouse=True)
def stored_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Describe the device once, without measured peaks: measuring them takes half of the time of a small trace."""
    code = "from trace_tools.machines.machine import *; print(to_json(this_machine('cuda', measure=False)))"
    path = tmp_path_factory.mktemp("machine") / "machine.json"
    path.write_text(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(STORED, str(path))
        yield


Done = subprocess.CompletedProcess[str]


def tools(tmp_path: Path, *command: str, text: str = LECTURE, cards: str | None = None, **more: str) -> Done:
    """Run a command of the tools next to a lecture; `more` are environment variables.

    With `cards`, it runs on them instead of this process's card, and they are described anew.
    """
    (tmp_path / "lecture.py").write_text(text)
    variables = dict(os.environ)
    if cards is not None:
        variables = environment(cards) | {"PYTHONPATH": os.pathsep.join([str(HERE / "start"), str(ROOT)])}
        del variables[STORED]
    words = [sys.executable, "-m", "trace_tools", *command]
    return subprocess.run(words, env=variables | more, capture_output=True, text=True, cwd=tmp_path)


def traced(tmp_path: Path, text: str = LECTURE, *options: str, **more: str) -> tuple[Trace, Done]:
    """Trace a lecture with one pass; return the trace and the finished process."""
    tmp_path.mkdir(exist_ok=True)
    done = tools(tmp_path, "trace", "lecture.py", "-o", "out", "--passes", "1", *options, text=text, **more)
    (path,) = tmp_path.glob("out/emulated-*/**/trace.yaml")
    return load(path), done


def steps_of(trace: Trace) -> list[Step]:
    return [step for step in trace.steps if isinstance(step, Step)]


def values_of(trace: Trace) -> dict[str, Any]:
    return {name: value for step in steps_of(trace) for name, value in step.values or ()}


def test_trace_and_pages_are_marked_as_emulated(tmp_path: Path) -> None:
    trace, done = traced(tmp_path)
    assert done.returncode == 0, done.stderr
    assert (trace.machine.emulated, trace.machine.device) == (True, "cuda")
    assert trace.machine.name == torch.cuda.get_device_name()
    assert [process.ended for process in trace.run.processes] == ["complete"]
    annotated = [step for step in steps_of(trace) if step.annotated]
    assert annotated and all(step.device_ns and step.allocated_bytes for step in annotated)
    pages = [*tmp_path.glob("out/emulated-*/*.html"), *tmp_path.glob("out/emulated-*/*.md")]
    assert len(pages) >= 4
    assert all("Emulated: software imitated this device" in page.read_text() for page in pages)


FOUND = """
import sys
import torch
from trace_tools import count, measure


def main():
    side()
    callbacks()
    peak()


def beside(x, stream):
    device = sys.modules["emulated_cuda_device"]
    with torch.cuda.stream(stream):
        device.set_delay_us(50_000)
        y = x + 1
        device.set_delay_us(0)
    return y


def side():
    x = torch.ones(8, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    there = beside(x, stream)  # @inspect there.shape


def callbacks():
    w = torch.ones(8, device="cuda", requires_grad=True)

    def hook(grad):
        return grad * 2

    w.register_hook(hook)
    (w * w).sum().backward()
    measure(lambda: (w * w).sum().backward(), warmup=1, repeats=3, min_seconds=0.001)
    count(lambda: (w * w).sum().backward())


def peak():
    torch.cuda.reset_peak_memory_stats()
    held = torch.cuda.memory_allocated()
    x = torch.ones(2**24, device="cuda")  # @inspect x
    risen = torch.cuda.max_memory_allocated() - held - x.nbytes  # @inspect risen
    columns = torch.ones(2**11, 2**11, device="cuda")[:, ::2]  # @inspect columns
    of_gaps = torch.cuda.max_memory_allocated() - held - x.nbytes - 2 * columns.nbytes  # @inspect of_gaps
"""


def test_side_streams_callbacks_and_peak_memory(tmp_path: Path) -> None:
    """Side streams are timed, `measure` hides autograd's callbacks, and reading a tensor takes no memory of the device,
    or one piece where its memory has gaps.
    """
    trace, done = traced(tmp_path, FOUND)
    assert done.returncode == 0, done.stderr
    (there,) = [step for step in steps_of(trace) if step.values and step.values[0][0] == "there.shape"]
    assert min(there.device_ns or [0]) >= 50_000_000
    hooks = [frame for frame in trace.steps if isinstance(frame, Frame) and frame.function.endswith("hook")]
    assert len(hooks) == 1 and hooks[0].thread == "native"
    values = values_of(trace)
    assert values["x"].tensor is not None and values["x"].tensor.statistics is not None
    assert values["risen"].value == 0
    assert 0 <= values["of_gaps"].value <= 2**19


@pytest.mark.parametrize("draft", [False, True])
def test_cold_run_begins_before_cuda_is_initialized(
    draft: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass reads the card's clock before its first run, but does not initialize CUDA; a draft is described first."""
    if draft:
        monkeypatch.delenv(STORED)
    states = tmp_path / "states"
    text = f"""
import torch

with open({str(states)!r}, "a") as file:
    print(torch.cuda.is_initialized(), file=file)


def main():
    torch.ones(1, device="cuda")
"""
    trace, done = traced(tmp_path, text, *["--draft"] * draft)
    assert done.returncode == 0, done.stderr
    runs = ["False"] if draft else ["False", "True"]  # a draft has no next one
    assert states.read_text().split()[:2] == runs, "the cold run, then the next one"
    assert any("SM clock" in note for note in trace.run.processes[0].notes or ())


LATE = """
import torch


def main():
    fails()


def fails():
    x = torch.zeros(3, device="cuda")
    y = x + 1  # @inspect y
    for _ in range(30):
        y = y + 1
    z = 3  # @inspect z
    for _ in range(30):
        y = y + 1
    y.sum().item()
"""
LATER = """

def cpu():
    a = torch.ones(3)
    b = (a + 1).sum()  # @inspect b
    assert b.item() == 6


def plain():
    c = 3 + 4  # @inspect c
    assert c == 7


def again():
    torch.cuda.synchronize()
"""
AFTER_A_FAILURE = LATE.replace("    fails()\n", "    fails()\n    cpu()\n    plain()\n    again()\n") + LATER


def test_device_errors_are_raised_only_where_the_device_is_used(tmp_path: Path) -> None:
    """Every later wait raises the same error, but waits of the tracer must not raise it in the lecture."""
    # launches are delayed, so that the device fails during a wait
    faults = {"EMULATED_CUDA_FAULTS": "pass-1/assert:20", "EMULATED_CUDA_DELAY_US": "1000"}
    trace, done = traced(tmp_path, AFTER_A_FAILURE, "--keep-going", **faults)
    steps, values = steps_of(trace), values_of(trace)
    source = trace.source.text.splitlines()
    raised = {source[step.raised.origin_line - 1].strip() for step in steps if step.raised}
    assert raised <= {"y = y + 1", "y.sum().item()", "torch.cuda.synchronize()"} and len(raised) == 2
    assert (values["z"].value, values["c"].value, values["b"].tensor.elements) == (3, 7, [6.0])
    assert [step.claim.held for step in steps if step.claim] == [True, True]
    (warned,) = [step for step in steps if step.warnings]
    assert "device-side assert" in warned.warnings[0] and warned.line == 17  # where the error was noticed
    assert not any(step.device_ns for step in steps if step.line >= 17)
    assert all(step.cold_ns and step.cold_ns[0] > 0 for step in steps if step.values)
    assert (trace.run.complete, done.returncode) == (False, 1)
    assert trace.run.ended == "the device failed at line 17 (pass 1)"
    assert trace.run.processes[0].warm_ns is None


def test_late_errors_name_the_last_synchronisation(tmp_path: Path) -> None:
    """The tracer waits at annotated lines, so the failed kernel was launched after the last of them."""
    trace, _ = traced(tmp_path, LATE, EMULATED_CUDA_FAULTS="pass-1/assert:50")
    raised = [step.raised for step in steps_of(trace) if step.raised]
    assert {(it.type, it.waited_line) for it in raised} == {("AcceleratorError", 14)}
    pages = "".join(page.read_text() for page in tmp_path.glob("out/**/*.md"))
    assert "launched after the synchronisation at line 14" in pages


def test_device_failure_during_the_survey_is_an_error(tmp_path: Path) -> None:
    """Otherwise all peaks would be “not measured”, and each run of the lecture would fail."""
    faults = {"EMULATED_CUDA_FAULTS": "survey/assert:40"}
    done = tools(tmp_path, "trace", "lecture.py", "--passes", "1", cards="emulated", **faults)
    assert done.returncode == 2
    *_, line = done.stderr.splitlines()
    assert says(line, "error: ", "GPU", "peaks", "CUDA error: device-side assert")
    assert not [*tmp_path.glob("**/*.yaml")]


TWO_CARDS = """
import torch


def main():
    x = torch.ones(2**20, device="cuda:0")  # @inspect x.shape
    y = torch.ones(2**22, device="cuda:1")  # @inspect y.shape
    z = y + 1  # @inspect z
    more = torch.ones(2**20, device="cuda:0")  # @inspect more.shape
"""


def test_allocated_bytes_of_several_cards_are_summed(tmp_path: Path) -> None:
    """So are the bytes of live tensors, and both figures agree."""
    trace, done = traced(tmp_path, TWO_CARDS, cards="emulated,t4")
    assert done.returncode == 0 and "can't be right" not in done.stdout + done.stderr, done.stderr
    steps = [step for step in steps_of(trace) if step.annotated]
    x, y = 2**22, 2**24
    assert [step.allocated_bytes for step in steps] == [x, x + y, x + 2 * y, 2 * x + 2 * y]
    assert all(step.allocated_bytes == step.meters.live_bytes for step in steps if step.meters)


CLOCKS = """
import time
import torch


def main():
    x = torch.ones(700, 700, device="cuda") / 700
    y = x @ x  # @inspect y.shape
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(graph, stream=side):
        for _ in range(20):
            x @ x
    replayed = graph.replay()  # @inspect replayed
    slept = [time.sleep(0.02), x + 1]  # @inspect slept
    for i in range(20):
        c = i + 1  # @inspect c
    view = x.t()  # @inspect view.shape
    several = steps_inside(x)  # @inspect several.shape


def steps_inside(x):
    for _ in range(20):
        x = x @ x
    y = x + 1  # @inspect y
    for _ in range(20):
        x = x @ x
    return x @ y  # @inspect x
"""


def test_clocks_of_steps_with_a_batching_driver_and_slow_waits(tmp_path: Path) -> None:
    """Steps on the device have its time and a launch time. The host's time of other steps excludes the wait of 150 µs.

    Other programs on this machine can lengthen any step, and delay its first event, so there are up to four attempts.
    """
    for attempt in range(4):
        slow = {"EMULATED_CUDA_WAIT_US": "150", "EMULATED_CUDA_BATCH": "1"}
        trace, done = traced(tmp_path / str(attempt), CLOCKS, "--passes", "3", **slow)
        assert done.returncode == 0, done.stderr
        assert trace.run.processes[0].floor_ns
        steps: dict[str, list[Step]] = {}
        for step in steps_of(trace):
            for name, _ in step.values or ():
                steps.setdefault(name, []).append(step)
        for name in ("y.shape", "replayed", "slept", "several.shape"):
            (step,) = steps[name]
            assert step.device_ns and step.launch_ns, name
        slept = min(steps["slept"][0].device_ns or [0])
        by_host = [statistics.median(step.host_ns or [0]) for step in steps["c"] if not step.device_ns]
        if slept >= 20_000_000 and len(by_host) >= 10 and not violations(trace):
            break
    assert slept >= 20_000_000, "the device's time includes work of the host between two kernels"
    assert len(by_host) >= 10 and sorted(by_host)[5] < 100_000
    assert violations(trace) == [], "the host waited for each step on the device, also for steps that contain others"
    (replayed,), (product,) = steps["replayed"], steps["y.shape"]
    assert (replayed.device_ns or [0]) > (product.device_ns or [0])  # a replay is no operator, but its work is timed


KEEPS = """
import json
import torch


def main():
    vars(json.dumps).setdefault("kept", []).append(torch.ones(1000, device="cuda"))
"""


def test_leaked_device_memory_is_noted(tmp_path: Path) -> None:
    """A function of a library keeps one tensor per run. Its 4,000 bytes take 8 blocks of 512."""
    trace, _ = traced(tmp_path, KEEPS)
    note = "4,096 bytes more were allocated on the GPU after the warm run than before it"
    assert note in (trace.run.processes[0].notes or ())
    trace, _ = traced(tmp_path / "without-leak")
    assert not any("on the GPU after" in note for note in trace.run.processes[0].notes or ())


TOO_MUCH = """
import torch


def main():
    too_much()
    after_it()


def too_much():
    x = torch.ones(2**24, device="cuda")
    torch.empty(2**50, dtype=torch.uint8, device="cuda")


def after_it():
    held = torch.cuda.memory_allocated()  # @inspect held
    cached = torch.cuda.memory_reserved()  # @inspect cached
    y = torch.ones(2**20, device="cuda")
"""


def test_memory_is_freed_after_a_section_runs_out(tmp_path: Path) -> None:
    trace, done = traced(tmp_path, TOO_MUCH, "--keep-going")
    assert done.returncode == 1 and "OutOfMemoryError" in done.stderr
    assert {name: value.value for name, value in values_of(trace).items()} == {"held": 0, "cached": 0}
    assert all(process.peak_device_bytes >= 2**26 for process in trace.run.processes)


def test_card_passes_every_check(tmp_path: Path) -> None:
    doctor = tools(tmp_path, "doctor", cards="t4")
    assert doctor.returncode == 0, doctor.stdout
    verdicts = {line[6:26].strip(): line[:6].strip() for line in doctor.stdout.splitlines()}
    assert "wrong" not in verdicts.values() and verdicts["GPU memory"] == "ok"


ROOF = """
import torch
from trace_tools import peak_bandwidth, peak_flops

peak, bandwidth = peak_flops("float16"), peak_bandwidth()  # @inspect peak bandwidth
x = torch.ones(512, 512, device="cuda", dtype=torch.float16)
y = x @ x  # @inspect y.shape
"""


@pytest.mark.parametrize(("card", "promised"), [("emulated", None), ("t4", [65e12, 320e9])])
def test_peaks_come_from_the_table_or_are_measured(card: str, promised: list[float] | None, tmp_path: Path) -> None:
    trace, done = traced(tmp_path, ROOF, cards=card)
    assert done.returncode == 0, done.stderr
    measured = {peak.name: peak.per_second for peak in trace.machine.peaks if peak.measured}
    found = [values_of(trace)[name].value for name in ("peak", "bandwidth")]
    assert found == (promised or [measured["float16"], measured["memory"]])
    pages = "".join(page.read_text() for page in tmp_path.glob("out/emulated-*/index.html"))
    assert promised or "measured: best of" in pages


BAD = {
    "no such number": ("t4,t4", ["--device", "cuda:9"], {}, "cuda:0 to cuda:1"),
    "no kernels": ("t4", [], {"EMULATED_CUDA_FAULTS": "no-kernel-image"}, "no kernel image is available"),
    "no device": ("h100", [], {"EMULATED_CUDA_FAULTS": "unavailable"}, "NVIDIA H100 80GB HBM3 (driver 580.95.05)"),
    "full": ("t4", [], {"EMULATED_CUDA_FAULTS": "oom:1"}, "out of memory"),
}


@pytest.mark.parametrize("case", BAD)
def test_unusable_card_is_a_one_line_error(case: str, tmp_path: Path) -> None:
    """An older trace is kept, and no new one is written."""
    cards, arguments, variables, message = BAD[case]
    older_trace = tmp_path / "out/cpu/trace.yaml"
    older_trace.parent.mkdir(parents=True)
    older_trace.write_text("unchanged")
    done = tools(tmp_path, "trace", "lecture.py", "-o", "out", *arguments, cards=cards, **variables)
    *_, line = done.stderr.splitlines()
    assert done.returncode == 2 and line.startswith("error: ") and message in line
    assert [path.read_text() for path in tmp_path.glob("out/*/*")] == ["unchanged"]
