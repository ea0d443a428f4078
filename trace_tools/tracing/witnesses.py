"""What the recorder makes of the lecture's `measure` and `count`: marks on the open steps, and a record for each.

In a timed run a measurement's seconds are recorded, in the metering run what one call of its function did: the
parent puts both together, and so a rate is that of one call. The time and the operators of the step itself are
those of hundreds of calls; its mark says so.
"""

from __future__ import annotations

from typing import Literal

from trace_tools.metering.measurement import NOTHING_COUNTED, Measurement, Witness
from trace_tools.metering.meters import Meter, Reading
from trace_tools.tracing.recorder import Recorder

HARNESS = "harness"
FIGURES = ("flops", "bytes_read", "bytes_written", "dtype", "operators", "why")


class Timing(Witness):
    """Records how long one call took."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def began(self, word: Literal["measure", "count"]) -> None:
        self.recorder.mark(HARNESS)

    def measured(self, measurement: Measurement) -> Measurement:
        self.recorder.emit("K", {"seconds": measurement.seconds})
        return measurement


class Metering(Witness):
    """Records what one call did: the function is called once, between two readings of the process's meter."""

    single = True

    def __init__(self, recorder: Recorder, meter: Meter) -> None:
        self.recorder = recorder
        self.meter = meter
        self.before: list[Reading] = []  # of the measurements under way: a measured function may measure

    def began(self, word: Literal["measure", "count"]) -> None:
        self.recorder.mark(HARNESS)
        if word == "measure":
            self.before.append(self.meter.reading())

    def measured(self, measurement: Measurement) -> Measurement:
        counted = (self.meter.reading() - self.before.pop()).plain()
        found = {name: counted[name] for name in FIGURES}
        if not counted["operators"]:
            found = {"why": NOTHING_COUNTED}
        self.recorder.emit("K", found)
        return measurement
