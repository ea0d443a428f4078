"""Record what `measure` and `count` measure in a lecture: seconds in a timed run, operators in the counted run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from trace_tools.metering.measurement import NOTHING_COUNTED, Measurement, Witness, called_once
from trace_tools.tracing.recorder.recorder import Recorder

if TYPE_CHECKING:
    from trace_tools.metering.meters import Meter


class MeasureWitness(Witness):
    """Marks the steps that run `measure` or `count`, and records each measurement.

    A timed run records its seconds. The counted run records the counts of one call of the function, between two
    readings of the meter. `merge` combines both, so a rate refers to one call. The time and operators of the step
    itself cover hundreds of calls, which its mark states.
    """

    def __init__(self, recorder: Recorder, meter: Meter | None) -> None:
        self.recorder = recorder
        self.meter = meter
        self.counts = meter is not None

    def began(self, word: Literal["measure", "count"]) -> None:
        self.recorder.mark("harness")

    def counted(self, f: Callable[[], Any]) -> Measurement:
        assert self.meter is not None
        before = self.meter.reading()
        measurement = called_once(f)
        counts = (self.meter.reading() - before).plain()
        figures = ("flops", "bytes_read", "bytes_written", "dtype", "operators", "work", "why")
        plain = {name: counts[name] for name in figures if counts[name] is not None}
        plain |= {name: counts[name] for name in ("collectives", "uncounted", "meta_flops") if counts[name]}
        if not counts["operators"]:
            plain = {"why": NOTHING_COUNTED}
        self.recorder.emit("measured", {"seconds": [measurement.seconds], **plain})
        return measurement

    def measured(self, measurement: Measurement) -> None:
        self.recorder.emit("measured", {"seconds": [measurement.seconds]})
