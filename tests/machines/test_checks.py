"""Checks of `doctor`: on this CPU, compared with Python and the system; on a GPU, with simulated answers of torch."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.machines.test_accelerators import Batching, Module
from tests.programs import require
from trace_tools.errors import UsageError
from trace_tools.machines import checks, devices, float32_precision, host
from trace_tools.machines.accelerators import Accelerator, Properties
from trace_tools.machines.preflight import Check, PastMemory


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in checks.SETTINGS:
        monkeypatch.delenv(name, raising=False)


def only(checks_made: Iterator[Check]) -> Check:
    [check] = checks_made
    return check


def test_checks_of_this_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "DRIFT_S", 0.05)
    by_name = {check.name: check for check in checks.checks("cpu", quick=False)}
    assert list(by_name) == [
        *("versions", "processor", "device", "products", "float8 products", "repeatable"),
        *("environment", "threads", "load", "memory", "clock", "drift"),
    ]
    assert not [check for check in by_name.values() if check.verdict == "wrong"]
    assert all(check.advice for check in by_name.values() if check.verdict != "ok")
    assert f"torch {torch.__version__}" in by_name["versions"].found
    assert by_name["products"].found == "8×8, correct in float32, float64, float16, bfloat16, complex64"
    quick = [check.name for check in checks.checks("cpu", quick=True)]
    assert quick == [name for name in by_name if name != "drift"]


def test_float8_products_are_correct_or_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*args: object, **more: object) -> torch.Tensor:
        raise RuntimeError("only for compute capability >= 8.9")

    monkeypatch.setattr(torch, "_scaled_mm", refuses, raising=False)
    assert (only(checks._float8("cpu")).verdict, only(checks._float8("cpu")).found[:10]) == ("ok", "none here:")
    monkeypatch.setattr(torch, "_scaled_mm", lambda x, y, **more: torch.zeros(16, 16, dtype=torch.bfloat16))
    assert only(checks._float8("cpu")).verdict == "wrong"


def test_an_unusable_device_is_the_last_check(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(device: str | None) -> str:
        raise UsageError(f"{device} is full")

    monkeypatch.setattr(devices, "chosen", refuses)
    *_, last = checks.checks("cuda:1", quick=True)
    assert last == Check("device", "wrong", "cuda:1 is full")


def test_a_failed_operation_ends_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("CUDA error: device-side assert triggered\nmore")

    monkeypatch.setattr(checks, "_bit_equal", fails)
    *_, last = checks.checks("cpu", quick=True)
    assert last == Check("device", "wrong", "an operation failed: CUDA error: device-side assert triggered more")


def test_wrong_or_failed_products_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    product = torch.Tensor.__matmul__

    def wrong_in_bfloat16(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return product(a, b) + (a.dtype == torch.bfloat16)

    def fails_in_lacking(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        if a.dtype in lacking:
            raise RuntimeError("not implemented for 'Half'")
        return product(a, b)

    monkeypatch.setattr(torch.Tensor, "__matmul__", wrong_in_bfloat16)
    check = only(checks._kernels("cpu"))
    assert (check.verdict, check.found) == ("wrong", "an 8×8 product is wrong in bfloat16")
    monkeypatch.setattr(torch.Tensor, "__matmul__", fails_in_lacking)
    for lacking, verdict in (([torch.float16], "look"), ([torch.float32, torch.float16], "wrong")):
        check = only(checks._kernels("cpu"))
        assert (check.verdict, check.found.count("not implemented for 'Half'")) == (verdict, len(lacking))


def test_products_that_differ_between_runs_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "equal", lambda x, again: x.dtype != torch.bfloat16)
    assert only(checks._bit_equal("cpu")).found == "two runs of a 512×512 product differ in bfloat16"


@pytest.mark.parametrize("name", checks.SETTINGS)
def test_settings_that_change_measurements_are_reported(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = {"CUDA_MODULE_LOADING": "LAZY", "NVIDIA_TF32_OVERRIDE": ""}.get(name, "0")
    for value, verdict in ((usual, "ok"), ("", "ok"), ("1", "look")):
        monkeypatch.setenv(name, value)
        assert only(checks._settings()).verdict == verdict
    check = only(checks._settings())
    assert check.found.startswith(f"{name}=1: ") and check.advice == f"unset {name}"


def test_threads_load_memory_and_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    monkeypatch.setattr(host, "usable_cores", lambda: 4)
    for threads, verdict in ((8, "look"), (4, "ok"), (1, "ok")):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        check = only(checks._threads())
        assert (check.verdict, check.found) == (verdict, f"{threads} on 4 cores (OMP_NUM_THREADS=8)")
    monkeypatch.setattr(host, "cpu_notes", lambda: ["load average 9.0", "a governor"])
    assert [(c.verdict, c.found) for c in checks._load()] == [("look", "load average 9.0"), ("look", "a governor")]
    monkeypatch.setattr(host, "cpu_notes", list)
    assert only(checks._load()).found == f"load average {os.getloadavg()[0]:.1f}"
    for free, verdict in ((2**30, "look"), (2**33, "ok"), (None, "ok")):
        monkeypatch.setattr(host, "available_bytes", lambda free=free: free)
        assert only(checks._free(PastMemory())).verdict == verdict
    monkeypatch.setattr(host, "available_bytes", lambda: 3 * 10**9)
    check = only(checks._free(PastMemory(ram_bytes=4 * 10**9)))
    assert (check.verdict, check.found) == ("look", "3 GB are free; an earlier run took 4 GB")
    assert only(checks._clock()).verdict == "ok"
    ticks = iter(range(10**9))
    monkeypatch.setattr(time, "perf_counter_ns", lambda: next(ticks) // 10 * 15_600_000)
    check = only(checks._clock())
    assert check.verdict == "look" and check.found.startswith("smallest step 15.6 ms")


def test_a_processor_that_slows_down_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulated clock makes later products slower."""
    for slower, verdict in ((1.5, "look"), (1.0, "ok")):
        now, calls = 0.0, 0

        def clock(slower: float = slower) -> float:
            nonlocal now, calls
            calls += 1
            now += 0.01 * (slower if now > 2.0 else 1.0)
            return now

        monkeypatch.setattr(time, "perf_counter", clock)
        assert only(checks._drift()).verdict == verdict


# A GPU, with simulated answers of torch.cuda and nvidia-smi


def let_cuda_answer(monkeypatch: pytest.MonkeyPatch, **answers_by_name: Any) -> None:
    for name, answer in answers_by_name.items():
        monkeypatch.setattr(torch.cuda, name, answer if callable(answer) else lambda *_, answer=answer: answer)


def test_description_of_an_nvidia_or_amd_card(monkeypatch: pytest.MonkeyPatch) -> None:
    card = SimpleNamespace(name="NVIDIA H100", total_memory=80 * 2**30, multi_processor_count=132, major=9, minor=0)
    let_cuda_answer(monkeypatch, current_device=1, device_count=2, get_device_properties=card)
    monkeypatch.setattr(host, "gpu_driver", lambda: "580.95.05")
    description = "NVIDIA H100, 80 GiB, 132 processors, compute capability 9.0, driver 580.95.05, card 1 of 2"
    assert only(checks._card(Accelerator())) == Check("device", "ok", description)
    card.gcnArchName = "gfx942:sramecc+:xnack-"
    monkeypatch.setattr(torch.version, "hip", "6.4")
    assert "compute capability gfx942," in only(checks._card(Accelerator())).found


def test_missing_card_is_reported_where_nvidia_smi_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "cards", list)
    for path, verdict in ((None, "ok"), ("/usr/bin/nvidia-smi", "look")):
        monkeypatch.setattr("shutil.which", lambda name, path=path: path)
        assert only(checks._card(None)).verdict == verdict


@pytest.mark.parametrize(("free", "verdict"), [(75, "ok"), (60, "look"), (1, "look")])
def test_free_device_memory(free: int, verdict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    let_cuda_answer(monkeypatch, mem_get_info=(free * 2**30, 80 * 2**30), memory_reserved=2**20)
    monkeypatch.setattr(Accelerator, "properties", lambda self: Properties("A card", 80 * 2**30))
    assert only(checks._free_on_card(Accelerator(), PastMemory(device_bytes={"Another": 2**40}))).verdict == verdict
    check = only(checks._free_on_card(Accelerator(), PastMemory(device_bytes={"A card": 76 * 2**30})))
    assert check.verdict == "look" and check.found.endswith(" are free; an earlier run took 76 GiB")


def test_float32_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, verdict in (("highest", "ok"), ("high", "look"), ("tf32", "look")):
        monkeypatch.setattr(float32_precision, "name", lambda name=name: name)
        assert (only(checks._precision()).verdict, only(checks._precision()).found) == (verdict, name)


@pytest.mark.parametrize(
    ("readings", "verdict"),
    [((512, 512 + 2**22, 600, 1624), "ok"), ((512, 512, 512, 512), "look"), ((0, 2**22, 0, 1000), "look")],
)
def test_allocator_counts_are_checked(readings: tuple[int, ...], verdict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    let_cuda_answer(monkeypatch, memory_allocated=iter(readings).__next__)
    empty = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *size, dtype, device: empty(*size, dtype=dtype))
    assert only(checks._allocator(Accelerator())).verdict == verdict


@pytest.mark.parametrize(
    ("process_mib", "own", "verdict"),
    [([], False, "ok"), ([500.0], False, "ok"), ([500.0], True, "look"), ([500.0, 70.0], False, "look")],
)
def test_other_processes_on_the_card(
    process_mib: list[float], own: bool, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without `own`, as in a container with its own process numbers, this process may be one of those listed."""
    monkeypatch.setattr(host, "gpu_processes", lambda: (process_mib, own))
    monkeypatch.setattr(host, "cards", lambda: [host.Card("580.95.05", "H100")])
    for reasons, slowed_verdict in (([], "ok"), (None, "ok"), (["power limit"], "look")):
        monkeypatch.setattr(host, "gpu_slowed_by", lambda reasons=reasons: reasons)
        assert [check.verdict for check in checks._other_programs()] == [verdict, slowed_verdict]


def test_other_processes_are_unknown_without_nvidia_smi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_nvidia_smi", lambda *question: [])
    assert [check.found for check in checks._other_programs()] == ["unknown: nvidia-smi doesn't answer", "unknown"]


@pytest.mark.parametrize(("faster", "verdict"), [(1.0, "ok"), (0.97, "ok"), (1.3, "look"), (0.2, "look")])
def test_clocks_of_host_and_device_agree(faster: float, verdict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check computes for so long that the times of start and wait do not matter."""
    work_s: list[float] = []

    def timed(gpu: Accelerator, run: Callable[[], object], calls: int) -> tuple[float, float]:
        work_s.append(calls * 7e-6)
        return work_s[-1] * faster, work_s[-1]

    monkeypatch.setattr(checks, "_timed", timed)
    monkeypatch.setattr(torch.Tensor, "to", lambda self, device: self)
    assert only(checks._two_clocks(Accelerator())).verdict == verdict
    assert checks.LONG_S <= work_s[-1] < 3 * checks.LONG_S


@pytest.mark.parametrize(("floor_us", "verdict"), [(5, "ok"), (80, "look")])
def test_duration_of_an_empty_step(floor_us: int, verdict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_timed", lambda gpu, run, calls: (floor_us * 1e-6, 1.0))
    check = only(checks._floor(Accelerator()))
    assert (check.verdict, check.found.split(" µs for ")[0]) == (verdict, f"{floor_us:.3g}")


@pytest.mark.parametrize(("sends_when_asked", "verdict"), [(True, "ok"), (False, "look")])
def test_a_batching_driver_is_detected(sends_when_asked: bool, verdict: str) -> None:
    check = only(checks._asleep(Accelerator(Batching(sends_when_asked=sends_when_asked))))
    assert (check.verdict, "this driver batches" in check.found) == (verdict, True)


@pytest.mark.parametrize(("wait_us", "verdict"), [(0, "ok"), (200, "look")])
def test_slow_waits_for_an_idle_device_are_reported(wait_us: float, verdict: str) -> None:
    module = Module()
    module.wait_s = wait_us * 1e-6
    check = only(checks._idle_wait(Accelerator(module)))
    assert check.verdict == verdict and ("WSL2" in check.advice) == (verdict == "look")


@pytest.mark.parametrize(
    ("held", "peak", "words"),
    [
        (0, 0, "allocate none"),
        (8, 8, "keep 8 MiB"),
        (0, 32, "allocates 32 MiB and frees"),
        (8, 40, "allocates 32 MiB and frees"),
    ],
)
def test_workspace_of_matmuls(held: int, peak: int, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = 2 * 64 * 64 * 4
    let_cuda_answer(
        monkeypatch,
        memory_allocated=tensors + (held << 20),
        max_memory_allocated=tensors + (peak << 20),
        current_device=0,
        **dict.fromkeys(("reset_peak_memory_stats", "reset_accumulated_memory_stats")),
    )
    ones = torch.ones
    monkeypatch.setattr(torch, "ones", lambda *size, device: ones(*size))
    check = only(checks._workspace(Accelerator()))
    assert check.verdict == "ok" and words in check.found


def test_checks_name_neither_person_nor_computer() -> None:
    (uname,) = require("uname")
    name = subprocess.run([uname, "-n"], capture_output=True, text=True, check=True).stdout.strip()
    page = "".join(check.found + check.advice for check in checks.checks("cpu", quick=True))
    assert name not in page.split() and os.path.expanduser("~") not in page.split()
