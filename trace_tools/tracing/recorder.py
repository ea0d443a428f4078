"""What the probes call: frames and steps, their clocks and their values, on their way to the journal.

The generated code holds an `OpenFrame`, one call of a lecture function, in a local variable and calls, before each
statement, `step`; around annotated ones `begin` and `end`, then `value`; `held` or `broken` for an assert; `close` at
the end. A frame's parent is found by walking the Python stack, so generators, coroutines, threads, exceptions and
calls back from C++ need no stack of ours.

Time is `clock() - recorder.lost`: a clock that stands still while anything is being recorded, so that what recording
takes is in no step, however many are open.

Where a step's records go depends on whether the limit may yet leave it out. The first executions of a statement in a
frame, half the limit, are certain: their records go on to where the frame's go (`out`: the calling step's records,
and below `main` the journal). Of those beyond, the last are kept. Nearly all of them record nothing but their time,
and they are what costs time in a loop of a million; so such a step is three numbers in a ring, added once it is over.
A step that records anything else (its values, the calls it makes, what it prints) is a list in that ring instead,
from then on (`pin`).
"""

from __future__ import annotations

import copy
import functools
import gc
import inspect
import itertools
import math
import sys
import threading
import time
import traceback
import weakref
from _thread import get_ident
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from sys import _current_frames, _getframe, exception
from types import CodeType, FrameType
from typing import Any, Protocol

from trace_tools.accelerators import Accelerator, Mark
from trace_tools.describing.gate import EXPRESSION_S, NO_WATCH, Gate, Watch
from trace_tools.describing.safe_repr import class_name, is_a
from trace_tools.describing.threads import start_apart
from trace_tools.tracing.bounds import BOUNDS, FAILED, FEW, STEPS, Account, Bound, Records, Telling
from trace_tools.tracing.claims import Evaluations, TimedClaims
from trace_tools.tracing.instrument import IS_COMPILING, OPEN, SCOPE, SHOWN, SKIPPED, UNSET, Instrumented, is_generated
from trace_tools.tracing.journal import (
    Argument,
    FrameEnd,
    FrameStart,
    Journal,
    LastExecutions,
    Observation,
    Omission,
    OpenStep,
    Refused,
    Row,
    StepError,
    StepTime,
)
from trace_tools.tracing.standard_output import OutputFile

PRINTED_S = 0.5e-6  # what is done sooner has not written to a descriptor
FLUSH_S = 0.02  # a step that ended this long ago is in the journal

Token = tuple[int, int, int, Records]  # statement, step, execution and records of a step that is left
Kept = tuple[int, int, float] | tuple[int, Records]  # execution, step and seconds; or execution and its records

OPAQUE = 0  # the key of the frame that stands for an opaque function's

clock = time.perf_counter  # in s: arithmetic on integers of that many ns takes Python twice as long
NONE: dict[int, Any] = {}
_TRACEBACK = BaseException.__dict__["__traceback__"].__get__  # a class of the lecture may define its own


class DescriberLike(Protocol):
    """Turns values into plain data: `describing.values.Describer`."""

    gate: Gate

    def describe(self, obj: object) -> dict[str, Any]: ...
    def error(self, error: BaseException) -> dict[str, Any]: ...


class MeterLike(Protocol):
    """Counts what operators do: `metering.meters.Meter`."""

    def reading(self) -> Any: ...
    def take_peak(self) -> int: ...
    def take_spent(self) -> float: ...
    def paused(self) -> AbstractContextManager[None]: ...


@dataclass(frozen=True, slots=True)
class Instruments:
    """What a recorder measures with."""

    describer: DescriberLike
    gpu: Accelerator | None = None  # that the lecture may use
    meter: MeterLike | None = None  # of a metered run
    section: Callable[[str], None] | None = None  # told of each function that main calls
    output: OutputFile | None = None  # descriptor 1, where others than Python print


@dataclass(frozen=True, slots=True)
class Settings:
    """How one run is recorded."""

    limit: int = 100  # executions kept per frame and statement: the first and the last half
    frames: int = 1000  # frames kept per function
    steps: int = STEPS  # steps kept in all, see `Recorder.has_room`
    bounds: Mapping[str, Bound] = field(default_factory=lambda: BOUNDS)  # of what is said and described
    failing_claims_raise: bool = True  # else those that the lecture catches do, as far as its code says so
    timed_claims: TimedClaims | None = None  # beside the timed runs: what claims did there, they do here
    opaque: frozenset[CodeType] = frozenset()  # calls under these functions are not recorded
    included: frozenset[str] = frozenset()  # names of modules that are traced with the lecture
    describe_values: bool = True


class _Unset:
    """What a claim's side is when the comparison never came to it."""


UNSET_SIDE = _Unset()


class Executions:
    """Of one statement in one frame, whose head is full: how many so far, and the last of those beyond it."""

    __slots__ = ("count", "head", "kept", "pinned", "rescued", "seconds")

    def __init__(self, head: int, tail: int) -> None:
        self.head = head
        self.count = head
        self.kept: deque[Kept] = deque(maxlen=tail)
        self.pinned = 0  # of those in `kept`, how many have a list of records
        self.rescued = 0  # of those that were to be left out, how many were kept: a claim failed in them
        self.seconds = 0.0  # of the others, and of those that were left out


class OpenFrame:
    """One call of a lecture function, while it runs."""

    recorded = True
    n = 0  # of the open step: which execution it is,
    started = math.inf  # and since when it has run
    code: CodeType | None = None  # of its Python frame
    mark: Mark | None = None  # of the device's clock, at its start
    idle_before = lost_before = 0.0
    failing: int | None = None  # the step whose claim is being raised
    marked: dict[str, int] | None = None  # mark → the last step that has it
    watched: Watch = NO_WATCH  # the expression that is being evaluated
    tails = 0  # executions for which `full` has room
    charged = 0  # steps of this call that the run has accounted for
    looping: OpenFrame | None = None  # the outermost caller whose step may yet be left out, with this call
    tellings: dict[str, Telling] | None = None  # what the last step to say anything says, by kind

    def __init__(self, recorder: Recorder, key: int, number: int, parent: OpenFrame | None) -> None:
        self.recorder = recorder
        self.key = key
        self.parent = parent
        self.id = recorder.frame_ids()
        self.current: int | None = None  # the statement of the open step
        self.seq = -1  # its number
        self.covered = False
        self.ended = 0.0  # when it ended, if the tracer is reading values now
        self.counts: dict[int, int] = {}  # executions of each statement, as long as its head is not full
        self.full: dict[int, Executions] = NONE  # by statement, from then on
        self.beyond: Executions | None = None  # those that the open step will be added to, unless it is pinned before
        self.thread = get_ident()
        # Where the frame's records go, and where the open step's go, unless it is still to be pinned.
        if parent is None:
            self.out = self.here = recorder.pending
            self.out.append((FrameStart, self.id, number, None, None))
        else:
            self.out = self.here = parent.here if parent.beyond is None else parent.pin()
            if self.out is not recorder.pending:
                self.looping = parent.looping or parent
            name = None if parent.thread == self.thread else _thread_name(self.thread)
            self.out.append((FrameStart, self.id, number, parent.seq, name))
            if parent.parent is None and recorder.instruments.section:
                recorder.instruments.section(recorder.program.functions[number])

    # ------------------------------------------------------------------ steps

    def step(self, statement: int) -> None:
        """Close the step before, open one for this statement.

        Every statement of a lecture pays for this: in a loop it calls nothing of ours, and makes one tuple.
        """
        now = clock()
        recorder, last = self.recorder, self.beyond
        at = now - recorder.lost
        seconds = at - self.started
        if seconds > PRINTED_S and recorder.has_output():
            self._look()
            last = self.beyond
        if last is None and not self.ended:
            self.covered = False
            if self.current is not None:
                self.here.append((StepTime, self.seq, self.id, self.current, self.n, round(1e9 * seconds)))
        elif last is None or last.pinned:
            at = self._stop(now)
        else:
            last.seconds += seconds
            last.kept.append((last.count, self.seq, seconds))  # the oldest falls out
        executions = self.full.get(statement)
        if executions is not None:
            executions.count += 1
            self.beyond = executions
        else:
            self.here, self.beyond = self.out, None
            counts = self.counts
            self.n = counts[statement] = n = counts.get(statement, 0) + 1
            if n >= recorder.head:
                self.full = {**self.full, statement: Executions(n, recorder.tail)}
                self.tails += recorder.tail
        self.current = statement
        self.seq = recorder.sequence()
        self.started = at
        if now > recorder.due:
            self.account()
            recorder.see_steps()
            recorder.flush()
        recorder.lost = clock() - at

    def _look(self) -> None:
        """Record what others than Python have printed: in the open step, since it was looked when that began."""
        if self.current is not None and (text := self.recorder.output()):
            self.tell("stdout", text)

    def _stop(self, now: float) -> float:
        """Close the open step, if there is one; return the time without what recording took."""
        if self.ended:
            now = self._resumed(now)
        elif now - self.recorder.lost - self.started > PRINTED_S and self.recorder.has_output():
            self._look()
        self.covered = False
        at, last = now - self.recorder.lost, self.beyond
        if last is not None:
            self._make_room(last)
            last.seconds += at - self.started
            last.kept.append((last.count, self.seq, at - self.started))
            self.beyond = None
        elif self.current is not None:
            self.here.append((StepTime, self.seq, self.id, self.current, self.n, round(1e9 * (at - self.started))))
        return at

    def account(self) -> None:
        """Charge the run for what this call has kept since this was last done, as if its loops had filled their tails.

        That is done when it ends, when it makes a call for which there may be no room, and now and then.
        """
        steps = sum(self.counts.values()) + self.tails
        if steps != self.charged:
            self.recorder.bounds.charge_steps(self.out, steps - self.charged)
            self.charged = steps

    def pin(self) -> Records:
        """Return the list where the open step's records go, a new one of its own if it is beyond the head."""
        last = self.beyond
        if last is not None:
            self._make_room(last)
            self.n, self.here = last.count, Records()
            last.kept.append((self.n, self.here))
            last.pinned += 1
            self.beyond = None
        return self.here

    def _make_room(self, executions: Executions) -> None:
        """Leave out the oldest execution where there are as many as are kept: its calls have not been made, then."""
        if len(executions.kept) == executions.kept.maxlen:
            self.leave_out_oldest(executions)

    def leave_out_oldest(self, executions: Executions) -> None:
        """Leave out an execution with all that happened in it, unless a claim failed there: that is never lost."""
        recorder = self.recorder
        oldest = executions.kept.popleft()
        if len(oldest) == 3:
            return
        records = oldest[1]
        executions.pinned -= 1
        if recorder.written:
            recorder.written.pop(id(records), None)
        if recorder.claim_failed and recorder.rescued < FAILED and any(map(_is_failed_claim, records)):
            recorder.rescued += 1
            executions.rescued += 1
            recorder.bounds.hand_on(records, self.out)
            self.out += records
            return
        recorder.bounds.give_back(records)
        for row in records:
            if row[0] is FrameStart:
                recorder.opened[row[2]] -= 1
            elif row[0] is StepTime and row[2] == self.id:
                executions.seconds += row[5] / 1e9

    def kept(self, statement: int, executions: Executions) -> tuple[list[Kept], Row | None]:
        """Return a statement's last executions beyond the head, and what was left out before them."""
        kept, seconds = list(executions.kept), executions.seconds  # a copy: the lecture may be running
        if executions is self.beyond and len(kept) == executions.kept.maxlen and len(kept[0]) == 3:
            del kept[0]  # the open step will have its place
        first = kept[0][0] if kept else 0
        omitted = first - executions.head - executions.rescued - 1
        if omitted <= 0:
            return kept, None
        seconds -= sum(entry[2] for entry in kept if len(entry) == 3)
        return kept, (Omission, self.id, statement, omitted, round(1e9 * seconds), first)

    def begin(self, statement: int) -> None:
        """Open the step of an annotated statement: on CUDA, once the device has nothing left to do."""
        self.step(statement)
        recorder = self.recorder
        now = clock()
        self.pin()
        self.covered = statement in recorder.program.covered
        gpu = recorder.waitable_gpu()
        if gpu is not None:
            self.mark = gpu.start()
            self.idle_before = recorder.idle
            recorder.events += 1
            recorder.waited_at = _getframe(1).f_lineno
        recorder.lost += clock() - now

    def enter(self, statement: int) -> Token:
        """Open a step that is left and resumed: return what `resume` needs."""
        self.begin(statement)
        return (statement, self.seq, self.n, self.here)

    def resume(self, token: Token) -> None:
        """Close the step before, and go on with the one `enter` opened."""
        self.started = self._stop(clock())
        self.current, self.seq, self.n, self.here = token
        self.beyond = None
        self.covered = self.current in self.recorder.program.covered

    def end(self) -> None:
        """Close the step; until the next probe, time is the tracer's."""
        recorder, mark, gpu = self.recorder, self.mark, None
        if mark is not None:
            self.mark = None
            recorder.events -= 1
            gpu = recorder.waitable_gpu()  # None where the statement began to capture a graph
            if gpu is not None:
                seconds = gpu.stop(mark)
                recorder.waited_at = _getframe(1).f_lineno
        now = clock()
        self._stop(now)
        if gpu is not None:
            self.observe("device_ns", max(0, round(1e9 * (seconds - (recorder.idle - self.idle_before)))))
            self.observe("allocated_bytes", gpu.allocated_bytes())
        self.current = None
        self.ended, self.lost_before = now, recorder.lost

    def close(self) -> None:
        """Close the frame: what the limit kept is certain now."""
        recorder = self.recorder
        at = self._stop(clock())
        self.current = None
        if self.tellings:
            self.settle()
        if self.full:
            self.out += [*self._all_kept(), (FrameEnd, self.id)]  # at once: another thread may be writing the tail
        if not self.out.left_out:  # as in `account`
            steps = sum(self.counts.values()) + self.tails - self.charged
            self.out.steps += steps
            recorder.bounds.steps += steps
            if (recorder.bounds.steps >= recorder.settings.steps) is not recorder.few:
                recorder.see_steps()
        recorder.frames.pop(self.key, None)
        if self.parent is None:
            recorder.last = self.seq
        recorder.lost = clock() - at

    def leave_open(self) -> None:
        """Record what is known of a call that has not ended with the run: a generator's that nobody closed, a thread's.

        The step that is open has begun, and takes no time; what the limit kept is certain now, as at an end.
        """
        rows = self.recorder.pending
        if self.out.left_out:
            return
        if self.current is not None:
            count = self.beyond.count if self.beyond else self.n
            rows.append((OpenStep, self.seq, self.id, self.current, count))
        if self.full:
            rows += self._all_kept()

    def _all_kept(self) -> Iterator[Row]:
        written, bounds = self.recorder.written, self.recorder.bounds
        self.tails = 0
        for statement, executions in self.full.items():
            kept, omission = self.kept(statement, executions)
            self.tails += len(kept) + executions.rescued
            for entry in kept:
                if len(entry) == 3:
                    yield (StepTime, entry[1], self.id, statement, entry[0], round(1e9 * entry[2]))
                else:
                    yield from entry[1]
                    bounds.hand_on(entry[1], self.out)
                    written.pop(id(entry[1]), None)
            if omission:
                yield omission
            written.pop(id(executions), None)
        self.full = NONE

    def _resumed(self, now: float) -> float:
        """Take out what passed since the step ended: the tracer was reading values; return the time now."""
        recorder = self.recorder
        gpu = recorder.waitable_gpu() if recorder.events else None
        if gpu is not None:  # a step around this one is timed on the device, which waited
            gpu.wait()
            now = clock()
            recorder.idle += now - self.ended
        recorder.lost = self.lost_before + now - self.ended
        self.ended = 0.0
        return now

    # ------------------------------------------------------------------ what is in a step

    def observe(self, field: str, content: Any) -> None:
        """Record what was observed of the open step, or of the one that has just ended."""
        self.pin().append((Observation, self.seq, field, content))

    def watch(self, source: str) -> None:
        """Limit what the lecture's code does while an expression is evaluated in its frame."""
        self.watched = self.recorder.instruments.describer.gate.watch(source)
        self.watched.start(EXPRESSION_S, _getframe(1))

    def tell(self, kind: str, content: Any) -> None:
        """Record what is said in the open step, or in the one that has just ended, within the bounds of `kind`."""
        records = self.pin()
        if self.tellings is None:
            self.tellings = {}
        telling = self.tellings.get(kind)
        if telling is None or telling.step != self.seq:
            if telling is not None:
                self.settle(kind)
            telling = self.tellings[kind] = Telling(self.recorder.bounds, records, self.seq, kind)
        telling.add(content)
        if telling.unsettled:
            self.recorder.unsettled[id(telling)] = telling

    def settle(self, *kinds: str) -> None:
        """Make records of what steps of this call have said last: nothing more will be."""
        for kind in kinds or [*(self.tellings or ())]:
            if self.tellings and (telling := self.tellings.pop(kind, None)):
                telling.settle()
                self.recorder.unsettled.pop(id(telling), None)

    def value(self, source: str, unit: str | None, value: object) -> None:
        if self.watched is not NO_WATCH:
            self._evaluated()
        self.here.append((Observation, self.seq, "values", (source, unit, self._described(value))))

    def value_failed(self, source: str, unit: str | None) -> None:
        self.here.append((Observation, self.seq, "values", (source, unit, self._failed(source))))

    def argument(self, source: str, unit: str | None, value: object) -> None:
        if self.watched is not NO_WATCH:
            self._evaluated()
        self.out.append((Argument, self.id, source, unit, self._described(value)))

    def argument_failed(self, source: str, unit: str | None) -> None:
        self.out.append((Argument, self.id, source, unit, self._failed(source)))

    def _evaluated(self) -> None:
        watched = self.watched
        watched.armed = False
        watched.calm()
        self.watched = NO_WATCH
        watched.close()

    def _failed(self, source: str) -> Any:
        """Return what stands for the value of an expression that raised, unless that was Ctrl-C."""
        error = exception()
        assert error is not None
        self._evaluated()
        describer = self.recorder.instruments.describer
        describer.gate.failed(source, error)
        return self._unseen(describer.error, error)

    def held(self, statement: int, *sides: object) -> None:
        """Record a claim that held."""
        self.recorder.evaluations.next(statement, measured=False)
        self._claim(statement, "held", sides)

    def broken(self, statement: int, *sides: object) -> bool:
        """Record a claim that did not hold; return whether the assertion is to fail."""
        raises = self.recorder.raises(statement, self)
        self.break_claim(statement, sides, raises=raises)
        return raises

    def break_claim(self, statement: int, sides: tuple[object, ...], *, raises: bool, below: bool = False) -> None:
        """Record a claim that did not hold in this call, or in one `below` it that is not recorded.

        There may be any number of the latter in one step.
        """
        self.recorder.claim_failed = True
        self._claim(statement, "raised" if raises else "passed over", sides, below=below)
        if raises:
            self.failing = self.seq

    def _claim(self, statement: int, how: str, sides: tuple[object, ...], *, below: bool = False) -> None:
        with self.recorder.apart():
            described = [None if side is UNSET_SIDE else self._described(side) for side in sides]
            record = self.tell if below else self.observe
            record("claim", (statement, how, described))

    def _described(self, value: object) -> Any:
        if not self.recorder.settings.describe_values:
            return None
        try:
            plain = self._unseen(self.recorder.instruments.describer.describe, value)
        except RecursionError as error:  # the lecture has filled the stack
            plain = self.recorder.instruments.describer.error(error)
        return self.recorder.bounds.value(self.pin(), plain)

    def _unseen(self, describe: Callable[[Any], Any], value: object) -> Any:
        """Describe `value`; what that calls in the lecture, a `__repr__` say, is not recorded."""
        covered, self.covered = self.covered, True
        try:
            return describe(value)
        finally:
            self.covered = covered

    def caught(self) -> None:
        """Record the exception that an `except` clause of this frame has just caught."""
        error = exception()
        self._exception(error, _getframe(1))
        self.recorder.claim_in(error)

    def survived(self) -> None:
        """Record the exception that ended a section, and free what the section held: the next one is to run."""
        error = exception()
        self._exception(error, _getframe(1), survived=True)
        self.recorder.claim_in(error)
        now, gpu = clock(), self.recorder.instruments.gpu
        known: set[int] = set()
        while error is not None and id(error) not in known:
            known.add(id(error))
            traceback.clear_frames(error.__traceback__)
            error = error.__cause__ or error.__context__
        gc.collect()
        if gpu is not None:
            gpu.empty_cache()
        self.recorder.lost += clock() - now

    def raised(self) -> None:
        """Record the exception that is leaving this frame."""
        error = exception()
        if is_a(type(error), GeneratorExit) or exits_well(error):  # a generator being closed; the end of a program
            return
        self._exception(error, _getframe(1))
        if id(error) in self.recorder.failing and self._is_outermost(_getframe(1)):
            claim = self.recorder.claim_in(error)
            if claim is not None:
                self.pin().append((Observation, claim, "left", True))

    def _is_outermost(self, python_frame: FrameType) -> bool:
        """Whether this is a section, what calls sections, or where a thread began.

        What a thread pool or a task runs is none of these: a future hands the error on to whoever asks for the result.
        """
        if python_frame.f_code.co_flags & inspect.CO_COROUTINE:
            return False
        if self.parent is not None and self.parent.thread != self.thread:
            caller = python_frame.f_back
            return caller is None or caller.f_code.co_filename == threading.__file__
        return self.parent is None or self.parent.parent is None

    def _exception(self, error: BaseException | None, python_frame: FrameType, *, survived: bool = False) -> None:
        now = clock()
        if self.failing is not None and is_a(type(error), AssertionError):
            self.recorder.failing[id(error)] = (self.failing, _origin(error))
            self.failing = None
        entry = _TRACEBACK(error) if error is not None else None
        while entry is not None and entry.tb_frame is not python_frame:
            entry = entry.tb_next
        line = entry.tb_lineno if entry else python_frame.f_lineno
        origin = line
        while entry is not None:
            if entry.tb_frame.f_code.co_filename == python_frame.f_code.co_filename:
                origin = entry.tb_lineno
            entry = entry.tb_next
        kind = class_name(type(error))
        described = self._unseen(self.recorder.instruments.describer.error, error)
        text = self.recorder.bounds.value(self.pin(), described)["text"].removeprefix(kind).removeprefix(": ")
        raised = {"type": kind, "message": text, "origin_line": origin} | ({"survived": True} if survived else {})
        gpu = self.recorder.instruments.gpu
        if gpu is not None and gpu.is_its_error(error):
            raised["waited_line"] = self.recorder.waited_at
        self.pin().append((StepError, self.id, self.seq, line, raised))
        self.recorder.lost += clock() - now


class MeteredFrame(OpenFrame):
    """A frame of a metered run: at each boundary it reads the meter, and what that and counting took is no step's."""

    __slots__ = ("meter", "most", "pause", "peak", "reading")

    def __init__(self, recorder: Recorder, key: int, number: int, parent: OpenFrame | None) -> None:
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
        self.pause = self.meter.paused()  # what `@inspect` computes is in no step
        self.pause.__enter__()

    def close(self) -> None:
        self._read()
        super().close()
        if isinstance(self.parent, MeteredFrame):
            self.parent.peak = max(self.parent.peak, self.most)

    def _start(self) -> None:
        now = clock()
        self.peak = self.meter.take_peak()
        self.reading = self.meter.reading()
        self.recorder.lost += clock() - now

    def _read(self) -> None:
        now = clock()
        if self.pause is not None:
            self.pause.__exit__(None, None, None)
            self.pause = None
        self.peak = max(self.peak, self.meter.take_peak())
        self.most = max(self.most, self.peak)
        if self.current is not None:
            meters = (self.meter.reading() - self.reading).plain()
            self.observe("meters", {**meters, "peak_bytes": self.peak})
        self.recorder.lost += clock() - now + self.meter.take_spent()

    def _described(self, value: object) -> Any:
        with self.meter.paused():
            return super()._described(value)


class DroppedFrame:
    """A call that is not recorded: under @stepover, beyond a limit, or while values are read."""

    __slots__ = ("code", "current", "key", "measured", "parent", "recorder")

    recorded = False

    def __init__(self, recorder: Recorder, key: int, parent: OpenFrame | DroppedFrame | None) -> None:
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

    raised = pin = account = leave_open = end

    def caught(self) -> None:
        """A claim that failed in here did not fail: the lecture caught it."""
        frame = self._around()
        if frame is not None:
            frame.failing = None

    survived = caught

    def close(self) -> None:
        self.recorder.frames.pop(self.key, None)

    def held(self, statement: int, *sides: object) -> None:
        """Count a claim that held."""
        self.recorder.evaluations.next(statement, measured=self.measured)

    def broken(self, statement: int, *sides: object) -> bool:
        """Pass a claim that did not hold on to the step under which it happened."""
        raises, frame = self.recorder.raises(statement, self), self._around()
        if frame is not None:
            frame.break_claim(statement, sides, raises=raises, below=True)
        return raises

    def _around(self) -> OpenFrame | None:
        frame = self.parent
        while isinstance(frame, DroppedFrame):
            frame = frame.parent
        return frame


class Recorder:
    """Records one run of an instrumented lecture."""

    def __init__(self, program: Instrumented, journal: Journal, instruments: Instruments, settings: Settings) -> None:
        self.program = program
        self.journal = journal
        self.instruments = instruments
        self.settings = settings
        self.few = False  # whether few executions of a statement are kept
        self.head = max(1, settings.limit // 2)
        self.tail = max(1, settings.limit - self.head)
        self.bounds = Account(settings.bounds)
        self.count_at = 0  # the number of the step at which steps are counted again
        self.section_began = 0  # steps kept before the last section did
        self.room_until = 0  # the number of a step before which there is room for any call: no more were kept than were
        self.claim_failed = False  # whether any did
        self.rescued = 0  # executions kept because one failed in them
        self.unsettled: dict[int, Telling] = {}  # by id: what more may be said of
        self.glanced: Telling | None = None  # what others print during a long statement
        self.lost = 0.0  # s spent recording so far: taken out of every step open at the time
        self.idle = 0.0  # of them, s for which a device had nothing to do, while a step was timed on it
        self.events = 0  # steps that are being timed on the device
        self.waited_at: int | None = None  # the line at which all that the device had to do was done, as far as known
        self.evaluations = Evaluations()
        # By id of an AssertionError under way: the step whose claim it is, and where it was raised, see `claim_in`.
        self.failing: dict[int, tuple[int, tuple[str, int] | None]] = {}
        self.due = 0.0
        self.last = 0  # the step with which the last call ended that had no caller: that of `main`
        self.pending = Records()
        self.frames: dict[int, OpenFrame | DroppedFrame] = {}  # by id of the Python frame
        self.opened: dict[int, int] = {}  # calls kept, by function
        self.refused: Counter[int] = Counter()  # calls of a function beyond those kept
        self.sequence = itertools.count().__next__
        self.frame_ids = itertools.count().__next__
        self.started_by: dict[int, tuple[Any, OpenFrame | DroppedFrame]] = {}  # by id of a thread: it, weakly, and who
        self.frame_type: type[OpenFrame] = MeteredFrame if instruments.meter else OpenFrame
        self.written: dict[int, int] = {}  # by id: records of a list in the tail, of `Executions` the last one
        self.namespace: dict[str, Any] | None = None  # of the lecture's module in this run
        self.flushing = threading.Lock()  # held by the thread that writes
        self.over = False  # the run has ended: what is recorded now, as a generator dies, say, is of no run
        self.has_output: Callable[[], bool] = instruments.output.grown if instruments.output else bool

    # ------------------------------------------------------------------ frames

    def open(self, number: int) -> OpenFrame | DroppedFrame:
        """Open the frame of the function call that calls this."""
        now = clock()
        python_frame = _getframe(1)
        key, caller = id(python_frame), python_frame.f_back
        names = python_frame.f_globals
        if self.namespace is not None and names is not self.namespace and not self._is_included(names):
            return DroppedFrame(self, key, None)  # of the run before: a thread that it left, say
        parent = self.frames.get(id(caller))
        if parent is None or caller is None or parent.code is not caller.f_code:
            parent = self.owner(caller)
        if isinstance(parent, OpenFrame) and now - self.lost - parent.started > PRINTED_S and self.has_output():
            parent._look()
        frame: OpenFrame | DroppedFrame
        if (
            isinstance(parent, DroppedFrame)
            or number in self.program.covered
            or (parent is not None and (parent.current is None or parent.covered))
        ):
            frame = DroppedFrame(self, key, parent)
        elif not self.has_room(number, parent):
            self.refused[number] += 1
            frame = DroppedFrame(self, key, parent)
        else:
            self.opened[number] = self.opened.get(number, 0) + 1
            frame = self.frame_type(self, key, number, parent)
        frame.code = python_frame.f_code
        gone = self.frames.get(key)
        if gone is not None:  # this call has its place in memory: a generator died that ignores its end
            gone.leave_open()
        self.frames[key] = frame
        self.lost += clock() - now
        return frame

    def _is_included(self, names: dict[str, Any]) -> bool:
        """Whether these are the global names of a module that is traced with the lecture, as it is in this run."""
        module = sys.modules.get(names.get("__name__", "")) if self.namespace else None
        return module is not None and module.__name__ in self.settings.included and vars(module) is names

    def has_room(self, number: int, parent: OpenFrame | None) -> bool:
        """Whether a call is recorded: there are not yet as many of its function, nor as many steps.

        In a loop, a call may take the place of those in executions before the last ones.
        """
        few = self.opened.get(number, 0) < self.settings.frames
        if parent is None or (few and parent.seq < self.room_until and parent.parent is not None):
            return few
        most = self._room_for(number, parent)

        def is_full() -> bool:
            return self.opened.get(number, 0) >= self.settings.frames or self.bounds.steps >= most

        loop = parent.looping or parent
        executions = loop.full.get(loop.current) if loop.current is not None and is_full() else None
        while executions and loop.thread == get_ident() and is_full() and _can_be_left_out(executions):
            loop.leave_out_oldest(executions)
        self.see_steps()
        return not is_full()

    def _room_for(self, number: int, parent: OpenFrame) -> int:
        """Return how many steps the run may have kept for a call to be kept, too.

        So that what a reader looks for is there, whatever came before it, plain functions have four eighths of all
        steps, those in which something is inspected, asserted or said six, and sections all; an eighth of each is for
        calls in the last executions of loops. Below a section it is half of what was left of that when the section
        began: the next one has some, too.
        """
        eighth = self.settings.steps // 8
        for_loops = eighth if parent.here is self.pending and parent.beyond is None else 0
        if parent.parent is None:
            self.section_began, self.room_until = self.bounds.steps, 0
            return 8 * eighth - for_loops
        self._count_steps(parent)
        began = self.section_began

        def half(steps: int) -> int:
            return began + max(0, steps - began) // 2

        # A call makes a step at least: until so many more have begun, there is room for calls of every kind.
        self.room_until = parent.seq + max(0, half(3 * eighth) - self.bounds.steps)
        return half((6 if number in self.program.annotated else 4) * eighth - for_loops)

    def _count_steps(self, frame: OpenFrame | DroppedFrame | None) -> None:
        """Count what the calls under way have kept, unless that was done a few steps ago."""
        if isinstance(frame, OpenFrame) and frame.seq >= self.count_at:
            depth, self.count_at = 0, frame.seq
            while frame is not None:
                frame.account()
                frame, depth = frame.parent, depth + 1
            self.count_at += min(100 + depth, self.settings.steps // 100)

    def see_steps(self) -> None:
        """Keep few executions of a statement once the run has all its steps, and as many as it should before."""
        few = self.bounds.steps >= self.settings.steps
        if few != self.few:
            self.few = few
            limit = min(self.settings.limit, 2 * FEW) if few else self.settings.limit
            self.head = max(1, limit // 2)
            self.tail = max(1, limit - self.head)

    def owner(self, python_frame: FrameType | None) -> OpenFrame | DroppedFrame | None:
        """Return the nearest traced frame on the stack, or the one that started this thread."""
        owner = self._nearest(python_frame)
        if owner is not None or threading.get_ident() == threading.main_thread().ident:
            return owner
        if get_ident() in self.instruments.describer.gate.observing:  # a thread in which a `__repr__` runs, say
            return DroppedFrame(self, 0, None)
        thread = threading._active.get(get_ident())  # type: ignore[attr-defined]
        if id(thread) in self.started_by:
            return self.started_by[id(thread)][1]
        # One of C++, which works for the main thread as a rule: autograd's for a device, say.
        return self._nearest(_current_frames().get(threading.main_thread().ident or 0))

    def _nearest(self, python_frame: FrameType | None) -> OpenFrame | DroppedFrame | None:
        """Return the nearest traced frame on a stack; where `measure` or `count` is above it, one that is dropped."""
        frames, opaque = self.frames, self.settings.opaque
        dropped = False
        while python_frame is not None:
            frame = frames.get(id(python_frame))
            if frame is not None and frame.code is python_frame.f_code:  # else one is gone that had its place in memory
                return DroppedFrame(self, OPAQUE, frame) if dropped else frame
            if python_frame.f_code in opaque:
                dropped = True
            python_frame = python_frame.f_back
        return None

    def starts(self, thread: threading.Thread, owner: OpenFrame | DroppedFrame) -> None:
        """Note which step starts a thread; the lecture's class may give threads another hash, or none."""
        owner.pin()
        forget = functools.partial(self.started_by.pop, id(thread))
        starter = copy.copy(owner)
        if isinstance(starter, OpenFrame):
            starter.tellings = None  # what a thread says, it says apart
        self.started_by[id(thread)] = weakref.ref(thread, lambda _: forget(None)), starter

    # ------------------------------------------------------------------ what happens during a step

    def emit(self, field: str, content: Any) -> None:
        """Record what was observed of the step that is open where this was called."""
        if field != "measured" and get_ident() in self.instruments.describer.gate.observing:
            return  # a `__repr__` printed, which the lecture itself does not call
        now = clock()
        owner = self.owner(_getframe(1))
        while owner is not None and (isinstance(owner, DroppedFrame) or owner.seq < 0):
            owner = owner.parent
        if owner is not None:
            owner.tell(field, content)
        self.lost += clock() - now

    def output(self) -> str:
        """Return what others than Python have printed since the last time."""
        return self.instruments.output.take() if self.instruments.output else ""

    def printed(self, text: str) -> None:
        """Record what Python prints, behind what others have printed before."""
        if self.has_output() and (others := self.output()):
            self.emit("stdout", others)
        self.emit("stdout", text)

    def _glance(self) -> None:
        """Record what others print during a long statement of the main thread, from the thread that watches.

        A step that was not open at the last glance looks itself when it ends. This one may end at any moment, so
        nothing of it is touched: an observation may stand on either side.
        """
        if not self.has_output():
            return
        main = _current_frames().get(threading.main_thread().ident or 0)
        owner = self.owner(main)
        while owner is not None and (isinstance(owner, DroppedFrame) or owner.current is None):
            owner = owner.parent
        if owner is None:
            return
        if self.glanced is None or self.glanced.step != owner.seq:
            self.glanced = Telling(self.bounds, self.pending, owner.seq, "stdout")
        elif text := self.output():
            self.glanced.add(text)
            if self.glanced.unsettled:
                self.unsettled[id(self.glanced)] = self.glanced

    def finish(self) -> None:
        """Record what others than Python have printed to the end, and what C libraries have kept until now."""
        output = self.instruments.output
        if output is not None and (text := output.finish()):
            telling = Telling(self.bounds, self.pending, self.last, "stdout")
            telling.add(text)
            if telling.unsettled:
                self.unsettled[id(telling)] = telling

    def forget(self) -> None:
        """Go on in the child of a fork: what is recorded there goes nowhere."""
        self.journal.forget()
        self.flushing = threading.Lock()  # the thread that held it is the parent's
        self.has_output = bool

    def mark(self, field: str) -> None:
        """Mark every step open on this stack, once."""
        frame = self.owner(_getframe(1))
        while frame is not None:
            if isinstance(frame, OpenFrame):
                frame.marked = frame.marked or {}
                if frame.marked.get(field) != frame.seq:
                    frame.marked[field] = frame.seq
                    frame.observe(field, True)
            frame = frame.parent

    def waitable_gpu(self) -> Accelerator | None:
        """Return the GPU, if the lecture uses one and it may be waited for now."""
        gpu = self.instruments.gpu
        return gpu if gpu is not None and gpu.can_wait() else None

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Keep what happens inside the `with` block out of every step, on the device's clock, too."""
        gpu = self.waitable_gpu() if self.events else None
        if gpu is not None:
            gpu.wait()  # the device is at work for a step: until it is done, that is the step's time
        started, lost = clock(), self.lost
        try:
            yield
        finally:
            if gpu is not None:
                gpu.wait()
                self.idle += clock() - started
            self.lost = lost + clock() - started

    def raises(self, statement: int, frame: OpenFrame | DroppedFrame) -> bool:
        """Count an evaluation of an assert that fails in this frame; return whether it raises.

        It does as in the timed runs, and where these say nothing, as the user has asked; also then it raises where the
        lecture itself is about to catch it: what it does then is part of the lecture.
        """
        measured = isinstance(frame, DroppedFrame) and frame.measured
        evaluation = self.evaluations.next(statement, measured=measured)
        timed = self.settings.timed_claims
        raised = timed.raises(evaluation) if timed else None
        if raised is None:
            raised = self.settings.failing_claims_raise or self.is_caught(statement, frame)
        if raised:
            self.evaluations.note_raised(evaluation)
        return raised

    def claim_in(self, error: BaseException | None) -> int | None:
        """Return the step whose claim this error is, once.

        No reference is kept to an error under way: that would keep what its frames hold alive. So when a library has
        swallowed one, another error may have its address by now: that one comes from elsewhere.
        """
        step, origin = self.failing.pop(id(error), (None, None))
        return step if is_a(type(error), AssertionError) and _origin(error) == origin else None

    def is_caught(self, statement: int, frame: OpenFrame | DroppedFrame | None) -> bool:
        """Whether the lecture will catch an AssertionError that a statement raises: it, or what called it, is tried."""
        at: int | None = statement
        while frame is not None:
            if at in self.program.catching:
                return True
            caller = frame.parent
            if isinstance(frame, OpenFrame) and isinstance(caller, OpenFrame) and caller.thread != frame.thread:
                return False
            frame, at = caller, caller.current if caller is not None else None
        return False

    # ------------------------------------------------------------------ to the journal

    def flush(self, *, wait_s: float = 0) -> None:
        """Write what is certain, and what is not to the tail.

        Another thread that is at it is waited for, -1 for as long as it takes; then it is left to that.
        """
        if not self.flushing.acquire(timeout=wait_s):
            return
        try:
            if self.over:
                return
            self.due = clock() + FLUSH_S
            batch = self.pending[:]
            del self.pending[: len(batch)]  # frames hold this very list
            self.journal.write(batch)
            if self.journal.write_tail(self._tail_records()):
                self.written.clear()
                self.journal.restart_tail(self._tail_records())
        finally:
            self.flushing.release()

    def _tail_records(self) -> Iterator[Row]:
        """Yield the steps now open, and what the last executions have recorded since this was last asked."""
        for frame in list(self.frames.values()):
            if isinstance(frame, DroppedFrame):
                continue
            if frame.current is not None:
                yield (OpenStep, frame.seq, frame.id, frame.current, frame.beyond.count if frame.beyond else frame.n)
            for statement, executions in frame.full.items():
                kept, omission = frame.kept(statement, executions)
                if omission:
                    yield omission
                fresh = list(self._unwritten(frame.id, statement, executions, kept))
                if fresh:
                    yield (LastExecutions, frame.id, statement, fresh)
        for telling in list(self.unsettled.values()):
            size = telling.beyond + telling.left_out
            if self.written.get(id(telling)) != size:
                self.written[id(telling)] = size
                yield telling.row()
        calls = self.refused.total()
        if calls != self.written.get(id(self.refused), 0):
            self.written[id(self.refused)] = calls
            yield (Refused, list(self.refused.items()))

    def _unwritten(
        self, frame: int, statement: int, executions: Executions, kept: list[Kept]
    ) -> Iterator[tuple[int, list[Row]]]:
        written = self.written
        for entry in kept:
            if len(entry) == 3:
                if entry[0] > written.get(id(executions), 0):
                    written[id(executions)] = entry[0]
                    yield entry[0], [(StepTime, entry[1], frame, statement, entry[0], round(1e9 * entry[2]))]
            elif fresh := entry[1][written.get(id(entry[1]), 0) :]:
                written[id(entry[1])] = written.get(id(entry[1]), 0) + len(fresh)
                yield entry[0], fresh

    @contextmanager
    def watching(self, alive: Callable[[], None]) -> Iterator[None]:
        """Flush while a statement runs for long, and call `alive` now and then, from a thread of its own."""
        self.journal.restart_tail(())  # the frames of the run before had the same numbers
        done, ended = threading.Event(), threading.Event()

        def watch() -> None:
            while not done.wait(FLUSH_S):
                self._glance()
                if clock() > self.due:
                    self.flush()
                alive()
            ended.set()

        start_apart(watch)  # not `threading`: the lecture's own list of threads stays as it is
        try:
            yield
        finally:
            done.set()
            ended.wait(1)  # in a process that was forked, nobody watches
            for frame in list(self.frames.values()):
                frame.leave_open()
            for telling in list(self.unsettled.values()):  # of calls that have not ended, and of threads
                self.pending += telling.rest()
            self.unsettled.clear()
            self.flush(wait_s=-1)
            with self.flushing:
                self.over = True


def _origin(error: BaseException | None) -> tuple[str, int] | None:
    """Return the file and the line where an error was first raised; raising it again elsewhere changes neither."""
    entry = _TRACEBACK(error) if error is not None else None
    while entry is not None and entry.tb_next is not None:
        entry = entry.tb_next
    return (entry.tb_frame.f_code.co_filename, entry.tb_lineno) if entry is not None else None


def exit_status(error: SystemExit) -> int:
    """Return the status with which Python ends a process for this."""
    code = error.code
    return 0 if code is None else code & 0xFF if isinstance(code, int) else 1


def exits_well(error: BaseException | None) -> bool:
    """Whether this ends the process with status 0, or a thread, to which Python takes no status."""
    if not is_a(type(error), SystemExit):
        return False
    in_thread = threading.get_ident() != threading.main_thread().ident
    return in_thread or exit_status(error) == 0  # type: ignore[arg-type]


def _is_failed_claim(row: Row) -> bool:
    return row[0] is Observation and (row[2] == "left" or (row[2] == "claim" and row[3][1] == "passed over"))


def _can_be_left_out(executions: Executions) -> bool:
    """Whether it would make room: of the executions kept, others than the last have made calls."""
    earlier = itertools.islice(executions.kept, max(0, len(executions.kept) - 1))
    return any(len(entry) == 2 and entry[1].steps for entry in earlier)


def hooks(recorder: Recorder, is_compiling: Callable[[], bool] = bool) -> dict[str, Any]:
    """Return what generated code calls, by name: a lecture's module finds them among the built-in names."""
    return {
        OPEN: recorder.open,
        IS_COMPILING: is_compiling,
        UNSET: UNSET_SIDE,
        SKIPPED: lambda *_, **__: None,
        SHOWN: shown,
        SCOPE: scope,
    }


def shown(names: Any) -> Any:
    """Return what `locals()`, `vars()` or `dir()` returned without the generated names.

    Up to Python 3.12 a frame has one dictionary for all calls of `locals`: they are taken out of that.
    """
    if isinstance(names, list):
        return [name for name in names if not is_generated(name)]
    if isinstance(names, dict):
        for name in [name for name in names if is_generated(name)]:
            del names[name]
    return names


def scope(function: Any) -> tuple[Any, ...]:
    """Return the namespaces that `eval(x)` and `exec(x)` take from their caller; none for another of that name."""
    if function is not eval and function is not exec:
        return ()
    caller = _getframe(1)
    return caller.f_globals, shown(dict(caller.f_locals) if sys.version_info >= (3, 13) else caller.f_locals)


def _thread_name(ident: int) -> str:
    """Return a thread's name; `threading.current_thread` would enter one that C++ started in its list."""
    thread = threading._active.get(ident)  # type: ignore[attr-defined]
    return "native" if thread is None else str(object.__getattribute__(thread, "__dict__").get("_name"))
