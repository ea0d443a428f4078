"""Each process setting is read, changed by the function that users call, and restored to the value before."""

from __future__ import annotations

import contextlib
import copyreg
import gc
import logging
import os
import resource
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from trace_tools.tracing.isolation.patches import LecturesOwn
from trace_tools.tracing.isolation.process_settings import ProcessSetting, process_settings
from trace_tools.tracing.isolation.process_state import ProcessState, same

cuda: Any = torch.backends.cuda
CHANGES: dict[str, Callable[[], object]] = {
    "default dtype": lambda: torch.set_default_dtype(torch.float64),
    "default device": lambda: torch.set_default_device("meta"),
    "modes of torch": lambda: torch.overrides.TorchFunctionMode().__enter__(),
    "grad mode": lambda: torch.set_grad_enabled(False),
    "autocast": lambda: torch.autocast("cpu").__enter__(),
    "threads": lambda: torch.set_num_threads(1 + torch.get_num_threads()),
    "deterministic algorithms": lambda: torch.use_deterministic_algorithms(True, warn_only=True),
    "print options": lambda: torch.set_printoptions(precision=2),
    "anomaly detection": lambda: torch.autograd.set_detect_anomaly(True),
    "denormal numbers": lambda: torch.set_flush_denormal(True),
    "torch's warnings": lambda: torch.set_warn_always(True),
    "backend flag cudnn.benchmark": lambda: setattr(torch.backends.cudnn, "benchmark", True),
    "math attention": lambda: cuda.enable_math_sdp(False),
    "fast path of attention": lambda: torch.backends.mha.set_fastpath_enabled(False),
    "mkldnn": lambda: torch._C._set_mkldnn_enabled(False),
    "sharing strategy": lambda: torch.multiprocessing.set_sharing_strategy("file_system"),
    "module hooks (forward_hooks)": lambda: torch.nn.modules.module.register_module_forward_hook(lambda *_: None),
    "start method of processes": lambda: torch.multiprocessing.set_start_method("spawn", force=True),
    "NumPy's errors": lambda: np.seterr(all="raise"),
    "NumPy's print options": lambda: np.set_printoptions(precision=3),
    "working directory": lambda: os.chdir("/"),
    "environment": lambda: os.environ.update(LEFT="behind"),
    "warning filters": lambda: warnings.simplefilter("ignore", category=ImportWarning),
    "recursion limit": lambda: sys.setrecursionlimit(2345),
    "longest integer as text": lambda: sys.set_int_max_str_digits(7000),
    "sys.path": lambda: sys.path.append("elsewhere"),
    "sys.argv": lambda: sys.argv.append("more"),
    "sys.stdout": lambda: setattr(sys, "stdout", sys.stderr),
    "threads' trace function": lambda: threading.settrace(lambda *_: None),  # type: ignore[arg-type]
    "logging": lambda: logging.getLogger("nobody.set.this").setLevel(logging.ERROR),
    "garbage collector's thresholds": lambda: gc.set_threshold(5, 6, 7),
    "tracemalloc": lambda: __import__("tracemalloc").start(),
    "blocked signals": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2]),
    "SIGUSR2 handler": lambda: signal.signal(signal.SIGUSR2, signal.SIG_IGN),
    "SIGRTMIN handler": lambda: signal.signal(signal.SIGRTMIN, signal.SIG_IGN),
    "ITIMER_VIRTUAL": lambda: signal.setitimer(signal.ITIMER_VIRTUAL, 1000),
    "umask": lambda: os.umask(0o123),
    "limit RLIMIT_NOFILE": lambda: resource.setrlimit(7, (resource.getrlimit(7)[0] - 1, resource.getrlimit(7)[1])),
}


def read() -> dict[str, tuple[ProcessSetting, Any]]:
    values = {}
    for setting in process_settings():
        with contextlib.suppress(AttributeError):
            values[setting.name] = setting, setting.read()
    return values


def restore(before: dict[str, tuple[ProcessSetting, Any]]) -> list[str]:
    changed = []
    for name, (setting, value) in before.items():
        try:
            is_same = same(setting.read(), value)
        except NotImplementedError:  # raised by an active mode of torch when the setting is read
            is_same = False
        if not is_same:
            setting.write(value)
            changed.append(name)
    return changed


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_each_setting_is_restored(name: str) -> None:
    before = read()
    CHANGES[name]()
    assert name in restore(before)
    assert restore(before) == []


def test_default_device_cpu_is_undone() -> None:
    """`torch.set_default_device("cpu")` enters a mode of torch, which turns off fast paths."""
    before = read()
    torch.set_default_device("cpu")
    assert torch._C._len_torch_function_stack() == 1
    assert restore(before) == ["default device"]
    assert torch._C._len_torch_function_stack() == 0


@pytest.mark.slow
def test_library_entries_in_registries_stay(tmp_path: Path) -> None:
    class Lectures:
        __module__ = "the_lecture"

    own = LecturesOwn({"the_lecture": sys})
    (registry,) = (setting for setting in process_settings() if setting.name == "copyreg")
    assert registry.is_lectures is not None
    assert registry.is_lectures(own, (Lectures, print)) and not registry.is_lectures(own, (Path, print))
    before = ProcessState.read(tmp_path)
    copyreg.pickle(ProcessState, lambda state: (ProcessState.read, (tmp_path,)))  # type: ignore[arg-type, return-value]
    assert before.restore().restored == [] and copyreg.dispatch_table.pop(ProcessState)


def test_removed_operators_can_be_defined_again() -> None:
    (libraries,) = (setting for setting in process_settings() if setting.name == "torch.library definitions")
    torch.library.define("these_tests::once", "(Tensor x) -> Tensor")
    libraries.write(libraries.read()[:-1])
    torch.library.define("these_tests::once", "(Tensor x) -> Tensor")  # raises if the first definition still exists
    libraries.write(libraries.read()[:-1])


def test_reading_settings_changes_nothing() -> None:
    assert all(same(setting.read(), value) for setting, value in read().values())
