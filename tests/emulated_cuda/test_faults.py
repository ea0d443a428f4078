"""Planted faults: an error is reported late and by each later call, and only in the named process."""

from __future__ import annotations

import sys

import pytest

from tests.cases_in_one import each
from tests.emulated_cuda import torch_side
from tests.emulated_cuda.build import environment, run

PROGRAM = """
import torch
x = torch.zeros(3, device="cuda") if torch.cuda.is_available() else print("no device")
messages = []
def attempt(call):
    try:
        call()
        messages.append("fine")
    except RuntimeError as error:
        messages.append(str(error).splitlines()[0])
if x is not None:
    for call in (lambda: x.add_(1), lambda: x.add_(1), lambda: x.add_(1), torch.cuda.synchronize, lambda: x.add_(1)):
        attempt(call)
    print(*messages, sep="\\n")
"""


def outcomes(faults: str, **settings: object) -> list[str]:
    """Run the program with planted faults; return "fine", or the error's first line, for each of its five calls."""
    return run([sys.executable, "-c", PROGRAM], environment(faults=faults, **settings)).stdout.splitlines()


@each(
    ("kind", "message"),
    [("launch", "CUDA error: unspecified launch failure"), ("assert", "CUDA error: device-side assert triggered")],
)
def test_failed_launch_is_reported_late_and_forever(emulated: None, kind: str, message: str) -> None:
    results = outcomes(f"{kind}:3", delay_us=100_000)  # the first launch fills `x`
    assert results == ["fine", "fine", "fine", message, message]


def test_every_launch_fails_without_kernels_for_the_card(emulated: None) -> None:
    done = run([sys.executable, "-c", PROGRAM], environment(faults="no-kernel-image"))
    assert "CUDA error: no kernel image is available for execution on the device" in done.stderr


def test_device_can_be_unavailable_while_its_driver_answers(emulated: None) -> None:
    variables = environment(faults="unavailable")
    assert run([sys.executable, "-c", PROGRAM], variables).stdout == "no device\n"
    assert run(["nvidia-smi", "--query-gpu=driver_version"], variables).stdout.count(".") == 2


@each(
    ("arguments", "role"),
    [
        (["python", "-P", "-m", "trace_tools.tracing.survey", "run/machine.json", "cuda"], "survey"),
        (["python", "-P", "-m", "trace_tools.tracing.worker", "run/pass-2.json"], "pass-2"),
        (["python", "-m", "pytest"], "other"),
    ],
)
def test_faults_apply_to_the_named_process(arguments: list[str], role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault without a process applies to all."""
    monkeypatch.setattr(sys, "orig_argv", arguments)
    monkeypatch.setenv("EMULATED_CUDA_FAULTS", "survey/oom:2, pass-2/launch:7,pass-1/assert:1, no-kernel-image")
    expected = {"survey": [("oom", 2)], "pass-2": [("launch", 7)]}.get(role, [])
    assert torch_side.role() == role
    assert torch_side.faults() == [*expected, ("no-kernel-image", 0)]


def test_unknown_fault_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMULATED_CUDA_FAULTS", "fire:1")
    with pytest.raises(RuntimeError, match="EMULATED_CUDA_FAULTS: 'fire:1'; expected"):
        torch_side.faults()
