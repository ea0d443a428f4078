"""List the pieces of process-wide state, with functions that read and restore each of them.

    settings = process_settings()
    before = {setting.name: setting.read() for setting in settings}

Values are plain data, or objects compared by identity: `process_state.same` compares them without running code of the
lecture. A setting that this version of Python or torch lacks raises AttributeError when it is read. A setting of a
module that is not loaded has the module's initial value, so that reading does not load it.
"""

from __future__ import annotations

import copyreg
import gc
import locale
import logging
import os
import resource
import signal
import sys
import threading
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from trace_tools.machines.accelerators import BACKENDS, Accelerator, CudaGpu
from trace_tools.tracing.isolation.patches import LecturesOwn

UNSET_LOGGER: Any = (0, True, False, [], [])  # level, propagate, disabled, handlers, filters


@dataclass(frozen=True, slots=True)
class ProcessSetting:
    """One piece of process-wide state, with functions that read and restore it."""

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], object]
    # For a registry that libraries add entries to when they are loaded: whether an entry is the lecture's.
    is_lectures: Callable[[LecturesOwn, Any], bool] | None = None


def process_settings() -> list[ProcessSetting]:
    """Return the settings in the order in which they are restored; those of torch only if it is loaded."""
    return [*_pythons(), *_numpys(), *(_torchs() if "torch" in sys.modules else ())]


def working_directory() -> str:
    """Return the working directory, or "" if it no longer exists."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


# ------------------------------------------------------------------ Python's


def _pythons() -> Iterator[ProcessSetting]:
    yield ProcessSetting("working directory", working_directory, os.chdir)
    yield ProcessSetting("environment", lambda: dict(os.environ), _set_environment)
    for name in ("path", "argv", "warnoptions"):
        yield _list(f"sys.{name}", getattr(sys, name))
    for name in ("meta_path", "path_hooks"):
        yield _list(f"sys.{name}", getattr(sys, name), _made)
    for name in ("stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__"):
        yield _attribute("sys", name)
    for name in ("excepthook", "displayhook", "breakpointhook", "unraisablehook", "dont_write_bytecode"):
        yield _attribute("sys", name)
    yield ProcessSetting("recursion limit", sys.getrecursionlimit, sys.setrecursionlimit)
    yield ProcessSetting("switch interval", sys.getswitchinterval, sys.setswitchinterval)
    yield ProcessSetting("longest integer as text", lambda: sys.get_int_max_str_digits(), sys.set_int_max_str_digits)
    yield ProcessSetting("trace function", sys.gettrace, sys.settrace)
    yield ProcessSetting("profile function", sys.getprofile, sys.setprofile)
    yield ProcessSetting("threads' trace function", threading.gettrace, threading.settrace)
    yield ProcessSetting("threads' profile function", threading.getprofile, threading.setprofile)
    yield _attribute("threading", "excepthook")
    yield ProcessSetting("threads' stack size", threading.stack_size, threading.stack_size)
    yield ProcessSetting("warning filters", lambda: list(warnings.filters), _set_warning_filters)
    yield _attribute("warnings", "showwarning")
    yield ProcessSetting("logging", _loggers, _set_loggers, _is_set_by)
    yield ProcessSetting("locale", lambda: locale.setlocale(locale.LC_ALL), _set_locale)
    yield ProcessSetting("decimal defaults", _decimal_defaults, _set_decimal_defaults)
    yield _dict("copyreg", copyreg.dispatch_table, _made)
    yield ProcessSetting("garbage collector", gc.isenabled, lambda on: gc.enable() if on else gc.disable())
    yield ProcessSetting("garbage collector's thresholds", gc.get_threshold, lambda all_: gc.set_threshold(*all_))
    yield ProcessSetting("garbage collector's debugging", gc.get_debug, gc.set_debug)
    yield _list("gc.callbacks", gc.callbacks, _made)
    yield ProcessSetting("frozen objects", lambda: gc.get_freeze_count() > 0, lambda on: None if on else gc.unfreeze())
    yield ProcessSetting("tracemalloc", tracemalloc.is_tracing, _set_tracemalloc)
    yield ProcessSetting("asyncio policy", _asyncio_policy, _set_asyncio_policy)
    yield ProcessSetting("socket timeout", _socket_timeout, _set_socket_timeout)
    yield ProcessSetting("start method of processes", _start_method, _set_start_method)
    # before the handlers: a timer without its handler ends the process
    for name in ("ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF"):
        yield _timer(name)
    for number in sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}):
        yield _signal(number)
    yield ProcessSetting("blocked signals", _blocked_signals, _set_blocked_signals)
    yield ProcessSetting("wakeup descriptor", _wakeup_descriptor, signal.set_wakeup_fd)
    yield ProcessSetting("umask", _umask, os.umask)
    yield ProcessSetting("usable cores", lambda: sorted(os.sched_getaffinity(0)), lambda c: os.sched_setaffinity(0, c))
    yield ProcessSetting("priority", lambda: os.getpriority(0, 0), lambda nice: os.setpriority(0, 0, nice))
    for name in sorted(name for name in vars(resource) if name.startswith("RLIMIT_")):
        yield _limit(name)


def _attribute(module: str, name: str) -> ProcessSetting:
    return ProcessSetting(
        f"{module}.{name}",
        lambda: getattr(sys.modules[module], name),
        lambda value: setattr(sys.modules[module], name, value),
    )


def _list(name: str, held: list[Any], is_lectures: Callable[[LecturesOwn, Any], bool] | None = None) -> ProcessSetting:
    return ProcessSetting(name, lambda: list(held), lambda before: held.__setitem__(slice(None), before), is_lectures)


def _dict(
    name: str, held: dict[Any, Any], is_lectures: Callable[[LecturesOwn, Any], bool] | None = None
) -> ProcessSetting:
    def write(before: dict[Any, Any]) -> None:
        held.clear()
        held.update(before)

    return ProcessSetting(name, lambda: dict(held), write, is_lectures)


def _made(own: LecturesOwn, entry: Any) -> bool:
    """Return whether the lecture made an entry, or a part of it."""
    return any(map(own.made, entry if type(entry) is tuple else (entry,)))


def _set_environment(environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()  # TZ may have changed


def _set_warning_filters(filters: list[Any]) -> None:
    warnings.filters[:] = filters  # type: ignore[index]
    warnings._filters_mutated()  # type: ignore[attr-defined]


Logger = tuple[int, bool, bool, list[Any], list[Any]]  # level, propagate, disabled, handlers, filters


def _loggers() -> dict[str, Any]:
    """Return the state of each configured logger and, as " ", the level up to which all logging is disabled."""
    states: dict[str, Any] = {" ": logging.root.manager.disable}
    for name, logger in [("root", logging.root), *logging.root.manager.loggerDict.items()]:
        if isinstance(logger, logging.Logger):
            states[name] = (logger.level, logger.propagate, logger.disabled, [*logger.handlers], [*logger.filters])
    return {name: state for name, state in states.items() if state != UNSET_LOGGER}


def _set_loggers(before: dict[str, Any]) -> None:
    logging.disable(before[" "])
    for name in {*_loggers(), *before} - {" "}:
        logger = logging.root if name == "root" else logging.getLogger(name)
        level, logger.propagate, logger.disabled, handlers, filters = before.get(name, UNSET_LOGGER)
        logger.setLevel(level)
        logger.handlers[:], logger.filters[:] = handlers, filters


def _is_set_by(own: LecturesOwn, entry: tuple[str, Any]) -> bool:
    """Return whether the lecture set a logger: its source names the logger, or no library has that name and would
    set it.
    """
    top = entry[0].partition(".")[0]
    return entry[0] in own.texts or top not in sys.modules or top in own.modules


def _set_locale(before: str) -> None:
    locale.setlocale(locale.LC_ALL, before)


def _decimal_defaults() -> list[Any]:
    """Return the defaults of decimal contexts; each run of a lecture creates its own contexts from them."""
    decimal = sys.modules.get("decimal")
    if decimal is None:
        return _DECIMAL
    context = decimal.DefaultContext
    traps = sorted(trap.__name__ for trap, on in context.traps.items() if on)
    return [*(getattr(context, name) for name in _DECIMAL_NAMES), traps]


def _set_decimal_defaults(before: list[Any]) -> None:
    *values, traps = before
    context = sys.modules["decimal"].DefaultContext
    for name, value in zip(_DECIMAL_NAMES, values, strict=True):
        setattr(context, name, value)
    for trap in context.traps:
        context.traps[trap] = trap.__name__ in traps


_DECIMAL_NAMES = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")
_DECIMAL = [28, "ROUND_HALF_EVEN", -999_999, 999_999, 1, 0, ["DivisionByZero", "InvalidOperation", "Overflow"]]


def _set_tracemalloc(on: bool) -> None:
    tracemalloc.start() if on else tracemalloc.stop()


def _asyncio_policy() -> Any:
    return getattr(sys.modules.get("asyncio.events"), "_event_loop_policy", None)


def _set_asyncio_policy(policy: Any) -> None:
    vars(sys.modules["asyncio.events"])["_event_loop_policy"] = policy


def _socket_timeout() -> float | None:
    socket = sys.modules.get("socket")
    return socket.getdefaulttimeout() if socket else None


def _set_socket_timeout(seconds: float | None) -> None:
    sys.modules["socket"].setdefaulttimeout(seconds)


def _start_method() -> str | None:
    """Return the method set with `set_start_method`, which torch's processes share."""
    multiprocessing = sys.modules.get("multiprocessing")
    return multiprocessing.get_start_method(allow_none=True) if multiprocessing else None


def _set_start_method(before: str | None) -> None:
    sys.modules["multiprocessing"].set_start_method(before, force=True)


def _signal(number: int) -> ProcessSetting:
    try:
        name = signal.Signals(number).name
    except ValueError:  # a real-time signal
        name = f"signal {number}"

    def write(handler: Any) -> None:
        if handler is None:
            raise ValueError("its handler was not set from Python")
        signal.signal(number, handler)

    return ProcessSetting(f"{name} handler", lambda: signal.getsignal(number), write)


def _blocked_signals() -> list[int]:
    return sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, [])))


def _set_blocked_signals(numbers: list[int]) -> None:
    """Set the blocked signals, after discarding pending ones, which could end the process without the lecture's
    handlers.
    """
    while signal.sigpending() and signal.sigtimedwait(signal.sigpending(), 0):
        pass
    signal.pthread_sigmask(signal.SIG_SETMASK, numbers)


def _wakeup_descriptor() -> int:
    descriptor = signal.set_wakeup_fd(-1)
    if descriptor != -1:
        signal.set_wakeup_fd(descriptor, warn_on_full_buffer=False)
    return descriptor


def _timer(name: str) -> ProcessSetting:
    """Return the setting of a timer: whether it is running, because the remaining time always differs."""
    which = getattr(signal, name)
    return ProcessSetting(
        name, lambda: signal.getitimer(which) != (0.0, 0.0), lambda on: on or signal.setitimer(which, 0.0)
    )


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _limit(name: str) -> ProcessSetting:
    which = getattr(resource, name)
    return ProcessSetting(
        f"limit {name}", lambda: resource.getrlimit(which), lambda limits: resource.setrlimit(which, limits)
    )


# ------------------------------------------------------------------ NumPy's


def _numpys() -> Iterator[ProcessSetting]:
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        yield ProcessSetting("NumPy's errors", numpy.geterr, lambda before: numpy.seterr(**before))
        yield ProcessSetting(
            "NumPy's print options",
            lambda: {**numpy.get_printoptions(), "override_repr": None},
            lambda before: numpy.set_printoptions(**before),
        )


# ------------------------------------------------------------------ torch's


def _torchs() -> Iterator[ProcessSetting]:
    import torch

    from trace_tools.machines import float32_precision  # imports torch

    backends: Any = torch.backends
    yield ProcessSetting("default dtype", torch.get_default_dtype, torch.set_default_dtype)
    # Modes come first, because they can affect how the other settings are read.
    yield ProcessSetting("modes of torch", _modes, _leave_modes)
    yield ProcessSetting("default device", _default_device, torch.set_default_device)
    yield ProcessSetting("grad mode", torch.is_grad_enabled, torch._C._set_grad_enabled)
    yield ProcessSetting("inference mode", torch.is_inference_mode_enabled, _cannot)
    yield ProcessSetting("autocast", _autocast, _set_autocast)
    yield ProcessSetting("anomaly detection", torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly)
    autograd: Any = torch.autograd
    yield ProcessSetting(
        "profiler", autograd._profiler_enabled, lambda on: None if on else autograd._disable_profiler()
    )
    yield ProcessSetting("threads", torch.get_num_threads, torch.set_num_threads)
    yield ProcessSetting("threads between operators", torch.get_num_interop_threads, torch.set_num_interop_threads)
    yield ProcessSetting("float32 precision", float32_precision.read, float32_precision.write)
    yield ProcessSetting("deterministic algorithms", _deterministic, _set_deterministic)
    yield _flag(torch.utils.deterministic, "fill_uninitialized_memory")
    yield ProcessSetting("denormal numbers", _denormals_are_zero, torch.set_flush_denormal)
    yield ProcessSetting("torch's warnings", torch.is_warn_always_enabled, torch.set_warn_always)
    yield _dict("print options", vars(torch._tensor_str.PRINT_OPTS))
    for name in ("enabled", "benchmark", "benchmark_limit", "deterministic"):
        yield _flag(backends.cudnn, name)
    for name in (
        "allow_fp16_reduced_precision_reduction",
        "allow_bf16_reduced_precision_reduction",
        "allow_fp16_accumulation",
    ):
        yield _flag(backends.cuda.matmul, name)
    for backend in BACKENDS.values():
        yield from _accelerators(backend())
    for name in ("flash", "mem_efficient", "math", "cudnn"):
        yield _switch(f"{name} attention", backends.cuda, f"{name}_sdp_enabled", f"enable_{name}_sdp")
    for name in ("linalg", "blas"):
        yield _library(name)
    yield _switch("fast path of attention", backends.mha, "get_fastpath_enabled", "set_fastpath_enabled")
    yield ProcessSetting("mkldnn", torch._C._get_mkldnn_enabled, torch._C._set_mkldnn_enabled)
    yield ProcessSetting("nnpack", torch._C._get_nnpack_enabled, torch._C._set_nnpack_enabled)
    for name in ("enabled", "strategy"):
        yield _flag(backends.opt_einsum, name)
    yield _flag(backends.quantized, "engine")
    yield _switch("sharing strategy", torch.multiprocessing, "get_sharing_strategy", "set_sharing_strategy")
    safe: Any = torch.serialization
    yield ProcessSetting(
        "safe globals", lambda: {id(it): it for it in safe.get_safe_globals()}, _set_safe_globals, _made
    )
    yield _list("storage packages", torch.serialization._package_registry, _made)
    yield ProcessSetting(
        "torch.library definitions",
        lambda: list(torch.library._keep_alive),
        _keep_libraries,
        lambda own, library: library.ns in own.texts,
    )
    for name in sorted(vars(torch.nn.modules.module)):
        if name.startswith("_global_"):
            yield _hooks(name)


def _accelerators(gpu: Accelerator) -> Iterator[ProcessSetting]:
    """Yield the settings that a program chooses for its devices, with initial values until it has used a device."""

    def setting(name: str, read: Callable[[], Any], write: Callable[[Any], object], at_first: Any) -> ProcessSetting:
        return ProcessSetting(f"{gpu.type}: {name}", lambda: read() if gpu.is_in_use() else at_first, write)

    if isinstance(gpu, CudaGpu):
        yield setting("debugging of waits", gpu.sync_debug_mode, gpu.set_sync_debug_mode, 0)
        yield setting("current streams", gpu.streams, gpu.select_streams, {})
    yield setting("current device", gpu.index, gpu.select, 0)
    yield setting("part of the memory", gpu.memory_fractions, gpu.set_memory_fractions, {})


def _cannot(value: object) -> None:
    raise RuntimeError("only the code that started it can end it")


def _flag(owner: Any, name: str) -> ProcessSetting:
    module = owner.__name__.removeprefix("torch.backends.") if hasattr(owner, "__name__") else "cuda.matmul"
    return ProcessSetting(
        f"backend flag {module}.{name}".replace("torch.utils.", ""),
        lambda: getattr(owner, name),
        lambda value: setattr(owner, name, value),
    )


def _switch(name: str, owner: Any, read: str, write: str) -> ProcessSetting:
    return ProcessSetting(name, lambda: getattr(owner, read)(), lambda value: getattr(owner, write)(value))


def _library(name: str) -> ProcessSetting:
    import torch

    preferred: Any = getattr(torch.backends.cuda, f"preferred_{name}_library", None)
    return ProcessSetting(f"{name} library", lambda: preferred().name.lower(), preferred)


def _default_device() -> str | None:
    """Return the default device that was set, or None: torch enters a mode even for `cpu`, which has effects."""
    mode = _device_mode()
    return None if mode is None else str(mode.device)


def _modes() -> tuple[list[Any], list[Any]]:
    """Return the function modes, except the default device's own, and the dispatch modes."""
    import torch

    stack = [torch._C._get_function_stack_at(index) for index in range(torch._C._len_torch_function_stack())]
    functions = [mode for mode in stack if mode is not _device_mode()]
    return functions, list(torch.utils._python_dispatch._get_current_dispatch_mode_stack())


def _leave_modes(before: tuple[list[Any], list[Any]]) -> None:
    import torch

    _, operators = _modes()
    entered = [torch._C._pop_torch_function_stack() for _ in range(torch._C._len_torch_function_stack())]
    for mode in (*(mode for mode in entered if mode is _device_mode()), *before[0]):
        torch._C._push_on_torch_function_stack(mode)
    for _ in range(len(operators) - len(before[1])):
        torch.utils._python_dispatch._pop_mode()


def _device_mode() -> Any:
    import torch

    return getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)


def _autocast() -> list[Any]:
    import torch

    devices = ("cpu", *BACKENDS)
    states = [(device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in devices]
    return [*states, torch.is_autocast_cache_enabled()]


def _set_autocast(before: list[Any]) -> None:
    import torch

    *states, cached = before
    for device, enabled, dtype in states:
        torch.set_autocast_enabled(device, enabled)
        torch.set_autocast_dtype(device, dtype)
    torch.set_autocast_cache_enabled(cached)
    for _ in range(torch.autocast_increment_nesting()):
        torch.autocast_decrement_nesting()
    torch.clear_autocast_cache()


def _denormals_are_zero() -> bool:
    return sys.float_info.min / 2 == 0


def _deterministic() -> tuple[bool, bool]:
    import torch

    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _set_deterministic(value: tuple[bool, bool]) -> None:
    import torch

    torch.use_deterministic_algorithms(value[0], warn_only=value[1])


def _set_safe_globals(before: dict[int, Any]) -> None:
    import torch

    torch.serialization.clear_safe_globals()
    torch.serialization.add_safe_globals(list(before.values()))


def _keep_libraries(kept: list[Any]) -> None:
    """Remove operator libraries other than `kept`, so that their names can be defined again."""
    import torch

    for library in [library for library in torch.library._keep_alive if all(library is not other for other in kept)]:
        library._destroy()  # type: ignore[no-untyped-call]
    torch.library._keep_alive[:] = kept


def _hooks(name: str) -> ProcessSetting:
    """Return the setting of a global of module hooks, which is usually a table of hooks that run on every module."""
    import torch

    module = vars(torch.nn.modules.module)
    shown = f"module hooks ({name.removeprefix('_global_')})"
    if isinstance(module[name], dict):
        return _dict(shown, module[name])
    return ProcessSetting(shown, lambda: module[name], lambda value: module.__setitem__(name, value))
