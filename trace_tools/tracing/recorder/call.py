"""Implement the probes: one call of a lecture function while it runs, recorded (`Call`) or not (`Skipped`).

The generated code holds it in a local variable. It calls `step` before each statement; `begin`, `end` and then `value`
around annotated statements; `held` or `broken` for an assert; `close` at the end.

A step is one line of the journal, written at the next probe. A step that makes calls, or lasts, is announced by an
earlier part without a time, so that it survives a kill; the end of a `with` is a part of its own. The reader adds up
the parts.
"""

from __future__ import annotations

import gc
import inspect
import math
import threading
import traceback
from _thread import get_ident
from collections.abc import Callable
from contextlib import AbstractContextManager
from sys import _getframe, exception
from time import perf_counter
from types import CodeType, FrameType
from typing import Any, Protocol

from trace_tools.describing.safe_repr import class_name, is_a
from trace_tools.describing.storage_labels import ADDRESSES
from trace_tools.trace.model import Claim, Frame, Omitted, Raised, Step
from trace_tools.tracing.instrument import Instrumented
from trace_tools.tracing.journal import Error, Failed
from trace_tools.tracing.recorder import limits
from trace_tools.tracing.recorder.claims import FailingClaims, traceback_of
from trace_tools.tracing.recorder.clock import DeviceTiming, RecordingClock
from trace_tools.tracing.recorder.limits import Kept, Limits, Lines, Ring, bare
from trace_tools.tracing.recorder.output import Emitted
from trace_tools.util.interpreter import is_of_a_signal

PRINTED_S = 0.5e-6  # shorter steps cannot have written to a descriptor
LASTING_S = 0.02  # a step that has lasted this long writes at once what it emits
SHORT = 80  # characters of a text that is kept as it is
LEAST = ADDRESSES.start  # a larger number may be an address, and is described at once
OPAQUE = 0  # key of the call that represents `measure` or `count`

Join = Callable[[Any, Any], Any]  # two contents of one kind in a step → one, or None
Token = tuple[int, int, int, Lines]  # statement, step, execution and lines of a suspended step


class _Unset:
    """Marker for a side of a claim that the comparison did not evaluate."""


UNSET_SIDE = _Unset()


class Recording(Protocol):
    """What a call needs of the recorder of its run."""

    program: Instrumented
    describer: Any
    meter: Any
    clock: RecordingClock
    limits: Limits
    failing: FailingClaims
    failing_claims_raise: bool
    pending: Lines
    calls: dict[int, Call | Skipped]
    last: Call | None
    due: float
    sequence: Callable[[], int]
    frame_ids: Callable[[], int]
    has_grown: Callable[[], bool]
    records_graph: Callable[[], bool]

    def take_output(self) -> str: ...

    def flush(self, *, wait_s: float = 0) -> None: ...


class Call:
    """One recorded call."""

    code: CodeType | None = None
    seq = -1  # number of the step in the run
    n = 0  # number of the step among the executions of its statement
    fields: dict[str, Any] | None = None  # what its next line says beside its time
    here: Lines | None = None  # lines of the calls that it makes
    ended: float | None = None  # reading of the clock when the step ended, while its values are read
    covered = False  # whether calls from the step are not recorded
    timing: DeviceTiming | None = None
    announced = -1  # the last step with a part without a time
    emitted: Emitted | None = None
    late = False  # whether this is a copy for a thread, which no probe will write
    failing: int | None = None  # the step of the claim that is being raised
    passed_over = -1  # the last step with a failed claim that did not raise

    def __init__(self, recorder: Recording, key: int, function: str, source: int, parent: Call | None) -> None:
        self.recorder = recorder
        self.key = key  # id of its Python frame
        self.parent = parent
        self.is_main = function == recorder.program.main and not source  # the calls that it makes are sections
        self.id = recorder.frame_ids()
        self.started = math.inf  # by the recorder's clock
        self.counts: dict[int, int] = {}  # executions of each statement that are certain
        self.rings: dict[int, Ring] = {}  # by statement, once as many are certain as the limit allows
        self.thread = get_ident()
        # Not defaults of the class, because Python finds those more slowly, and every statement reads them.
        self.ring: Ring | None = None  # keeps the step once it has ended, because later executions may replace it
        self.more = False  # whether there is more to the step than its time
        self.current: int | None = None  # statement of the open step, or of the step that has just ended
        self.open = False  # whether the step has not been written yet
        self.out = recorder.pending if parent is None else parent.lines()  # destination of certain lines
        name = None
        if parent is not None and parent.thread != self.thread:
            thread = threading._active.get(self.thread)  # type: ignore[attr-defined]  # registers no thread of C++
            name = "native" if thread is None else str(object.__getattribute__(thread, "__dict__").get("_name"))
        of = None if parent is None else parent.seq
        recorder.limits.put(Frame(self.id, function, of, source, None, name), self.out)

    # ------------------------------------------------------------------------------ steps

    def step(self, statement: int) -> None:
        """Close the previous step and open one for this statement.

        Every statement of a lecture pays this cost: in a loop, the method calls no other function of ours and makes one
        tuple. A signal handler may raise in any call here. So the old step is taken off before it is written, and the
        new one is put on at the end, by assignments only: an exception loses a step, but leaves no half of one.
        """
        now = perf_counter()
        recorder = self.recorder
        clock = recorder.clock
        at = now - clock.lost
        seconds = at - self.started
        ring = self.ring
        if self.more or (seconds > PRINTED_S and recorder.has_grown()):
            at = self._finish(at)
        elif ring is not None and not ring.called:
            self.open = False
            self.ring = None
            ring.seconds += seconds
            ring.kept.append((ring.count, self.seq, seconds, None, None))  # drops the oldest entry
        elif ring is not None:
            self._keep(seconds)
        elif self.open:
            self.open = False
            recorder.limits.put(self._line(self.current, self.seq, self.n, seconds, None), self.here)  # type: ignore[arg-type]
        self.started = at  # first, for the watching thread
        ring, here = self.rings.get(statement), None
        seq = recorder.sequence()
        if ring is not None:
            ring.count += 1
        else:
            here = self.out
            counts = self.counts
            self.n = counts[statement] = n = counts.get(statement, 0) + 1
            if n >= recorder.limits.first:
                self.rings[statement] = Ring(n, recorder.limits.last)
        self.ring, self.here, self.seq, self.current, self.open = ring, here, seq, statement, True
        if now > recorder.due:
            recorder.flush()
        clock.lost = perf_counter() - at

    def begin(self, statement: int) -> None:
        """Open the step of an annotated statement; on CUDA, start its clock when the device is idle."""
        self.step(statement)
        recorder = self.recorder
        clock = recorder.clock
        self.more = True
        self.covered = statement in recorder.program.covered
        if clock.gpu is not None and (gpu := clock.waitable_gpu()) is not None:
            at = perf_counter() - clock.lost
            self.started, timing = clock.start_on_device(gpu, at, recorder.program.places[statement][1])
            if timing is not None:
                if timing.queued_s and not clock.events:  # else it counts in the enclosing step
                    self.set("queued_ns", [round(1e9 * timing.queued_s)])
                clock.events += self.timing is None
                self.timing = timing
            clock.lost_when_idle = perf_counter() - self.started
        clock.lost = perf_counter() - self.started

    def end(self) -> None:
        """Close the step; until the next probe, time counts as the tracer's and values belong to the step."""
        clock, timing = self.recorder.clock, self.timing
        at = perf_counter() - clock.lost
        if timing is not None:
            launched_s = at - self.started
            self.timing = None
            clock.events -= 1
            line = self.recorder.program.places[self.current][1]  # type: ignore[index]
            gpu = clock.waitable_gpu()  # None if the statement began to capture a graph
            seconds = clock.stop_on_device(gpu, timing, line) if gpu is not None else None
            if gpu is not None and seconds is not None:
                self.set("device_ns", [max(0, round(1e9 * seconds))])
                self.set("launch_ns", [max(0, round(1e9 * launched_s))])
                self.set("allocated_bytes", gpu.allocated_bytes())
            at = perf_counter() - clock.lost
        if at - self.started > PRINTED_S and self.recorder.has_grown():
            self._take_output()
        self.ended, self.more = at, True

    def enter(self, statement: int) -> Token:
        """Open a step that will be suspended and resumed; return the token for `resume`."""
        self.begin(statement)
        lines = self.lines()
        return (statement, self.seq, self.ring.count if self.ring else self.n, lines)

    def resume(self, token: Token) -> None:
        """Close the previous step and continue the step that `enter` opened: its end is a further part."""
        clock = self.recorder.clock
        now = perf_counter() - clock.lost
        if self.seq == token[1] and self.ended is not None:  # its values were read before it ended
            at, self.ended = self.ended, None
            if clock.events:
                clock.resume(at)
        else:
            at = self.started = self._finish(now)
            self.current, self.seq, self.n, self.here = token
            self.ring, self.more, self.open = None, True, True
            self.covered = self.current in self.recorder.program.covered
        clock.lost = perf_counter() - at

    def _finish(self, at: float) -> float:
        """Close the open step, if any, at this reading of the clock; return the reading when it ended."""
        if self.ended is not None:
            at, self.ended = self.ended, None
            if self.recorder.clock.events:
                self.recorder.clock.resume(at)
        elif at - self.started > PRINTED_S and self.recorder.has_grown():
            self._take_output()
        if self.open:
            if self.emitted is not None and self.emitted.step == self.seq:
                self._settle(self.emitted)
            self._keep(at - self.started)
        self.fields = None
        self.more = self.covered = False
        return at

    def _keep(self, seconds: float | None) -> None:
        """Write the step that has ended, or keep it in its ring; `seconds` is None if the run ended before it."""
        put, seq = self.recorder.limits.put, self.seq
        statement, ring, fields, here = self.current, self.ring, self.fields, self.here
        self.open = False
        self.ring = self.fields = self.here = None
        assert statement is not None
        if ring is None:
            assert here is not None
            put(self._line(statement, seq, self.n, seconds, fields), here)
        else:
            if ring.called and len(ring.kept) == ring.kept.maxlen:
                self._leave_out_oldest(statement, ring)
            ring.seconds += seconds or 0
            ring.called += here is not None
            ring.kept.append((ring.count, seq, seconds, fields, here))

    def _leave_out_oldest(self, statement: int, ring: Ring) -> None:
        """Leave out an execution with the lines of its calls, unless a claim failed in it (up to FAILED per run)."""
        entry = ring.kept.popleft()
        _, _, seconds, _, lines = entry
        if lines is None:
            return
        recorder_limits = self.recorder.limits
        ring.called -= 1
        if lines.certain and recorder_limits.rescued < limits.FAILED:
            recorder_limits.rescued += 1
            ring.rescued += 1
            ring.seconds -= seconds or 0
            self._put_kept(statement, entry)
        else:
            ring.seconds += recorder_limits.leave_out(lines, self.id)

    def _put_kept(self, statement: int, entry: Kept) -> None:
        """Write an execution of a ring."""
        n, seq, seconds, fields, lines = entry
        if lines is not None and not self.out.left_out:
            self.out += lines
        self.recorder.limits.put(self._line(statement, seq, n, seconds, fields), self.out)

    def _line(self, statement: int, seq: int, n: int, seconds: float | None, fields: dict[str, Any] | None) -> Step:
        number, line, annotated, suspends = self.recorder.program.places[statement]
        ns = None if seconds is None or suspends else [max(0, round(1e9 * seconds))]
        if not (fields or annotated or suspends):  # as nearly all lines
            return Step(seq, self.id, number, line, n, ns)
        fields = fields or {}
        if "values" in fields:
            fields["values"] = [self._observed(*value) for value in fields["values"]]
        return Step(
            id=seq, frame=self.id, statement=number, line=line, execution=n, host_ns=ns, annotated=annotated,
            suspended=suspends, **fields,
        )  # fmt: skip

    def _observed(self, source: str, unit: str | None, value: Any) -> tuple[str, Any]:
        plain = value if type(value) is dict else self.recorder.describer.describe(value)
        return source, {**plain, "unit": unit} if unit else plain

    def lines(self, *, announce: bool = True) -> Lines:
        """Return the list for the lines of calls that the open step makes; announce the step, because the lines of its
        calls are worth nothing without it after a kill.
        """
        self.more = True
        if self.here is None:
            self.here = Lines()
        elif announce and self.announced != self.seq and self.ring is None and self.current is not None:
            self._announce()
        return self.here

    def _announce(self) -> None:
        """Write what is known of the open step."""
        assert self.current is not None and self.here is not None
        self.announced = self.seq
        self.recorder.limits.put(self._line(self.current, self.seq, self.n, None, self.fields), self.here)
        self.fields = None

    def close(self) -> None:
        """Close the call: the executions that the limit keeps are certain now."""
        recorder = self.recorder
        recorder.calls.pop(self.key, None)  # first, because the lecture may have filled the stack
        at = self._finish(perf_counter() - recorder.clock.lost)
        self._stop_timing()
        if self.rings:
            self._close_rings()
        if self.parent is None:
            recorder.last = self
        elif self.parent.key == self.key:  # the module's, after a cell
            recorder.calls[self.key] = self.parent
        recorder.clock.lost = perf_counter() - at

    def leave_open(self) -> None:
        """Record a call that has not ended with the run, such as an unclosed generator's or a thread's: its open step
        gets no time.
        """
        if self.open:
            self._keep(None if self.ended is None else self.ended - self.started)
        self._close_rings()

    def _close_rings(self) -> None:
        put, out = self.recorder.limits.put, self.out
        rings, self.rings = self.rings, {}
        for statement, ring in rings.items():
            omitted, seconds = ring.omitted()
            for entry in ring.kept:
                self._put_kept(statement, entry)
            if omitted > 0:
                number, line, *_ = self.recorder.program.places[statement]
                put(Omitted(omitted, self.id, number, line, max(0, round(1e9 * seconds))), out)

    def _stop_timing(self) -> None:
        """Stop timing the open step on the device, because an error has ended it."""
        if self.timing is not None:
            self.timing = None
            self.recorder.clock.events -= 1

    # ------------------------------------------------------------------------------ what happens in a step

    def set(self, field: str, content: Any) -> None:
        """Set a field of the step."""
        self.more = True
        if self.fields is None:
            self.fields = {}
        self.fields[field] = content

    def add(self, field: str, content: Any) -> None:
        """Append to a field of the step."""
        self.more = True
        if self.fields is None:
            self.fields = {}
        if field in self.fields:
            self.fields[field] += content
        else:
            self.fields[field] = content

    def mark(self, field: str) -> None:
        """Mark the open steps of this call and of its callers."""
        call: Call | Skipped | None = self
        while call is not None:
            if isinstance(call, Call):
                call.set(field, True)
            call = call.parent

    def in_graph(self) -> bool:
        """Return whether torch is recording a graph; if so, mark the open steps as not fully observed."""
        if not self.recorder.records_graph():
            return False
        if get_ident() not in self.recorder.describer.guard.observing:
            self.mark("graph")
        return True

    def emit(self, kind: str, content: Any, joined: Join | None = None) -> None:
        """Record output, prose or a measurement in the open step, or in the step that has just ended.

        `joined` may put the content and the previous one of its kind together.
        """
        if self.emitted is None or self.emitted.step != self.seq:
            if self.emitted is not None and self.late:
                self._settle(self.emitted)
            self.emitted = Emitted(self.seq)
        self.more = True
        if kind == "stdout":
            if first := self.emitted.printed(content):
                self.add("stdout", first)
        elif not self.recorder.limits.full and self.emitted.has_room(kind, content):
            before = (self.fields or {}).get(kind) if joined is not None else None
            if before and joined is not None and (together := joined(before[-1], content)) is not None:
                before[-1] = together
            else:
                self.add(kind, [content])
        clock = self.recorder.clock
        if self.late or (self.ring is None and perf_counter() - clock.lost - self.started > LASTING_S):
            self._write_fields()

    def _write_fields(self) -> None:
        if self.fields is not None and self.current is not None:
            self.lines(announce=False)
            self._announce()

    def _settle(self, emitted: Emitted) -> None:
        for field, content in emitted.rest().items():
            self.add(field, content)
        if self.late:
            self._write_fields()

    def _take_output(self) -> None:
        """Record output that bypassed Python in the open step: earlier output was read when the step began."""
        if self.current is not None and self.ended is None and (text := self.recorder.take_output()):
            self.emit("stdout", text)

    # ------------------------------------------------------------------------------ values

    @property
    def recorded(self) -> bool:
        """Return whether inspected expressions may be evaluated now."""
        return not self.in_graph()

    def unseen(self) -> AbstractContextManager[None]:
        """Return a context in which an expression is evaluated without effect on the lecture."""
        evaluating: AbstractContextManager[None] = self.recorder.describer.guard.evaluating()
        return evaluating

    def value(self, source: str, unit: str | None, value: object) -> None:
        """Record the value of an expression. A small number or text is described only once its step is written, because
        later executions replace most steps of a loop.
        """
        kind = type(value)
        if kind is int:
            is_small = -LEAST < value < LEAST  # type: ignore[operator]
        else:
            is_small = kind is float or kind is bool or (kind is str and len(value) < SHORT)  # type: ignore[arg-type]
        plain = value if is_small else self._described(value)
        if plain is not None:
            self.add("values", [(source, unit, plain)])

    def value_failed(self, source: str, unit: str | None) -> None:
        """Record the error that an expression raised, in place of its value."""
        self.add("values", [(source, unit, self._failed())])

    def argument(self, source: str, unit: str | None, value: object) -> None:
        """Record an argument that a directive on the `def` line inspects: a further part of the call."""
        if (plain := self._described(value)) is not None:
            self.recorder.limits.put(Frame(self.id, "", arguments=[self._observed(source, unit, plain)]), self.out)

    def argument_failed(self, source: str, unit: str | None) -> None:
        """Record the error that took the place of an argument."""
        arguments = [self._observed(source, unit, self._failed())]
        self.recorder.limits.put(Frame(self.id, "", arguments=arguments), self.out)

    def _failed(self) -> Any:
        """Return the description of an expression's error."""
        error = exception()
        assert error is not None
        if is_of_a_signal(error):
            raise error
        return self.recorder.describer.error(error)

    def _described(self, value: object) -> Any:
        """Describe a value, unless torch records a graph; functions of the lecture that this calls, such as a
        `__repr__`, are not recorded.
        """
        recorder = self.recorder
        if self.in_graph():
            return None
        covered, self.covered = self.covered, True
        try:
            plain = recorder.describer.describe(value)
        except RecursionError as error:  # the lecture has filled the stack
            plain = recorder.describer.error(error)
        finally:
            self.covered = covered
        return bare(plain) if recorder.limits.full else plain

    # ------------------------------------------------------------------------------ claims and exceptions

    def held(self, statement: int, *sides: object) -> None:
        """Record a claim that held."""
        self._claim(statement, sides, held=True)

    def broken(self, statement: int, *sides: object) -> bool:
        """Record a claim that did not hold; return whether the assertion should raise."""
        raises = self.recorder.failing_claims_raise or _is_caught(self, statement)
        self.break_claim(statement, sides, raises=raises)
        return raises

    def break_claim(self, statement: int, sides: tuple[object, ...], *, raises: bool) -> None:
        """Record a claim that did not hold in this call, or in an unrecorded call under it; keep its step, and the
        callers' steps.
        """
        self._claim(statement, sides, held=False)
        call: Call | Skipped | None = self
        while call is not None:
            if isinstance(call, Call):
                call.lines(announce=False).certain = True
            call = call.parent
        if raises:
            self.failing = self.seq
        elif self.passed_over != self.seq:  # once for the step
            self.passed_over = self.seq
            self.recorder.limits.put(Failed(self.seq), self.lines(announce=False))

    def _claim(self, statement: int, sides: tuple[object, ...], *, held: bool) -> None:
        recorder = self.recorder
        with recorder.clock.excluded():
            test, expressions = recorder.program.claims[statement]
            described: list[Any] = [None if side is UNSET_SIDE else self._described(side) for side in sides]
            seen = [pair for pair in zip(expressions, described, strict=True) if pair[1] is not None]
            self.set("claim", Claim(test, held, seen))

    def caught(self) -> None:
        """Record the exception that an `except` clause of this call has just caught."""
        error = exception()
        self._exception(error, _getframe(1))
        self.recorder.failing.step_of(error)

    def survived(self) -> None:
        """Record the exception that ended a section, and free the section's objects so that the next one can run."""
        error = exception()
        self._exception(error, _getframe(1), survived=True)
        self.recorder.failing.step_of(error)
        clock = self.recorder.clock
        now, gpu = perf_counter(), clock.waitable_gpu()
        if error is not None:
            traceback.clear_frames(error.__traceback__)
        gc.collect()
        if gpu is not None:
            clock.from_device(gpu.empty_cache)
        clock.lost += perf_counter() - now

    def raised(self) -> None:
        """Record the exception that is leaving this call."""
        error = exception()
        if is_a(type(error), GeneratorExit) or exits_well(error):  # closed generator, or end of the program
            return
        self._exception(error, _getframe(1))
        failing = self.recorder.failing
        claim = failing.step_of(error) if id(error) in failing.steps and self._is_outermost(_getframe(1)) else None
        if claim is not None:
            self.recorder.limits.put(Failed(claim), self.lines(announce=False))

    def _is_outermost(self, python_frame: FrameType) -> bool:
        """Return whether this call is a section, the caller of sections, or the first call of a thread.

        Calls run by a thread pool or a task do not count: a future passes the error on to the code that requests its
        result.
        """
        if python_frame.f_code.co_flags & inspect.CO_COROUTINE:
            return False
        if self.parent is not None and self.parent.thread != self.thread:
            caller = python_frame.f_back
            return caller is None or caller.f_code.co_filename == threading.__file__
        return self.parent is None or self.is_main or (isinstance(self.parent, Call) and self.parent.is_main)

    def _exception(self, error: BaseException | None, python_frame: FrameType, *, survived: bool = False) -> None:
        recorder, now = self.recorder, perf_counter()
        clock = recorder.clock
        self._stop_timing()
        if error is not None and self.failing is not None and is_a(type(error), AssertionError):
            recorder.failing.note(error, self.failing)
            self.failing = None
        entry = traceback_of(error) if error is not None else None
        while entry is not None and entry.tb_frame is not python_frame:
            entry = entry.tb_next
        line = origin = entry.tb_lineno if entry else python_frame.f_lineno  # where the error left the call
        while entry is not None:  # the last line of the lecture in the traceback
            if entry.tb_frame.f_code.co_filename == python_frame.f_code.co_filename:
                origin = entry.tb_lineno
            entry = entry.tb_next
        kind = class_name(type(error))
        covered, self.covered = self.covered, True  # a `__str__` of the lecture is no call
        text = recorder.describer.error(error)["text"].removeprefix(kind).removeprefix(": ")
        self.covered = covered
        waited = None
        if clock.gpu is not None and clock.gpu.is_its_error(error):
            waited = clock.waited_at
            if (gpu := clock.waitable_gpu()) is not None:
                clock.from_device(gpu.wait)  # fails again if the device has failed permanently
        raised = Raised(kind, text, origin, survived, waited)
        recorder.limits.put(Error(self.id, self.seq, line, raised), self.lines(announce=False))
        clock.lost += perf_counter() - now


class Skipped:
    """A call that is not recorded: under @stepover, beyond a limit, or while values are read."""

    __slots__ = ("code", "current", "key", "parent", "recorder")

    recorded = False

    def __init__(self, recorder: Recording, key: int, parent: Call | Skipped | None) -> None:
        self.recorder = recorder
        self.key = key
        self.parent = parent
        self.code: CodeType | None = None
        self.current: int | None = None

    def step(self, statement: int) -> None:
        self.current = statement

    begin = step

    def enter(self, statement: int) -> int:
        self.current = statement
        return statement

    resume = step

    def end(self, *_: object) -> None:
        pass

    raised = leave_open = value = value_failed = argument = argument_failed = held = end

    def caught(self) -> None:
        """Forget that a claim failed in this call, because the lecture caught the error."""
        if (call := nearest_recorded(self)) is not None:
            call.failing = None

    survived = caught

    def close(self) -> None:
        self.recorder.calls.pop(self.key, None)

    def broken(self, statement: int, *sides: object) -> bool:
        """Record a claim that did not hold in the recorded step above; return whether the assertion should raise."""
        raises = self.recorder.failing_claims_raise or _is_caught(self, statement)
        if (call := nearest_recorded(self)) is not None:
            call.break_claim(statement, sides, raises=raises)
        return raises

    mark: Any = Call.mark
    in_graph: Any = Call.in_graph


def nearest_recorded(call: Call | Skipped | None) -> Call | None:
    """Return this call if it is recorded, else the nearest recorded caller."""
    while isinstance(call, Skipped):
        call = call.parent
    return call


def _is_caught(call: Call | Skipped | None, statement: int | None) -> bool:
    """Return whether the lecture will catch an AssertionError of a statement: it, or a calling statement, is inside a
    `try`.
    """
    while call is not None:
        if statement in call.recorder.program.catching:
            return True
        caller = call.parent
        if isinstance(call, Call) and isinstance(caller, Call) and caller.thread != call.thread:
            return False
        call, statement = caller, caller.current if caller is not None else None
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


class MeteredCall(Call):
    """A call of the counted run, whose times are not used: reads the meter at each step boundary."""

    reading: Any = None
    peak = most = 0
    recorded = False  # expressions of `@inspect` are work that counts in no step, and the timed runs have their values

    def __init__(self, recorder: Recording, key: int, function: str, source: int, parent: Call | None) -> None:
        self.meter: Any = recorder.meter
        self.suspended: dict[int, tuple[Any, int]] = {}  # by step: what its first part has done, and its peak
        if isinstance(parent, MeteredCall):
            parent.peak = max(parent.peak, self.meter.take_peak())
        super().__init__(recorder, key, function, source, parent)

    def step(self, statement: int) -> None:
        self._read()
        super().step(statement)
        self._start()

    def enter(self, statement: int) -> Token:
        token = super().enter(statement)
        self.suspended[self.seq] = (None, 0)
        return token

    def resume(self, token: Token) -> None:
        self._read()
        super().resume(token)
        self._start()
        done, peak = self.suspended.pop(self.seq, (None, 0))
        if done is not None:
            self.reading, self.peak = self.reading - done, max(self.peak, peak)

    def end(self) -> None:
        self._read()
        super().end()

    def close(self) -> None:
        self._read()
        super().close()
        if isinstance(self.parent, MeteredCall):
            self.parent.peak = max(self.parent.peak, self.most)

    def _start(self) -> None:
        self.peak = self.meter.take_peak()
        self.reading = self.meter.reading()

    def _read(self) -> None:
        self.peak = max(self.peak, self.meter.take_peak())
        self.most = max(self.most, self.peak)
        if self.open and self.ended is None:
            done = self.meter.reading() - self.reading
            plain = done.plain()
            meters = {name: figure for name, figure in plain.items() if figure is not None and figure != []}
            if plain["operators"] is not None:
                meters |= {"operators": plain["operators"], "peak_bytes": self.peak}
            self.set("meters", meters)
            if self.seq in self.suspended:
                self.suspended[self.seq] = (done, self.peak)

    def value(self, source: str, unit: str | None, value: object) -> None:
        """Record no values: the trace shows those of the timed runs."""

    def _described(self, value: object) -> None:
        return None
