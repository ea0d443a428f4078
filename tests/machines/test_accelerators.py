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
from trace_tools.machines import accelerators
from trace_tools.machines.accelerators import Accelerator
from trace_tools.metering.measurement import measure


class Module:
    """Simulate `torch.cuda`: each stream is busy until a time of the host's clock, which is also the device's."""

    def __init__(self) -> None:
        self.until: dict[tuple[int, str], float] = {}  # by device and stream
        self.current = 0
        self.log: list[str] = []
        self.wait_s = 0.0  # duration of a wait on an idle device
        self.bytes = {0: 0}  # by device

    def launch(self, seconds: float, stream: str = "current", device: int = 0) -> None:
        key = (device, stream)
        self.until[key] = max(self.until.get(key, 0.0), time.perf_counter()) + seconds

    def current_device(self) -> int:
        return self.current

    def device_count(self) -> int:
        return len(self.bytes)

    def memory_reserved(self, device: int | None = None) -> int:
        return self.bytes[self.current if device is None else device]

    memory_allocated = max_memory_allocated = max_memory_reserved = memory_reserved

    def synchronize(self, index: int | None = None) -> None:
        index = self.current if index is None else index
        last = max((end for (device, _), end in self.until.items() if device == index), default=0.0)
        self._sleep(max(last, time.perf_counter() + self.wait_s))

    def device(self, index: int) -> Any:
        module = self

        class Switched:
            def __enter__(self) -> None:
                self.before, module.current = module.current, index
                module.log.append(f"on {index}")

            def __exit__(self, *_: object) -> None:
                module.current = self.before

        return Switched()

    def Event(self, *, enable_timing: bool) -> Any:
        module = self

        class Event:
            def record(self) -> None:
                self.device = module.current
                self.at = max(time.perf_counter(), module.until.get((self.device, "current"), 0.0))

            def synchronize(self) -> None:
                module._sleep(self.at)

            def elapsed_time(self, other: Event) -> float:
                assert self.device == other.device, "CUDA refuses to compare events of two devices"
                return 1e3 * (other.at - self.at)

        return Event()

    def _sleep(self, until: float) -> None:
        while time.perf_counter() < until:
            time.sleep(0)


@pytest.fixture
def module() -> Module:
    return Module()


def test_work_is_waited_for_and_timed_to_its_end_on_every_stream(module: Module) -> None:
    """Work of 50 ms on a side stream was once recorded as a step of 719 µs."""
    gpu = Accelerator(module)
    for stream in ("current", "side"):
        mark = gpu.start()
        module.launch(0.001)
        module.launch(0.05, stream)
        assert 0.05 <= gpu.stop(mark) < 1.0
        assert module.until[0, stream] <= time.perf_counter()
        module.launch(0.05, stream)
        gpu.start()
        assert module.until[0, stream] <= time.perf_counter(), "earlier work is waited for"


def test_several_devices_are_waited_for_and_their_bytes_summed(module: Module) -> None:
    """Only devices on which this process has memory are waited for: a wait on another one would initialize it."""
    gpu = Accelerator(module)
    module.bytes = {0: 512, 1: 1024, 2: 0}
    mark = gpu.start()
    module.launch(0.03, device=1)
    assert gpu.stop(mark) >= 0.03
    module.launch(0.03, device=2)
    started = time.perf_counter()
    gpu.wait()
    assert time.perf_counter() - started < 0.03
    assert (gpu.allocated_bytes(), gpu.reserved_bytes(), gpu.peak_reserved_bytes()) == (1536, 1536, 1024)
    mark = gpu.start()
    module.launch(0.02, device=1)
    module.current = 1  # the step switches the device
    assert gpu.stop(mark) >= 0.02
    assert (module.current, module.log) == (1, ["on 0"])


@each("wait_us", [0, 60, 150])
def test_times_are_right_on_hosts_with_slow_waits(wait_us: int) -> None:
    """Work of 10 µs on the current stream takes less than 60 µs, and 20 ms on another stream are still counted."""
    module = Module()
    module.wait_s = wait_us * 1e-6
    gpu, samples = Accelerator(module), []
    for _ in range(9):
        mark = gpu.start()
        module.launch(10e-6)
        samples.append(gpu.stop(mark))
    assert 10e-6 <= sorted(samples)[2] < 60e-6
    mark = gpu.start()
    module.launch(0.02, "side")
    assert gpu.stop(mark) >= 0.02


class Batching(Module):
    """Simulate a driver that sends commands to the device only at a wait or a query, as on Windows and WSL2."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: list[Any] = []

    def synchronize(self, index: int | None = None) -> None:
        for event in self.queue:
            event.at = time.perf_counter()
        self.queue.clear()

    def Event(self, *, enable_timing: bool) -> Any:
        module = self

        class Event:
            def record(self) -> None:
                module.queue.append(self)

            def query(self) -> None:
                module.synchronize()

            synchronize = query

            def elapsed_time(self, other: Any) -> float:
                return 1e3 * (other.at - self.at)

        return Event()


def test_host_time_counts_with_a_batching_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that launches nothing was once called more than 10**10 times."""
    gpu = Accelerator(Batching())
    mark = gpu.start()
    time.sleep(0.02)
    assert 0.02 <= gpu.stop(mark) < 1.0
    monkeypatch.setattr(accelerators, "in_use", lambda: Accelerator(Batching()))
    started = time.perf_counter()
    measured = measure(lambda: None, repeats=5, min_seconds=0.02, max_seconds=0.2)
    assert time.perf_counter() - started < 5 and 0 < measured.seconds < 1e-4


def test_device_errors_are_recognized(module: Module) -> None:
    gpu = Accelerator(module)
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
