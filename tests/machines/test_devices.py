"""The choice of a device, and its errors, with a script as `nvidia-smi` and simulated answers of torch."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.cases_in_one import each
from tests.messages import says
from trace_tools.errors import UsageError
from trace_tools.machines import devices, host

H100 = "echo '580.95.05, NVIDIA H100 80GB HBM3'"
V100 = "echo '580.95.05, Tesla V100-SXM2-16GB'"
NO_DEVICES = "echo No devices were found; exit 6"
NO_DRIVER = "Found no NVIDIA driver on your system. Please check that"
OLD_DRIVER = "The NVIDIA driver on your system is too old (found version 12040). Please"
CARD = SimpleNamespace(name="Tesla V100-SXM2-16GB", total_memory=16 * 10**9, multi_processor_count=80, major=7, minor=0)


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


def without_gpu(monkeypatch: pytest.MonkeyPatch, message: str = "", version: str = "2.13.0+cu130") -> None:
    """Simulate a build of torch that finds no GPU, for the reason in the message."""

    def fails(*args: object, **kwargs: object) -> None:
        raise RuntimeError(message)

    monkeypatch.setattr(torch, "__version__", version)
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
    answers = {"is_available": True, "device_count": count, "current_device": 0, "get_device_properties": CARD}
    for name, answer in answers.items():
        monkeypatch.setattr(torch.cuda, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    return current


def refusal(device: str | None) -> UsageError:
    with pytest.raises(UsageError) as raised:
        devices.chosen(device)
    return raised.value


@each("name", ["cpu", "cuda", "cuda:0", "cuda:12"])
def test_valid_device_names(name: str) -> None:
    assert devices.checked(name) == name


@each("name", ["tpu", "", "cuda:", "cuda:-1", "cuda:x", "cpu:0", "CUDA", "cuda:1 ", "cuda:1\n", "cuda:٣"])
def test_invalid_device_names(name: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"device {name!r}; expected {devices.FORMS}")):
        devices.checked(name)


@each(
    ("device", "visible", "after"),
    [
        (None, None, {}),
        ("cuda", "2,3", {}),
        ("cpu", None, {"CUDA_VISIBLE_DEVICES": ""}),
        ("cuda:1", None, {"CUDA_VISIBLE_DEVICES": "1"}),
        ("cuda:1", "2,3", {"CUDA_VISIBLE_DEVICES": "3"}),
        ("cuda:0", "MIG-aa-bb,7", {"CUDA_VISIBLE_DEVICES": "MIG-aa-bb"}),
    ],
)
def test_a_process_sees_one_card(
    device: str | None, visible: str | None, after: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(devices.VISIBLE, raising=False)
    if visible is not None:
        monkeypatch.setenv(devices.VISIBLE, visible)
    assert devices.environment(device) == after


def test_choosing_the_cpu_asks_torch_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking torch for a GPU may crash the process."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: sys.exit("asked for a GPU"))
    assert devices.chosen("cpu") == "cpu"


@each(
    ("script", "visible", "message", "facts"),
    [
        ("exit 9", None, NO_DRIVER, ("no NVIDIA driver", "2.13.0+cu130", "'Found no NVIDIA driver on your system'")),
        (NO_DEVICES, None, NO_DRIVER, ("no NVIDIA driver",)),
        (H100, "", "No CUDA GPUs are available", ("NVIDIA H100 80GB HBM3 (driver 580.95.05)", "CUDA_VISIBLE")),
        (H100, "-1", "No CUDA GPUs are available", ("NVIDIA H100 80GB HBM3 (driver 580.95.05)", "CUDA_VISIBLE")),
    ],
)
def test_without_a_gpu_or_with_a_hidden_one_the_cpu_is_chosen_unless_a_gpu_is_asked_for(
    smi: Any, script: str, visible: str | None, message: str, facts: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    smi(script)
    if visible is not None:
        monkeypatch.setenv(devices.VISIBLE, visible)
    without_gpu(monkeypatch, message)
    assert devices.chosen(None) == "cpu"
    assert says(refusal("cuda"), "device 'cuda'", "no CUDA device", *facts, "--device cpu")


@each("device", [None, "cuda", "cuda:0"])
@each(
    ("script", "has_card", "version", "message", "facts"),
    [
        (H100, False, "2.13.0+cpu", "Not compiled. Do", ("NVIDIA H100 80GB HBM3 (driver 580.95.05)", "'Not compiled'")),
        (H100, False, "2.13.0+cu130", OLD_DRIVER, ("H100", "too old (found version 12040)'")),
        # after an update of the driver, until the computer is restarted
        ("exit 18", True, "2.13.0+cu130", "No CUDA GPUs are available", ("nvidia-smi fails", "'No CUDA GPUs are")),
    ],
)
def test_a_gpu_that_torch_cannot_use_is_an_error(
    smi: Any,
    script: str,
    has_card: bool,
    version: str,
    message: str,
    facts: tuple[str, str],
    device: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The CPU is not used instead without a request."""
    smi(script)
    monkeypatch.setattr(host, "has_card", lambda: has_card)
    without_gpu(monkeypatch, message, version)
    assert says(refusal(device), "no CUDA device", facts[0], f"torch {version}", facts[1], devices.OTHER_BUILD)


def test_choice_among_existing_cards(smi: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    current = with_gpus(monkeypatch, count=2)
    assert [devices.chosen(device) for device in (None, "cuda", "cuda:1")] == ["cuda"] * 3
    assert current == [0, 0, 1]
    for count, names in ((2, "cuda:0 to cuda:1 here"), (1, "only cuda:0 here")):
        with_gpus(monkeypatch, count=count)
        assert says(refusal("cuda:9"), "device 'cuda:9'", names)


@each(
    ("script", "error", "facts"),
    [
        (V100, RuntimeError("CUDA error: no kernel\nmore"), ("V100-SXM2-16GB (driver 580.95.05)", "no kernel'")),
        ("exit 9", RuntimeError("CUDA error: out of memory\nx"), ("the GPU", "out of memory'", "they are not known")),
        (
            'case "$*" in *compute-apps*) echo "4242, 79000"; echo "4243, 900" ;; esac',
            torch.OutOfMemoryError("CUDA out of memory. Tried to"),
            ("the GPU", "'CUDA out of memory'", "2 processes besides this run, 79900 MiB"),
        ),
    ],
)
def test_a_card_that_cannot_compute_is_an_error(
    smi: Any, script: str, error: Exception, facts: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    smi(script)
    with_gpus(monkeypatch, fails=error)
    advice = devices.ON_THE_CPU if "out of memory" in str(error) else devices.OTHER_BUILD
    for device in (None, "cuda"):
        assert says(refusal(device), f"torch {torch.__version__}", *facts, advice)
