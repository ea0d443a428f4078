"""Query and time accelerators, with one class for each of torch's backends.

    gpu = accelerator("cuda")  # the backend for this device type, even without such a device; None for "cpu"
    gpu = in_use()             # the accelerator that this process uses, or None; imports no package

    mark = gpu.start()         # waits until the device is idle
    seconds = gpu.stop(mark)   # until all work queued since then is done, on any stream, by the device's own clock

Without a device index, times and bytes cover all devices of this type that the process uses. Values that a backend does
not report are None. No function here initialises a device that the process does not use, except `select`, `start` and
the functions that read memory.
"""

from __future__ import annotations

import functools
import math
import sys
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
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
    multiprocessors: int | None = None  # on NVIDIA; on AMD compute units, on other devices the equivalent
    capability: str | None = None  # "9.0", on ROCm "gfx942": target of kernel builds
    l2_bytes: int | None = None
    driver: str | None = None  # if torch reports it
    identity: str | None = None  # used by the driver's own tools
    shares_ram: bool = False  # uses the computer's memory
    emulated: bool = False  # set only by tests: no driver reports it


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment on the clock of a device."""

    device: int
    event: Any
    host_s: float  # the host's `perf_counter` at that moment
    queued_s: float = 0.0  # how long the host waited before it for queued work; 0 without queued work


@dataclass(slots=True)
class Activity:
    """The last known activity of the devices of one type, by the host's clock."""

    last_s: float = -math.inf


class Accelerator(ABC):
    """The interface of all backends, implemented with the functions that `torch.cuda` and `torch.xpu` share."""

    type: ClassVar[str]

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

    @abstractmethod
    def properties(self) -> Properties:
        """Return the properties of the current device. Raises RuntimeError if they can't be read."""

    def built_for(self) -> str | None:
        """Return the driver interface that torch was built for: "13.0" (CUDA's version), "ROCm 6.4"; or None."""
        return None

    def has_tf32(self) -> bool:
        """Return whether float32 products can be computed in tf32."""
        return False

    # ------------------------------------------------------------------ settings of a program

    def memory_fractions(self) -> dict[int, float]:
        """Return the share of memory that this process may use, for each device where that is less than all of it."""
        read = getattr(self.module, "get_per_process_memory_fraction", None)  # missing from early versions
        parts = {index: round(read(index), 6) for index in range(self.count())} if read is not None else {}
        return {index: part for index, part in parts.items() if part != 1.0}

    def set_memory_fractions(self, fractions: dict[int, float]) -> None:
        """Limit this process to these shares of the devices' memory, and remove the limit on other devices."""
        for index in {*self.memory_fractions(), *fractions}:
            self.module.set_per_process_memory_fraction(fractions.get(index, 1.0), index)

    # ------------------------------------------------------------------ time

    def can_wait(self) -> bool:
        """Return whether the process may wait for the device: it is in use, works, and no graph is being captured."""
        try:
            return self.is_in_use() and not self.is_capturing()
        except RuntimeError:  # after a device has failed, every driver call raises
            return False

    def is_capturing(self) -> bool:
        """Return whether operations launched now become part of a graph instead of running.

        Raises RuntimeError after the device has failed.
        """
        return bool(self.module.is_current_stream_capturing())

    def watch_captures(self) -> None:
        """From now on, let `is_capturing` detect graphs that other threads capture, if the backend has graphs."""
        return

    def wait(self) -> None:
        """Wait until all streams of the devices in use are done. Raises the errors of work that failed on a device."""
        self._wait_for(self._other_devices())

    def start(self) -> Mark:
        """Wait, then record the current time on the clock of the current device."""
        other_devices = self._other_devices()
        began = perf_counter()
        self._wait_for(other_devices)
        ended = perf_counter()
        queued = ended - began > LONGER * self.idle_wait_s(other_devices)  # calibrated now, while the devices are idle
        if queued:
            self._activity().last_s = ended
        for _ in range(MARKS):
            before_s = perf_counter()
            event = self._now()
            # A driver that batches commands would mark the time at which it sends the batch: send it now.
            getattr(event, "query", bool)()
            marked_s = perf_counter()
            if marked_s - before_s < LONGER * self.idle_wait_s(other_devices):
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
        waits_s, idle_s = (done - began, perf_counter() - done), self.idle_wait_s(other_devices)
        if waits_s[1] > LONGER * idle_s:
            last = self._now()
            last.synchronize()
        if max(waits_s) > LONGER * idle_s:
            self._activity().last_s = perf_counter()
        return float(mark.event.elapsed_time(last)) / 1e3  # milliseconds to seconds

    def idle_wait_s(self, other_devices: tuple[int, ...] = ()) -> float:
        """Return how long a wait for idle devices takes on this host; measured once per process."""
        return _idle_wait_s(type(self), self.module, other_devices)

    def idle_s(self) -> float:
        """Return the seconds since a wait last found the devices busy; infinity if no wait in this process found them
        busy.
        """
        return perf_counter() - self._activity().last_s

    def _activity(self) -> Activity:
        return _activity_of(type(self), self.module)

    def _wait_for(self, other_devices: tuple[int, ...]) -> None:
        self.module.synchronize()
        for index in other_devices:
            self.module.synchronize(index)

    def _other_devices(self) -> tuple[int, ...]:
        """Return the other devices that hold memory of this process; waiting for more devices would initialise them."""
        reserved = getattr(self.module, "memory_reserved", None)  # missing from early versions of torch.xpu
        if reserved is None or (count := self.count()) <= 1:
            return ()
        current = self.index()
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

    def waiting_allowed(self) -> AbstractContextManager[None]:
        """Return a context that allows waiting for the device even if the lecture has made it an error."""
        return nullcontext()

    # ------------------------------------------------------------------ memory

    def allocated_bytes(self, device: int | None = None) -> int:
        """Return the bytes that tensors use in torch's allocator."""
        return sum(self._each(self.module.memory_allocated, device))

    def peak_bytes(self, device: int | None = None) -> int | None:
        """Return the peak of `allocated_bytes` since the last `reset_peaks`, summed over devices."""
        return sum(self._each(self.module.max_memory_allocated, device))

    def reserved_bytes(self, device: int | None = None) -> int:
        """Return the device memory that torch's allocator has reserved."""
        return sum(self._each(self.module.memory_reserved, device))

    def peak_reserved_bytes(self) -> int:
        """Return the peak of reserved memory since the last `reset_peaks`, on the device with the highest peak."""
        return max(self._each(self.module.max_memory_reserved, None))

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

    def _each(self, figure: Callable[..., int], device: int | None) -> list[int]:
        if device is not None:
            return [int(figure(device))]
        # of the current device, and of others in use
        return [int(figure()), *(int(figure(index)) for index in self._other_devices())]

    # ------------------------------------------------------------------ random numbers

    def generators(self) -> list[Any]:
        """List the default random generators of the operators."""
        return [*self.module.default_generators]


class CudaGpu(Accelerator):
    """GPUs by NVIDIA and AMD, for which torch uses the same names: `torch.cuda`."""

    type = "cuda"

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
            shares_ram=bool(getattr(card, "is_integrated", False)),
            emulated=getattr(card, "emulated", False),
        )

    def built_for(self) -> str | None:
        """Return the version of CUDA or ROCm."""
        hip = self.torch.version.hip
        return f"ROCm {hip}" if hip else self.torch.version.cuda

    def has_tf32(self) -> bool:
        """Return whether the compute capability is 8.0 (Ampere) or more."""
        return self.torch.version.hip is None and self.module.get_device_capability() >= (8, 0)

    def is_capturing(self) -> bool:
        """Return whether operations launched now become part of a graph, or another thread captures a graph.

        The driver answers for the current stream only. But a wait for a device, or a query of its memory, while any
        thread captures a graph ends that capture with an error. Captures by other threads are detected only after
        `watch_captures`.
        """
        return super().is_capturing() or bool(_captures(self.module))

    def watch_captures(self) -> None:
        """From now on, let `is_capturing` detect graphs that other threads capture by `torch.cuda.CUDAGraph`."""
        kind, captures = self.module.CUDAGraph, _captures(self.module)
        begin, end = kind.capture_begin, kind.capture_end
        if hasattr(begin, "__wrapped__"):
            return

        @functools.wraps(begin)
        def capture_begin(graph: Any, *args: Any, **kwargs: Any) -> None:
            captures.add(graph)  # first, because another thread may run before the driver has begun
            try:
                begin(graph, *args, **kwargs)
            except BaseException:
                captures.discard(graph)
                raise

        @functools.wraps(end)
        def capture_end(graph: Any) -> None:
            try:
                end(graph)
            finally:
                captures.discard(graph)

        kind.capture_begin, kind.capture_end = capture_begin, capture_end

    def streams(self) -> dict[int, int]:
        """Return the current stream of each device, unless it is the default stream."""
        current = {index: self.module.current_stream(index) for index in range(self.count())}
        chosen = {index: stream for index, stream in current.items() if stream != self.module.default_stream(index)}
        return {index: int(stream.stream_id) for index, stream in chosen.items()}

    def select_streams(self, streams: dict[int, int]) -> None:
        """Make these streams current, and the default streams on all other devices; the current device stays."""
        device = self.index()
        for index in {*self.streams(), *streams}:
            default = self.module.default_stream(index)
            number = streams.get(index, default.stream_id)
            stream = {"stream_id": number, "device_index": index, "device_type": default.device_type}
            self.module.set_stream(self.module.Stream(**stream))
        self.select(device)

    def sync_debug_mode(self) -> int:
        """Return the extra effect of a wait for the device: 0 no effect, 1 warn, 2 raise."""
        return int(self.module.get_sync_debug_mode())

    def set_sync_debug_mode(self, mode: int) -> None:
        """Choose the extra effect of a wait for the device."""
        self.module.set_sync_debug_mode(mode)

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


class IntelGpu(Accelerator):
    """GPUs by Intel: `torch.xpu`, which has most functions of `torch.cuda`."""

    type = "xpu"

    def properties(self) -> Properties:
        """Return the properties that the current device reports."""
        card = self.module.get_device_properties(self.index())
        return Properties(
            name=card.name,
            memory_bytes=card.total_memory,
            multiprocessors=getattr(card, "max_compute_units", None),
            driver=getattr(card, "driver_version", None),
        )

    def built_for(self) -> str | None:
        """Return the version of the oneAPI toolkit that torch was built with."""
        version = getattr(self.torch.version, "xpu", None)
        return f"oneAPI {version}" if version else None

    def is_capturing(self) -> bool:
        """Return whether operations launched now become part of a graph; early versions have no such function."""
        return bool(getattr(self.module, "is_current_stream_capturing", bool)())


class AppleGpu(Accelerator):
    """GPUs by Apple: `torch.mps`. One device, one stream, no graphs; the GPU uses the computer's memory."""

    type = "mps"

    def is_available(self) -> bool:
        """Return whether torch finds the device."""
        return bool(self.torch.backends.mps.is_available())

    def is_in_use(self) -> bool:
        """Return whether the device is available, because torch reports no more than that."""
        return self.is_available()

    def count(self) -> int:
        """Return 1, or 0 without a device."""
        return int(self.is_available())

    def index(self) -> int:
        """Return 0."""
        return 0

    def select(self, index: int | None) -> None:
        """Ignore the choice, because at most one device exists."""

    def properties(self) -> Properties:
        """Return the properties that Metal reports; the memory is the most that Metal recommends to use."""
        backend = self.torch.backends.mps
        name, cores = (getattr(backend, word, lambda: None)() for word in ("get_name", "get_core_count"))
        return Properties(name or "Apple GPU", self.module.recommended_max_memory(), cores)

    def is_capturing(self) -> bool:
        """Return False."""
        return False

    def allocated_bytes(self, device: int | None = None) -> int:
        """Return the bytes that tensors use."""
        return int(self.module.current_allocated_memory())

    def peak_bytes(self, device: int | None = None) -> int | None:
        """Return None, because torch records no peak for this backend."""
        return None

    def reserved_bytes(self, device: int | None = None) -> int:
        """Return the bytes that Metal has allocated to this process."""
        return int(self.module.driver_allocated_memory())

    def peak_reserved_bytes(self) -> int:
        """Return the bytes that Metal has allocated so far: it records no peak, and seldom takes memory back."""
        return self.reserved_bytes()

    def memory_info(self) -> tuple[int, int]:
        """Return the memory that Metal recommends to use at most: first without this process's memory, then in all."""
        total = int(self.module.recommended_max_memory())
        return max(0, total - self.reserved_bytes()), total

    def reset_peaks(self) -> None:
        """Return without effect, because this backend has no peaks."""

    def generators(self) -> list[Any]:
        """List the only generator."""
        return [self.module._get_default_mps_generator()]


BACKENDS: dict[str, type[Accelerator]] = {backend.type: backend for backend in (CudaGpu, AppleGpu, IntelGpu)}


@functools.cache
def _idle_wait_s(backend: type[Accelerator], module: Any, other_devices: tuple[int, ...]) -> float:
    """Return the third longest of the timed waits for idle devices, because other Python threads lengthen a few."""
    gpu, waits = backend(module), []
    for _ in range(IDLE_WAITS):
        started = perf_counter()
        gpu._wait_for(other_devices)
        waits.append(perf_counter() - started)
    return max(sorted(waits)[-3], LEAST_WAIT_S)


@functools.cache
def _captures(module: Any) -> weakref.WeakSet[Any]:
    """Return the graphs that are being captured."""
    return weakref.WeakSet()


@functools.cache
def _activity_of(backend: type[Accelerator], module: Any) -> Activity:
    return Activity()


def accelerator(type: str) -> Accelerator | None:
    """Return the accelerator of a device type; None for "cpu". Imports torch."""
    backend = BACKENDS.get(type)
    return None if backend is None else backend()


def in_use() -> Accelerator | None:
    """Return the accelerator that this process uses, or None; imports no package."""
    if "torch" not in sys.modules:
        return None
    gpus = (backend() for backend in BACKENDS.values())
    return next((gpu for gpu in gpus if gpu.is_in_use()), None)


def best() -> str:
    """Return the type of the first accelerator that torch finds, or "cpu"."""
    return next((name for name, backend in BACKENDS.items() if backend().is_available()), "cpu")
