"""The table of process-wide state: how each piece is read, and how it is put back.

    settings = process_settings()
    before = {setting.name: setting.read() for setting in settings}

What is read is plain data, or objects that stand for themselves: `leftovers.same` compares it without running a
lecture's code. A piece that this version of Python or torch does not have raises AttributeError when it is read.
One of a module that is not loaded has the value that the module begins with: it is not loaded for that.
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

from trace_tools.accelerators import BACKENDS
from trace_tools.tracing.patches import LecturesOwn

UNSET_LOGGER: Any = (0, True, False, [], [])  # level, propagate, disabled, handlers, filters


@dataclass(frozen=True, slots=True)
class ProcessSetting:
    """One piece of process-wide state: how to read it and how to put it back."""

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], object]
    # Of a registry, which libraries enter themselves in when they are loaded: whether an entry is the lecture's.
    is_lectures: Callable[[LecturesOwn, Any], bool] | None = None


def process_settings() -> list[ProcessSetting]:
    """Return the table, in the order in which its pieces are to be put back; torch's where torch is loaded."""
    return [*_pythons(), *_numpys(), *(_torchs() if "torch" in sys.modules else ())]


def working_directory() -> str:
    """Return the working directory; "" when it no longer exists."""
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
    yield ProcessSetting("decimal context", _decimal_context, _set_decimal_context)
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
    for name in ("ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF"):  # before the handlers, without which they end it
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
    time.tzset()  # it may have had a TZ


def _set_warning_filters(filters: list[Any]) -> None:
    warnings.filters[:] = filters  # type: ignore[index]
    warnings._filters_mutated()  # type: ignore[attr-defined]


Logger = tuple[int, bool, bool, list[Any], list[Any]]  # level, propagate, disabled, handlers, filters


def _loggers() -> dict[str, Any]:
    """Return how each logger is set, but for those that are not, and (" ") below which level none says anything."""
    known: dict[str, Any] = {" ": logging.root.manager.disable}
    for name, logger in [("root", logging.root), *logging.root.manager.loggerDict.items()]:
        if isinstance(logger, logging.Logger):
            known[name] = (logger.level, logger.propagate, logger.disabled, [*logger.handlers], [*logger.filters])
    return {name: state for name, state in known.items() if state != UNSET_LOGGER}


def _set_loggers(before: dict[str, Any]) -> None:
    logging.disable(before[" "])
    for name in {*_loggers(), *before} - {" "}:
        logger = logging.root if name == "root" else logging.getLogger(name)
        level, logger.propagate, logger.disabled, handlers, filters = before.get(name, UNSET_LOGGER)
        logger.setLevel(level)
        logger.handlers[:], logger.filters[:] = handlers, filters


def _is_set_by(own: LecturesOwn, entry: tuple[str, Any]) -> bool:
    """Return whether the lecture set a logger: it names it, or no library has that name, which would set it itself."""
    top = entry[0].partition(".")[0]
    return entry[0] in own.said or top not in sys.modules or top in own.modules


def _set_locale(before: str) -> None:
    locale.setlocale(locale.LC_ALL, before)


def _decimal_context() -> list[Any]:
    decimal = sys.modules.get("decimal")
    if decimal is None:
        return []
    context = decimal.getcontext()
    traps, flags = ([name.__name__ for name, on in which.items() if on] for which in (context.traps, context.flags))
    return [context.prec, context.rounding, context.Emin, context.Emax, context.capitals, context.clamp, traps, flags]


def _set_decimal_context(before: list[Any]) -> None:
    decimal = sys.modules["decimal"]
    if not before:
        decimal.setcontext(decimal.Context())
        return
    *numbers, traps, flags = before
    traps, flags = ([getattr(decimal, name) for name in which] for which in (traps, flags))
    decimal.setcontext(decimal.Context(*numbers, flags, traps))


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
    """Return what was set with `set_start_method`: torch's processes have the same."""
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
    """Those that wait go: without the lecture's handlers they could end the process."""
    while signal.sigpending() and signal.sigtimedwait(signal.sigpending(), 0):
        pass
    signal.pthread_sigmask(signal.SIG_SETMASK, numbers)


def _wakeup_descriptor() -> int:
    descriptor = signal.set_wakeup_fd(-1)
    if descriptor != -1:
        signal.set_wakeup_fd(descriptor, warn_on_full_buffer=False)
    return descriptor


def _timer(name: str) -> ProcessSetting:
    """A timer is running, or it is not: how much of it is left is always another."""
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
    # A mode sees what others read: it goes first.
    yield ProcessSetting("modes of torch", _modes, _leave_modes)
    yield ProcessSetting("default device", lambda: str(torch.get_default_device()), _set_default_device)
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
        lambda own, library: library.ns in own.said,
    )
    for name in sorted(vars(torch.nn.modules.module)):
        if name.startswith("_global_"):
            yield _hooks(name)


def _cannot(value: object) -> None:
    raise RuntimeError("nothing ends it but what began it")


def _flag(owner: Any, name: str) -> ProcessSetting:
    place = owner.__name__.removeprefix("torch.backends.") if hasattr(owner, "__name__") else "cuda.matmul"
    return ProcessSetting(
        f"backend flag {place}.{name}".replace("torch.utils.", ""),
        lambda: getattr(owner, name),
        lambda value: setattr(owner, name, value),
    )


def _switch(name: str, owner: Any, read: str, write: str) -> ProcessSetting:
    return ProcessSetting(name, lambda: getattr(owner, read)(), lambda value: getattr(owner, write)(value))


def _library(name: str) -> ProcessSetting:
    import torch

    preferred: Any = getattr(torch.backends.cuda, f"preferred_{name}_library", None)
    return ProcessSetting(f"{name} library", lambda: preferred().name.lower(), preferred)


def _set_default_device(device: str) -> None:
    import torch

    torch.set_default_device(None if device == "cpu" else device)


def _modes() -> tuple[list[Any], list[Any]]:
    """Return the modes that see functions, but for the default device's own, and those that see operators."""
    import torch

    stack = [torch._C._get_function_stack_at(place) for place in range(torch._C._len_torch_function_stack())]
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


def _safe_globals() -> dict[int, Any]:
    import torch

    return {id(entry): entry for entry in torch.serialization.get_safe_globals()}


def _set_safe_globals(before: dict[int, Any]) -> None:
    import torch

    torch.serialization.clear_safe_globals()
    torch.serialization.add_safe_globals(list(before.values()))


def _keep_libraries(kept: list[Any]) -> None:
    """Take back the operators that others define: their names may be defined again."""
    import torch

    for library in [library for library in torch.library._keep_alive if all(library is not other for other in kept)]:
        library._destroy()  # type: ignore[no-untyped-call]
    torch.library._keep_alive[:] = kept


def _hooks(name: str) -> ProcessSetting:
    """A table of hooks that run on every module; other globals of that name are compared, too."""
    import torch

    module = vars(torch.nn.modules.module)
    shown = f"module hooks ({name.removeprefix('_global_')})"
    if isinstance(module[name], dict):
        return _dict(shown, module[name])
    return ProcessSetting(shown, lambda: module[name], lambda value: module.__setitem__(name, value))
