"""Implement the probes of values, claims and exceptions: `OpenFrame`; and of calls that are not recorded.

The generated code holds an `OpenFrame`, one call of a lecture function, in a local variable. It calls `step` before
each statement; `begin`, `end` and then `value` around annotated statements; `held` or `broken` for an assert; `close`
at the end.

In a metered run, a frame also reads the meter at each step boundary, or keeps it off.
"""

from __future__ import annotations

import functools
import gc
import inspect
import threading
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from sys import _getframe, exception
from time import perf_counter
from types import CodeType, FrameType
from typing import Any

from trace_tools.describing.safe_repr import class_name, is_a
from trace_tools.tracing.journal import Argument, Observation, StepError
from trace_tools.tracing.recorder.claims import traceback_of
from trace_tools.tracing.recorder.recording import Frame, Recording
from trace_tools.tracing.recorder.steps import TimedFrame, Token

OPAQUE = 0  # key of the frame that represents an opaque function's frame


class _Unset:
    """Marker for a side of a claim that the comparison did not evaluate."""


UNSET_SIDE = _Unset()


class OpenFrame(TimedFrame):
    """One recorded call of a lecture function, while it runs."""

    parent: OpenFrame | None
    failing: int | None = None  # the step of the claim that is being raised

    @property
    def recorded(self) -> bool:
        """Return whether inspected expressions may be evaluated now."""
        return not self.in_graph()

    def value(self, source: str, unit: str | None, value: object) -> None:
        self.here.append((Observation, self.seq, "values", (source, unit, self._described(value))))

    def value_failed(self, source: str, unit: str | None) -> None:
        self.here.append((Observation, self.seq, "values", (source, unit, self._failed())))

    def argument(self, source: str, unit: str | None, value: object) -> None:
        self.out.append((Argument, self.id, source, unit, self._described(value)))

    def argument_failed(self, source: str, unit: str | None) -> None:
        self.out.append((Argument, self.id, source, unit, self._failed()))

    def _failed(self) -> Any:
        """Return a description of the error that replaces the value of an expression, unless that was Ctrl-C."""
        error = exception()
        assert error is not None
        if is_a(type(error), KeyboardInterrupt):
            raise error
        return self._unseen(self.recorder.instruments.describer.error, error)

    def held(self, statement: int, *sides: object) -> None:
        """Record a claim that held."""
        self.recorder.claims.evaluations.next(statement, measured=False)
        self._claim(statement, "held", sides)

    def broken(self, statement: int, *sides: object) -> bool:
        """Record a claim that did not hold; return whether the assertion should raise."""
        raises = _raises(self, statement, measured=False)
        self.break_claim(statement, sides, raises=raises)
        return raises

    def break_claim(
        self, statement: int, sides: tuple[object, ...], *, raises: bool, from_unrecorded: bool = False
    ) -> None:
        """Record a claim that did not hold in this call, or (`from_unrecorded`) in an unrecorded call under it.

        One step may record any number of claims from unrecorded calls.
        """
        self.recorder.retention.claim_failed = True
        self._claim(statement, "raised" if raises else "passed over", sides, from_unrecorded=from_unrecorded)
        if raises:
            self.failing = self.seq

    def _claim(self, statement: int, how: str, sides: tuple[object, ...], *, from_unrecorded: bool = False) -> None:
        with self.recorder.clock.excluded():
            unseen = self.in_graph()
            described = [None if unseen or side is UNSET_SIDE else self._described(side) for side in sides]
            record = self.emit if from_unrecorded else self.observe
            record("claim", (statement, how, described))

    def _described(self, value: object) -> Any:
        if not self.recorder.settings.describe_values:
            return None
        try:
            plain = self._unseen(self.recorder.instruments.describer.describe, value)
        except RecursionError as error:  # the lecture has filled the stack
            plain = self.recorder.instruments.describer.error(error)
        return self.recorder.retention.value(self.pin(), plain)

    def _unseen(self, describe: Callable[[Any], Any], value: object) -> Any:
        """Describe `value` without recording the lecture's functions that this calls, such as a `__repr__`."""
        covered, self.covered = self.covered, True
        try:
            return describe(value)
        finally:
            self.covered = covered

    def caught(self) -> None:
        """Record the exception that an `except` clause of this frame has just caught."""
        error = exception()
        self._exception(error, _getframe(1))
        self.recorder.claims.step_of(error)

    def survived(self) -> None:
        """Record the exception that ended a section, and free the section's objects so that the next section can
        run.
        """
        error = exception()
        self._exception(error, _getframe(1), survived=True)
        self.recorder.claims.step_of(error)
        clock = self.recorder.clock
        now, gpu = perf_counter(), clock.waitable_gpu()
        # the objects in the frames of the error, and of the errors that it came from
        cleared_ids: set[int] = set()
        while error is not None and id(error) not in cleared_ids:
            cleared_ids.add(id(error))
            traceback.clear_frames(error.__traceback__)
            error = error.__cause__ or error.__context__
        gc.collect()
        if gpu is not None:
            clock.from_device(gpu.empty_cache)
        clock.lost += perf_counter() - now

    def raised(self) -> None:
        """Record the exception that is leaving this frame."""
        error = exception()
        if is_a(type(error), GeneratorExit) or exits_well(error):  # closed generator, or end of the program
            return
        self._exception(error, _getframe(1))
        if id(error) in self.recorder.claims.failing and self._is_outermost(_getframe(1)):
            claim = self.recorder.claims.step_of(error)
            if claim is not None:
                self.pin().append((Observation, claim, "left", True))

    def _is_outermost(self, python_frame: FrameType) -> bool:
        """Return whether this frame is a section, the caller of sections, or the first frame of a thread.

        Frames run by a thread pool or a task do not count: a future passes the error on to the code that requests its
        result.
        """
        if python_frame.f_code.co_flags & inspect.CO_COROUTINE:
            return False
        if self.parent is not None and self.parent.thread != self.thread:
            caller = python_frame.f_back
            return caller is None or caller.f_code.co_filename == threading.__file__
        return self.parent is None or self.parent.parent is None

    def _exception(self, error: BaseException | None, python_frame: FrameType, *, survived: bool = False) -> None:
        clock, now = self.recorder.clock, perf_counter()
        self._stop_timing()
        if error is not None and self.failing is not None and is_a(type(error), AssertionError):
            self.recorder.claims.note_error(error, self.failing)
            self.failing = None
        entry = traceback_of(error) if error is not None else None
        while entry is not None and entry.tb_frame is not python_frame:
            entry = entry.tb_next
        line = origin = entry.tb_lineno if entry else python_frame.f_lineno  # where the error left the frame
        while entry is not None:  # the last line of the lecture in the traceback
            if entry.tb_frame.f_code.co_filename == python_frame.f_code.co_filename:
                origin = entry.tb_lineno
            entry = entry.tb_next
        kind = class_name(type(error))
        described = self._unseen(self.recorder.instruments.describer.error, error)
        text = self.recorder.retention.value(self.pin(), described)["text"].removeprefix(kind).removeprefix(": ")
        raised = {"type": kind, "message": text, "origin_line": origin} | ({"survived": True} if survived else {})
        if clock.gpu is not None and clock.gpu.is_its_error(error):
            raised["waited_line"] = clock.waited_at
            if (gpu := clock.waitable_gpu()) is not None:
                clock.from_device(gpu.wait)  # fails again if the device has failed permanently
        self.pin().append((StepError, self.id, self.seq, line, raised))
        clock.lost += perf_counter() - now


class DroppedFrame(Frame):
    """A call that is not recorded: under @stepover, beyond a limit, or while values are read."""

    __slots__ = ("code", "current", "key", "measured", "parent", "recorder")

    recorded = False

    def __init__(self, recorder: Recording, key: int, parent: Frame | None) -> None:
        self.recorder = recorder
        self.key = key
        self.parent = parent
        self.measured: bool = key == OPAQUE or (isinstance(parent, DroppedFrame) and parent.measured)
        self.code: CodeType | None = None
        self.current: int | None = None

    def step(self, statement: int) -> None:
        self.current = statement

    begin = step

    def enter(self, statement: int) -> int:
        self.current = statement
        return statement

    resume = step

    def end(self) -> None:
        pass

    raised = end

    def caught(self) -> None:
        """Forget that a claim failed in this call, because the lecture caught the error."""
        frame = nearest_recorded(self)
        if frame is not None:
            frame.failing = None

    survived = caught

    def close(self) -> None:
        self.recorder.frames.pop(self.key, None)

    def held(self, statement: int, *sides: object) -> None:
        """Count a claim that held."""
        self.recorder.claims.evaluations.next(statement, measured=self.measured)

    def broken(self, statement: int, *sides: object) -> bool:
        """Record a claim that did not hold in the recorded step above; return whether the assertion should raise."""
        raises, frame = _raises(self, statement, measured=self.measured), nearest_recorded(self)
        if frame is not None:
            frame.break_claim(statement, sides, raises=raises, from_unrecorded=True)
        return raises


def nearest_recorded(frame: Frame | None) -> OpenFrame | None:
    """Return this call if it is recorded, else the nearest recorded caller."""
    while frame is not None and not isinstance(frame, OpenFrame):
        frame = frame.parent
    return frame


def _raises(frame: Frame, statement: int, *, measured: bool) -> bool:
    """Count a failing evaluation of an assert in this frame; return whether it raises."""
    is_caught = functools.partial(_is_caught, frame, statement)
    return frame.recorder.claims.raises(statement, measured=measured, is_caught=is_caught)


def _is_caught(frame: Frame | None, statement: int | None) -> bool:
    """Return whether the lecture will catch an AssertionError of a statement: it, or a calling statement, is inside a
    `try`.
    """
    while frame is not None:
        if statement in frame.recorder.program.catching:
            return True
        caller = frame.parent
        if isinstance(frame, OpenFrame) and isinstance(caller, OpenFrame) and caller.thread != frame.thread:
            return False
        frame, statement = caller, caller.current if caller is not None else None
    return False


def exit_status(error: SystemExit) -> int:
    """Return the exit status that Python uses for this SystemExit."""
    code = error.code
    return 0 if code is None else code & 0xFF if isinstance(code, int) else 1


def exits_well(error: BaseException | None) -> bool:
    """Return whether this error ends the process with status 0, or ends a thread, for which Python uses no status."""
    if not is_a(type(error), SystemExit):
        return False
    in_thread = threading.get_ident() != threading.main_thread().ident
    return in_thread or exit_status(error) == 0  # type: ignore[arg-type]


class MeteredFrame(OpenFrame):
    """A frame of a metered run: reads the meter at each step boundary, and excludes reading and counting from step
    times.
    """

    __slots__ = ("meter", "most", "pause", "peak", "reading")

    def __init__(self, recorder: Recording, key: int, number: int, parent: OpenFrame | None) -> None:
        assert recorder.instruments.meter is not None
        self.meter = recorder.instruments.meter
        self.reading: Any = None
        self.pause: AbstractContextManager[None] | None = None
        self.peak = self.most = 0
        if isinstance(parent, MeteredFrame):
            parent.peak = max(parent.peak, self.meter.take_peak())
        super().__init__(recorder, key, number, parent)

    def step(self, statement: int) -> None:
        self._read()
        super().step(statement)
        self._start()

    def resume(self, token: Token) -> None:
        self._read()
        super().resume(token)
        self._start()

    def end(self) -> None:
        self._read()
        super().end()
        if not self.recorder.instruments.records_graph():  # graph recording keeps its modes on
            self.pause = self.meter.paused()  # work done by `@inspect` counts in no step
            self.pause.__enter__()

    def close(self) -> None:
        self._read()
        super().close()
        if isinstance(self.parent, MeteredFrame):
            self.parent.peak = max(self.parent.peak, self.most)

    def _start(self) -> None:
        now = perf_counter()
        self.peak = self.meter.take_peak()
        self.reading = self.meter.reading()
        self.recorder.clock.lost += perf_counter() - now

    def _read(self) -> None:
        now = perf_counter()
        if self.pause is not None:
            self.pause.__exit__(None, None, None)
            self.pause = None
        self.peak = max(self.peak, self.meter.take_peak())
        self.most = max(self.most, self.peak)
        if self.current is not None:
            meters = (self.meter.reading() - self.reading).plain()
            self.observe("meters", meters if meters["operators"] is None else {**meters, "peak_bytes": self.peak})
        self.recorder.clock.lost += perf_counter() - now + self.meter.take_spent()

    def _described(self, value: object) -> Any:
        with self.meter.paused():
            return super()._described(value)
