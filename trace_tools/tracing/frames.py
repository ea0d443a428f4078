"""One call of a lecture function, while it runs: what the probes in its body call.

The generated code holds a frame in a local variable and calls, before each statement, `step`; around
annotated ones `begin` and `end`, then `value`; `held` or `broken` for an assert; `close` at the end.

Time is `clock() - recorder.lost`: a clock that stands still while anything is being recorded, so that
what recording takes is in no step, however many are open.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trace_tools.tracing.recorder import Recorder

Token = tuple[int, int, int, list[Any]]

clock = time.perf_counter_ns


class Executions:
    """Of one statement in one frame: how many so far, and the records of those that may yet be left out."""

    __slots__ = ("count", "kept", "omitted", "omitted_ns")

    def __init__(self) -> None:
        self.count = self.omitted = self.omitted_ns = 0
        self.kept: deque[list[Any]] | tuple[()] = ()  # one list for each of the last ones beyond the head


class Frame:
    """One call of a lecture function, while it runs."""

    __slots__ = (
        "covered", "current", "ended", "event", "executions", "failing", "here", "id", "idle_before", "key",
        "lost_before", "marked", "n", "number", "out", "parent", "recorder", "seq", "started", "thread",
    )  # fmt: skip

    recorded = True

    def __init__(self, recorder: Recorder, key: int, number: int, parent: Frame | None) -> None:
        self.recorder = recorder
        self.key = key
        self.number = number
        self.parent = parent
        self.id = recorder.frame_ids()
        self.out: list[Any] = recorder.pending if parent is None else parent.here
        self.here: list[Any] = self.out  # where the current step's records go
        self.current: int | None = None
        self.covered = False
        self.n = self.started = self.ended = 0
        self.seq = -1
        self.event: Any = None
        self.idle_before = 0
        self.failing: int | None = None  # the step whose claim is being raised
        self.marked: dict[str, int] = {}  # mark → the last step that has it
        self.executions: dict[int, Executions] = {}  # by statement
        self.thread = threading.get_ident()
        thread = None if parent is None or parent.thread == self.thread else _thread_name(self.thread)
        recorder.opened[number] += 1
        self.out.append(("F", self.id, number, None if parent is None else parent.seq, thread))
        if parent is not None and parent.parent is None:
            recorder.instruments.section(recorder.program.functions[number])

    # ------------------------------------------------------------------ steps

    def step(self, statement: int) -> None:
        """Close the step before, open one for this statement."""
        now = clock()
        recorder = self.recorder
        if self.ended:
            now = self._resumed(now)
        at = now - recorder.lost
        if self.current is not None:
            self.here.append(("S", self.seq, self.id, self.current, self.n, at - self.started))
        executions = self.executions.get(statement)
        if executions is None:
            executions = self.executions[statement] = Executions()
        self.n = executions.count = n = executions.count + 1
        self.here = self.out if n <= recorder.head else self._beyond(executions)
        self.current = statement
        self.seq = recorder.sequence()
        self.started = at
        self.covered = False
        if now > recorder.due:
            recorder.flush()
        recorder.lost += clock() - now

    def _beyond(self, executions: Executions) -> list[Any]:
        """Return a list of its own for an execution that may yet be left out."""
        recorder = self.recorder
        kept = executions.kept or deque()
        executions.kept = kept
        records: list[Any] = []
        if len(kept) == recorder.tail:
            oldest = kept.popleft()
            executions.omitted += 1
            if len(oldest) == 1 and not recorder.flushing.locked():  # a plain step: the list serves again
                executions.omitted_ns += oldest[0][5]
                recorder.written.pop(id(oldest), None)
                oldest.clear()
                records = oldest
            else:
                executions.omitted_ns += recorder.forget(oldest, self.id)
        kept.append(records)
        return records

    def begin(self, statement: int) -> None:
        """Open the step of an annotated statement: on CUDA, once the device has nothing left to do."""
        self.step(statement)
        recorder = self.recorder
        now = clock()
        self.covered = statement in recorder.program.covered
        cuda = recorder.instruments.cuda
        if cuda is not None and can_synchronise(cuda):
            cuda.synchronize()
            self.event = cuda.Event(enable_timing=True)
            self.idle_before = recorder.idle
            recorder.events += 1
            self.event.record()
        recorder.lost += clock() - now

    def enter(self, statement: int) -> Token:
        """Open a step that is left and resumed: return what `resume` needs."""
        self.begin(statement)
        return (statement, self.seq, self.n, self.here)

    def resume(self, token: Token) -> None:
        """Close the step before, and go on with the one `enter` opened."""
        at = self._now()
        if self.current is not None:
            self.here.append(("S", self.seq, self.id, self.current, self.n, at - self.started))
        self.current, self.seq, self.n, self.here = token
        self.started = at
        self.covered = self.current in self.recorder.program.covered

    def end(self) -> None:
        """Close the step; until the next probe, time is the tracer's."""
        event, cuda = self.event, self.recorder.instruments.cuda
        if event is not None and not can_synchronise(cuda):  # the statement began to capture a graph
            event = None
        if event is not None:
            finish = cuda.Event(enable_timing=True)
            finish.record()
            cuda.synchronize()
        now = clock()
        if self.current is not None:
            elapsed = now - self.recorder.lost - self.started
            self.here.append(("S", self.seq, self.id, self.current, self.n, elapsed))
        if event is not None:
            idle = self.recorder.idle - self.idle_before
            self.here.append(("D", self.seq, max(0, round(event.elapsed_time(finish) * 1e6) - idle)))
            self.here.append(("A", self.seq, cuda.memory_allocated()))
        if self.event is not None:
            self.recorder.events -= 1
        self.current = self.event = None
        self.covered = False
        self.ended, self.lost_before = now, self.recorder.lost

    def close(self) -> None:
        """Close the frame: what the limit kept is certain now."""
        at = self._now()
        if self.current is not None:
            self.here.append(("S", self.seq, self.id, self.current, self.n, at - self.started))
        self.current = None
        last: list[Any] = []
        for statement, executions in self.executions.items():
            for records in executions.kept:
                last += records
                self.recorder.written.pop(id(records), None)
            if executions.omitted:
                last.append(("T", self.id, statement, executions.omitted, executions.omitted_ns))
        self.executions = {}
        self.out += [*last, ("E", self.id)]  # at once: another thread may be writing the tail
        self.recorder.frames.pop(self.key, None)
        self.recorder.lost = clock() - at

    def _now(self) -> int:
        """Return the time without what recording took."""
        now = clock()
        if self.ended:
            now = self._resumed(now)
        return now - self.recorder.lost

    def _resumed(self, now: int) -> int:
        """Take out what passed since the step ended: the tracer was reading values; return the time now."""
        recorder, cuda = self.recorder, self.recorder.instruments.cuda
        if recorder.events and can_synchronise(cuda):  # a step around this one is timed on the device, which waited
            cuda.synchronize()
            now = clock()
            recorder.idle += now - self.ended
        recorder.lost = self.lost_before + now - self.ended
        self.ended = 0
        return now

    # ------------------------------------------------------------------ what is in a step

    def value(self, source: str, unit: str | None, value: object) -> None:
        self.here.append(("V", self.seq, source, unit, self._described(value)))

    def value_failed(self, source: str, unit: str | None) -> None:
        self.here.append(("V", self.seq, source, unit, self.recorder.instruments.describe.error(sys.exception())))

    def argument(self, source: str, unit: str | None, value: object) -> None:
        self.out.append(("G", self.id, source, unit, self._described(value)))

    def argument_failed(self, source: str, unit: str | None) -> None:
        self.out.append(("G", self.id, source, unit, self.recorder.instruments.describe.error(sys.exception())))

    def held(self, statement: int, *sides: object) -> None:
        """Record a claim that held."""
        self._claim(statement, "held", sides)

    def broken(self, statement: int, *sides: object) -> bool:
        """Record a claim that did not hold; return whether the assertion is to fail."""
        return self.break_claim(statement, sides, self)

    def break_claim(self, statement: int, sides: tuple[object, ...], where: Frame | DroppedFrame) -> bool:
        """Record a claim that did not hold in this call or in one, `where`, that is not recorded.

        It is raised where the lecture itself is about to catch it, too: what it does then is part of the lecture.
        """
        raises = self.recorder.settings.failing_claims_raise or self.recorder.is_caught(statement, where)
        self._claim(statement, "raised" if raises else "passed over", sides)
        if raises:
            self.failing = self.seq
        return raises

    def _claim(self, statement: int, how: str, sides: tuple[object, ...]) -> None:
        with self.recorder.apart():
            described = [None if side is UNSET else self._described(side) for side in sides]
            self.here.append(("C", self.seq, statement, how, described))

    def _described(self, value: object) -> Any:
        if not self.recorder.settings.describe_values:
            return None
        try:
            return self._unseen(self.recorder.instruments.describe.describe, value)
        except RecursionError as error:  # the lecture has filled the stack
            return self.recorder.instruments.describe.error(error)

    def _unseen(self, describe: Callable[[Any], Any], value: object) -> Any:
        """Describe `value`; what that calls in the lecture, a `__repr__` say, is not recorded."""
        covered, self.covered = self.covered, True
        try:
            return describe(value)
        finally:
            self.covered = covered

    def caught(self) -> None:
        """Record the exception that an `except` clause of this frame has just caught."""
        error = sys.exception()
        self._exception(error, sys._getframe(1))
        self.recorder.failing.pop(id(error), None)

    def raised(self) -> None:
        """Record the exception that is leaving this frame."""
        error = sys.exception()
        if isinstance(error, GeneratorExit):  # a generator being closed
            return
        self._exception(error, sys._getframe(1))
        if id(error) in self.recorder.failing and self._is_outermost():
            self.here.append(("L", self.recorder.failing.pop(id(error))))

    def _is_outermost(self) -> bool:
        """Whether this is a section, what calls sections, or where a thread began."""
        return self.parent is None or self.parent.parent is None or self.parent.thread != self.thread

    def _exception(self, error: BaseException | None, python_frame: FrameType) -> None:
        now = clock()
        if self.failing is not None and isinstance(error, AssertionError):
            self.recorder.failing[id(error)] = self.failing
            self.failing = None
        entry = error.__traceback__ if error else None
        while entry is not None and entry.tb_frame is not python_frame:
            entry = entry.tb_next
        line = entry.tb_lineno if entry else python_frame.f_lineno
        origin = line
        while entry is not None:
            if entry.tb_frame.f_code.co_filename == python_frame.f_code.co_filename:
                origin = entry.tb_lineno
            entry = entry.tb_next
        kind = type(error).__name__
        text = self._unseen(self.recorder.instruments.describe.error, error)["text"].removeprefix(f"{kind}: ")
        self.here.append(("X", self.id, self.seq, line, {"type": kind, "message": text, "origin_line": origin}))
        self.recorder.lost += clock() - now


class MeteredFrame(Frame):
    """A frame in the metering process: at each boundary it reads the meter instead of caring for time."""

    __slots__ = ("most", "pause", "peak", "reading")

    def __init__(self, recorder: Recorder, key: int, number: int, parent: Frame | None) -> None:
        self.reading: Any = None
        self.pause: Any = None
        self.peak = self.most = 0
        if isinstance(parent, MeteredFrame):
            parent.peak = max(parent.peak, recorder.instruments.meter.take_peak())
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
        self.pause = self.recorder.instruments.meter.paused()  # what `@inspect` computes is in no step
        self.pause.__enter__()

    def close(self) -> None:
        self._read()
        super().close()
        if isinstance(self.parent, MeteredFrame):
            self.parent.peak = max(self.parent.peak, self.most)

    def _start(self) -> None:
        meter = self.recorder.instruments.meter
        self.peak = meter.take_peak()
        self.reading = meter.reading()

    def _read(self) -> None:
        meter = self.recorder.instruments.meter
        if self.pause is not None:
            self.pause.__exit__(None, None, None)
            self.pause = None
        self.peak = max(self.peak, meter.take_peak())
        self.most = max(self.most, self.peak)
        if self.current is not None:
            meters = (meter.reading() - self.reading).plain()
            self.here.append(("M", self.seq, {**meters, "peak_bytes": self.peak}))

    def _described(self, value: object) -> Any:
        with self.recorder.instruments.meter.paused():
            return super()._described(value)


class DroppedFrame:
    """A call that is not recorded: under @stepover, beyond a limit, or while values are read."""

    __slots__ = ("current", "key", "parent", "recorder")

    recorded = False

    def __init__(self, recorder: Recorder, key: int, parent: Frame | DroppedFrame | None) -> None:
        self.recorder = recorder
        self.key = key
        self.parent = parent
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
        """A claim that failed in here did not fail: the lecture caught it."""
        frame = self._around()
        if frame is not None:
            frame.failing = None

    def close(self) -> None:
        self.recorder.frames.pop(self.key, None)

    def held(self, statement: int, *sides: object) -> None:
        pass

    def broken(self, statement: int, *sides: object) -> bool:
        """Pass a claim that did not hold on to the step under which it happened."""
        frame = self._around()
        if frame is not None:
            return frame.break_claim(statement, sides, self)
        return self.recorder.settings.failing_claims_raise or self.recorder.is_caught(statement, self)

    def _around(self) -> Frame | None:
        frame = self.parent
        while isinstance(frame, DroppedFrame):
            frame = frame.parent
        return frame


class _Unset:
    """What a claim's side is when the comparison never came to it."""


UNSET = _Unset()


def _thread_name(ident: int) -> str:
    """Return a thread's name; `threading.current_thread` would enter one that C++ started in its list."""
    thread = threading._active.get(ident)  # type: ignore[attr-defined]
    return thread.name if thread else "native"


def can_synchronise(cuda: Any) -> bool:
    return bool(cuda.is_initialized() and not cuda.is_current_stream_capturing())
