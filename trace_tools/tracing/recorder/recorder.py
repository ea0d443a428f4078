"""Record one run of an instrumented lecture: open its calls, find whom a stack works for, and write the journal."""

from __future__ import annotations

import builtins
import copy
import functools
import itertools
import sys
import threading
import weakref
from _thread import get_ident
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from sys import _current_frames, _getframe
from time import perf_counter
from types import CodeType, FrameType
from typing import Any

from trace_tools.describing.safe_repr import class_name
from trace_tools.describing.threads import start_apart, unsignalled
from trace_tools.machines.accelerators import Accelerator
from trace_tools.tracing.instrument import (
    BUILTINS,
    IS_COMPILING,
    OPEN,
    SHOWN,
    SKIPPED,
    TIMED,
    UNSET,
    Instrumented,
    is_generated,
)
from trace_tools.tracing.isolation.output_capture import OutputFile
from trace_tools.tracing.journal import Journal
from trace_tools.tracing.recorder.call import (
    LASTING_S,
    OPAQUE,
    PRINTED_S,
    UNSET_SIDE,
    Call,
    Join,
    MeteredCall,
    Skipped,
    nearest_recorded,
)
from trace_tools.tracing.recorder.claims import FailingClaims
from trace_tools.tracing.recorder.clock import RecordingClock
from trace_tools.tracing.recorder.limits import CALLS, LINES, Limits, Lines

FLUSH_S = 0.02  # a certain line is in the journal after this time


class Recorder:
    """Recorder of one run."""

    def __init__(
        self,
        program: Instrumented,
        journal: Journal,
        describer: Any,  # `describing.values.Describer`
        gpu: Accelerator | None = None,  # that the lecture may use
        meter: Any = None,  # `metering.meters.Meter`, in the counted run
        *,
        section: Callable[[str], None] | None = None,  # called with the name of each function that main calls
        output: OutputFile | None = None,  # descriptor 1, for output that bypasses Python
        records_graph: Callable[[], bool] = bool,  # whether torch records a graph now: then observing is forbidden
        limit: int = 100,
        frames: int = CALLS,
        steps: int = LINES,
        failing_claims_raise: bool = True,  # if False, only claims that the lecture visibly catches raise
        opaque: frozenset[CodeType] = frozenset(),  # calls under these functions are not recorded
        included: frozenset[str] = frozenset(),  # names of modules that are traced with the lecture
    ) -> None:
        self.program = program
        self.journal = journal
        self.describer = describer
        self.meter = meter
        self.section = section
        self.output = output
        self.records_graph = records_graph
        self.opaque = opaque
        self.included = included
        self.clock = RecordingClock(gpu, self._report_device_failure)
        self.limits = Limits(journal, limit, frames, steps)
        self.failing_claims_raise = failing_claims_raise
        self.failing = FailingClaims()
        self.has_grown: Callable[[], bool] = output.grown if output else bool
        self.pending = Lines()  # certain lines that are not yet written
        self.calls: dict[int, Call | Skipped] = {}  # running calls, by id of the Python frame
        self.sequence = itertools.count().__next__
        self.frame_ids = itertools.count().__next__
        self.last: Call | None = None  # the last call without a caller
        self.namespace: dict[str, Any] | None = None  # namespace of the lecture's module in this run
        self.started_by: dict[int, tuple[Any, Call | Skipped]] = {}  # by id of a thread: it, and what started it
        self.due = 0.0  # when a probe should flush
        self.timed: list[None] = []  # one entry for each loop that is being timed, in any thread
        self._writing = threading.Lock()
        self._over = False  # later lines, such as a dying generator's, belong to no run

    def __reduce__(self) -> tuple[Any, ...]:
        """dill sends built-in names with a function (`recurse=True`): elsewhere it runs as written."""
        return _NoRecorder, ()

    # ------------------------------------------------------------------------------ calls

    def open(self, number: int) -> Call | Skipped | None:
        """Open the call of the function that calls this; return None if its body should run as written."""
        if self.records_graph():
            if (owner := self.owner(_getframe(1))) is not None:
                owner.in_graph()  # marks the open steps as not fully observed
            return None
        now = perf_counter()
        python_frame = _getframe(1)
        key, caller, names = id(python_frame), python_frame.f_back, python_frame.f_globals
        if number in self.program.cells:
            caller = python_frame
        if self.namespace is not None and names is not self.namespace and not self._is_included(names):
            return None  # from the previous run, such as a leftover thread, or a copy that was sent by value
        parent = self.calls.get(id(caller))
        if parent is None or caller is None or parent.code is not caller.f_code:
            parent = self.owner(caller)
        call: Call | Skipped | None = None
        if parent is None or isinstance(parent, Call):
            if parent is not None and now - self.clock.lost - parent.started > PRINTED_S and self.has_grown():
                parent._take_output()
            is_covered = parent is not None and (parent.covered or parent.ended is not None or parent.current is None)
            if not is_covered and number not in self.program.covered:
                call = self._recorded(key, number, parent)
        if call is None:
            call = Skipped(self, key, parent)
        call.code = python_frame.f_code
        gone = self.calls.get(key)
        if gone is not None and gone is not parent:  # address reused: a generator died that ignores GeneratorExit
            gone.leave_open()
        self.calls[key] = call
        self.clock.lost += perf_counter() - now
        return call

    def _recorded(self, key: int, number: int, parent: Call | None) -> Call | None:
        """Return a recorded call, or None if the limits leave it out. Sections and their callers are never left out."""
        function, source = self.program.functions[number], self.program.source_of(number)
        is_section = parent is None or parent.is_main or (function == self.program.main and not source)
        into = self.pending if parent is None else parent.lines(announce=False)
        if not self.limits.admits(function, into, is_section=is_section):
            return None
        if is_section and self.limits.calls[function] == 1:  # the first call, because a loop may make a thousand
            self.due = 0.0  # the next probe writes what came before it: the section may soon end the process
        if parent is not None and parent.is_main and self.section:
            self.section(function)
        metered = self.meter is not None and (parent is None or isinstance(parent, MeteredCall))
        return (MeteredCall if metered else Call)(self, key, function, source, parent)

    def _is_included(self, names: dict[str, Any]) -> bool:
        """Return whether these are the globals of a module that is traced with the lecture, as loaded in this run."""
        module = sys.modules.get(names.get("__name__", "")) if self.namespace else None
        return module is not None and module.__name__ in self.included and vars(module) is names

    def owner(self, python_frame: FrameType | None) -> Call | Skipped | None:
        """Return the nearest traced call on the stack, or the call that started this thread.

        The Python stack is walked, so generators, coroutines, threads, exceptions and callbacks from C++ need no stack
        of ours.
        """
        owner = self._nearest(python_frame)
        if owner is not None or threading.get_ident() == threading.main_thread().ident:
            return owner
        if get_ident() in self.describer.guard.observing:  # such as a thread running a `__repr__`
            return Skipped(self, 0, None)
        thread = threading._active.get(get_ident())  # type: ignore[attr-defined]
        if id(thread) in self.started_by:
            return self.started_by[id(thread)][1]
        # A C++ thread usually works for the main thread, such as autograd's thread for a device.
        return self._nearest(_current_frames().get(threading.main_thread().ident or 0))

    def _nearest(self, python_frame: FrameType | None) -> Call | Skipped | None:
        dropped = False
        while python_frame is not None:
            call = self.calls.get(id(python_frame))
            if call is not None and call.code is python_frame.f_code:  # else the address was another frame's
                return Skipped(self, OPAQUE, call) if dropped else call
            dropped = dropped or python_frame.f_code in self.opaque
            python_frame = python_frame.f_back
        return None

    def recorded_owner(self, python_frame: FrameType) -> Call | None:
        """Return the recorded call that a stack works for."""
        return nearest_recorded(self.owner(python_frame))

    def starts(self, thread: threading.Thread, python_frame: FrameType) -> None:
        """Note which step starts a thread, by id, because a lecture's class of threads may lack a hash.

        The thread belongs to that step for ever, so it gets a copy of the call as it is now.
        """
        owner = self.owner(python_frame)
        if owner is None:
            return
        if isinstance(owner, Call):
            owner.lines()
        starter = copy.copy(owner)
        if isinstance(starter, Call):
            starter.late, starter.emitted, starter.fields, starter.ring = True, None, None, None
        forget = functools.partial(self.started_by.pop, id(thread))
        self.started_by[id(thread)] = weakref.ref(thread, lambda _: forget(None)), starter

    @contextmanager
    def as_written(self) -> Iterator[None]:
        """Run the lecture's functions as written in the `with` block, because they are timed."""
        self.timed.append(None)
        try:
            yield
        finally:
            self.timed.pop()

    # ------------------------------------------------------------------------------ what happens during a step

    def emit(self, kind: str, content: Any, joined: Join | None = None) -> None:
        """Record something in the step that is open at the caller (`Call.emit`)."""
        if kind != "measured" and get_ident() in self.describer.guard.observing:
            return  # printed by a `__repr__` that the lecture itself does not call
        now = perf_counter()
        owner = self.recorded_owner(_getframe(1))
        while owner is not None and owner.seq < 0:  # its first step has not begun
            owner = nearest_recorded(owner.parent)
        if owner is not None:
            owner.emit(kind, content, joined)
        self.clock.lost += perf_counter() - now

    def printed(self, text: str) -> None:
        """Record Python's output, after any earlier output that bypassed Python."""
        if self.has_grown() and (earlier := self.take_output()):
            self.emit("stdout", earlier)
        self.emit("stdout", text)

    def take_output(self) -> str:
        """Return the output that bypassed Python since the last call."""
        return self.output.take() if self.output else ""

    def finish_output(self) -> None:
        """Record the remaining output that bypassed Python, in the last step."""
        if self.output is not None and (text := self.output.finish()) and self.last is not None:
            self._emit_late(self.last, text)

    def running(self) -> list[Call]:
        """Return the recorded calls of the main thread whose statements are running, callers first.

        They are not found by their frames, because a reference to a frame could keep the lecture's tensors alive.
        """
        main, places = threading.main_thread().ident, self.program.places
        calls = [
            call
            for call in list(self.calls.values())
            if isinstance(call, Call) and call.thread == main and (current := call.current) is not None
            if not places[current][3]  # else it may be a suspended generator's
        ]
        return sorted(calls, key=lambda call: call.seq)

    def line(self, path: str) -> int | None:
        """Return the line of a file that is running, of those that are recorded."""
        statements = [call.current for call in self.running() if call.code and call.code.co_filename == path]
        return next((self.program.places[n][1] for n in reversed(statements) if n is not None), None)

    def _write_lasting(self) -> None:
        """Announce a long statement of the main thread, and record output that bypasses Python in it, from the watching
        thread.
        """
        call = next(reversed(self.running()), None)
        if call is None or perf_counter() - self.clock.lost - call.started < LASTING_S:
            return
        step = copy.copy(call)
        lasts = perf_counter() - self.clock.lost - step.started > LASTING_S  # not between two statements
        if not lasts or step.ring is not None or step.ended is not None or step.current is None or step.here is None:
            return
        if step.announced != step.seq:
            call.announced = step.seq
            self.limits.put(step._line(step.current, step.seq, step.n, None, None), step.here)
        if self.has_grown() and (text := self.take_output()):
            self._emit_late(step, text)

    @staticmethod
    def _emit_late(call: Call, text: str) -> None:
        call = copy.copy(call)
        call.late, call.fields, call.emitted, call.ring = True, None, None, None
        if call.here is None:
            call.here = call.out
        call.emit("stdout", text)
        if call.emitted is not None:
            call._settle(call.emitted)

    def mark(self, field: str) -> None:
        """Mark every step open on this stack."""
        if (owner := self.owner(_getframe(1))) is not None:
            owner.mark(field)

    def _report_device_failure(self, error: RuntimeError) -> str:
        """Warn at the open step that the device has failed; return the failure in words."""
        frame: FrameType | None = _getframe(1)
        while frame is not None and getattr(self.calls.get(id(frame)), "code", None) is not frame.f_code:
            frame = frame.f_back
        message = f"{class_name(type(error))}: {error}".partition("\n")[0]
        waited_at = self.clock.waited_at
        since = "" if waited_at is None else f", in work launched after line {waited_at}"
        self.emit("warnings", f"DeviceFailed: {message}{since}; later times use the host's clock only")
        return "the device failed" if frame is None else f"the device failed at line {frame.f_lineno}"

    # ------------------------------------------------------------------------------ the journal

    def write_open(self, wait_s: float) -> None:
        """Write what is certain, with the open steps, because the process may end now."""
        for call in list(self.calls.values()):
            if isinstance(call, Call) and call.current is not None:
                call.lines()
        self.flush(wait_s=wait_s)

    def flush(self, *, wait_s: float = 0) -> None:
        """Write certain lines; if another thread is writing, wait for it at most `wait_s` (-1: without limit)."""
        with unsignalled():  # a signal handler may raise, and the lines would be written in part
            if not self._writing.acquire(timeout=wait_s):
                return
            try:
                if not self._over:
                    self.due = perf_counter() + FLUSH_S
                    lines = self.pending[:]
                    del self.pending[: len(lines)]  # the same list, because calls hold it
                    self.journal.write(lines)
            finally:
                self._writing.release()

    def forget(self) -> None:
        """Continue in the child of a fork, and discard its records."""
        self.journal.forget()
        self._writing = threading.Lock()  # the old lock may be held by a thread of the parent
        self.has_grown = bool

    @contextmanager
    def watching(self, alive: Callable[[], None]) -> Iterator[None]:
        """Flush during long statements and call `alive` periodically, from a separate thread."""
        done, ended = threading.Event(), threading.Event()

        def watch() -> None:
            while not done.wait(FLUSH_S):
                self._write_lasting()
                if perf_counter() > self.due:
                    self.flush()
                alive()
            ended.set()

        start_apart(watch)  # not `threading`: the lecture's list of threads stays unchanged
        try:
            yield
        finally:
            done.set()
            ended.wait(1)  # a limit, because a forked process has no watching thread
            for call in list(self.calls.values()):
                call.leave_open()
            for _, starter in list(self.started_by.values()):
                if isinstance(starter, Call) and starter.emitted is not None:
                    starter._settle(starter.emitted)
            self.flush(wait_s=-1)
            with self._writing:
                self._over = True


class _NoRecorder:
    """What `Recorder.open` needs to return None."""

    def records_graph(self) -> bool:
        return True

    def owner(self, python_frame: FrameType) -> None:
        return None


def hooks(recorder: Recorder, is_compiling: Callable[[], bool] = lambda: False) -> dict[str, Any]:
    """Return the functions that generated code calls, by name; the lecture's module finds them among the built-ins."""
    return {
        OPEN: recorder.open,
        IS_COMPILING: is_compiling,
        TIMED: recorder.timed,
        UNSET: UNSET_SIDE,
        SKIPPED: lambda *_, **__: None,
        SHOWN: shown,
        BUILTINS: vars(builtins),
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
