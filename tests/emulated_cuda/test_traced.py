"""A lecture traced on the emulated device: the trace and all its pages say so. Slow: `make emulate` runs these."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from tests.emulated_cuda.build import HERE, ROOT, environment
from tests.emulated_cuda.profiles import PROFILES
from trace_tools.file_format.trace_file import load
from trace_tools.formats import quantity
from trace_tools.schema import Frame, Step, Trace

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif("EMULATED_CUDA" not in os.environ, reason="not on the emulated device"),
]
LECTURE = '''
import torch


def main():
    product()


def product():
    """A product"""
    x = torch.ones(64, 64, device="cuda")
    y = x @ x  # @inspect y.shape
    assert y.sum().item() == 64**3
'''


def traced(
    tmp_path: Path, text: str = LECTURE, options: Sequence[str] = (), **more: str
) -> tuple[Trace, subprocess.CompletedProcess[str]]:
    lecture = tmp_path / "lecture.py"
    lecture.write_text(text)
    command = [sys.executable, "-m", "trace_tools", "trace", str(lecture), "-o", str(tmp_path / "out"), "--passes", "1"]
    done = subprocess.run([*command, *options], env={**os.environ, **more}, capture_output=True, text=True)
    (path,) = (tmp_path / "out").glob("emulated-*/**/trace.yaml")
    return load(path).trace, done


def test_a_trace_and_every_page_say_emulated(tmp_path: Path) -> None:
    trace, done = traced(tmp_path)
    assert done.returncode == 0, done.stderr
    assert (trace.machine.emulated, trace.machine.device) == (True, "cuda")
    assert trace.machine.name == torch.cuda.get_device_name()
    assert [process.ended for process in trace.run.processes] == ["complete"] * 3
    steps = [step for step in trace.steps if isinstance(step, Step) and step.annotated]
    assert steps and all(step.device_ns and step.allocated_bytes for step in steps)
    pages = [*tmp_path.glob("out/emulated-*/*.html"), *tmp_path.glob("out/emulated-*/*.md")]
    assert len(pages) >= 4
    assert all("Emulated: no such device ran this." in page.read_text() for page in pages)


@pytest.mark.parametrize(("role", "process"), [("pass-1", "pass 1"), ("metering", "metering"), ("shaken", "shaken")])
def test_a_fault_hits_the_process_that_it_is_for(role: str, process: str, tmp_path: Path) -> None:
    trace, _ = traced(tmp_path, EMULATED_CUDA_FAULTS=f"{role}/assert:2")
    ended = {known.name: known.ended for known in trace.run.processes}
    assert ended[process] != "complete"
    earlier = {"pass-1": [], "metering": ["pass 1"], "shaken": ["pass 1", "metering"]}[role]
    assert [ended[name] for name in earlier] == ["complete"] * len(earlier)


FOUND = '''
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
        device.set_pace(50_000, 0, 0, 0)  # 50 ms
        y = x + 1
        device.set_pace(0, 0, 0, 0)
    return y


def side():
    """Side"""
    x = torch.ones(8, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    there = beside(x, stream)  # @inspect there.shape


def callbacks():
    """Callbacks"""
    w = torch.ones(8, device="cuda", requires_grad=True)

    def hook(grad):
        return grad * 2

    w.register_hook(hook)
    (w * w).sum().backward()
    measure(lambda: (w * w).sum().backward(), warmup=1, repeats=3, min_seconds=0.001)
    count(lambda: (w * w).sum().backward())


def peak():
    """Peak"""
    torch.cuda.reset_peak_memory_stats()
    held = torch.cuda.memory_allocated()
    x = torch.ones(2**24, device="cuda")  # @inspect x
    risen = torch.cuda.max_memory_allocated() - held - x.nbytes  # @inspect risen
    y = torch.ones(2**22, device="cuda")
    del y
    again = torch.ones(2**21, device="cuda")  # @inspect again
    no_more = torch.cuda.max_memory_allocated() - held - x.nbytes - 2**24  # @inspect no_more
'''


def test_what_reading_the_tracer_found(tmp_path: Path) -> None:
    """Side streams are timed, `measure` hides autograd's callbacks, what describing adds to the peak is said."""
    trace, done = traced(tmp_path, FOUND)
    assert done.returncode == 0, done.stderr
    steps = {name: step for step in trace.steps if isinstance(step, Step) for name, _ in step.values or ()}
    assert min(steps["there.shape"].device_ns or [0]) >= 50_000_000
    hooks = [frame for frame in trace.steps if isinstance(frame, Frame) and frame.function.endswith("hook")]
    assert len(hooks) == 1 and hooks[0].thread == "native"
    values = {name: value for step in steps.values() for name, value in step.values or ()}
    assert values["x"].note == f"reading it raised the allocator's peak by {quantity(values['risen'].value, 'B', 3)}"
    assert 0 < values["risen"].value < 2**22
    assert (values["no_more"].value, values["again"].note) == (0, None), "there was room below the peak"


def test_cold_means_before_the_device_was_in_use(tmp_path: Path) -> None:
    """What a pass reads of the card before its first run does not begin to use it."""
    told = tmp_path / "told"
    text = f"""
import torch

with open({str(told)!r}, "a") as file:
    print(torch.cuda.is_initialized(), file=file)


def main():
    torch.ones(1, device="cuda")
"""
    trace, done = traced(tmp_path, text)
    assert done.returncode == 0, done.stderr
    assert told.read_text().split()[:2] == ["False", "True"], "cold, and warm"
    assert any("SM clock" in note for note in trace.run.processes[0].notes or ())


LATE = '''
import torch


def main():
    fails()


def fails():
    """Fails"""
    x = torch.zeros(3, device="cuda")
    y = x + 1  # @inspect y
    for _ in range(30):
        y = y + 1
    z = 3  # @inspect z
    for _ in range(30):
        y = y + 1
    y.sum().item()
'''


@pytest.mark.parametrize(("launch", "line"), [(20, 12), (50, 15)])
def test_an_error_that_comes_late_says_since_when_it_can_have_come(launch: int, line: int, tmp_path: Path) -> None:
    """The tracer waits at the annotated lines: it is something launched after the last of them."""
    trace, _ = traced(tmp_path, LATE, EMULATED_CUDA_FAULTS=f"pass-1/assert:{launch}")
    raised = [step.raised for step in trace.steps if isinstance(step, Step) and step.raised]
    assert {(it.type, it.waited_line) for it in raised} == {("AcceleratorError", line)}
    pages = "".join(page.read_text() for page in tmp_path.glob("out/**/*.md"))
    assert f"launched after the synchronisation at line {line}" in pages


def test_a_device_that_fails_while_it_is_measured_is_no_machine(tmp_path: Path) -> None:
    """Its peaks would all be “not measured”, and each run of the lecture would fail."""
    (tmp_path / "lecture.py").write_text(LECTURE)
    command = [sys.executable, "-m", "trace_tools", "trace", "lecture.py", "-o", "out", "--passes", "1"]
    path = os.pathsep.join([os.environ["PYTHONPATH"], str(ROOT)])
    given = {**os.environ, "PYTHONPATH": path, "EMULATED_CUDA_FAULTS": "survey/assert:40"}
    done = subprocess.run(command, env=given, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    *_, line = done.stderr.splitlines()
    assert line.startswith("error: the GPU failed while its peaks were measured: CUDA error: device-side assert")
    assert not [*tmp_path.glob("out/**/*.yaml")]


KEEPS = """
import json
import torch


def main():
    vars(json.dumps).setdefault("kept", []).append(torch.ones(1000, device="cuda"))
"""


def test_memory_that_a_run_does_not_give_back_is_noted(tmp_path: Path) -> None:
    """A tensor that a function of a library keeps is there after both runs: 4,000 bytes are 8 blocks of 512."""
    trace, _ = traced(tmp_path, KEEPS)
    kept = "4,096 bytes more were allocated on the GPU after the warm run than before it"
    assert kept in (trace.run.processes[0].notes or ())
    (tmp_path / "well").mkdir()
    trace, _ = traced(tmp_path / "well")
    assert not any("on the GPU after" in note for note in trace.run.processes[0].notes or ())


TOO_MUCH = '''
import torch


def main():
    too_much()
    after_it()


def too_much():
    """Too much"""
    x = torch.ones(2**24, device="cuda")
    torch.empty(2**50, dtype=torch.uint8, device="cuda")


def after_it():
    """After it"""
    held = torch.cuda.memory_allocated()  # @inspect held
    cached = torch.cuda.memory_reserved()  # @inspect cached
    y = torch.ones(2**20, device="cuda")
'''


def test_a_section_that_runs_out_of_memory_leaves_it_to_the_next(tmp_path: Path) -> None:
    trace, done = traced(tmp_path, TOO_MUCH, options=["--keep-going"])
    assert done.returncode == 1 and "OutOfMemoryError" in done.stderr
    values = {name: value.value for step in trace.steps if isinstance(step, Step) for name, value in step.values or ()}
    assert values == {"held": 0, "cached": 0}
    assert all(process.peak_device_bytes >= 2**26 for process in trace.run.processes)


def tools(tmp_path: Path, *command: str, cards: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the tools on other cards than this process has."""
    (tmp_path / "lecture.py").write_text(LECTURE)
    given = environment(cards) | {"PYTHONPATH": os.pathsep.join([str(HERE / "start"), str(ROOT)])} | more
    words = [sys.executable, "-m", "trace_tools", *command]
    return subprocess.run(words, env=given, capture_output=True, text=True, cwd=tmp_path)


@pytest.mark.parametrize("card", PROFILES)
def test_each_card_is_looked_at_and_traced(card: str, tmp_path: Path) -> None:
    looked = tools(tmp_path, "doctor", "--json", cards=card)
    assert looked.returncode == 0, looked.stdout
    verdicts = {check["name"]: check["verdict"] for check in json.loads(looked.stdout)["checks"]}
    assert "wrong" not in verdicts.values()
    assert verdicts["GPU memory"] == ("look" if card == "shared" else "ok")
    if card not in ("mi300x", "mig", "shared"):  # the others differ in numbers only
        return
    done = tools(tmp_path, "trace", "lecture.py", "-o", "out", "--passes", "1", cards=card)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("out/emulated-*/trace.yaml")
    machine = load(path).trace.machine
    assert (machine.name, machine.memory_bytes) == (PROFILES[card].name, PROFILES[card].memory_bytes)


BAD = {
    "no such number": ("t4,t4", ["--device", "cuda:9"], {}, "PyTorch finds cuda:0 to cuda:1 on this machine"),
    "no kernels": ("v100", [], {"EMULATED_CUDA_FAULTS": "no-kernel-image"}, "and none for Tesla V100-SXM2-16GB"),
    "no device": ("h100", [], {"EMULATED_CUDA_FAULTS": "unavailable"}, "NVIDIA H100 80GB HBM3 (driver 580.95.05) is"),
    "full": ("shared", [], {"EMULATED_CUDA_FAULTS": "oom:1"}, "the GPU is full: "),
    "another": ("t4", ["--device", "xpu"], {}, "device 'xpu': PyTorch finds no XPU device"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_card_that_is_of_no_use_is_one_line(case: str, tmp_path: Path) -> None:
    cards, arguments, given, said = BAD[case]
    old = tmp_path / "out/cpu/trace.yaml"
    old.parent.mkdir(parents=True)
    old.write_text("as it was")
    done = tools(tmp_path, "trace", "lecture.py", "-o", "out", *arguments, cards=cards, **given)
    *_, line = done.stderr.splitlines()
    assert done.returncode == 2 and line.startswith("error: ") and said in line
    assert [path.read_text() for path in tmp_path.glob("out/*/*")] == ["as it was"]
