"""Record one run of an instrumented lecture: open the frames of its calls, and write what happens to the journal."""

from __future__ import annotations

import sys
import threading
from _thread import get_ident
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from sys import _getframe
from time import perf_counter
from types import FrameType
from typing import Any

from trace_tools.describing.safe_repr import class_name
from trace_tools.describing.threads import start_apart
from trace_tools.tracing.instrument import (
    IN_GRAPH,
    IS_COMPILING,
    OPEN,
    SCOPE,
    SHOWN,
    SKIPPED,
    UNSET,
    Instrumented,
    is_generated,
)
from trace_tools.tracing.journal import Journal
from trace_tools.tracing.recorder.admission import Admission
from trace_tools.tracing.recorder.frames import (
    UNSET_SIDE,
    DroppedFrame,
    MeteredFrame,
    OpenFrame,
    nearest_recorded,
)
from trace_tools.tracing.recorder.journal_writer import FLUSH_S
from trace_tools.tracing.recorder.ownership import Ownership
from trace_tools.tracing.recorder.recording import Frame, Instruments, Recording, Settings
from trace_tools.tracing.recorder.steps import PRINTED_S


class Recorder(Recording):
    """Recorder of one run of an instrumented lecture."""

    def __init__(self, program: Instrumented, journal: Journal, instruments: Instruments, settings: Settings) -> None:
        super().__init__(program, journal, instruments, settings, self._report_device_failure)
        self.ownership = Ownership(self)
        self.admission = Admission(self)
        self.namespace: dict[str, Any] | None = None  # namespace of the lecture's module in this run

    def open(self, number: int) -> Frame:
        """Open the frame of the function call that calls this."""
        now = perf_counter()
        python_frame = _getframe(1)
        key, caller = id(python_frame), python_frame.f_back
        names = python_frame.f_globals
        if self.namespace is not None and names is not self.namespace and not self._is_included(names):
            return DroppedFrame(self, key, None)  # from the previous run, such as a leftover thread
        parent = self.frames.get(id(caller))
        if parent is None or caller is None or parent.code is not caller.f_code:
            parent = self.ownership.owner(caller)
        recorded = parent if isinstance(parent, OpenFrame) else None
        if recorded and now - self.clock.lost - recorded.started > PRINTED_S and self.output.has_grown():
            recorded.take_output()
        frame: Frame
        is_covered = recorded is not parent or (recorded and (recorded.current is None or recorded.covered))
        if not is_covered and number not in self.program.covered and self.admission.is_admitted(number, recorded):
            if self.instruments.meter is None or (recorded and not isinstance(recorded, MeteredFrame)):
                frame = OpenFrame(self, key, number, recorded)
            else:
                frame = MeteredFrame(self, key, number, recorded)
        else:
            frame = DroppedFrame(self, key, parent)
        frame.code = python_frame.f_code
        gone = self.frames.get(key)
        if gone is not None:  # address reused: a generator died that ignores GeneratorExit
            gone.leave_open()
        self.frames[key] = frame
        self.clock.lost += perf_counter() - now
        return frame

    def _is_included(self, names: dict[str, Any]) -> bool:
        """Return whether these are the globals of a module that is traced with the lecture, as loaded in this run."""
        module = sys.modules.get(names.get("__name__", "")) if self.namespace else None
        return module is not None and module.__name__ in self.settings.included and vars(module) is names

    def emit(self, field: str, content: Any) -> None:
        """Record an observation in the step that is open at the caller."""
        if field != "measured" and get_ident() in self.instruments.describer.guard.observing:
            return  # printed by a `__repr__` that the lecture itself does not call
        now = perf_counter()
        owner = self.ownership.recorded_owner(_getframe(1))
        while owner is not None and owner.seq < 0:  # its first step has not begun
            owner = nearest_recorded(owner.parent)
        if owner is not None:
            owner.emit(field, content)
        self.clock.lost += perf_counter() - now

    def printed(self, text: str) -> None:
        """Record Python's output, after any earlier output that bypassed Python."""
        if self.output.has_grown() and (earlier := self.output.take()):
            self.emit("stdout", earlier)
        self.emit("stdout", text)

    def _take_output(self) -> None:
        """Record output that bypasses Python during a long statement of the main thread, from the watching thread."""
        if not self.output.has_grown():
            return
        owner = nearest_recorded(self.ownership.of_main_thread())
        while owner is not None and owner.current is None:
            owner = nearest_recorded(owner.parent)
        if owner is not None:
            self.output.take_during(owner.seq)

    def forget(self) -> None:
        """Continue in the child of a fork, and discard its records."""
        self.writer.forget()
        self.output.has_grown = bool

    def mark(self, field: str) -> None:
        """Mark every step open on this stack, once."""
        owner = self.ownership.owner(_getframe(1))
        if owner is not None:
            owner.mark(field)

    def in_graph(self) -> bool:
        """Return whether torch is recording a graph; if so, mark the open steps as not fully observed."""
        if not self.instruments.records_graph():
            return False
        owner = self.ownership.owner(_getframe(1))
        return owner is None or owner.in_graph()

    def _report_device_failure(self, error: RuntimeError) -> str:
        """Warn at the open step that the device has failed; return the failure in words."""
        frame: FrameType | None = _getframe(1)
        while frame is not None and getattr(self.frames.get(id(frame)), "code", None) is not frame.f_code:
            frame = frame.f_back
        message = f"{class_name(type(error))}: {error}".partition("\n")[0]
        waited_at = self.clock.waited_at
        since = "" if waited_at is None else f", in work launched after line {waited_at}"
        self.emit("warnings", f"DeviceFailed: {message}{since}; later times use the host's clock only")
        return "the device failed" if frame is None else f"the device failed at line {frame.f_lineno}"

    @contextmanager
    def watching(self, alive: Callable[[], None]) -> Iterator[None]:
        """Flush during long statements and call `alive` periodically, from a separate thread."""
        done, ended = threading.Event(), threading.Event()

        def watch() -> None:
            while not done.wait(FLUSH_S):
                self._take_output()
                if perf_counter() > self.writer.due:
                    self.writer.flush()
                alive()
            ended.set()

        start_apart(watch)  # not `threading`: the lecture's list of threads stays unchanged
        try:
            yield
        finally:
            done.set()
            ended.wait(1)  # a limit, because a forked process has no watching thread
            for frame in list(self.frames.values()):
                frame.leave_open()
            self.output.settle_all()
            self.writer.finish()


def hooks(recorder: Recorder, is_compiling: Callable[[], bool] = bool) -> dict[str, Any]:
    """Return the functions that generated code calls, by name; the lecture's module finds them among the built-ins."""
    return {
        OPEN: recorder.open,
        IS_COMPILING: is_compiling,
        IN_GRAPH: recorder.in_graph,
        UNSET: UNSET_SIDE,
        SKIPPED: lambda *_, **__: None,
        SHOWN: shown,
        SCOPE: scope,
    }


def shown(names: Any) -> Any:
    """Return the result of `locals()`, `vars()` or `dir()` without the generated names.

    Up to Python 3.12 a frame has one dictionary for all calls of `locals`, so the names are deleted from it.
    """
    if isinstance(names, list):
        return [name for name in names if not is_generated(name)]
    if isinstance(names, dict):
        for name in [name for name in names if is_generated(name)]:
            del names[name]
    return names


def scope(function: Any) -> tuple[Any, ...]:
    """Return the namespaces that `eval(x)` and `exec(x)` take from their caller; () for other functions of that
    name.
    """
    if function is not eval and function is not exec:
        return ()
    caller = _getframe(1)
    return caller.f_globals, shown(dict(caller.f_locals) if sys.version_info >= (3, 13) else caller.f_locals)
