"""Accelerators: all that the tools ask of one, with one class for each of torch's backends.

    gpu = accelerator("cuda")  # of this type of device, whether it is there or not; None for "cpu"
    gpu = in_use()             # the one that this process has put to use; None where it has not, loads nothing

    mark = gpu.start()         # once the device has nothing left to do
    seconds = gpu.stop(mark)   # until everything queued since is done, on any stream, by the device's own clock

What a backend can't say is None. Nothing here begins to use a device that the process does not use, but for `select`,
`start` and what asks for memory.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any, ClassVar

# Waking up after a stream that is done takes some µs. If the whole device takes longer than that after the stream
# that was timed, others were still at work.
AWAKE_S = 50e-6


@dataclass(frozen=True, slots=True)
class Properties:
    """What a device says of itself."""

    name: str
    memory_bytes: int
    multiprocessors: int | None = None  # NVIDIA's; AMD's compute units, the like of others
    capability: str | None = None  # "9.0", on ROCm "gfx942": for which kernels are built
    l2_bytes: int | None = None
    driver: str | None = None  # where torch knows it
    identity: str | None = None  # by which the driver's own tools know it
    emulated: bool = False  # by tests: no driver's properties have it


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment on the clock of a device."""

    device: int
    event: Any


class Accelerator(ABC):
    """What every backend has, by the functions that `torch.cuda` and `torch.xpu` share."""

    type: ClassVar[str]

    def __init__(self, module: Any = None) -> None:
        """Ask the module of torch that is this backend's, or another in its place."""
        import torch

        self.torch: Any = torch
        self.module: Any = module or getattr(torch, self.type)

    # ------------------------------------------------------------------ what is there

    def is_available(self) -> bool:
        """Return whether torch finds one."""
        return bool(self.module.is_available())

    def is_in_use(self) -> bool:
        """Return whether this process has put it to use."""
        return bool(self.module.is_initialized())

    def count(self) -> int:
        """Return how many torch finds."""
        return int(self.module.device_count())

    def index(self) -> int:
        """Return which of them is the current one."""
        return int(self.module.current_device())

    def select(self, index: int | None) -> None:
        """Make one of them the current one; None keeps the one that is."""
        self.module.set_device(self.index() if index is None else index)

    @abstractmethod
    def properties(self) -> Properties:
        """Return what the current device says of itself. Raises RuntimeError where it can't be asked."""

    def built_for(self) -> str | None:
        """Name the driver's interface that torch was built for: "13.0" (CUDA's version), "ROCm 6.4"; None for none."""
        return None

    def has_tf32(self) -> bool:
        """Return whether float32 products can be computed in tf32."""
        return False

    # ------------------------------------------------------------------ time

    def can_wait(self) -> bool:
        """Return whether the device may be waited for: it is in use, and no graph is being captured."""
        return self.is_in_use() and not self.is_capturing()

    def is_capturing(self) -> bool:
        """Return whether what is launched now becomes part of a graph instead of running."""
        return bool(self.module.is_current_stream_capturing())

    def wait(self) -> None:
        """Wait until all streams of the current device are done. Raises what fails on the device."""
        self.module.synchronize()

    def start(self) -> Mark:
        """Wait, then mark the moment on the clock of the current device."""
        self.wait()
        return Mark(self.index(), self._now())

    def stop(self, mark: Mark) -> float:
        """Wait, and return the seconds from `mark` until everything queued since then was done.

        What is queued on the current stream, or waited for by it, is timed to its end. Where another stream, or the
        device that is the current one by now, is at work for longer, its end is when the host saw it: some 10 µs later.
        """
        if self.index() != mark.device:
            self.wait()
            with self.module.device(mark.device):
                return self.stop(mark)
        last = self._now()
        last.synchronize()
        done = perf_counter()
        self.wait()
        if perf_counter() - done > AWAKE_S:
            last = self._now()
            last.synchronize()
        return float(mark.event.elapsed_time(last)) / 1e3  # it counts milliseconds

    def _now(self) -> Any:
        event = self.module.Event(enable_timing=True)
        event.record()
        return event

    def is_its_error(self, error: object) -> bool:
        """Return whether this is an error that the device found: it may be that of any launch before.

        Before torch 2.8 it has no type of its own, and nobody can tell.
        """
        return isinstance(error, getattr(self.torch, "AcceleratorError", ()))

    def waiting_allowed(self) -> AbstractContextManager[None]:
        """Return a context in which the device may be waited for even where the lecture has made that an error."""
        return nullcontext()

    # ------------------------------------------------------------------ memory, of the current device

    def allocated_bytes(self) -> int:
        """Return what tensors hold of torch's allocator."""
        return int(self.module.memory_allocated())

    def peak_bytes(self) -> int | None:
        """Return the most that they held at once since the last `reset_peaks`."""
        return int(self.module.max_memory_allocated())

    def reserved_bytes(self) -> int:
        """Return what torch's allocator holds of the device."""
        return int(self.module.memory_reserved())

    def peak_reserved_bytes(self) -> int:
        """Return the most that it held since the last `reset_peaks`."""
        return int(self.module.max_memory_reserved())

    def memory_info(self) -> tuple[int, int]:
        """Return how many bytes no process holds, and how many there are."""
        free, total = self.module.mem_get_info()
        return int(free), int(total)

    def reset_peaks(self) -> None:
        """Let what the allocator counts begin anew."""
        self.module.reset_peak_memory_stats()
        self.module.reset_accumulated_memory_stats()

    def empty_cache(self) -> None:
        """Give back what the allocator holds and no tensor uses."""
        self.module.empty_cache()

    # ------------------------------------------------------------------ random numbers

    def generators(self) -> list[Any]:
        """List the generators from which operators draw by default."""
        return [*self.module.default_generators]


class CudaGpu(Accelerator):
    """NVIDIA's GPUs, and AMD's, which torch calls by the same names: `torch.cuda`."""

    type = "cuda"

    def properties(self) -> Properties:
        """Return what the driver says of the current device."""
        found = self.module.get_device_properties(self.index())
        hip = self.torch.version.hip
        arch = str(found.gcnArchName).split(":")[0] if hip else None
        identity = getattr(found, "uuid", None)
        return Properties(
            name=found.name,
            memory_bytes=found.total_memory,
            multiprocessors=found.multi_processor_count,
            capability=arch or f"{found.major}.{found.minor}",
            l2_bytes=getattr(found, "L2_cache_size", None),
            identity=f"GPU-{identity}" if identity and not hip else None,
            emulated=getattr(found, "emulated", False),
        )

    def built_for(self) -> str | None:
        """Return CUDA's version, or ROCm's."""
        hip = self.torch.version.hip
        return f"ROCm {hip}" if hip else self.torch.version.cuda

    def has_tf32(self) -> bool:
        """Return whether the compute capability is 8.0 (Ampere) or more."""
        return self.torch.version.hip is None and self.module.get_device_capability() >= (8, 0)

    @contextmanager
    def waiting_allowed(self) -> Iterator[None]:
        """Let the block wait for the device even where the lecture has made that an error, or a warning."""
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
    """Intel's GPUs: `torch.xpu`, whose functions are those of `torch.cuda` but for a few."""

    type = "xpu"

    def properties(self) -> Properties:
        """Return what the current device says of itself."""
        found = self.module.get_device_properties(self.index())
        return Properties(
            name=found.name,
            memory_bytes=found.total_memory,
            multiprocessors=getattr(found, "max_compute_units", None),
            driver=getattr(found, "driver_version", None),
        )

    def built_for(self) -> str | None:
        """Name the version of the oneAPI toolkit that torch was built with."""
        version = getattr(self.torch.version, "xpu", None)
        return f"oneAPI {version}" if version else None

    def is_capturing(self) -> bool:
        """Return whether what is launched now becomes part of a graph, which early versions did not know."""
        return bool(getattr(self.module, "is_current_stream_capturing", bool)())


class AppleGpu(Accelerator):
    """Apple's GPUs: `torch.mps`. One device, one stream, no graphs; memory is the computer's own."""

    type = "mps"

    def is_available(self) -> bool:
        """Return whether torch finds it."""
        return bool(self.torch.backends.mps.is_available())

    def is_in_use(self) -> bool:
        """Return whether it is there: torch does not say more."""
        return self.is_available()

    def count(self) -> int:
        """Return 1, or 0 where there is none."""
        return int(self.is_available())

    def index(self) -> int:
        """Return 0."""
        return 0

    def select(self, index: int | None) -> None:
        """Do nothing: there is one."""

    def properties(self) -> Properties:
        """Return what Metal says of the device; its memory is what Metal recommends to use at most."""
        backend = self.torch.backends.mps
        name, cores = (getattr(backend, word, lambda: None)() for word in ("get_name", "get_core_count"))
        return Properties(name or "Apple GPU", self.module.recommended_max_memory(), cores)

    def is_capturing(self) -> bool:
        """Return False."""
        return False

    def allocated_bytes(self) -> int:
        """Return what tensors hold."""
        return int(self.module.current_allocated_memory())

    def peak_bytes(self) -> int | None:
        """Return None: torch keeps no peak there."""
        return None

    def reserved_bytes(self) -> int:
        """Return what Metal has given this process."""
        return int(self.module.driver_allocated_memory())

    def peak_reserved_bytes(self) -> int:
        """Return what Metal has given by now: it keeps no peak, and seldom takes anything back."""
        return self.reserved_bytes()

    def memory_info(self) -> tuple[int, int]:
        """Return what Metal recommends to use at most, first without what this process has."""
        total = int(self.module.recommended_max_memory())
        return max(0, total - self.reserved_bytes()), total

    def reset_peaks(self) -> None:
        """Do nothing: there are none."""

    def generators(self) -> list[Any]:
        """List the one generator."""
        return [self.module._get_default_mps_generator()]


BACKENDS: dict[str, type[Accelerator]] = {backend.type: backend for backend in (CudaGpu, AppleGpu, IntelGpu)}


def accelerator(type: str) -> Accelerator | None:
    """Return what asks devices of this type; None for "cpu". Loads torch."""
    backend = BACKENDS.get(type)
    return None if backend is None else backend()


def in_use() -> Accelerator | None:
    """Return the accelerator that this process has put to use, or None; loads nothing."""
    if "torch" not in sys.modules:
        return None
    found = (backend() for backend in BACKENDS.values())
    return next((gpu for gpu in found if gpu.is_in_use()), None)


def best() -> str:
    """Return the type of the first accelerator that torch finds, or "cpu"."""
    return next((name for name, backend in BACKENDS.items() if backend().is_available()), "cpu")
