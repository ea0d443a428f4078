"""Hold the state of one recorded run, which its parts share: settings, instruments, clock, bounds, claims, journal."""

from __future__ import annotations

import itertools
from _thread import get_ident
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Protocol

from trace_tools.describing.guarded_repr import Guard
from trace_tools.machines.accelerators import Accelerator
from trace_tools.tracing.instrument import Instrumented
from trace_tools.tracing.isolation.output_capture import OutputFile
from trace_tools.tracing.journal import Journal
from trace_tools.tracing.recorder.claims import Claims, TimedClaims
from trace_tools.tracing.recorder.clock import RecordingClock
from trace_tools.tracing.recorder.journal_writer import JournalWriter
from trace_tools.tracing.recorder.output import Output
from trace_tools.tracing.recorder.retention import BOUNDS, STEPS, Bound, Records, Retention


class DescriberLike(Protocol):
    """Converter of values into plain data: `describing.values.Describer`."""

    guard: Guard

    def describe(self, obj: object) -> dict[str, Any]: ...
    def error(self, error: BaseException) -> dict[str, Any]: ...


class MeterLike(Protocol):
    """Counter of operator work: `metering.meters.Meter`."""

    def reading(self) -> Any: ...
    def take_peak(self) -> int: ...
    def take_spent(self) -> float: ...
    def paused(self) -> AbstractContextManager[None]: ...


@dataclass(frozen=True, slots=True)
class Instruments:
    """The measuring instruments of a recorder."""

    describer: DescriberLike
    gpu: Accelerator | None = None  # the GPU that the lecture may use
    meter: MeterLike | None = None  # only in a metered run
    section: Callable[[str], None] | None = None  # called with the name of each function that main calls
    output: OutputFile | None = None  # descriptor 1, for output that bypasses Python
    records_graph: Callable[[], bool] = bool  # whether torch records a graph now: then observing is forbidden


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings for recording one run."""

    limit: int = 100  # executions kept per frame and statement (first and last half)
    frames: int = 1000  # frames kept per function
    steps: int = STEPS  # steps kept in total, see `Admission`
    bounds: Mapping[str, Bound] = field(default_factory=lambda: BOUNDS)  # bounds of output, prose and described values
    failing_claims_raise: bool = True  # if False, only claims that the lecture visibly catches raise
    timed_claims: TimedClaims | None = None  # outside timed runs: claims raise as they did in the timed runs
    opaque: frozenset[CodeType] = frozenset()  # calls under these functions are not recorded
    included: frozenset[str] = frozenset()  # names of modules that are traced with the lecture
    describe_values: bool = True


class Recording:
    """The shared state of one run."""

    def __init__(
        self,
        program: Instrumented,
        journal: Journal,
        instruments: Instruments,
        settings: Settings,
        describe_failure: Callable[[RuntimeError], str],
    ) -> None:
        self.program = program
        self.instruments = instruments
        self.settings = settings
        self.clock = RecordingClock(instruments.gpu, describe_failure)
        self.retention = Retention(settings.limit, settings.steps, settings.bounds)
        self.claims = Claims(settings.timed_claims, failing_raise=settings.failing_claims_raise)
        self.pending = Records()  # certain records that are not yet written
        self.output = Output(instruments.output, self.retention, self.pending)
        self.frames: dict[int, Frame] = {}  # running calls, by id of the Python frame
        self.writer = JournalWriter(journal, self.pending)
        self.sequence = itertools.count().__next__
        self.frame_ids = itertools.count().__next__
        self.last = 0  # last step of the last call without a caller (`main`)


class Frame:
    """One call of a lecture function, while it runs; a call that is not recorded keeps these empty methods."""

    __slots__ = ()

    recorder: Recording
    key: int  # id of its Python frame
    parent: Frame | None
    code: CodeType | None  # of its Python frame
    current: int | None  # the statement of the open step

    def pin(self) -> object:
        """Give the open step a list of records."""

    def account(self) -> None:
        """Charge the run for the steps that this call has kept since the last accounting."""

    def leave_open(self) -> None:
        """Record that the run ended during this call."""

    def mark_step(self, field: str) -> None:
        """Mark the open step, once."""

    def mark(self, field: str) -> None:
        """Mark the open steps of this call and of its callers."""
        frame: Frame | None = self
        while frame is not None:
            frame.mark_step(field)
            frame = frame.parent

    def in_graph(self) -> bool:
        """Return whether torch is recording a graph; if so, mark the open steps as not fully observed."""
        instruments = self.recorder.instruments
        if not instruments.records_graph():
            return False
        if get_ident() not in instruments.describer.guard.observing:
            self.mark("graph")
        return True
