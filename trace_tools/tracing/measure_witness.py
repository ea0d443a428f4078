"""Record what `measure` and `count` measure in a lecture: seconds in a timed run, operators in the counted run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from trace_tools.metering.measurement import NOTHING_COUNTED, Call, Measurement, called_once
from trace_tools.tracing.recorder.recorder import Recorder

if TYPE_CHECKING:
    from trace_tools.metering.meters import Meter


class MeasureWitness:
    """Marks the steps that run `measure` or `count`, and records each measurement.

    A timed run records its seconds. The counted run records the counts of one call of the function, between two
    readings of the meter. `merge` combines both, so a rate refers to one call. The time and operators of the step
    itself cover hundreds of calls, which its mark states.
    """

    def __init__(self, recorder: Recorder, meter: Meter | None) -> None:
        self.recorder = recorder
        self.meter = meter

    def counted(self, f: Callable[..., Any]) -> Callable[..., Any]:
        self.recorder.mark("harness")
        return self.recorder.as_written()(f)

    def measured(self, functions: Sequence[Call], sample: Callable[[], list[Measurement]]) -> list[Measurement]:
        self.recorder.mark("harness")
        if self.meter is not None:
            return [self._counted(f, self.meter) for f in functions]
        with self.recorder.as_written():
            measurements = sample()
        for measurement in measurements:
            self.recorder.emit("measured", {"seconds": [measurement.seconds]})
        return measurements

    def _counted(self, f: Call, meter: Meter) -> Measurement:
        """Call `f` once, and record its counts."""
        before = meter.reading()
        with self.recorder.as_written():
            measurement = called_once(f)
        counts = (meter.reading() - before).plain()
        figures = ("flops", "bytes_read", "bytes_written", "dtype", "operators", "work", "why")
        plain = {name: counts[name] for name in figures if counts[name] is not None}
        plain |= {name: counts[name] for name in ("collectives", "uncounted", "meta_flops") if counts[name]}
        if not counts["operators"]:
            plain = {"why": NOTHING_COUNTED}
        self.recorder.emit("measured", {"seconds": [measurement.seconds], **plain})
        return measurement
