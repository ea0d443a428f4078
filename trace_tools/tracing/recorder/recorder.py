"""Record one run of an instrumented lecture: its calls while they run, and the journal.

The generated code holds a `Call` in a local variable, or a `Skipped` one. It calls `step` before each statement;
`begin`, `end` and then `value` around annotated statements; `held` or `broken` for an assert; `close` at the end. The
`Recorder` opens the calls, finds whom a stack works for, and writes the journal.

A step is one line of the journal, written at the next probe. A step that makes calls, or lasts, is announced by an
earlier part without a time, so that it survives a kill; the end of a `with` is a part of its own. The reader adds up
the parts.
"""

from __future__ import annotations

import builtins
import copy
import functools
import gc
import inspect
import itertools
import math
import threading
import traceback
import weakref
from _thread import get_ident
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from sys import _current_frames, _getframe, exception
from time import perf_counter
from types import CodeType, FrameType
from typing import Any

from trace_tools.describing.guarded_repr import class_name, is_a, is_of_a_signal
from trace_tools.describing.storage_labels import ADDRESSES
from trace_tools.machines.accelerators import Accelerator
from trace_tools.trace.model import Claim, Frame, Omitted, Raised, Step
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
from trace_tools.tracing.journal import Error, Failed, Journal, start_apart, unsignalled
from trace_tools.tracing.recorder import limits
from trace_tools.tracing.recorder.clock import DeviceTiming, RecordingClock
from trace_tools.tracing.recorder.limits import Emitted, Kept, Limits, Lines, Ring

FLUSH_S = 0.02  # a certain line is in the journal after this time
PRINTED_S = 0.5e-6  # shorter steps cannot have written to a descriptor
LASTING_S = 0.02  # a step that has lasted this long writes at once what it emits
SHORT = 80  # characters of a text that is kept as it is
LEAST = ADDRESSES.start  # a larger number may be an address, and is described at once

Join = Callable[[Any, Any], Any]  # two contents of one kind in a step → one, or None
Token = tuple[int, int, int, Lines]  # statement, step, execution and lines of a suspended step


UNSET_SIDE = object()  # a side of a claim that the comparison did not evaluate


class Call:
    """One recorded call of a lecture's function, which is a `Frame` of the trace, and `_@frame` in the generated code.

    Of its open step, `seq`, `current` and `n` become the fields `id`, `statement` and `execution` of a `Step`, and the
    call's own `id` the field `frame`.
    """

    code: CodeType | None = None
    seq = -1  # number of the step in the run
    n = 0  # number of the step among the executions of its statement
    fields: dict[str, Any] | None = None  # what its next line says beside its time
    here: Lines | None = None  # destination of its line and of its calls' lines; None in a ring until it calls
    ended: float | None = None  # reading of the clock when the step ended, while its values are read
    covered = False  # whether calls from the step are not recorded
    timing: DeviceTiming | None = None
    announced = -1  # the last step with a part without a time
    emitted: Emitted | None = None
    late = False  # whether this is a copy for a thread, which no probe will write
    failing: int | None = None  # the step of the claim that is being raised
    passed_over = -1  # the last step with a failed claim that did not raise

    def __init__(self, recorder: Recorder, key: int, function: str, parent: Call | None) -> None:
        self.recorder = recorder
        self.key = key  # id of its Python frame
        self.parent = parent
        self.is_main = function == recorder.program.main  # the calls that it makes are sections
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
        recorder.limits.put(Frame(self.id, function, of, thread=name), self.out)

    # ------------------------------------------------------------------------------ steps

    def step(self, statement: int) -> None:
        """Close the previous step and open one for this statement.

        Every statement of a lecture pays this cost, so in a loop the method calls no other function of ours and makes
        one tuple. A signal handler may raise in any call here. So the old step is taken off before it is written, and
        the new one is put on at the end, by assignments only: an exception loses a step, but leaves no half of one.
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
        self.ring, self.here = ring, here  # in two lines, because Python makes a tuple of more than three
        self.seq, self.current, self.open = seq, statement, True
        if now > recorder.due:  # from here, because the watching thread may wait long for the interpreter's lock
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
            self.started, timing = clock.start_on_device(gpu, at, recorder.program.places[statement][0])
            if timing is not None:
                if timing.queued_s and not clock.timed_steps:  # else it counts in the enclosing step
                    self.set("queued_ns", [round(1e9 * timing.queued_s)])
                clock.timed_steps += self.timing is None
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
            clock.timed_steps -= 1
            line = self.recorder.program.places[self.current][0]  # type: ignore[index]
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
            if clock.timed_steps:
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
            if self.recorder.clock.timed_steps:
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
        of_run = self.recorder.limits
        ring.called -= 1
        if lines.failed and of_run.rescued < limits.FAILED:
            of_run.rescued += 1
            ring.rescued += 1
            ring.seconds -= seconds or 0
            self._put_kept(statement, entry)
        else:
            ring.seconds += of_run.leave_out(lines, self.id)

    def _put_kept(self, statement: int, entry: Kept) -> None:
        """Write an execution of a ring, then its calls, so that no kill leaves a call without the step that made it."""
        n, seq, seconds, fields, lines = entry
        self.recorder.limits.put(self._line(statement, seq, n, seconds, fields), self.out)
        if lines is not None and not self.out.left_out:
            self.out += lines

    def _line(self, statement: int, seq: int, n: int, seconds: float | None, fields: dict[str, Any] | None) -> Step:
        line, annotated, suspends = self.recorder.program.places[statement]
        ns = None if seconds is None or suspends else [max(0, round(1e9 * seconds))]
        if not (fields or annotated or suspends):  # as nearly all lines
            return Step(seq, self.id, statement, line, n, ns)
        fields = fields or {}
        if "values" in fields:
            fields["values"] = [self._observed(*value) for value in fields["values"]]
        return Step(
            id=seq, frame=self.id, statement=statement, line=line, execution=n, host_ns=ns, annotated=annotated,
            suspended=suspends, **fields,
        )  # fmt: skip

    def _observed(self, source: str, unit: str | None, value: Any) -> tuple[str, Any]:
        plain = value if type(value) is dict else self.recorder.describer.describe(value)
        return source, {**plain, "unit": unit} if unit else plain

    def lines(self, *, announce: bool = True) -> Lines:
        """Return the list for the lines of calls that the open step makes; announce the step, because after a kill the
        lines of its calls are worthless without it.
        """
        self.more = True
        if self.here is None:
            self.here = Lines()
        elif announce and self.announced != self.seq and self.ring is None and self.current is not None:
            self._announce()
        return self.here

    def _announce(self) -> None:
        """Write the known part of the open step."""
        assert self.current is not None and self.here is not None
        self.announced = self.seq
        self.recorder.limits.put(self._line(self.current, self.seq, self.n, None, self.fields), self.here)
        self.fields = None

    def close(self) -> None:
        """Close the call, which makes the executions that the limit keeps certain."""
        recorder = self.recorder
        recorder.calls.pop(self.key, None)  # first: after a deep recursion, the calls below raise RecursionError
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
                line, *_ = self.recorder.program.places[statement]
                put(Omitted(omitted, self.id, statement, line, max(0, round(1e9 * seconds))), out)

    def _stop_timing(self) -> None:
        """Stop timing the open step on the device, because an error has ended it."""
        if self.timing is not None:
            self.timing = None
            self.recorder.clock.timed_steps -= 1

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

    def emit(self, kind: str, content: Any, joined: Join | None = None) -> None:
        """Record output, prose or a measurement in the open step, or in the step that has just ended.

        `joined` may put the content and the previous content of its kind together.
        """
        if self.emitted is None or self.emitted.step != self.seq:
            if self.emitted is not None and self.late:
                self._settle(self.emitted)
            self.emitted = Emitted(self.seq)
        self.more = True
        if kind == "stdout":
            if first := self.emitted.printed(content):
                self.add("stdout", first)
        elif self.emitted.has_room(kind, content):
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

    def late_copy(self) -> Call:
        """Return a copy that adds to the open step for ever, part by part, such as for a thread that it starts."""
        late = copy.copy(self)
        late.late, late.emitted, late.fields, late.ring = True, None, None, None
        if late.here is None:
            late.here = late.out
        return late

    def emit_late(self, text: str) -> None:
        """Record output that is found late, in the step that is open."""
        late = self.late_copy()
        late.emit("stdout", text)
        if late.emitted is not None:
            late._settle(late.emitted)

    def _take_output(self) -> None:
        """Record output that bypassed Python in the open step: earlier output was read when the step began."""
        if self.current is not None and self.ended is None and (text := self.recorder.take_output()):
            self.emit("stdout", text)

    # ------------------------------------------------------------------------------ values

    @property
    def reads_values(self) -> bool:
        """Return whether values may be read now. While torch records a graph, an operator that a description runs would
        become part of it.
        """
        if not self.recorder.records_graph():
            return True
        self.mark("graph")
        return False

    def unseen(self) -> AbstractContextManager[None]:
        """Return a context for the evaluation of an expression without effect on the lecture."""
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
        """Record the error that an expression raised, instead of its value."""
        self.add("values", [(source, unit, self._failed())])

    def argument(self, source: str, unit: str | None, value: object) -> None:
        """Record an argument that a directive on the `def` line inspects, as a further part of the call."""
        if (plain := self._described(value)) is not None:
            self.recorder.limits.put(Frame(self.id, "", arguments=[self._observed(source, unit, plain)]), self.out)

    def argument_failed(self, source: str, unit: str | None) -> None:
        """Record the error that an argument raised."""
        arguments = [self._observed(source, unit, self._failed())]
        self.recorder.limits.put(Frame(self.id, "", arguments=arguments), self.out)

    def _failed(self) -> Any:
        """Return the description of an expression's error."""
        if is_of_a_signal(exception()):
            raise  # no name here holds the error: it would hold this frame, and live until the next collection
        return self.recorder.describer.error(exception())

    def _described(self, value: object) -> Any:
        """Describe a value, unless torch records a graph; functions of the lecture that this calls, such as a
        `__repr__`, are not recorded.
        """
        recorder = self.recorder
        if not self.reads_values:
            return None
        covered, self.covered = self.covered, True
        try:
            return recorder.describer.describe(value)
        except RecursionError as error:  # the lecture has filled the stack
            return recorder.describer.error(error)
        finally:
            self.covered = covered

    # ------------------------------------------------------------------------------ claims and exceptions

    def held(self, statement: int, *sides: object) -> None:
        """Record a claim that held."""
        self._claim(statement, sides, held=True)

    def broken(self, statement: int, *sides: object) -> bool:
        """Record a claim that did not hold, in the nearest recorded step; return whether the assertion should raise."""
        recorder = self.recorder
        raises = recorder.failing_claims_raise or statement in recorder.raised or _is_caught(self, statement)
        if raises:
            recorder.raised.add(statement)
        if (call := nearest_recorded(self)) is not None:
            call.break_claim(statement, sides, raises=raises)
        return raises

    def break_claim(self, statement: int, sides: tuple[object, ...], *, raises: bool) -> None:
        """Record a claim that did not hold in this call, or in an unrecorded call under it; keep its step, and the
        callers' steps.
        """
        self._claim(statement, sides, held=False)
        call: Call | Skipped | None = self
        while call is not None:
            if isinstance(call, Call):
                call.lines(announce=False).failed = True
            call = call.parent
        if raises:
            self.failing = self.seq
        elif self.passed_over != self.seq:  # once for the step
            self.passed_over = self.seq
            self.recorder.limits.put(Failed(self.seq), self.lines(announce=False))

    def _claim(self, statement: int, sides: tuple[object, ...], *, held: bool) -> None:
        recorder = self.recorder
        with recorder.clock.excluded():  # the device may be timing an enclosing step
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

    reads_values = False

    def __init__(self, recorder: Recorder, key: int, parent: Call | Skipped | None) -> None:
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

    broken: Any = Call.broken
    mark: Any = Call.mark


def nearest_recorded(call: Call | Skipped | None) -> Call | None:
    """Return this call if it is recorded, else the nearest recorded caller."""
    while isinstance(call, Skipped):
        call = call.parent
    return call


def _is_caught(call: Call | Skipped | None, statement: int | None) -> bool:
    """Return whether the lecture will catch a statement's AssertionError, by a `try` around it or a calling one."""
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
    """A call of the counted run, which reads the meter at each step boundary; its times are not used."""

    reading: Any = None
    peak = most = 0
    reads_values = False  # an `@inspect` is work that counts in no step; the timed runs have its values

    def __init__(self, recorder: Recorder, key: int, function: str, parent: Call | None) -> None:
        self.meter: Any = recorder.meter
        self.suspended: dict[int, tuple[Any, int]] = {}  # by step: what its first part has done, and its peak
        if isinstance(parent, MeteredCall):
            parent.peak = max(parent.peak, self.meter.take_peak())
        super().__init__(recorder, key, function, parent)

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
        """Record no values, because the trace shows the timed runs' values."""


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
        failing_claims_raise: bool = True,  # if False, only claims that the lecture visibly catches raise, and `raised`
        raised: set[int] | None = None,  # claims that have raised in this process; this run adds its own
    ) -> None:
        self.program = program
        self.journal = journal
        self.describer = describer
        self.meter = meter
        self.section = section
        self.output = output
        self.records_graph = records_graph
        self.clock = RecordingClock(gpu, self._report_device_failure)
        self.limits = Limits(journal, limit)
        self.failing_claims_raise = failing_claims_raise
        self.raised: set[int] = set() if raised is None else raised
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
            self.mark("graph")
            return None
        now = perf_counter()
        python_frame = _getframe(1)
        key, caller, names = id(python_frame), python_frame.f_back, python_frame.f_globals
        if number in self.program.cells:
            caller = python_frame
        if self.namespace is not None and names is not self.namespace:
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
        self.calls[key] = call
        self.clock.lost += perf_counter() - now
        return call

    def _recorded(self, key: int, number: int, parent: Call | None) -> Call | None:
        """Return a recorded call, or None if the limits leave it out. Sections and their callers are never left out."""
        function = self.program.functions[number]
        is_section = parent is None or parent.is_main or function == self.program.main
        into = self.pending if parent is None else parent.lines(announce=False)
        if not self.limits.admits(function, into, is_section=is_section):
            return None
        if is_section and self.limits.calls[function] == 1:  # the first call, because a loop may make a thousand
            self.due = 0.0  # the next probe writes what came before it: the section may soon end the process
        if parent is not None and parent.is_main and self.section:
            self.section(function)
        metered = self.meter is not None and (parent is None or isinstance(parent, MeteredCall))
        return (MeteredCall if metered else Call)(self, key, function, parent)

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
        while python_frame is not None:
            call = self.calls.get(id(python_frame))
            if call is not None and call.code is python_frame.f_code:  # else the address was another frame's
                return call
            python_frame = python_frame.f_back
        return None

    def starts(self, thread: threading.Thread, python_frame: FrameType) -> None:
        """Note which step starts a thread, by id, because a lecture's class of threads may lack a hash.

        The thread belongs to that step for ever, so it gets a copy of the present call.
        """
        owner = self.owner(python_frame)
        if owner is None:
            return
        starter = owner
        if isinstance(owner, Call):
            owner.lines()
            starter = owner.late_copy()
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
        owner = nearest_recorded(self.owner(_getframe(1)))
        while owner is not None and owner.seq < 0:  # its first step has not begun
            owner = nearest_recorded(owner.parent)
        if owner is not None:
            owner.emit(kind, content, joined)
        elif kind == "stdout" and self.last is not None:  # after the end, by the lecture's `sys.excepthook`
            self.last.emit_late(content)
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
            self.last.emit_late(text)

    def running(self) -> list[Call]:
        """Return the recorded calls of the main thread with running statements, callers first.

        They are not found by their frames, because a reference to a frame could keep the lecture's tensors alive.
        """
        main, places = threading.main_thread().ident, self.program.places
        calls = [
            call
            for call in list(self.calls.values())
            if isinstance(call, Call) and call.thread == main and (current := call.current) is not None
            if not places[current][2]  # else it may be a suspended generator's
        ]
        return sorted(calls, key=lambda call: call.seq)

    def line(self, path: str) -> int | None:
        """Return the running line of a file, if it is recorded."""
        statements = [call.current for call in self.running() if call.code and call.code.co_filename == path]
        return next((self.program.places[n][0] for n in reversed(statements) if n is not None), None)

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
            step.emit_late(text)

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
        """Write the certain lines, with the open steps, because the process may end now."""
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

    def mark(self, field: str) -> None:
        pass


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


# --- claims that have failed ----------------------------------------------------------------------


# read this way because a class of the lecture may define its own attribute
traceback_of = BaseException.__dict__["__traceback__"].__get__


class FailingClaims:
    """The claims of one run that have raised an error, until it leaves a section or is caught."""

    def __init__(self) -> None:
        # By id of the error: the step of its claim, and where it was raised. A reference would keep the objects in its
        # frames alive.
        self.steps: dict[int, tuple[int, tuple[str, int] | None]] = {}

    def note(self, error: BaseException, step: int) -> None:
        """Note that the claim of a step raised this error."""
        self.steps[id(error)] = step, _origin(error)

    def step_of(self, error: BaseException | None) -> int | None:
        """Return the step of the claim that raised this error, once; None for other errors.

        If a library has swallowed the error, another one may now have its address, but not its origin.
        """
        step, origin = self.steps.pop(id(error), (None, None))
        return step if is_a(type(error), AssertionError) and _origin(error) == origin else None


def _origin(error: BaseException | None) -> tuple[str, int] | None:
    """Return the file and line where an error was first raised; re-raising it elsewhere changes neither."""
    entry = traceback_of(error) if error is not None else None
    while entry is not None and entry.tb_next is not None:
        entry = entry.tb_next
    return (entry.tb_frame.f_code.co_filename, entry.tb_lineno) if entry is not None else None
