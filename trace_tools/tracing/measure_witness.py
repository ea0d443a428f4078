"""Record what `measure` and `count` measure in a lecture: seconds in a timed run, operators in a metered one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from trace_tools.machines import accelerators
from trace_tools.metering.measurement import NOTHING_COUNTED, Measurement, Witness
from trace_tools.metering.threads import OtherThreads, in_words
from trace_tools.tracing.recorder.recorder import Recorder

if TYPE_CHECKING:
    from trace_tools.metering.meters import Meter

HOSTS_CLOCK = (
    "HostClock: the device's clock leaves out what the host did between two kernels: `measure` used the host's and "
    "waited for the device"
)


class MeasureWitness(Witness):
    """Marks the steps that run `measure` or `count`, and records each measurement.

    A timed run records its seconds. A metered run also records the counts of one call of the function, between two
    readings of the meter. The parent combines both, so a rate refers to one call. The time and operators of the step
    itself cover hundreds of calls, which its mark states.
    """

    def __init__(self, recorder: Recorder, meter: Meter | None, *, single: bool) -> None:
        self.recorder = recorder
        self.meter = meter
        self.single = single
        self.in_progress: list[_MeasuredCall] = []  # a measured function may measure

    def began(self, word: Literal["measure", "count"]) -> None:
        self.recorder.mark("harness")
        if self.meter and word == "measure":
            self.in_progress.append(_MeasuredCall(self.meter))

    def called_once(self) -> None:
        if self.meter:
            self.in_progress[-1].first_call_ended()

    def measured(self, measurement: Measurement) -> Measurement:
        counts = self.in_progress[-1].counts() if self.meter else {}
        self.recorder.emit("measured", {"seconds": [measurement.seconds], **counts})
        if not self.meter and measurement.device == "cpu" and accelerators.in_use() is not None:
            self.recorder.emit("warnings", HOSTS_CLOCK)
        return measurement

    def ended(self) -> None:
        if self.meter:
            self.in_progress.pop().end()


class _MeasuredCall:
    """A call of `measure` in a metered run: only the first call of each of its functions is counted."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.before = meter.reading()
        self.other_threads = OtherThreads()
        self.counted: list[dict[str, Any]] = []  # counts of each first call, as fields of `model.Measured`

    def first_call_ended(self) -> None:
        """Read the meter at the end of a first call; the next function's first call may follow."""
        self.other_threads.end()
        now = self.meter.reading()
        self.counted.append(self._counts((now - self.before).plain()))
        self.before, self.other_threads = now, OtherThreads()

    def end(self) -> None:
        """Stop watching other threads."""
        self.other_threads.end()

    def counts(self) -> dict[str, Any]:
        """Return the counts of the next function's first call."""
        return self.counted.pop(0)

    def _counts(self, counted: dict[str, Any]) -> dict[str, Any]:
        if not counted["operators"]:
            worked = self.other_threads.worked()
            return {"why": in_words(worked) if worked else NOTHING_COUNTED}
        figures = ("flops", "bytes_read", "bytes_written", "dtype", "operators", "work", "why")
        more = ("collectives", "uncounted", "meta_flops")
        return {name: counted[name] for name in figures if counted[name] is not None} | {
            name: counted[name] for name in more if counted[name]
        }
