"""A replacement for `torch.cuda` on a simulated clock, which is the host's and the devices'.

cuda = in_use(monkeypatch, SimulatedCuda())
cuda.launch(0.05, "side")   # work of 50 ms on a stream; the host continues
cuda.now += 0.02            # the host works for 20 ms
"""

from __future__ import annotations

from typing import Any, TypeVar

import pytest

from trace_tools.machines import accelerators
from trace_tools.machines.accelerators import Accelerator
from trace_tools.metering import measurement


class SimulatedCuda:
    """Each stream of each device is busy until a time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.until: dict[tuple[int, str], float] = {}  # by device and stream
        self.current = 0
        self.bytes = {0: 0}  # by device
        self.wait_s = 10e-6  # duration of a wait on an idle device
        self.log: list[str] = []

    def perf_counter(self) -> float:
        self.now += 1e-7
        return self.now

    def launch(self, seconds: float, stream: str = "current", device: int | None = None) -> None:
        self.log.append("launch")
        key = (self.current if device is None else device, stream)
        self.until[key] = max(self.until.get(key, 0.0), self.now) + seconds
        self.now += 5e-6

    def current_device(self) -> int:
        return self.current

    def device_count(self) -> int:
        return len(self.bytes)

    def memory_reserved(self, device: int | None = None) -> int:
        return self.bytes[self.current if device is None else device]

    memory_allocated = max_memory_allocated = max_memory_reserved = memory_reserved

    def synchronize(self, index: int | None = None) -> None:
        self.log.append("synchronize")
        index = self.current if index is None else index
        self.now = max([self.now + self.wait_s, *(end for (device, _), end in self.until.items() if device == index)])

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
        assert enable_timing

        class Event:
            def record(self) -> None:
                module.log.append("record")
                self.device = module.current
                self.at = max(module.now, module.until.get((self.device, "current"), 0.0))

            def synchronize(self) -> None:
                module.log.append("waited")
                module.now = max(module.now, self.at)

            def elapsed_time(self, other: Any) -> float:
                assert self.device == other.device, "CUDA refuses to compare events of two devices"
                return float(1e3 * (other.at - self.at))

        return Event()


Simulated = TypeVar("Simulated", bound=SimulatedCuda)


def in_use(monkeypatch: pytest.MonkeyPatch, cuda: Simulated) -> Simulated:
    """Make a simulation the accelerator in use, and its clock the tools' clock."""
    for module in (accelerators, measurement):
        monkeypatch.setattr(module, "perf_counter", cuda.perf_counter)
    monkeypatch.setattr(accelerators, "in_use", lambda: Accelerator(cuda))
    return cuda
