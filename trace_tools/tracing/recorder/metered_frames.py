"""Frames of a metered run: they read the meter at each step boundary, or keep it off."""

from __future__ import annotations

from contextlib import AbstractContextManager
from time import perf_counter
from typing import Any

from trace_tools.tracing.recorder.frames import DroppedFrame, OpenFrame
from trace_tools.tracing.recorder.recording import Frame, Recording
from trace_tools.tracing.recorder.steps import Token


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


class UnmeteredFrame(OpenFrame):
    """A call, in a metered run, of a function that measures time: the meter is off, also for the calls that it
    makes.
    """

    def __init__(self, recorder: Recording, key: int, number: int, parent: OpenFrame | None) -> None:
        super().__init__(recorder, key, number, parent)
        self.was_metered = _stop_meter(recorder)

    def close(self) -> None:
        super().close()
        if self.was_metered:
            _restart_meter(self.recorder)


class DroppedUnmeteredFrame(DroppedFrame):
    """An unrecorded call of a function that measures time."""

    __slots__ = ("was_metered",)

    def __init__(self, recorder: Recording, key: int, parent: Frame | None) -> None:
        super().__init__(recorder, key, parent)
        self.was_metered = _stop_meter(recorder)

    def close(self) -> None:
        super().close()
        if self.was_metered:
            _restart_meter(self.recorder)


def _stop_meter(recorder: Recording) -> bool:
    """Switch the meter off; return whether it was on in this thread."""
    meter = recorder.instruments.meter
    if meter is None or not meter.stop():
        return False
    meter.unmetered += 1
    return True


def _restart_meter(recorder: Recording) -> None:
    """Switch the meter on."""
    now = perf_counter()
    if recorder.instruments.meter is not None:
        recorder.instruments.meter.go_on()
    recorder.clock.lost += perf_counter() - now
