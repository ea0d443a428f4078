"""A lecture traced on the emulated device: the trace and all its pages say so. Slow: `make emulate` runs these."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from trace_tools.file_format.trace_file import load
from trace_tools.schema import Step, Trace

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


def traced(tmp_path: Path, **more: str) -> tuple[Trace, subprocess.CompletedProcess[str]]:
    lecture = tmp_path / "lecture.py"
    lecture.write_text(LECTURE)
    command = [sys.executable, "-m", "trace_tools", "trace", str(lecture), "-o", str(tmp_path / "out"), "--passes", "1"]
    done = subprocess.run(command, env={**os.environ, **more}, capture_output=True, text=True)
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
