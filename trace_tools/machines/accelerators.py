"""Query and time GPUs by NVIDIA and AMD, torch's device type "cuda".

    gpu = accelerator("cuda")  # the backend, even without a device; None for "cpu"
    gpu = in_use()             # the accelerator that this process uses, or None; imports no package

    mark = gpu.start()         # waits until the device is idle
    seconds = gpu.stop(mark)   # until all work queued since then is done, on any stream, by the device's own clock

Without a device index, times and bytes cover all devices that the process uses. No function here initialises a device
that the process does not use, except `select`, `start` and the functions that read memory.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, ClassVar

FLOOR_NS = 50_000  # longest empty step between two events that still lets short steps be measured

# Waiting for an idle device takes some µs, on some hosts 100 µs and more. If waiting for the whole device takes this
# many times as long after the timed stream has finished, other streams were still at work.
LONGER = 3
IDLE_WAITS = 20  # waits timed to calibrate, once per process
LEAST_WAIT_S = 50e-6 / LONGER
MARKS = 5  # attempts until the host's clock shows when the device was marked


@dataclass(frozen=True, slots=True)
class Properties:
    """Properties that a device reports."""

    name: str
    memory_bytes: int
    multiprocessors: int | None = None  # on NVIDIA; on AMD compute units
    capability: str | None = None  # "9.0", on ROCm "gfx942": target of kernel builds
    l2_bytes: int | None = None
    identity: str | None = None  # used by the driver's own tools
    emulated: bool = False  # set only by tests: no driver reports it


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment on the clock of a device."""

    device: int
    event: Any
    host_s: float  # the host's `perf_counter` at that moment
    queued_s: float = 0.0  # how long the host waited before it for queued work; 0 without queued work


_last_busy_s: dict[Any, float] = {}  # torch's module → when a wait last found its devices busy, by the host's clock


class Accelerator:
    """GPUs by NVIDIA and AMD, for which torch uses the same names: `torch.cuda`."""

    type: ClassVar[str] = "cuda"

    def __init__(self, module: Any = None) -> None:
        """Use this backend's module of torch, or another module instead."""
        import torch

        self.torch: Any = torch
        self.module: Any = module or getattr(torch, self.type)

    # ------------------------------------------------------------------ devices

    def is_available(self) -> bool:
        """Return whether torch finds a device."""
        return bool(self.module.is_available())

    def is_in_use(self) -> bool:
        """Return whether this process has initialised the backend."""
        return bool(self.module.is_initialized())

    def count(self) -> int:
        """Return the number of devices that torch finds."""
        return int(self.module.device_count())

    def index(self) -> int:
        """Return the index of the current device."""
        return int(self.module.current_device())

    def select(self, index: int | None) -> None:
        """Make a device the current one; None keeps the current device."""
        self.module.set_device(self.index() if index is None else index)

    def properties(self) -> Properties:
        """Return the properties that the driver reports of the current device."""
        card = self.module.get_device_properties(self.index())
        hip = self.torch.version.hip
        arch = str(card.gcnArchName).split(":")[0] if hip else None
        identity = getattr(card, "uuid", None)
        return Properties(
            name=card.name,
            memory_bytes=card.total_memory,
            multiprocessors=card.multi_processor_count,
            capability=arch or f"{card.major}.{card.minor}",
            l2_bytes=getattr(card, "L2_cache_size", None),
            identity=f"GPU-{identity}" if identity and not hip else None,
            emulated=getattr(card, "emulated", False),
        )

    def built_for(self) -> str | None:
        """Return the version of CUDA or ROCm."""
        hip = self.torch.version.hip
        return f"ROCm {hip}" if hip else self.torch.version.cuda

    # ------------------------------------------------------------------ time

    def can_wait(self) -> bool:
        """Return whether the process may wait for the device, which is in use, works, and captures no graph."""
        try:
            return self.is_in_use() and not self.is_capturing()
        except RuntimeError:  # after a device has failed, every driver call raises
            return False

    def is_capturing(self) -> bool:
        """Return whether operations launched now on the current stream become part of a graph."""
        return bool(self.module.is_current_stream_capturing())

    def wait(self) -> None:
        """Wait until all streams of the devices in use are done. Raises the errors of work that failed on a device."""
        self._wait_for(self._other_devices())

    def start(self) -> Mark:
        """Wait, then record the current time on the clock of the current device."""
        other_devices = self._other_devices()
        began = perf_counter()
        self._wait_for(other_devices)
        ended = perf_counter()
        longest_s = LONGER * _idle_wait_s(self.module, other_devices)  # calibrated now, while the devices are idle
        queued = ended - began > longest_s
        if queued:
            _last_busy_s[self.module] = ended
        for _ in range(MARKS):
            before_s = perf_counter()
            event = self._now()
            # A driver that batches commands would mark the time at which it sends the batch: send it now.
            getattr(event, "query", bool)()
            marked_s = perf_counter()
            if marked_s - before_s < longest_s:
                break  # else another process had the core, and the time of the mark is uncertain
        return Mark(self.index(), event, marked_s, ended - began if queued else 0.0)

    def stop(self, mark: Mark) -> float:
        """Wait, and return the seconds from `mark` until everything queued since then was done.

        The device times work on the current stream, and work that this stream waits for, to its end. If another stream,
        or a device that became current later, works longer, the time ends when the host observes the end of that work,
        some 10 µs later.
        """
        if self.index() != mark.device:
            self.wait()
            with self.module.device(mark.device):
                return self.stop(mark)
        other_devices = self._other_devices()
        last = self._now()
        began = perf_counter()
        last.synchronize()
        done = perf_counter()
        self._wait_for(other_devices)
        waits_s, idle_s = (done - began, perf_counter() - done), _idle_wait_s(self.module, other_devices)
        if waits_s[1] > LONGER * idle_s:
            last = self._now()
            last.synchronize()
        if max(waits_s) > LONGER * idle_s:
            _last_busy_s[self.module] = perf_counter()
        return float(mark.event.elapsed_time(last)) / 1e3  # milliseconds to seconds

    def idle_s(self) -> float:
        """Return the seconds since a wait last found the devices busy; infinity if no wait in this process found them
        busy.
        """
        return perf_counter() - _last_busy_s.get(self.module, -math.inf)

    def _wait_for(self, other_devices: tuple[int, ...]) -> None:
        self.module.synchronize()
        for index in other_devices:
            self.module.synchronize(index)

    def _other_devices(self) -> tuple[int, ...]:
        """Return the other devices that hold memory of this process; waiting for more devices would initialise them."""
        if (count := self.count()) <= 1:
            return ()
        current, reserved = self.index(), self.module.memory_reserved
        return tuple(index for index in range(count) if index != current and reserved(index))

    def _now(self) -> Any:
        event = self.module.Event(enable_timing=True)
        event.record()
        return event

    def is_its_error(self, error: object) -> bool:
        """Return whether the device raised this error, which may belong to any earlier launch.

        Before torch 2.8 such errors have no type of their own, and the answer is False.
        """
        return isinstance(error, getattr(self.torch, "AcceleratorError", ()))

    @contextmanager
    def waiting_allowed(self) -> Iterator[None]:
        """Let the block wait for the device even if the lecture has made waiting an error or a warning."""
        mode = self.module.get_sync_debug_mode()
        if not mode:
            yield
            return
        self.module.set_sync_debug_mode(0)
        try:
            yield
        finally:
            self.module.set_sync_debug_mode(mode)

    # ------------------------------------------------------------------ memory

    def allocated_bytes(self) -> int:
        """Return the bytes that tensors use in torch's allocator."""
        return sum(self._each(self.module.memory_allocated))

    def reserved_bytes(self) -> int:
        """Return the device memory that torch's allocator has reserved."""
        return sum(self._each(self.module.memory_reserved))

    def peak_reserved_bytes(self) -> int:
        """Return the peak of reserved memory since the last `reset_peaks`, on the device with the highest peak."""
        return max(self._each(self.module.max_memory_reserved))

    def memory_info(self) -> tuple[int, int]:
        """Return the free and the total bytes of the current device."""
        free, total = self.module.mem_get_info()
        return int(free), int(total)

    def reset_peaks(self) -> None:
        """Reset the allocator's peaks."""
        for index in (self.index(), *self._other_devices()):
            self.module.reset_peak_memory_stats(index)
            self.module.reset_accumulated_memory_stats(index)

    def empty_cache(self) -> None:
        """Return unused memory of the allocator to the device. Raises the errors of work that failed on a device."""
        self.module.empty_cache()

    def _each(self, figure: Callable[..., int]) -> list[int]:
        """Return a figure of the current device and of others in use."""
        return [int(figure()), *(int(figure(index)) for index in self._other_devices())]


@functools.cache
def _idle_wait_s(module: Any, other_devices: tuple[int, ...]) -> float:
    """Return the third longest of the timed waits for idle devices, because other Python threads lengthen a few."""
    gpu, waits = Accelerator(module), []
    for _ in range(IDLE_WAITS):
        started = perf_counter()
        gpu._wait_for(other_devices)
        waits.append(perf_counter() - started)
    return max(sorted(waits)[-3], LEAST_WAIT_S)


def accelerator(type: str) -> Accelerator | None:
    """Return the accelerator of a device type, if it is not "cpu". Imports torch."""
    return Accelerator() if type == Accelerator.type else None


def in_use() -> Accelerator | None:
    """Return the accelerator that this process uses, if any; imports no package."""
    if "torch" not in sys.modules:
        return None
    gpu = Accelerator()
    return gpu if gpu.is_in_use() else None


def best() -> str:
    """Return "cuda" if torch finds such a device, else "cpu"."""
    return Accelerator.type if Accelerator().is_available() else "cpu"
