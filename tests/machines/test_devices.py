"""The choice of a device, and its errors, with a script as `nvidia-smi` and simulated answers of torch."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from tests.cases_in_one import each
from tests.messages import says
from trace_tools.errors import UsageError
from trace_tools.machines import devices, host

H100 = "echo '580.95.05, NVIDIA H100 80GB HBM3'"
V100 = "echo '580.95.05, Tesla V100-SXM2-16GB'"
INSTEAD = "trace the CPU: DEVICE=cpu (--device cpu)"
OTHER_BUILD = f"install torch for this driver and GPU (https://pytorch.org/get-started/locally), or {INSTEAD}"


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put a shell script as `nvidia-smi` first on the PATH, in an environment that hides no GPU."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv(devices.VISIBLE, raising=False)
    monkeypatch.setattr(host, "has_card", lambda: False)

    def write(body: str) -> None:
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        program.chmod(0o755)

    write("exit 9")
    return write


def without_gpu(monkeypatch: pytest.MonkeyPatch, version: str, cuda: str | None, message: str = "") -> None:
    """Simulate a build of torch that finds no GPU."""

    def fails(*args: object, **kwargs: object) -> None:
        raise RuntimeError(message)

    monkeypatch.setattr(torch, "__version__", version)
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch, "zeros", fails)


def with_gpus(monkeypatch: pytest.MonkeyPatch, count: int = 1, fails: Exception | None = None) -> list[int]:
    """Simulate GPUs that compute on the CPU or fail at their first kernel; return the indices made current."""
    current: list[int] = []
    ones = torch.ones

    def on_cpu(*size: int, device: str) -> torch.Tensor:
        if fails is not None:
            raise fails
        return ones(*size)

    monkeypatch.setattr(torch, "ones", on_cpu)
    for name, answer in {
        "is_available": True,
        "device_count": count,
        "current_device": 0,
        "get_device_properties": SimpleNamespace(
            name="Tesla V100-SXM2-16GB", total_memory=16 * 10**9, multi_processor_count=80, major=7, minor=0
        ),
    }.items():
        monkeypatch.setattr(torch.cuda, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    return current


@pytest.mark.parametrize("name", ["cpu", "cuda", "cuda:0", "cuda:12"])
def test_valid_device_names(name: str) -> None:
    assert devices.checked(name) == name


@each("name", ["tpu", "", "cuda:", "cuda:-1", "cuda:x", "cpu:0", "CUDA", "cuda:1 ", "cuda:1\n", "cuda:٣"])
def test_invalid_device_names(name: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"device {name!r}; expected {devices.FORMS}")):
        devices.checked(name)


@each(
    ("device", "before", "after"),
    [
        (None, {}, {}),
        ("cuda", {"CUDA_VISIBLE_DEVICES": "2,3"}, {}),
        ("cpu", {}, {"CUDA_VISIBLE_DEVICES": ""}),
        ("cuda:1", {}, {"CUDA_VISIBLE_DEVICES": "1"}),
        ("cuda:1", {"CUDA_VISIBLE_DEVICES": "2,3"}, {"CUDA_VISIBLE_DEVICES": "3"}),
        ("cuda:0", {"CUDA_VISIBLE_DEVICES": "MIG-aa-bb,7"}, {"CUDA_VISIBLE_DEVICES": "MIG-aa-bb"}),
    ],
)
def test_a_process_sees_one_card(
    device: str | None, before: dict[str, str], after: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(devices.VISIBLE, raising=False)
    for name, value in before.items():
        monkeypatch.setenv(name, value)
    assert devices.environment(device) == after


def test_choosing_the_cpu_asks_torch_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking torch for a GPU may crash the process."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: sys.exit("asked for a GPU"))
    assert devices.chosen("cpu") == "cpu"


def test_without_a_driver_the_cpu_is_chosen(smi: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    without_gpu(monkeypatch, "2.13.0+cu130", "13.0", "Found no NVIDIA driver on your system. Please check that")
    assert devices.chosen(None) == "cpu"
    smi("echo No devices were found; exit 6")
    assert devices.chosen(None) == "cpu"
    with pytest.raises(UsageError) as raised:
        devices.chosen("cuda")
    reason = "'Found no NVIDIA driver on your system'"
    assert says(raised.value, "device 'cuda'", "no CUDA device", "2.13.0+cu130", reason, "--device cpu")


@pytest.mark.parametrize(
    ("script", "build_and_message", "message"),
    [
        (
            H100,
            ("2.13.0+cpu", None, "Torch not compiled with CUDA enabled"),
            "PyTorch finds no CUDA device, but the machine has NVIDIA H100 80GB HBM3 (driver 580.95.05): "
            f"torch 2.13.0+cpu says 'Torch not compiled with CUDA enabled'; {OTHER_BUILD}",
        ),
        (
            H100.replace("580.95.05", "550.54.15"),
            ("2.13.0+cu130", "13.0", "The NVIDIA driver on your system is too old (found version 12040). Please"),
            "PyTorch finds no CUDA device, but the machine has NVIDIA H100 80GB HBM3 (driver 550.54.15): "
            "torch 2.13.0+cu130 says 'The NVIDIA driver on your system is too old (found version "
            f"12040)'; {OTHER_BUILD}",
        ),
    ],
)
@pytest.mark.parametrize("device", [None, "cuda", "cuda:0"])
def test_a_gpu_that_torch_cannot_use_is_an_error(
    script: str,
    build_and_message: tuple[str, str | None, str],
    message: str,
    device: str | None,
    smi: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The CPU is not used instead without a request."""
    smi(script)
    without_gpu(monkeypatch, *build_and_message)
    with pytest.raises(UsageError) as raised:
        devices.chosen(device)
    assert str(raised.value) == message


def test_a_gpu_with_a_broken_driver_is_an_error(smi: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """This happens after an update of the driver, until the computer is restarted."""
    smi("echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18")
    without_gpu(monkeypatch, "2.13.0+cu130", "13.0", "No CUDA GPUs are available")
    monkeypatch.setattr(host, "has_card", lambda: True)
    with pytest.raises(UsageError) as raised:
        devices.chosen(None)
    facts = ("no CUDA device", "nvidia-smi fails", "2.13.0+cu130", "'No CUDA GPUs are available'")
    assert says(raised.value, *facts, INSTEAD)


@pytest.mark.parametrize("value", ["", "-1"])
def test_a_hidden_gpu_is_not_chosen(value: str, smi: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    smi(H100)
    without_gpu(monkeypatch, "2.13.0+cu130", "13.0", "No CUDA GPUs are available")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    assert devices.chosen(None) == "cpu"
    with pytest.raises(
        UsageError, match=re.escape("NVIDIA H100 80GB HBM3 (driver 580.95.05) is hidden by CUDA_VISIBLE")
    ):
        devices.chosen("cuda")


def test_choice_among_existing_cards(smi: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    current = with_gpus(monkeypatch, count=2)
    assert [devices.chosen(device) for device in (None, "cuda", "cuda:1")] == ["cuda"] * 3
    assert current == [0, 0, 1]
    for count, names in ((2, "cuda:0 to cuda:1"), (1, "cuda:0")):
        with_gpus(monkeypatch, count=count)
        with pytest.raises(UsageError) as raised:
            devices.chosen("cuda:9")
        assert str(raised.value) == (f"device 'cuda:9': PyTorch finds only {names} here; use one of these, or cpu")


def test_a_card_without_kernels_is_an_error(smi: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    smi(V100)
    message = "CUDA error: no kernel image is available for execution on the device\nCUDA kernel errors might be"
    monkeypatch.setattr(torch, "__version__", "2.13.0+cu130")
    with_gpus(monkeypatch, fails=RuntimeError(message))
    with pytest.raises(UsageError) as raised:
        devices.chosen(None)
    assert says(raised.value, "torch 2.13.0+cu130", "Tesla V100-SXM2-16GB (driver 580.95.05)", "no kernel", OTHER_BUILD)


def test_a_full_card_is_an_error(smi: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    smi('case "$*" in *compute-apps*) echo "4242, 79000"; echo "4243, 900" ;; esac')
    users = "2 processes besides this run, 79900 MiB (this run may be among them)"
    for error in (torch.OutOfMemoryError("CUDA out of memory. Tried to"), RuntimeError("CUDA error: out of memory\nx")):
        with_gpus(monkeypatch, fails=error)
        with pytest.raises(UsageError) as raised:
            devices.chosen("cuda")
        assert says(raised.value, "out of memory", f"stop other programs that use it ({users})", INSTEAD)


def test_other_failures_of_a_card_are_errors(smi: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    smi(V100)
    with_gpus(monkeypatch, fails=RuntimeError("CUDA error: unspecified launch failure"))
    with pytest.raises(UsageError) as raised:
        devices.chosen("cuda")
    error = "'CUDA error: unspecified launch failure'"
    assert says(raised.value, f"torch {torch.__version__}", "Tesla V100-SXM2-16GB (driver 580.95.05)", error, INSTEAD)
