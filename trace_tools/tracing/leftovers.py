"""What a lecture leaves behind in its process, put back before it runs again there.

    before = Leftovers.read(Path("course"))
    module.main()
    left = before.restore()
    left.restored   # ["default dtype", "environment", "math.pi"]: what had to be put back
    left.stuck      # ["threads between operators: …"]: what could not be, so that no run here is as in a new process

Settings are a table (`process_settings`), what was bound in modules and classes is compared (`patches`). Nothing here
ends a run: what can't be read or put back, and what is still running, is said.
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

from trace_tools import accelerators
from trace_tools.describing.threads import began_apart
from trace_tools.late_imports import OnceImported
from trace_tools.tracing.patches import LecturesOwn, Names
from trace_tools.tracing.process_settings import ProcessSetting, process_settings

PLAIN = (bool, int, float, complex, str, bytes, type(None))
TERMINATED_S = 10.0  # what a process may take to end once it is told to


@dataclass(frozen=True, slots=True)
class Left:
    """What was put back, and what could not be: each with its name, the latter with the reason."""

    restored: list[str]
    stuck: list[str]


@dataclass(frozen=True, slots=True)
class Leftovers:
    """The state of a process at one moment."""

    values: list[tuple[ProcessSetting, Any]]
    names: Names
    unread: list[str]  # settings that could not be read, and why

    @classmethod
    def read(cls, folder: Path) -> Leftovers:
        """Read the state before a lecture of this folder runs."""
        values, unread = [], []
        for setting in process_settings():
            try:
                values.append((setting, setting.read()))
            except AttributeError:  # this version has no such thing
                continue
            except Exception as error:
                unread.append(f"{setting.name} can't be read: {_in_a_line(error)}")
        return cls(values, Names.read(folder), unread)

    def restore(self) -> Left:
        """Put back what differs.

        What is bound in modules comes first, so that what reads and writes the settings is what it was. The lecture's
        objects go when nothing holds them any more, and take with them what is theirs: operators, loaders, files.
        """
        own = self.names.lectures_own()
        stuck = _still_running(own)
        restored, unknown = self.names.restore(own)
        stuck += unknown
        for setting, before in self.values:
            try:
                if _put_back(setting, before, own):
                    restored.append(setting.name)
            except Exception as error:
                stuck.append(f"{setting.name} can't be put back: {_in_a_line(error)}")
        del own
        gc.collect()
        _begin_anew()
        return Left(restored, stuck)


def _put_back(setting: ProcessSetting, before: Any, own: LecturesOwn) -> bool:
    """Put one setting back; return whether it was another. Raises whatever writing it raises, or reading it then."""
    try:
        now = setting.read()
    except Exception:  # what the lecture set may be what can't be read; else this is raised again below
        value = before
    else:
        value = _with_others(setting, now, before, own)
        if same(now, value):
            return False
    setting.write(value)
    if not same(setting.read(), value):
        raise RuntimeError("it stays as it is")
    return True


def _with_others(setting: ProcessSetting, now: Any, before: Any, own: LecturesOwn) -> Any:
    """Return what is to be put back: what was there, and in a registry what libraries have entered since."""
    if setting.is_lectures is None:
        return before
    if isinstance(before, dict):
        others = {name: entry for name, entry in now.items() if not setting.is_lectures(own, (name, entry))}
        return {**before, **others}
    known = set(map(id, before))
    return [*before, *(entry for entry in now if id(entry) not in known and not setting.is_lectures(own, entry))]


def _still_running(own: LecturesOwn) -> list[str]:
    """Say which of the lecture's threads and processes go on, though its run has waited for them (see `ending`)."""
    said = [f"a thread is still at line {line} of the lecture" for line in _lines_of_threads(own)]
    multiprocessing = sys.modules.get("multiprocessing")
    for process in multiprocessing.active_children() if multiprocessing else ():
        if process.daemon:  # Python ends it, too
            process.terminate()
            process.join(TERMINATED_S)
        if process.is_alive():
            said.append(f"{process.name} is still running")
    return said


def _lines_of_threads(own: LecturesOwn) -> list[int]:
    """Return the lines where other threads are in the lecture's code."""
    spaces = [vars(module) for module in own.modules.values()]
    here, lines = threading.get_ident(), []
    for ident, frame in _current_frames().items():
        at: FrameType | None = frame if ident != here and not began_apart(frame) else None
        while at is not None and not any(at.f_globals is space for space in spaces):
            at = at.f_back
        if at is not None:
            lines.append(at.f_lineno)
    return lines


def _begin_anew() -> None:
    """Let what counts since the process began do so again: what was warned of once, and the device's allocator."""
    warnings._filters_mutated()  # type: ignore[attr-defined]
    vars(warnings)["onceregistry"].clear()
    if (gpu := accelerators.in_use()) is not None:
        gpu.reset_peaks()


def _in_a_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


def same(a: object, b: object) -> bool:
    """Return whether two values are alike, down to objects that only are themselves; runs no code of a lecture."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        left, right = ({key if type(key) in PLAIN else id(key): it[key] for key in it} for it in (a, b))
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return type(a) in PLAIN and a == b


def seed_everything(seed: int) -> None:
    """Seed Python's, NumPy's and torch's generators, the devices' own among them, where their libraries are loaded."""
    random.seed(seed)
    for name, seeds in _SEEDS.items():
        if name.partition(".")[0] in sys.modules:
            seeds(seed)


def seed_what_comes(seed: int) -> None:
    """Seed also what is loaded from now on, right when it is: a lecture that imports NumPy draws what others draw."""
    for name, seeds in _SEEDS.items():
        if name not in sys.modules:
            OnceImported(name, partial(seeds, seed)).begin()


_SEEDS: dict[str, Callable[[int], object]] = {
    "numpy.random": lambda seed: import_module("numpy.random").seed(seed % 2**32),
    "torch": lambda seed: import_module("torch").manual_seed(seed),
}
