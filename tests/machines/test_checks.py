"""Checks of `doctor`: on this CPU, compared with Python and the system; on a GPU, with simulated answers of torch."""

from __future__ import annotations

import os
import platform
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.cases_in_one import each
from trace_tools.errors import UsageError
from trace_tools.machines import checks, devices, host
from trace_tools.machines.accelerators import Accelerator
from trace_tools.machines.checks import Check


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in checks.SETTINGS:
        monkeypatch.delenv(name, raising=False)


def test_checks_of_this_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "cpu_notes", list)
    made = list(checks.checks("cpu"))
    assert [check.name for check in made] == ["versions", "processor", "device", "threads"]
    assert all(check.verdict == "ok" or (check.verdict == "look" and check.advice) for check in made)
    assert f"torch {torch.__version__}" in made[0].found
    words = " ".join(check.found + check.advice for check in made).split()
    assert platform.node() not in words and os.path.expanduser("~") not in words


def raising(error: Exception) -> Any:
    def fails(*_: object) -> None:
        raise error

    return fails


@each(
    ("module", "name", "error", "found"),
    [
        (devices, "chosen", UsageError("the card is full"), "the card is full"),
        (checks, "_host", RuntimeError("CUDA error: 7\nmore"), "an operation failed: CUDA error: 7 more"),
    ],
)
def test_a_failed_check_of_the_device_is_the_last(
    module: Any, name: str, error: Exception, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, raising(error))
    *_, last = checks.checks("cpu")
    assert last == Check("device", "wrong", found)


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


@each(
    ("free_gib", "notes", "verdicts"),
    [
        (79, [], ["ok"]),
        (75, [], ["ok"]),
        (60, [], ["look"]),
        (1, [], ["look"]),
        (79, ["GPU: SM clock 1980 MHz", "GPU clocks held back: power limit"], ["ok", "ok", "look"]),
        (79, ["GPU in use by 1 process besides this run"], ["ok", "look"]),
    ],
)
def test_a_card_and_what_slows_it(
    free_gib: int, notes: list[str], verdicts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    card = SimpleNamespace(name="NVIDIA H100", total_memory=80 * 2**30, multi_processor_count=132, major=9, minor=0)
    for name, answer in {
        "current_device": 1,
        "device_count": 2,
        "get_device_properties": card,
        "mem_get_info": (free_gib * 2**30, 80 * 2**30),
        "memory_reserved": 2**20,
    }.items():
        monkeypatch.setattr(torch.cuda, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(host, "gpu_driver", lambda: "580.95.05")
    monkeypatch.setattr(host, "gpu_notes", lambda: notes)
    device, *others = checks._card(Accelerator())
    description = "NVIDIA H100, 80 GiB, driver 580.95.05, compute capability 9.0, card 1 of 2"
    assert device == Check("device", "ok", description)
    assert [check.verdict for check in others] == verdicts
    assert [check.found for check in others[1:]] == notes
