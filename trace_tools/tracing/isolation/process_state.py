"""Restore the state of the process after a lecture, before the lecture runs there again.

    before = ProcessState.read(Path("course"))
    module.main()
    result = before.restore()
    result.restored   # ["default dtype", "environment", "math.pi"]: state that was restored
    result.stuck      # ["threads between operators: …"]: not restored, so later runs differ from a new process

Settings come from a table (`process_settings`); bindings in modules and classes are compared (`patches`). This module
never ends a run: it reports state that cannot be read or restored, and threads and processes that still run.
"""

from __future__ import annotations

import gc
import random
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from sys import _current_frames
from types import FrameType
from typing import Any

from trace_tools.describing.threads import began_apart
from trace_tools.machines import accelerators
from trace_tools.tracing.isolation.patches import LecturesOwn, Names
from trace_tools.tracing.isolation.process_settings import ProcessSetting, process_settings
from trace_tools.util.interpreter import OnceImported

PLAIN = (bool, int, float, complex, str, bytes, type(None))
TERMINATED_S = 10.0  # time that a terminated process may take to end


@dataclass(frozen=True, slots=True)
class Restoration:
    """Names of the restored state, and names and reasons of state that could not be restored."""

    restored: list[str]
    stuck: list[str]


@dataclass(frozen=True, slots=True)
class ProcessState:
    """The state of a process at one moment."""

    values: list[tuple[ProcessSetting, Any]]
    names: Names
    unread: list[str]  # unreadable settings, with reasons

    @classmethod
    def read(cls, folder: Path) -> ProcessState:
        """Read the state before a lecture in this folder runs."""
        values, unread = [], []
        for setting in process_settings():
            try:
                values.append((setting, setting.read()))
            except AttributeError:  # unsupported in this version
                continue
            except Exception as error:
                unread.append(f"{setting.name} can't be read: {_in_a_line(error)}")
        return cls(values, Names.read(folder), unread)

    def restore(self) -> Restoration:
        """Restore everything that differs.

        Bindings in modules come first, so that the functions that read and write the settings are the original ones.
        Objects of the lecture are freed once they are unreferenced, and with them their operators, loaders and files.
        """
        own = self.names.lectures_own()
        stuck = _still_running(own)
        restored, not_restored = self.names.restore(own)
        stuck += not_restored
        for setting, before in self.values:
            try:
                if _put_back(setting, before, own):
                    restored.append(setting.name)
            except Exception as error:
                stuck.append(f"{setting.name} can't be restored: {_in_a_line(error)}")
        del own
        gc.collect()
        # State that accumulates over the life of the process: warnings shown once, and the devices' allocators.
        warnings._filters_mutated()  # type: ignore[attr-defined]
        vars(warnings)["onceregistry"].clear()
        if (gpu := accelerators.in_use()) is not None:
            gpu.empty_cache()  # a small tensor placed in an odd cached block would count as larger
            gpu.reset_peaks()
        return Restoration(restored, stuck)


def _put_back(setting: ProcessSetting, before: Any, own: LecturesOwn) -> bool:
    """Restore one setting; return whether it had changed. Raises any error of writing it, or of reading it
    afterwards.
    """
    try:
        now = setting.read()
    except Exception:  # the lecture may have set an unreadable value; other errors are raised again below
        value = before
    else:
        value = before
        is_lectures = setting.is_lectures
        if is_lectures is not None and isinstance(before, dict):  # entries that libraries have added since stay
            value = {**before, **{name: entry for name, entry in now.items() if not is_lectures(own, (name, entry))}}
        elif is_lectures is not None:
            ids = set(map(id, before))
            value = [*before, *(entry for entry in now if id(entry) not in ids and not is_lectures(own, entry))]
        if same(now, value):
            return False
    setting.write(value)
    if not same(setting.read(), value):
        raise RuntimeError("the value could not be restored")
    return True


def _still_running(own: LecturesOwn) -> list[str]:
    """Describe the lecture's threads and processes that still run although its run has waited for them (see
    `ending`).
    """
    running = []
    namespaces = [vars(module) for module in own.modules.values()]
    current = threading.get_ident()
    for ident, innermost in _current_frames().items():
        frame: FrameType | None = innermost if ident != current and not began_apart(innermost) else None
        while frame is not None and not any(frame.f_globals is namespace for namespace in namespaces):
            frame = frame.f_back
        if frame is not None:
            running.append(f"a thread is still running line {frame.f_lineno} of the lecture")
    multiprocessing = sys.modules.get("multiprocessing")
    for process in multiprocessing.active_children() if multiprocessing else ():
        if process.daemon:  # Python would also end it
            process.terminate()
            process.join(TERMINATED_S)
        if process.is_alive():
            running.append(f"{process.name} is still running")
    return running


def _in_a_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


def same(a: object, b: object) -> bool:
    """Return whether two values are equal, comparing other objects by identity; runs no code of a lecture."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        of_a, of_b = ({key if type(key) in PLAIN else id(key): d[key] for key in d} for d in (a, b))
        return of_a.keys() == of_b.keys() and all(same(of_a[key], of_b[key]) for key in of_a)
    return type(a) in PLAIN and a == b


def seed_everything(seed: int) -> None:
    """Seed the generators of Python, NumPy and torch (including devices), for libraries that are loaded."""
    random.seed(seed)
    for name, seeds in _SEEDS.items():
        if name.partition(".")[0] in sys.modules:
            seeds(seed)


def seed_what_comes(seed: int) -> None:
    """Seed libraries at their import, if they are not yet loaded, so that a lecture that imports NumPy later gets the
    same numbers as others.
    """
    for name, seeds in _SEEDS.items():
        if name not in sys.modules:
            OnceImported(name, partial(seeds, seed)).begin()


_SEEDS: dict[str, Callable[[int], object]] = {
    "numpy.random": lambda seed: import_module("numpy.random").seed(seed % 2**32),
    "torch": lambda seed: import_module("torch").manual_seed(seed),
}
