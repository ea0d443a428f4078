"""Accelerator backends, tested with simulated devices whose queues and clocks are known, and with a real device."""

from __future__ import annotations

import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.cases_in_one import each
from tests.simulated_cuda import SimulatedCuda, in_use
from trace_tools.machines import accelerators
from trace_tools.machines.accelerators import Accelerator
from trace_tools.metering.measurement import measure


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> SimulatedCuda:
    return in_use(monkeypatch, SimulatedCuda())


def test_work_is_waited_for_and_timed_to_its_end_on_every_stream(cuda: SimulatedCuda) -> None:
    """Work of 50 ms on a side stream was once recorded as a step of 719 µs."""
    gpu = Accelerator(cuda)
    for stream in ("current", "side"):
        mark = gpu.start()
        assert mark.queued_s == 0
        cuda.launch(0.001)
        cuda.launch(0.05, stream)
        assert gpu.stop(mark) == pytest.approx(0.051 if stream == "current" else 0.05, rel=0.01)
        assert cuda.until[0, stream] <= cuda.now and gpu.idle_s() < 0.001
        cuda.launch(0.05, stream)
        assert gpu.start().queued_s == pytest.approx(0.05, rel=0.01), "earlier work is waited for"
    cuda.now += 1
    assert gpu.idle_s() == pytest.approx(1, rel=0.01)


def test_several_devices_are_waited_for_and_their_bytes_summed(cuda: SimulatedCuda) -> None:
    """Only devices on which this process has memory are waited for: a wait on another one would initialize it."""
    gpu = Accelerator(cuda)
    cuda.bytes = {0: 512, 1: 1024}
    mark = gpu.start()
    cuda.launch(0.03, device=1)
    assert gpu.stop(mark) == pytest.approx(0.03, rel=0.01)
    cuda.bytes[2] = 0
    cuda.launch(0.03, device=2)
    gpu.wait()
    assert cuda.now < cuda.until[2, "current"]
    assert (gpu.allocated_bytes(), gpu.reserved_bytes(), gpu.peak_reserved_bytes()) == (1536, 1536, 1024)
    cuda.bytes[1] = 0
    mark = gpu.start()
    cuda.launch(0.02, device=1)
    cuda.current = 1  # the step switches the device, which is waited for although it has no memory of this process
    assert gpu.stop(mark) == pytest.approx(0.02, rel=0.01)
    assert cuda.current == 1 and "on 0" in cuda.log


@each("wait_us", [1, 60, 150])
def test_times_are_right_on_hosts_with_slow_waits(wait_us: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work of 10 µs on the current stream takes 10 µs, and 20 ms on another stream are still counted."""
    cuda = in_use(monkeypatch, SimulatedCuda())
    cuda.wait_s = wait_us * 1e-6
    gpu = Accelerator(cuda)
    mark = gpu.start()
    cuda.launch(10e-6)
    assert gpu.stop(mark) == pytest.approx(10e-6, rel=0.1)
    mark = gpu.start()
    cuda.launch(0.02, "side")
    assert gpu.stop(mark) == pytest.approx(0.02, rel=0.02)


class Batching(SimulatedCuda):
    """A driver that sends commands to the device only at a wait or a query, as on Windows and WSL2."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: list[Any] = []

    def synchronize(self, index: int | None = None) -> None:
        for event in self.queue:
            event.at = self.now
        self.queue.clear()

    def Event(self, *, enable_timing: bool) -> Any:
        event = SimpleNamespace(query=self.synchronize, synchronize=self.synchronize)
        event.record = lambda: self.queue.append(event)
        event.elapsed_time = lambda other: 1e3 * (other.at - event.at)
        return event


def test_host_time_counts_with_a_batching_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that launches nothing was once called more than 10**10 times."""
    cuda = in_use(monkeypatch, Batching())
    gpu = Accelerator(cuda)
    mark = gpu.start()
    cuda.now += 0.02
    assert gpu.stop(mark) == pytest.approx(0.02, rel=0.01)

    def work() -> None:
        cuda.now += 1e-5

    assert measure(work, repeats=5, min_seconds=0.02, max_seconds=0.2).seconds == pytest.approx(1e-5, rel=0.1)


def test_device_errors_are_recognized(cuda: SimulatedCuda) -> None:
    gpu = Accelerator(cuda)
    assert gpu.is_its_error(torch.AcceleratorError("CUDA error: device-side assert triggered"))
    assert not any(map(gpu.is_its_error, (None, RuntimeError("shapes"), ValueError(), torch.OutOfMemoryError())))


def test_sync_debug_mode_is_restored_after_waiting() -> None:
    modes: list[int] = []
    module = SimpleNamespace(get_sync_debug_mode=lambda: 2, set_sync_debug_mode=modes.append)
    with pytest.raises(KeyError), Accelerator(module).waiting_allowed():
        assert modes == [0]
        raise KeyError
    assert modes == [0, 2]


def test_in_use_does_not_import_torch() -> None:
    code = "import sys; from trace_tools.machines import accelerators\nassert accelerators.in_use() is None\n"
    code += "sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.skipif(torch.accelerator.is_available(), reason="there is an accelerator")
def test_no_accelerator() -> None:
    assert (accelerators.in_use(), accelerators.accelerator("cpu"), accelerators.best()) == (None, None, "cpu")
    assert not Accelerator().is_available()


def test_amd_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    card = SimpleNamespace(
        name="AMD Instinct MI300X", total_memory=192 * 10**9, multi_processor_count=304, major=9, minor=4,
        gcnArchName="gfx942:sramecc+:xnack-", uuid="1234",
    )  # fmt: skip
    monkeypatch.setattr(torch.version, "hip", "6.4.43482")
    gpu = Accelerator(SimpleNamespace(get_device_properties=lambda index: card, current_device=lambda: 0))
    properties = gpu.properties()
    assert (properties.name, properties.multiprocessors) == ("AMD Instinct MI300X", 304)
    assert (properties.capability, gpu.built_for()) == ("gfx942", "ROCm 6.4.43482")
    assert properties.identity is None, "nvidia-smi does not know it"


# Tests on a real or emulated device


@pytest.mark.cuda
def test_measure_waits_for_a_side_stream() -> None:
    """Compare with the time for which the host waits for that stream."""
    x = torch.ones(512, 512, device="cuda") / 512
    side = torch.cuda.Stream()

    def run_on_side_stream() -> None:
        with torch.cuda.stream(side):
            for _ in range(20):
                x @ x

    waits_s = []
    for _ in range(5):
        torch.cuda.synchronize()
        started = time.perf_counter()
        run_on_side_stream()
        side.synchronize()
        waits_s.append(time.perf_counter() - started)
    assert measure(run_on_side_stream, repeats=5, min_seconds=0).seconds > min(waits_s) / 2


@pytest.mark.cuda
def test_cuda_device_in_use() -> None:
    torch.ones(1, device="cuda")
    gpu = accelerators.in_use()
    assert gpu is not None and gpu.type == "cuda"
    before = gpu.allocated_bytes()
    tensor = torch.ones(2**20, device="cuda")
    assert gpu.allocated_bytes() - before == tensor.nbytes
    free, total = gpu.memory_info()
    assert 0 < free <= total
    assert gpu.properties().name == torch.cuda.get_device_name()
