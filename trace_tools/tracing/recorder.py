"""What the probes call: frames and steps, their clocks and their values, on their way to the journal.

A `Frame` is a local variable of the function call it belongs to; its parent is found by walking the
Python stack, so generators, coroutines, threads, exceptions and calls back from C++ need no stack of
ours. Records are tuples, a letter and its fields; `merge` reads them:

    F frame function parent-step thread    a frame opened       G frame source unit value   an argument
    S step frame statement execution ns    a step ended (a `with` has two: entering, leaving)
    V step source unit value               a value              A step bytes    allocated by the device
    C step statement how sides             a claim: "held", "raised", "passed over"
    L step                                 its error has left the section
    D step ns                              time on the device
    N step narrative                       a narrative call     O step text     printed
    X frame step line raised               an exception         W step text     a warning
    M step meters                          what operators did   P step mark     "compiled", "harness"
    K step measurement                     of a call of `measure`: its seconds, or what one call did
    T frame statement omitted ns           what the limit left out              E frame   it closed
In the tail: R frame statement [(execution, records), …], T with the first execution kept, and for a step still
open Q step frame statement execution.
"""

from __future__ import annotations

import _thread
import itertools
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from trace_tools.tracing.frames import DroppedFrame, Executions, Frame, MeteredFrame, can_synchronise, clock
from trace_tools.tracing.instrument import Instrumented
from trace_tools.tracing.journal import Journal

FLUSH_NS = 20_000_000  # a step that ended this long ago is in the journal


@dataclass(frozen=True, slots=True)
class Settings:
    """How one run is recorded."""

    limit: int = 100  # executions kept per frame and statement: the first and the last half
    frames: int = 1000  # frames kept per function
    failing_claims_raise: bool = True
    opaque: frozenset[CodeType] = frozenset()  # calls under these functions are not recorded
    describe_values: bool = True


class Recorder:
    """Records one run of an instrumented lecture."""

    def __init__(self, program: Instrumented, journal: Journal, instruments: Instruments, settings: Settings) -> None:
        self.program = program
        self.journal = journal
        self.instruments = instruments
        self.settings = settings
        self.head = max(1, settings.limit // 2)
        self.tail = max(1, settings.limit - self.head)
        self.lost = 0  # ns spent recording so far: taken out of every step open at the time
        self.idle = 0  # of them, ns for which a device had nothing to do, while a step was timed on it
        self.events = 0  # steps that are being timed on the device
        self.failing: dict[int, int] = {}  # id of an AssertionError under way → the step whose claim it is
        self.due = 0
        self.pending: list[Any] = []
        self.frames: dict[int, Frame | DroppedFrame] = {}  # by id of the Python frame
        self.opened: Counter[int] = Counter()
        self.refused: Counter[int] = Counter()  # calls of a function beyond those kept
        self.sequence = itertools.count().__next__
        self.frame_ids = itertools.count().__next__
        self.started_by: weakref.WeakKeyDictionary[threading.Thread, Frame | DroppedFrame] = weakref.WeakKeyDictionary()
        self.frame_type: type[Frame] = MeteredFrame if instruments.meter else Frame
        self.written: dict[int, int] = {}  # records of the tail's lists already on disk, by list
        self.flushing = threading.Lock()  # held by the thread that writes

    # ------------------------------------------------------------------ frames

    def open(self, number: int) -> Frame | DroppedFrame:
        """Open the frame of the function call that calls this."""
        now = clock()
        python_frame = sys._getframe(1)
        parent = self.owner(python_frame.f_back)
        frame: Frame | DroppedFrame
        if self._is_recorded(number, parent):
            assert not isinstance(parent, DroppedFrame)
            frame = self.frame_type(self, id(python_frame), number, parent)
        else:
            frame = DroppedFrame(self, id(python_frame), parent)
        self.frames[id(python_frame)] = frame
        self.lost += clock() - now
        return frame

    def _is_recorded(self, number: int, parent: Frame | DroppedFrame | None) -> bool:
        if parent is not None and (isinstance(parent, DroppedFrame) or parent.current is None or parent.covered):
            return False
        if number in self.program.covered:
            return False
        if self.opened[number] >= self.settings.frames:
            self.refused[number] += 1
            return False
        return True

    def owner(self, python_frame: FrameType | None) -> Frame | DroppedFrame | None:
        """Return the nearest traced frame on the stack, or the one that started this thread."""
        frames, opaque = self.frames, self.settings.opaque
        dropped = False
        while python_frame is not None:
            frame = frames.get(id(python_frame))
            if frame is not None:
                return DroppedFrame(self, 0, frame) if dropped else frame
            if python_frame.f_code in opaque:
                dropped = True
            python_frame = python_frame.f_back
        if threading.get_ident() == threading.main_thread().ident:
            return None
        thread = threading._active.get(threading.get_ident())  # type: ignore[attr-defined]
        if thread in self.started_by:
            return self.started_by[thread]
        main = sys._current_frames().get(threading.main_thread().ident or 0)
        while main is not None and id(main) not in frames:
            main = main.f_back
        return frames.get(id(main))

    # ------------------------------------------------------------------ what happens during a step

    def emit(self, letter: str, content: Any) -> None:
        """Attach a record to the step that is open where this was called."""
        now = clock()
        owner = self.owner(sys._getframe(1))
        while owner is not None and (isinstance(owner, DroppedFrame) or owner.seq < 0):
            owner = owner.parent
        if owner is None:
            self.pending.append((letter, None, content))
        else:
            owner.here.append((letter, owner.seq, content))
        self.lost += clock() - now

    def mark(self, text: str) -> None:
        """Mark every step open on this stack, once."""
        frame = self.owner(sys._getframe(1))
        while frame is not None:
            if isinstance(frame, Frame) and frame.marked.get(text) != frame.seq:
                frame.marked[text] = frame.seq
                frame.here.append(("P", frame.seq, text))
            frame = frame.parent

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Keep what happens inside the `with` block out of every step, on the device's clock, too."""
        cuda = self.instruments.cuda
        timed = self.events > 0 and can_synchronise(cuda)
        if timed:
            cuda.synchronize()  # the device is at work for a step: until it is done, that is the step's time
        started, lost = clock(), self.lost
        try:
            yield
        finally:
            if timed:
                cuda.synchronize()
                self.idle += clock() - started
            self.lost = lost + clock() - started

    def is_caught(self, statement: int, frame: Frame | DroppedFrame | None) -> bool:
        """Whether the lecture will catch an AssertionError that a statement raises: it, or what called it, is tried."""
        at: int | None = statement
        while frame is not None:
            if at in self.program.catching:
                return True
            caller = frame.parent
            if isinstance(frame, Frame) and isinstance(caller, Frame) and caller.thread != frame.thread:
                return False
            frame, at = caller, caller.current if caller is not None else None
        return False

    # ------------------------------------------------------------------ to the journal

    def flush(self, *, wait: bool = False) -> None:
        """Write what is certain, and what is not to the tail; leave it to another thread that is at it."""
        if not self.flushing.acquire(blocking=wait):
            return
        try:
            self.due = clock() + FLUSH_NS
            batch = self.pending[:]
            del self.pending[: len(batch)]  # frames hold this very list
            self.journal.write(batch)
            if self.journal.write_tail(self._tail_records()):
                self.written.clear()
                self.journal.restart_tail(self._tail_records())
        finally:
            self.flushing.release()

    def _tail_records(self) -> Iterator[Any]:
        for frame in list(self.frames.values()):
            if isinstance(frame, DroppedFrame):
                continue
            if frame.current is not None:
                yield ("Q", frame.seq, frame.id, frame.current, frame.n)
            for statement, executions in list(frame.executions.items()):
                yield from self._kept_records(frame, statement, executions)

    def _kept_records(self, frame: Frame, statement: int, executions: Executions) -> Iterator[Any]:
        kept = list(executions.kept)  # a copy: the lecture may be running
        first = executions.count - len(kept) + 1
        if executions.omitted:
            yield ("T", frame.id, statement, executions.omitted, executions.omitted_ns, first)
        ring = []
        for execution, records in enumerate(kept, first):
            done = self.written.get(id(records), 0)
            fresh = records[done:]
            if fresh:
                self.written[id(records)] = done + len(fresh)
                ring.append((execution, fresh))
        if ring:
            yield ("R", frame.id, statement, ring)

    def forget(self, records: list[Any], frame: int) -> int:
        """Take back what an execution beyond the limit recorded; return its own duration in ns."""
        if self.written:
            self.written.pop(id(records), None)
        for record in records:
            if record[0] == "F":
                self.opened[record[2]] -= 1
        return sum(record[5] for record in records if record[0] == "S" and record[2] == frame)

    @contextmanager
    def watching(self, alive: Callable[[], None]) -> Iterator[None]:
        """Flush while a statement runs for long, and call `alive` now and then, from a thread of its own."""
        self.journal.restart_tail(())  # the frames of the run before had the same numbers
        done, ended = threading.Event(), threading.Event()

        def watch() -> None:
            while not done.wait(FLUSH_NS / 1e9):
                if clock() > self.due:
                    self.flush()
                alive()
            ended.set()

        _thread.start_new_thread(watch, ())  # not `threading`: the lecture's own list of threads stays as it is
        try:
            yield
        finally:
            done.set()
            ended.wait(1)  # in a process that was forked, nobody watches
            self.flush(wait=True)


@dataclass(frozen=True, slots=True)
class Instruments:
    """What a recorder measures with."""

    describe: Any  # values.Describer
    cuda: Any = None  # torch.cuda, on a GPU
    meter: Any = None  # meters.Meter, in the metering process
    section: Callable[[str], None] = lambda name: None  # told of each function that main calls
