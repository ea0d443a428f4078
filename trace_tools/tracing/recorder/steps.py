"""Implement the probes of every statement: a call's steps, their times and the records that they keep.

`CallFrame` keeps the records of one call, and `TimedFrame` times its steps.
"""

from __future__ import annotations

import math
import threading
from _thread import get_ident
from collections.abc import Iterator
from sys import _getframe
from time import perf_counter
from types import CodeType
from typing import Any

from trace_tools.tracing.journal import FrameStart, Observation, OpenStep, Row, StepTime
from trace_tools.tracing.recorder.clock import DeviceTiming
from trace_tools.tracing.recorder.output import Emission
from trace_tools.tracing.recorder.recording import Frame, Recording
from trace_tools.tracing.recorder.retention import LoopTail, Records

PRINTED_S = 0.5e-6  # shorter steps cannot have written to a descriptor

Token = tuple[int, int, int, Records]  # statement, step, execution and records of a suspended step

NO_TAILS: dict[int, LoopTail] = {}


class CallFrame(Frame):
    """A recorded call with the records of its steps."""

    code: CodeType | None = None
    current: int | None = None
    parent: CallFrame | None
    seq = -1  # number of the open step
    n = 0  # number of the open step's execution
    charged = 0  # steps of this call that the run has accounted for
    loop_caller: CallFrame | None = None  # the outermost caller that may yet drop its step, and this call with it
    emissions: dict[str, Emission] | None = None  # the latest emission of each kind
    marked: dict[str, int] | None = None  # mark → the last step that has it

    def __init__(self, recorder: Recording, key: int, number: int, parent: CallFrame | None) -> None:
        self.recorder = recorder
        self.key = key
        self.parent = parent
        self.id = recorder.frame_ids()
        self.counts: dict[int, int] = {}  # executions of each statement, until its head is full
        self.loop_tails = NO_TAILS  # by statement, once its head is full; replaced at each addition
        self.beyond: LoopTail | None = None  # will receive the open step, unless that is pinned first
        self.thread = get_ident()
        # Destination of the frame's records, and of the open step's records unless it may still be pinned.
        if parent is None:
            self.out = self.here = recorder.pending
            self.out.append((FrameStart, self.id, number, None, None))
        else:
            self.out = self.here = parent.here if parent.beyond is None else parent.pin()
            if self.out is not recorder.pending:
                self.loop_caller = parent.loop_caller or parent
            name = None
            if parent.thread != self.thread:  # `threading.current_thread` would register a thread that C++ started
                thread = threading._active.get(self.thread)  # type: ignore[attr-defined]
                name = "native" if thread is None else str(object.__getattribute__(thread, "__dict__").get("_name"))
            self.out.append((FrameStart, self.id, number, parent.seq, name))
            if parent.parent is None and recorder.instruments.section:
                recorder.instruments.section(recorder.program.functions[number])

    def pin(self) -> Records:
        """Return the list for the open step's records; beyond the head, give the step a list of its own."""
        last = self.beyond
        if last is not None:
            self.n, self.here = last.count, last.pin()
            self.beyond = None
        return self.here

    def observe(self, field: str, content: Any) -> None:
        """Record an observation of the open step, or of the step that has just ended."""
        self.pin().append((Observation, self.seq, field, content))

    def mark_step(self, field: str) -> None:
        self.marked = self.marked or {}
        if self.marked.get(field) != self.seq:
            self.marked[field] = self.seq
            self.observe(field, True)

    def emit(self, kind: str, content: Any) -> None:
        """Record output, prose or a measurement in the open step, or in the step that has just ended, within the
        bounds of `kind`.
        """
        records, output = self.pin(), self.recorder.output
        if self.emissions is None:
            self.emissions = {}
        emission = self.emissions.get(kind)
        if emission is None or emission.step != self.seq:
            if emission is not None:
                output.settle(emission)
            emission = self.emissions[kind] = Emission(output.retention, records, self.seq, kind)
        output.add(emission, content)

    def take_output(self) -> None:
        """Record output that bypassed Python in the open step: earlier output was read when the step began."""
        if self.current is not None and (text := self.recorder.output.take()):
            self.emit("stdout", text)

    def account(self) -> None:
        """Charge the run for the steps that this call has kept since the last accounting, as if its loops had filled
        their tails.

        Called at the end of the call, before a call that may exceed the limit, and periodically.
        """
        steps = sum(self.counts.values())
        if self.loop_tails:
            steps += sum(tail.kept.maxlen or 0 for tail in self.loop_tails.values())
        if steps != self.charged:
            self.recorder.retention.charge_steps(self.out, steps - self.charged)
            self.charged = steps

    def _end_call(self) -> None:
        """Keep the executions that the limit keeps: they are certain now."""
        recorder = self.recorder
        if self.emissions:
            for emission in self.emissions.values():
                recorder.output.settle(emission)
            self.emissions = None
        counted = sum(self.counts.values())
        steps = counted - self.charged
        if self.loop_tails:
            steps += sum(len(tail.kept) + tail.rescued for tail in self.loop_tails.values())
            self.out += self._take_tails()
        recorder.retention.charge_steps(self.out, steps)
        self.charged = counted  # a generator that this call began may account for it again
        recorder.frames.pop(self.key, None)
        if self.parent is None:
            recorder.last = self.seq

    def leave_open(self) -> None:
        """Record a call that has not ended with the run, such as an unclosed generator's or a thread's.

        The open step has begun and gets no time; the executions kept by the limit are now certain, as at the end of a
        call.
        """
        if not self.out.left_out:
            self.recorder.pending += [*self._open_step(), *self._take_tails()]

    def _open_step(self) -> Iterator[Row]:
        if self.current is not None:
            yield (OpenStep, self.seq, self.id, self.current, self.beyond.count if self.beyond else self.n)

    def _take_tails(self) -> list[Row]:
        """Return the records of the executions kept by the limit, which are now certain."""
        tails, beyond = self.loop_tails, self.beyond
        rows = [row for tail in tails.values() for row in tail.final_rows(is_open=tail is beyond)]
        self.loop_tails = NO_TAILS
        return rows


class TimedFrame(CallFrame):
    """A recorded call with the times of its steps."""

    timing: DeviceTiming | None = None  # timing of the open step

    def __init__(self, recorder: Recording, key: int, number: int, parent: CallFrame | None) -> None:
        CallFrame.__init__(self, recorder, key, number, parent)  # faster than `super()`
        self.started = math.inf  # start time of the open step
        self.ended: float | None = None  # end time of the step, while the tracer reads values
        self.covered = False  # whether calls from the open step are not recorded

    def step(self, statement: int) -> None:
        """Close the previous step and open one for this statement.

        Every statement of a lecture pays this cost: in a loop, the method calls no other function of ours and makes one
        tuple.
        """
        now = perf_counter()
        recorder, last = self.recorder, self.beyond
        clock = recorder.clock
        at = now - clock.lost
        seconds = at - self.started
        if seconds > PRINTED_S and recorder.output.has_grown():
            self.take_output()
            last = self.beyond
        if last is not None and not last.pinned:
            last.seconds += seconds
            last.kept.append((last.count, self.seq, seconds))  # drops the oldest entry
        elif last is not None or self.ended is not None:
            at = self._stop(now)
        else:
            self.covered = False
            if self.current is not None:
                self.here.append((StepTime, self.seq, self.id, self.current, self.n, round(1e9 * seconds)))
        tail = self.loop_tails.get(statement)
        if tail is not None:
            tail.count += 1
            self.beyond = tail
        else:
            self.here, self.beyond = self.out, None
            counts = self.counts
            self.n = counts[statement] = n = counts.get(statement, 0) + 1
            if n >= recorder.retention.head:
                tail = LoopTail(recorder.retention, self.id, statement, self.out, n)
                self.loop_tails = {**self.loop_tails, statement: tail}
        self.current = statement
        self.seq = recorder.sequence()
        self.started = at
        if now > recorder.writer.due:
            self.account()
            recorder.writer.flush()
        clock.lost = perf_counter() - at

    def _stop(self, now: float) -> float:
        """Close the open step, if any; return the current time without recording time."""
        clock = self.recorder.clock
        if self.ended is not None:
            now = clock.resume(self.ended, now)
            self.ended = None
        elif now - clock.lost - self.started > PRINTED_S and self.recorder.output.has_grown():
            self.take_output()
        self.covered = False
        at, last = now - clock.lost, self.beyond
        if last is not None:
            last.end_step(self.seq, at - self.started)
            self.beyond = None
        elif self.current is not None:
            self.here.append((StepTime, self.seq, self.id, self.current, self.n, round(1e9 * (at - self.started))))
        return at

    def begin(self, statement: int) -> None:
        """Open the step of an annotated statement; on CUDA, start its clock when the device is idle."""
        self.step(statement)
        clock = self.recorder.clock
        reading = perf_counter() - clock.lost
        self.pin()
        self.covered = statement in self.recorder.program.covered
        gpu = clock.waitable_gpu()
        if gpu is not None:
            python_frame = _getframe(1) if _getframe(1).f_code is self.code else _getframe(2)  # called by `enter`
            reading, timing = clock.start_on_device(gpu, reading, python_frame.f_lineno)
            if timing is not None:
                if timing.queued_s and not clock.events:  # else it counts in the enclosing step
                    self.observe("queued_ns", round(1e9 * timing.queued_s))
                clock.events += self.timing is None
                self.timing = timing
        self.started = reading
        clock.lost = clock.lost_when_idle = perf_counter() - reading

    def enter(self, statement: int) -> Token:
        """Open a step that will be suspended and resumed; return the token for `resume`."""
        self.begin(statement)
        return (statement, self.seq, self.n, self.here)

    def resume(self, token: Token) -> None:
        """Close the previous step and continue the step that `enter` opened."""
        self.started = self._stop(perf_counter())
        self.current, self.seq, self.n, self.here = token
        self.beyond = None
        self.covered = self.current in self.recorder.program.covered

    def end(self) -> None:
        """Close the step; until the next probe, time counts as the tracer's."""
        clock, timing = self.recorder.clock, self.timing
        gpu, seconds = None, None
        launched_s = perf_counter() - clock.lost - self.started
        if timing is not None:
            self.timing = None
            clock.events -= 1
            gpu = clock.waitable_gpu()  # None if the statement began to capture a graph
            if gpu is not None:
                seconds = clock.stop_on_device(gpu, timing, _getframe(1).f_lineno)
        now = perf_counter()
        self._stop(now)
        if gpu is not None and seconds is not None:
            self.observe("device_ns", max(0, round(1e9 * seconds)))
            self.observe("launch_ns", max(0, round(1e9 * launched_s)))
            self.observe("allocated_bytes", gpu.allocated_bytes())
        self.current = None
        self.ended = now - clock.lost

    def close(self) -> None:
        """Close the frame."""
        at = self._stop(perf_counter())
        self.current = None
        self._stop_timing()
        self._end_call()
        self.recorder.clock.lost = perf_counter() - at

    def _stop_timing(self) -> None:
        """Stop timing the open step on the device, because an error has ended it."""
        if self.timing is not None:
            self.timing = None
            self.recorder.clock.events -= 1
