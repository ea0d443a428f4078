"""Measure time with a clock that stops while anything is being recorded, and steps on a device also by the device.

The time of a step is a difference of two readings of `perf_counter() - clock.lost`. All recording time is added to
`lost`, so that it counts in no step, however many are open. `clock.lost = perf_counter() - at` sets the clock back to
its reading `at`: all time since then is lost.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter  # in s: integer arithmetic on that many ns takes Python twice as long
from typing import NamedTuple, TypeVar

from trace_tools.machines.accelerators import Accelerator, Mark

EMPTY_STEPS = 21  # timed to find the reading of the device's clock for an empty step

T = TypeVar("T")


class DeviceTiming(NamedTuple):
    """A step that is being timed on the device."""

    start: Mark
    lost: float  # `RecordingClock.lost` at that moment
    queued_s: float  # how long the host waited for queued work before the step


class RecordingClock:
    """The clock of one run."""

    def __init__(self, gpu: Accelerator | None, describe_failure: Callable[[RuntimeError], str]) -> None:
        self.gpu = gpu
        self.describe_failure = describe_failure  # also reports it to the reader
        self.lost = 0.0  # recording time so far in s: excluded from every step open at the time
        self.lost_when_idle = 0.0  # `lost` when the device was last known to be idle
        self.timed_steps = 0  # steps that are being timed on the device
        self.floor_s: float | None = None  # reading of the device's clock for an empty step, once measured
        self.empty_wait_s = 0.0  # time that `stop` takes for an empty step
        self.device_failed: str | None = None  # description of the device's failure: no more calls to the device
        self.waited_at: int | None = None  # line at which the device was last known to be idle

    def waitable_gpu(self) -> Accelerator | None:
        """Return the GPU, if the lecture uses one, it works, and waiting for it is allowed now."""
        gpu = self.gpu
        if gpu is None or self.device_failed or not gpu.is_in_use() or self.from_device(gpu.is_capturing) is not False:
            return None
        return gpu

    def start_on_device(self, gpu: Accelerator, reading: float, line: int) -> tuple[float, DeviceTiming | None]:
        """Mark the start of a step on the idle device; None if the device has failed.

        `reading` is this clock's reading, and `line` the line of the step. The returned reading is later if an
        enclosing step is being timed on the device, because that step lasts until its work is done, and this step
        starts then.
        """
        if self.timed_steps:
            self.wait_for_device(gpu.wait)
            reading = perf_counter() - self.lost
        queued_s = 0.0
        if self.floor_s is None:
            first = self.from_device(gpu.start)  # an empty step begins once queued work is done
            queued_s = first.queued_s if first is not None else 0.0
            self.floor_s = self._floor(gpu)
        start = self.from_device(gpu.start)
        if start is None:
            return reading, None
        self.waited_at = line
        return reading, DeviceTiming(start, start.host_s - reading, queued_s + start.queued_s)

    def stop_on_device(self, gpu: Accelerator, timing: DeviceTiming, line: int) -> float | None:
        """Wait for the end of a step's work; return its seconds on the device, or None if the device has failed."""
        seconds = self.wait_for_device(functools.partial(gpu.stop, timing.start))
        self.waited_at = line
        return None if seconds is None else seconds - (self.lost - timing.lost)  # recorded between the two events

    def _floor(self, gpu: Accelerator) -> float | None:
        """Return the seconds that the device's clock shows for an empty step, between two consecutive events.

        Returns None if the device fails or cannot be waited for.
        """
        samples, waits = [], []
        for _ in range(EMPTY_STEPS):
            mark = self.from_device(gpu.start)
            if mark is None or self.waitable_gpu() is None:
                return None
            began = perf_counter()
            if (seconds := self.from_device(functools.partial(gpu.stop, mark))) is None:
                return None
            waits.append(perf_counter() - began)
            samples.append(seconds)
        self.empty_wait_s = statistics.median(waits)
        return statistics.median(samples)

    def wait_for_device(self, wait: Callable[[], T]) -> T | None:
        """Wait for the work launched by a step that is timed on the device; return the result of `wait`, or None if it
        failed.

        Recording has taken time since the device was last idle. Without it, the host would have arrived that much
        sooner and waited that much longer. So up to the length of the actual wait, that time belongs to the step, by
        both clocks.
        """
        began = perf_counter()
        answer = self.from_device(wait)
        waited = max(0.0, perf_counter() - began - self.empty_wait_s)
        self.lost -= min(waited, max(0.0, self.lost - self.lost_when_idle))
        self.lost_when_idle = self.lost
        return answer

    def from_device(self, ask: Callable[[], T]) -> T | None:
        """Return the device's answer, or None if the device has failed because of work that the lecture launched
        earlier.

        Such an error is permanent: every later call of the device's driver raises it. The lecture's own calls should
        raise it, but the tracer's queries must not raise it in a statement that uses no device. So it is recorded once,
        and from then on only the host's clock is used.
        """
        try:
            return ask()
        except RuntimeError as error:
            lost = self.lost  # the caller excludes the time that this takes
            self.device_failed = self.describe_failure(error)
            self.lost = lost
            return None

    def resume(self, reading: float) -> None:
        """Exclude the time since this reading, when the tracer was reading values in an enclosing step that the device
        times: the device was waiting.
        """
        if (gpu := self.waitable_gpu()) is not None:
            self.from_device(gpu.wait)
        self.lost = self.lost_when_idle = perf_counter() - reading

    @contextmanager
    def excluded(self) -> Iterator[None]:
        """Exclude the `with` block from every step, including steps timed by the device's clock."""
        gpu = self.waitable_gpu() if self.timed_steps else None
        if gpu is not None:
            self.wait_for_device(gpu.wait)  # until its work is done, time belongs to the step
        started, lost = perf_counter(), self.lost
        try:
            yield
        finally:
            if gpu is not None and not self.device_failed:
                self.from_device(gpu.wait)
            self.lost = self.lost_when_idle = lost + perf_counter() - started
