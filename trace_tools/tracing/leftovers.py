"""What a lecture leaves behind in its process, put back before it runs again there.

before = Leftovers.read()
module.main()
before.restore()  # ["default dtype", "environment"]: what had to be put back
"""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ProcessSetting:
    """One piece of process-wide state: how to read it and how to put it back."""

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class Leftovers:
    """The state of a process at one moment."""

    values: list[tuple[ProcessSetting, Any]]

    @classmethod
    def read(cls) -> Leftovers:
        return cls([(setting, setting.read()) for setting in (*_python_settings(), *_torch_settings())])

    def restore(self) -> list[str]:
        """Put back what differs; return the names of it."""
        changed = []
        for setting, value in self.values:
            if setting.read() != value:
                setting.write(value)
                changed.append(setting.name)
        return changed


def seed_everything(seed: int) -> None:
    """Seed Python's, NumPy's and torch's generators, the devices' own among them."""
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


def working_directory() -> str:
    """Return the working directory; "" when it no longer exists."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def _python_settings() -> list[ProcessSetting]:
    return [
        ProcessSetting("working directory", working_directory, os.chdir),
        ProcessSetting("environment", lambda: dict(os.environ), _set_environment),
        ProcessSetting("warning filters", lambda: list(warnings.filters), _set_warning_filters),
        ProcessSetting("sys.path", lambda: list(sys.path), lambda path: sys.path.__setitem__(slice(None), path)),
        ProcessSetting("sys.argv", lambda: list(sys.argv), lambda argv: sys.argv.__setitem__(slice(None), argv)),
        ProcessSetting("sys.stdout", lambda: sys.stdout, lambda stream: setattr(sys, "stdout", stream)),
        ProcessSetting("sys.stderr", lambda: sys.stderr, lambda stream: setattr(sys, "stderr", stream)),
        ProcessSetting("recursion limit", sys.getrecursionlimit, sys.setrecursionlimit),
        ProcessSetting("garbage collector", gc.isenabled, lambda on: gc.enable() if on else gc.disable()),
        ProcessSetting("trace function", sys.gettrace, sys.settrace),
        ProcessSetting("profile function", sys.getprofile, sys.setprofile),
        *(_signal_setting(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)),
    ]


def _signal_setting(number: signal.Signals) -> ProcessSetting:
    return ProcessSetting(
        f"{number.name} handler", lambda: signal.getsignal(number), lambda handler: _set_signal(number, handler)
    )


def _set_signal(number: signal.Signals, handler: Any) -> None:
    signal.signal(number, handler)


def _torch_settings() -> list[ProcessSetting]:
    if "torch" not in sys.modules:
        return []
    import torch

    return [
        ProcessSetting("default dtype", torch.get_default_dtype, torch.set_default_dtype),
        ProcessSetting("default device", torch.get_default_device, _set_default_device),
        ProcessSetting("grad mode", torch.is_grad_enabled, torch._C._set_grad_enabled),
        ProcessSetting("threads", torch.get_num_threads, torch.set_num_threads),
        ProcessSetting(
            "float32 matmul precision", torch.get_float32_matmul_precision, torch.set_float32_matmul_precision
        ),
        ProcessSetting("deterministic algorithms", _deterministic, _set_deterministic),
        ProcessSetting("print options", _print_options, _set_print_options),
        ProcessSetting("anomaly detection", torch.is_anomaly_enabled, _set_anomaly_detection),
        *(_flag_setting(backend, flag) for backend, flag in _backend_flags()),
        *(_hooks_setting(name) for name in sorted(vars(torch.nn.modules.module)) if name.startswith("_global_")),
    ]


def _backend_flags() -> list[tuple[Any, str]]:
    import torch

    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    flags = [(cudnn, "benchmark"), (cudnn, "deterministic"), (cudnn, "enabled"), (matmul, "allow_tf32")]
    return [(backend, flag) for backend, flag in flags if hasattr(backend, flag)]


def _flag_setting(backend: Any, flag: str) -> ProcessSetting:
    return ProcessSetting(f"backend flag {flag}", lambda: getattr(backend, flag), lambda on: setattr(backend, flag, on))


def _hooks_setting(name: str) -> ProcessSetting:
    """A table of hooks that run on every module; other globals of that name are compared, too."""
    import torch

    module = vars(torch.nn.modules.module)

    def read() -> Any:
        return dict(module[name]) if isinstance(module[name], dict) else module[name]

    def write(value: Any) -> None:
        if isinstance(value, dict):
            module[name].clear()
            module[name].update(value)
        else:
            module[name] = value

    return ProcessSetting(f"module hooks ({name.removeprefix('_global_')})", read, write)


def _deterministic() -> tuple[bool, bool]:
    import torch

    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _set_deterministic(value: tuple[bool, bool]) -> None:
    import torch

    torch.use_deterministic_algorithms(value[0], warn_only=value[1])


def _print_options() -> dict[str, Any]:
    import torch

    return dict(vars(torch._tensor_str.PRINT_OPTS))


def _set_print_options(options: dict[str, Any]) -> None:
    import torch

    vars(torch._tensor_str.PRINT_OPTS).update(options)


def _set_anomaly_detection(enabled: bool) -> None:
    import torch

    torch.autograd.set_detect_anomaly(enabled)


def _set_default_device(device: Any) -> None:
    import torch

    torch.set_default_device(None if str(device) == "cpu" else device)


def _set_environment(environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)


def _set_warning_filters(filters: list[Any]) -> None:
    warnings.filters[:] = filters  # type: ignore[index]
    warnings._filters_mutated()  # type: ignore[attr-defined]
