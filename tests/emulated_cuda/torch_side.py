"""`torch.cuda` on the emulated device: the functions that a CPU build of torch lacks, in Python, using the library.

`preload` loads the library before torch, so that torch finds its hooks; `install` runs after torch is imported.
Functions accept the same devices as torch's: None, a number, "cuda:1", a `torch.device`.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

LIBRARY = "EMULATED_CUDA_LIBRARY"
FAULTS = "EMULATED_CUDA_FAULTS"
COUNTS = "EMULATED_CUDA_COUNTS"
MODULE = "emulated_cuda_device"
TORCH_LIBRARIES = ("libc10.so", "libtorch_cpu.so", "libtorch.so", "libtorch_python.so")
IN_A_FORK = (
    "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' "
    "start method"
)


def role() -> str:
    """Return the tracer's name of this process: "survey" or "pass-1", otherwise "other"."""
    arguments = sys.orig_argv
    if "trace_tools.tracing.survey" in arguments:
        return "survey"
    return Path(arguments[-1]).stem if "trace_tools.tracing.worker" in arguments else "other"


def faults() -> list[tuple[str, int]]:
    """List the faults of this process, each with its kind and its number (0 if it has none)."""
    planted = []
    for text in filter(None, os.environ.get(FAULTS, "").split(",")):
        whose, _, fault = text.rpartition("/")
        kind, _, number = fault.partition(":")
        if whose in ("", role()):
            planted.append((kind, int(number or 0)))
    return planted


def wanted() -> bool:
    """Tell whether this process has the device."""
    return os.environ.get("CUDA_VISIBLE_DEVICES") != "" and ("unavailable", 0) not in faults()


def preload(torch_folder: str) -> None:
    """Load torch's libraries and the device's, with global symbols, before torch looks for its devices."""
    for name in TORCH_LIBRARIES:
        ctypes.CDLL(str(Path(torch_folder, "lib", name)), mode=ctypes.RTLD_GLOBAL)
    ctypes.CDLL(os.environ[LIBRARY], mode=ctypes.RTLD_GLOBAL)


def _module(name: str, path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def install() -> None:
    """Patch `torch.cuda`; called once, after torch was imported."""
    import torch

    lib: Any = _module(MODULE, os.environ[LIBRARY])
    folder = Path(__file__).resolve().parent
    profiles = _module("emulated_cuda_profiles", str(folder / "profiles.py")).PROFILES
    cards = [profiles[name] for name in os.environ["EMULATED_CUDA"].split(",")]
    if visible := os.environ.get("CUDA_VISIBLE_DEVICES"):
        cards = [cards[int(number)] for number in visible.split(",")]
    lib.add_devices(len(cards))
    for index, card in enumerate(cards):
        lib.set_memory(index, card.memory_bytes, card.workspace_kib << 10)
    plant = {
        "oom": lambda number: lib.fail_allocation(number, 0),
        "assert": lib.fail_launch,
        "no-kernel-image": lambda _: lib.lack_kernels(),
    }
    for kind, number in faults():
        plant[kind](number)
    # `torch.version.cuda` stays that of the CPU build, None, because other libraries rely on it.
    started = _Started(lib)
    atexit.register(started.end)
    _devices(torch, lib, cards, started)
    _memory(torch, lib, cards, started)
    _randomness(torch, lib, len(cards), started)
    _streams(torch, lib, started)
    _graphs(torch, lib)
    _storages(torch)


class _Started:
    """Remember whether this process has initialised CUDA, and whether it was forked afterwards."""

    def __init__(self, lib: Any) -> None:
        self.lib, self.pid, self.initialized, self.forked = lib, os.getpid(), False, False
        os.register_at_fork(after_in_child=self._fork)

    def _fork(self) -> None:
        self.forked = self.initialized  # a process that was forked earlier may initialise CUDA itself

    def now(self) -> None:
        """Initialise CUDA, as the first call that needs the device does. Raise RuntimeError in a forked process."""
        if self.forked:
            raise RuntimeError(IN_A_FORK)
        import torch

        self.initialized = torch.cuda._initialized = True  # torch.utils.checkpoint reads torch.cuda's attribute

    def end(self) -> None:
        """Run all queued kernels, and write how operators ran."""
        if os.getpid() != self.pid:
            return
        self.lib.drain()
        if folder := os.environ.get(COUNTS):
            path = Path(folder, f"{role()}-{self.pid}.json")
            path.write_text(json.dumps(self.lib.counts()), encoding="utf-8")


def _devices(torch: Any, lib: Any, cards: list[Any], started: _Started) -> None:
    cuda = torch.cuda
    properties = [
        SimpleNamespace(
            name=card.name,
            emulated=True,
            total_memory=card.memory_bytes,
            multi_processor_count=card.multiprocessors,
            major=card.capability[0],
            minor=card.capability[1],
            L2_cache_size=card.l2_mib << 20,
            max_threads_per_multi_processor=card.threads_each,
            uuid=f"00000000-0000-0000-0000-{index:012d}",
        )
        for index, card in enumerate(cards)
    ]

    def number(device: Any = None) -> int:
        started.now()
        index = cuda._utils._get_device_index(device, optional=True)
        if not 0 <= index < len(cards):
            raise AssertionError("Invalid device id")
        return int(index)

    def set_device(device: Any) -> None:
        index = cuda._utils._get_device_index(device)
        if index >= 0:
            started.now()
            lib.set_device(index)

    def exchange(index: int) -> int:
        before = int(lib.current_device())
        if index >= 0:
            lib.set_device(index)
        return before

    cuda._emulated_number = number
    cuda._lazy_init = cuda.init = started.now
    cuda.is_available = lambda: True
    cuda.is_initialized = lambda: started.initialized and not started.forked
    cuda._is_in_bad_fork = lambda: started.forked
    cuda.device_count = lambda: len(cards)
    cuda.current_device = lambda: (started.now(), lib.current_device())[1]
    cuda.set_device = set_device
    cuda._exchange_device = cuda._maybe_exchange_device = exchange
    cuda.synchronize = lambda device=None: lib.synchronize(number(device))
    cuda.get_device_properties = lambda device=None: properties[number(device)]
    cuda.get_device_capability = lambda device=None: cards[number(device)].capability
    cuda.get_device_name = lambda device=None: cards[number(device)].name
    cuda.get_arch_list = lambda: [f"sm_{major}{minor}" for major, minor in {card.capability for card in cards}]
    cuda.is_bf16_supported = lambda including_emulation=True: (
        including_emulation or cards[lib.current_device()].capability >= (8, 0)
    )
    cuda.get_sync_debug_mode = lambda: 0  # a wait is no error or warning here
    torch._C._cuda_clearCublasWorkspaces = torch._C._host_emptyCache = lambda: None


def _memory(torch: Any, lib: Any, cards: list[Any], started: _Started) -> None:
    number = torch.cuda._emulated_number

    def free_and_total(device: Any = None) -> tuple[int, int]:
        stats = lib.stats(number(device))
        return stats["left"], stats["total"]

    def empty_cache() -> None:
        if started.initialized:
            for index in range(len(cards)):
                lib.empty_cache(index)

    for module in (torch.cuda, torch.cuda.memory):
        module.get_allocator_backend = lambda: "native"
        module.memory_allocated = lambda device=None: lib.stats(number(device))["allocated"]
        module.max_memory_allocated = lambda device=None: lib.stats(number(device))["peak"]
        module.memory_reserved = lambda device=None: lib.stats(number(device))["reserved"]
        module.max_memory_reserved = lambda device=None: lib.stats(number(device))["reserved_peak"]
        module.reset_peak_memory_stats = lambda device=None: lib.reset_peak(number(device))
        module.reset_accumulated_memory_stats = lambda device=None: None
        module.mem_get_info = free_and_total
        module.empty_cache = empty_cache


def _randomness(torch: Any, lib: Any, count: int, started: _Started) -> None:
    generators = tuple(lib.generator(index) for index in range(count))
    torch.cuda.default_generators = generators

    def of(device: Any) -> Any:
        return generators[torch.cuda._emulated_number(device)]

    def current() -> Any:
        return generators[lib.current_device()]

    def set_all(states: list[Any]) -> None:
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)

    def seed_all(seed: int) -> None:
        for generator in generators:
            generator.manual_seed(int(seed))

    functions: dict[str, Callable[..., Any]] = {
        "get_rng_state": lambda device="cuda": of(device).get_state(),
        "set_rng_state": lambda state, device="cuda": (of(device).set_state(state), None)[1],
        "get_rng_state_all": lambda: [generator.get_state() for generator in generators],
        "set_rng_state_all": set_all,
        "manual_seed": lambda seed: (current().manual_seed(int(seed)), None)[1],
        "manual_seed_all": seed_all,
    }
    for name, function in functions.items():
        for module in (torch.cuda, torch.cuda.random):
            setattr(module, name, function)


def _streams(torch: Any, lib: Any, started: _Started) -> None:
    """Streams and events: torch's classes for any accelerator, with the interface of `torch.cuda`'s classes."""
    cuda, number = torch.cuda, torch.cuda._emulated_number

    class Stream(torch.Stream):  # type: ignore[misc]
        def __new__(cls, device: Any = None, priority: int = 0, **existing: Any) -> Stream:
            index = existing["device_index"] if "device_index" in existing else number(device)
            stream = existing["stream_id"] if "stream_id" in existing else lib.new_stream(index)
            return super().__new__(cls, stream_id=stream, device_index=index, device_type=1)

        def record_event(self, event: Any = None) -> Any:
            event = event or Event()
            event.record(self)
            return event

    class Event(torch.Event):  # type: ignore[misc]
        def __new__(cls, enable_timing: bool = False, blocking: bool = False, **_: bool) -> Event:
            started.now()
            return super().__new__(cls, "cuda", enable_timing=enable_timing, blocking=blocking)

        def elapsed_time(self, other: Any) -> float:  # torch.Event's method accepts no subclass
            return float(lib.elapsed(self.event_id, other.event_id))

    def set_current(device: int, stream: int) -> None:
        lib.set_device(device)
        lib.set_stream(device, stream)

    @contextlib.contextmanager
    def stream(chosen: Any) -> Iterator[None]:
        """Make a stream and its device current inside `with`."""
        if chosen is None:
            yield
            return
        device, before = lib.current_device(), lib.current_stream(chosen.device_index)
        set_current(chosen.device_index, chosen.stream_id)
        try:
            yield
        finally:
            lib.set_stream(chosen.device_index, before)
            lib.set_device(device)

    import torch.cuda.streams

    for module in (cuda, torch.cuda.streams):
        module.Event, module.Stream = Event, Stream
    cuda.current_stream = lambda device=None: Stream(device, stream_id=lib.current_stream(number(device)))
    cuda.default_stream = lambda device=None: Stream(device, stream_id=0)
    cuda.stream = cuda.StreamContext = stream
    cuda.set_stream = lambda chosen: set_current(chosen.device_index, chosen.stream_id)


def _graphs(torch: Any, lib: Any) -> None:
    """Capture and replay on one stream. While it captures, waits, reads and operators that run in step are refused."""
    pools = iter(range(1, 1 << 31))

    class CUDAGraph:
        def __init__(self, keep_graph: bool = False) -> None:
            self._captured, self._pool = lib.Captured(), 0

        def capture_begin(self, pool: Any = None, capture_error_mode: str = "global", **_: Any) -> None:
            self._pool = pool[1] if pool else next(pools)
            lib.begin_capture(self._captured, self._pool)

        def capture_end(self) -> None:
            lib.end_capture(self._captured)

        def instantiate(self) -> None:
            pass

        def replay(self) -> None:
            lib.replay(self._captured)

        def pool(self) -> tuple[int, int]:
            return (0, self._pool)

    for module in (torch.cuda, torch.cuda.graphs):
        module.CUDAGraph = CUDAGraph
        module.graph_pool_handle = lambda: (0, next(pools))
        module.is_current_stream_capturing = lib.is_capturing
    torch.cuda.graphs._cuda_isCurrentStreamCapturing = torch._C._cuda_isCurrentStreamCapturing = lib.is_capturing


def _storages(torch: Any) -> None:
    """Make storages on the device, because torch's constructor is compiled without CUDA's allocator."""
    new = torch.UntypedStorage.__new__

    def make(cls: Any, *arguments: Any, **options: Any) -> Any:
        device = options.get("device")
        if device is None or torch.device(device).type != "cuda" or (arguments and not isinstance(arguments[0], int)):
            return new(cls, *arguments, **options)
        return torch.empty(arguments[0] if arguments else 0, dtype=torch.uint8, device=device).untyped_storage()

    torch.UntypedStorage.__new__ = make


@contextlib.contextmanager
def delayed(delay_us: int) -> Iterator[None]:
    """Delay each kernel that is launched inside `with`."""
    lib = sys.modules[MODULE]
    lib.set_delay_us(delay_us)
    try:
        yield
    finally:
        lib.set_delay_us(0)
