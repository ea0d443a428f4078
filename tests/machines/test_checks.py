"""Checks of `doctor`: on this CPU, compared with Python and the system; on a GPU, with simulated answers of torch."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.programs import require
from trace_tools.errors import UsageError
from trace_tools.machines import checks, devices, host
from trace_tools.machines.accelerators import Accelerator
from trace_tools.machines.checks import Check


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in checks.SETTINGS:
        monkeypatch.delenv(name, raising=False)


def only(checks_made: Iterator[Check]) -> Check:
    [check] = checks_made
    return check


def test_checks_of_this_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "cpu_notes", list)
    by_name = {check.name: check for check in checks.checks("cpu")}
    assert list(by_name) == ["versions", "processor", "device", "threads"]
    assert not [check for check in by_name.values() if check.verdict == "wrong"]
    assert all(check.advice for check in by_name.values() if check.verdict != "ok")
    assert f"torch {torch.__version__}" in by_name["versions"].found


def test_an_unusable_device_is_the_last_check(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(device: str | None) -> str:
        raise UsageError(f"{device} is full")

    monkeypatch.setattr(devices, "chosen", refuses)
    *_, last = checks.checks("cuda:1")
    assert last == Check("device", "wrong", "cuda:1 is full")


def test_a_failed_operation_ends_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("CUDA error: device-side assert triggered\nmore")

    monkeypatch.setattr(checks, "_host", fails)
    *_, last = checks.checks("cpu")
    assert last == Check("device", "wrong", "an operation failed: CUDA error: device-side assert triggered more")


def test_settings_load_and_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def verdicts(name: str) -> list[str]:
        return [check.verdict for check in checks._host() if check.name == name]

    for value, found in (("0", []), ("", []), ("1", ["look"])):
        monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", value)
        assert verdicts("environment") == found
    monkeypatch.setattr(host, "cpu_notes", lambda: ["load average 9.0", "a governor"])
    assert verdicts("load") == ["look", "look"]
    monkeypatch.setattr(host, "usable_cores", lambda: 4)
    for threads, verdict in ((8, "look"), (4, "ok"), (1, "ok")):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        assert verdicts("threads") == [verdict]


# A GPU, with simulated answers of torch.cuda and nvidia-smi


def let_cuda_answer(monkeypatch: pytest.MonkeyPatch, **answers_by_name: Any) -> None:
    for name, answer in answers_by_name.items():
        monkeypatch.setattr(torch.cuda, name, answer if callable(answer) else lambda *_, answer=answer: answer)


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A card that nobody else uses, as torch describes it."""
    card = SimpleNamespace(name="NVIDIA H100", total_memory=80 * 2**30, multi_processor_count=132, major=9, minor=0)
    let_cuda_answer(monkeypatch, current_device=1, device_count=2, get_device_properties=card)
    let_cuda_answer(monkeypatch, mem_get_info=(79 * 2**30, 80 * 2**30), memory_reserved=2**20)
    monkeypatch.setattr(host, "gpu_driver", lambda: "580.95.05")
    monkeypatch.setattr(host, "gpu_notes", lambda: [])
    return card


def test_description_of_an_nvidia_or_amd_card(card: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    device, memory = checks._card(Accelerator())
    description = "NVIDIA H100, 80 GiB, driver 580.95.05, compute capability 9.0, card 1 of 2"
    assert (device, memory.verdict) == (Check("device", "ok", description), "ok")
    card.gcnArchName = "gfx942:sramecc+:xnack-"
    monkeypatch.setattr(torch.version, "hip", "6.4")
    assert "compute capability gfx942," in next(checks._card(Accelerator())).found


@pytest.mark.parametrize(("free", "verdict"), [(75, "ok"), (60, "look"), (1, "look")])
def test_free_device_memory(free: int, verdict: str, card: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    let_cuda_answer(monkeypatch, mem_get_info=(free * 2**30, 80 * 2**30))
    assert [check.verdict for check in checks._card(Accelerator())] == ["ok", verdict]


def test_what_slows_the_card(card: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = ["GPU: SM clock 1980 MHz", "GPU clocks held back: power limit", "GPU in use by 1 process besides this run"]
    monkeypatch.setattr(host, "gpu_notes", lambda: notes)
    found = {check.found: check.verdict for check in checks._card(Accelerator())}
    assert [found[note] for note in notes] == ["ok", "look", "look"]


def test_checks_name_neither_person_nor_computer() -> None:
    (uname,) = require("uname")
    name = subprocess.run([uname, "-n"], capture_output=True, text=True, check=True).stdout.strip()
    page = "".join(check.found + check.advice for check in checks.checks("cpu"))
    assert name not in page.split() and os.path.expanduser("~") not in page.split()
