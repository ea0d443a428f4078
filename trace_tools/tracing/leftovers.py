"""What a lecture leaves behind in its process, put back before it runs again there.

    before = Leftovers.read(Path("course"))
    module.main()
    left = before.restore()
    left.restored   # ["default dtype", "environment", "math.pi"]: what had to be put back
    left.stuck      # ["threads between operators: …"]: what could not be, so that no run here is as in a new process

Settings are a table (`process_settings`), what was bound in modules and classes is compared (`patches`), and what is
still running is waited for as Python waits for it at its end. Nothing here ends a run: what can't be read or put back
is said.
"""

from __future__ import annotations

import gc
import random
import sys
import threading
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from sys import _current_frames
from types import FrameType
from typing import Any

from trace_tools.describing.gate import began_here
from trace_tools.tracing.patches import LecturesOwn, Names
from trace_tools.tracing.process_settings import ProcessSetting, process_settings

PLAIN = (bool, int, float, complex, str, bytes, type(None))
WAIT_S = 10.0  # for threads and processes that the lecture left running


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
            value = before
            try:
                now = setting.read()
                value = _with_others(setting, now, before, own)
                if same(now, value):
                    continue
            except Exception:  # what the lecture set may be what can't be read: it is put back
                pass
            try:
                setting.write(value)
                if not same(setting.read(), value):
                    raise RuntimeError("it stays as it is")
                restored.append(setting.name)
            except Exception as error:
                stuck.append(f"{setting.name} can't be put back: {_in_a_line(error)}")
        del own
        gc.collect()
        _begin_anew()
        return Left(restored, stuck)


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
    """Wait for the threads in which the lecture's code runs and for its processes, as Python does at its end.

    Return in words which of them go on. Threads of a pool that wait for work are none of the lecture's code.
    """
    deadline = time.monotonic() + WAIT_S
    while (running := _threads(own)) and time.monotonic() < deadline:
        if all(thread is None or thread.daemon for thread, _ in running):
            break  # Python waits for no such thread
        time.sleep(0.01)
    said = [f"a thread is still at line {line} of the lecture" for _, line in running]
    multiprocessing = sys.modules.get("multiprocessing")
    for process in multiprocessing.active_children() if multiprocessing else ():
        if process.daemon:
            process.terminate()
        process.join(max(0.0, deadline - time.monotonic()))
        if process.is_alive():
            said.append(f"{process.name} is still running")
    return said


def _threads(own: LecturesOwn) -> list[tuple[threading.Thread | None, int]]:
    """Return the threads that are in the lecture's code, each with the line where it is."""
    spaces = [vars(module) for module in own.modules.values()]
    known, here, found = {thread.ident: thread for thread in threading.enumerate()}, threading.get_ident(), []
    for ident, frame in _current_frames().items():
        at: FrameType | None = frame if ident != here and not began_here(frame) else None
        while at is not None and not any(at.f_globals is space for space in spaces):
            at = at.f_back
        if at is not None:
            found.append((known.get(ident), at.f_lineno))
    return found


def _begin_anew() -> None:
    """Let what counts since the process began do so again: what was warned of once, and the device's allocator."""
    warnings._filters_mutated()  # type: ignore[attr-defined]
    vars(warnings)["onceregistry"].clear()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.reset_accumulated_memory_stats()


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
    """Seed Python's, NumPy's and torch's generators, the devices' own among them."""
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)
