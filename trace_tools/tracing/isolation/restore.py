"""Put a process back into its state before a lecture ran, so that the lecture can run there again, warm.

    before = State.read(folder)      # the lecture's folder
    module.main()                    # torch.set_default_dtype(torch.float64); import helper
    before.restore()                 # ["default dtype", "module helper"], []

Only common changes of lectures are put back: a dozen settings, and modules of the lecture's own folder, which the next
run imports again. A lecture that patches other people's modules or installs signal handlers finds them still there;
values that differ between the cold and the warm run show that, because the trace compares them.
"""

from __future__ import annotations

import gc
import logging
import os
import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from trace_tools.machines import accelerators

Setting = tuple[str, Callable[[], Any], Callable[[Any], object]]  # name, read, write


def settings() -> Iterator[Setting]:
    """Yield the settings of Python, and of NumPy and torch if they are loaded."""
    yield "working directory", working_directory, os.chdir
    yield "environment", lambda: dict(os.environ), _set_environment
    yield "sys.path", lambda: sys.path[:], lambda before: sys.path.__setitem__(slice(None), before)
    yield "sys.argv", lambda: sys.argv[:], lambda before: sys.argv.__setitem__(slice(None), before)
    yield "recursion limit", sys.getrecursionlimit, sys.setrecursionlimit
    yield "warning filters", lambda: warnings.filters[:], _set_warning_filters
    yield "logging", _loggers, _set_loggers
    yield "garbage collector", lambda: (gc.isenabled(), gc.get_threshold()), _set_collector
    for module, name in ((sys, "excepthook"), (sys, "displayhook"), (sys, "unraisablehook"), (threading, "excepthook")):
        yield f"{module.__name__}.{name}", partial(getattr, module, name), partial(setattr, module, name)
    yield "start method", _start_method, _set_start_method
    if (numpy := sys.modules.get("numpy")) is not None:
        yield "NumPy's errors", numpy.geterr, lambda before: numpy.seterr(**before)
        yield "NumPy's print options", numpy.get_printoptions, lambda before: numpy.set_printoptions(**before)
    if (torch := sys.modules.get("torch")) is not None:
        from trace_tools.machines import float32_precision  # imports torch

        yield "default dtype", torch.get_default_dtype, torch.set_default_dtype
        yield "default device", lambda: getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None), _set_device
        yield "grad mode", torch.is_grad_enabled, torch._C._set_grad_enabled
        yield "anomaly detection", torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly
        yield "threads", torch.get_num_threads, torch.set_num_threads
        yield "float32 precision", float32_precision.read, float32_precision.write
        yield "deterministic algorithms", torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms
        yield "cuDNN's benchmark", lambda: torch.backends.cudnn.benchmark, _set_benchmark
        print_options = vars(torch._tensor_str.PRINT_OPTS)
        yield "torch's print options", lambda: dict(print_options), print_options.update
    if (counter := sys.modules.get("torch.utils.flop_counter")) is not None:
        formulas = counter.flop_registry  # to register a formula a second time is an error
        yield "FLOP formulas", lambda: dict(formulas), lambda before: (formulas.clear(), formulas.update(before))


def working_directory() -> str:
    """Return the working directory, or "" if it no longer exists."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def _set_environment(before: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(before)


def _set_warning_filters(before: list[Any]) -> None:
    warnings.filters[:] = before  # type: ignore[index]
    warnings._filters_mutated()  # type: ignore[attr-defined]


def _loggers() -> dict[str, tuple[Any, ...]]:
    """Return the settings of the loggers that no library owns: else a named one prints every line twice when warm."""
    names = [name for name, made in logging.root.manager.loggerDict.items() if isinstance(made, logging.Logger)]
    libraries = sys.modules.keys() - {"__main__"}
    own = {name: logging.getLogger(name) for name in names if name.partition(".")[0] not in libraries}
    return {
        name: (one.level, one.handlers[:], one.filters[:], one.propagate, one.disabled)
        for name, one in {**own, "": logging.root}.items()
    }


def _set_loggers(before: dict[str, tuple[Any, ...]]) -> None:
    for name in _loggers().keys() - before.keys():
        del logging.root.manager.loggerDict[name]
    for name, (level, handlers, filters, propagate, disabled) in before.items():
        logger = logging.getLogger(name or None)
        logger.setLevel(level)
        logger.handlers[:], logger.filters[:] = handlers, filters
        logger.propagate, logger.disabled = propagate, disabled


def _set_collector(before: tuple[bool, tuple[int, int, int]]) -> None:
    (gc.enable if before[0] else gc.disable)()
    gc.set_threshold(*before[1])


def _start_method() -> Any:
    """Return how `multiprocessing` starts processes; a second call of its `set_start_method` raises."""
    loaded = sys.modules.get("multiprocessing.context")
    return None if loaded is None else loaded._default_context._actual_context


def _set_start_method(before: Any) -> None:
    sys.modules["multiprocessing.context"]._default_context._actual_context = before


def _set_device(before: Any) -> None:
    sys.modules["torch"].set_default_device(None if before is None else before.device)


def _set_benchmark(before: bool) -> None:
    sys.modules["torch"].backends.cudnn.benchmark = before


@dataclass(frozen=True, slots=True)
class State:
    """The settings and the modules of a process at one moment."""

    folder: Path  # the lecture's
    values: dict[str, Any]
    modules: dict[str, Any]

    @classmethod
    def read(cls, folder: Path) -> State:
        """Read the state before a lecture in this folder runs."""
        return cls(folder.resolve(), {name: read() for name, read, _ in settings()}, dict(sys.modules))

    def restore(self) -> tuple[list[str], list[str]]:
        """Restore settings that differ; return their names, and the settings and threads that remain."""
        restored, stuck = [], _running_in(self.folder)
        for name in [name for name, module in sys.modules.items() if self._is_own(name, module)]:
            del sys.modules[name]
            restored.append(f"module {name}")
        sys.modules.update(self.modules)
        for name, read, write in settings():
            if name in self.values and read() != self.values[name]:
                write(self.values[name])
                (restored if read() == self.values[name] else stuck).append(name)
        gc.collect()
        if (gpu := accelerators.in_use()) is not None:
            gpu.empty_cache()  # a small tensor placed in an odd cached block would count as larger
            gpu.reset_peaks()
        return restored, stuck

    def _is_own(self, name: str, module: Any) -> bool:
        file = getattr(module, "__file__", None)
        is_new = self.modules.get(name) is not module and name not in ("__main__", "__mp_main__")
        return is_new and isinstance(file, str) and Path(file).is_relative_to(self.folder)


def _running_in(folder: Path) -> list[str]:
    """Describe the threads that still run code of a folder."""
    running = []
    for thread, frame in sys._current_frames().items():
        while frame is not None and thread != threading.get_ident():
            if frame.f_code.co_filename.startswith(f"{folder}/"):
                running.append(f"a thread is still running line {frame.f_lineno} of the lecture")
                break
            frame = frame.f_back  # type: ignore[assignment]
    return running


def seed_everything(seed: int) -> None:
    """Seed the generators of Python, and of NumPy and torch (with its devices) if they are loaded."""
    random.seed(seed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed % 2**32)
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(seed)
