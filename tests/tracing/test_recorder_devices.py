"""Time on a device, and meters: pretended ones, whose figures are known."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.tracing.probed import Clock, Probed, Trace, tracing
from trace_tools.accelerators import CudaGpu
from trace_tools.describing.values import Describer
from trace_tools.tracing.recorder import Instruments


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock.replacing(monkeypatch)


@pytest.fixture
def trace(tmp_path: Path, clock: Clock) -> Trace:
    return tracing(tmp_path, clock)


# ------------------------------------------------------------------------------ a device that works beside the host


class Device:
    """What `torch.cuda` is to the recorder: a queue of work, done by the time `synchronize` returns."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.queued = self.spent = self.allocated = 0
        self.log: list[str] = []
        self.initialised = self.capturing = False

    def launch(self, ns: int, allocates: int = 0) -> None:
        """Take 1 ns of the host, and `ns` of the device later."""
        self.initialised = True
        self.clock.work(1)
        self.queued += ns
        self.allocated += allocates

    def is_initialized(self) -> bool:
        return self.initialised

    def is_current_stream_capturing(self) -> bool:
        return self.capturing

    def synchronize(self) -> None:
        assert not self.capturing, "synchronising would end the capture"
        self.clock.work(self.queued)
        self.spent += self.queued
        self.queued = 0
        self.log.append("synchronised")

    def current_device(self) -> int:
        return 0

    def memory_allocated(self) -> int:
        return self.allocated

    def Event(self, enable_timing: bool) -> Any:
        return Event(self)


class Event:
    def __init__(self, device: Device) -> None:
        self.device = device

    def record(self) -> None:
        self.at = self.device.spent + self.device.queued

    def synchronize(self) -> None:
        self.device.synchronize()

    def elapsed_time(self, other: Event) -> float:
        return (other.at - self.at) / 1e6  # ms


def on_device(trace: Trace, clock: Clock, text: str) -> Probed:
    device = Device(clock)
    instruments = Instruments(Describer(), gpu=CudaGpu(device))
    return trace(text, instruments=instruments, given={"launch": device.launch, "device": device})


def test_annotated_steps_have_the_device_to_themselves(trace: Trace, clock: Clock) -> None:
    lecture = on_device(trace, clock, """
def main():
    before = 1  # @inspect before
    launch(1000)
    x = launch(500, 64)  # @inspect x
    for i in range(3):  # @inspect i
        launch(10)
    launch(7)
    y = [launch(20), work(3)]  # @inspect y
    with open("/dev/null"):
        launch(5)
    return launch(30)  # @inspect x
""")  # fmt: skip
    assert lecture.steps("before")[0].device_ns is None, "the device was not in use yet"
    [x], [y], [returned] = lecture.steps("x = launch"), lecture.steps("y = "), lecture.steps("return launch")
    assert (x.device_ns, x.allocated_bytes) == (500, 64)
    assert y.device_ns == 20
    assert returned.device_ns == 30
    assert [step.device_ns for step in lecture.steps("for i")] == [0, 0, 0, None]
    assert [step.ns for step in lecture.steps("launch(10)")] == [1, 1, 1], "launch time: the rest is in no step"
    assert lecture.steps("launch(1000)")[0].device_ns is None


def test_waiting_for_the_device_is_in_annotated_steps_only(trace: Trace, clock: Clock) -> None:
    """The wait before a step is for the work of others; the wait after it is for its own."""
    lecture = on_device(trace, clock, """
def main():
    launch(1000)
    launch(1000)
    x = launch(500)  # @inspect x
    f()
def f():
    y = launch(9)  # @inspect y
""")  # fmt: skip
    assert [step.ns for step in lecture.steps("launch(1000)")] == [1]
    assert lecture.steps("x = launch")[0].ns == 501
    assert lecture.steps("f()")[0].ns == 10


class RealTime(Device):
    """A device whose events are marks on one time line with the host's clock, as a GPU's are."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.free_at = 0

    def launch(self, ns: int, allocates: int = 0) -> None:
        self.initialised = True
        self.clock.work(1)
        self.free_at = max(self.free_at, self.clock.now) + ns

    def synchronize(self) -> None:
        self.clock.now = max(self.clock.now, self.free_at)

    def Event(self, enable_timing: bool) -> Any:
        return RealEvent(self)


class RealEvent:
    def __init__(self, device: RealTime) -> None:
        self.device = device

    def record(self) -> None:
        self.at = max(self.device.free_at, self.device.clock.now)

    def synchronize(self) -> None:
        self.device.synchronize()

    def elapsed_time(self, other: RealEvent) -> float:
        return (other.at - self.at) / 1e6


class SlowDescriber(Describer):
    """Takes 700 ns of the host and 80 of the device for each value."""

    def __init__(self, device: RealTime) -> None:
        super().__init__()
        self.device = device

    def describe(self, value: Any) -> Any:
        self.device.clock.work(700)
        self.device.launch(80)
        return super().describe(value)


def test_what_describing_and_telling_take_is_in_no_step_on_either_clock(tmp_path: Path, clock: Clock) -> None:
    device = RealTime(clock)

    def tell() -> None:
        clock.work(5_000)  # a figure is drawn

    lecture = Probed("""
def main():
    launch(1)
    x = outer()  # @inspect x
    y = launch(6)  # @inspect y
def outer():
    a = launch(20)  # @inspect a
    launch(3)
    assert a is None
    tell()
    b = launch(30)  # @inspect b
""", "lecture.py", tmp_path / "x.journal", instruments=Instruments(SlowDescriber(device), gpu=CudaGpu(device)),
        given={"launch": device.launch, "tell": lambda: None})  # fmt: skip
    vars(lecture.module)["tell"] = lambda: _apart(lecture, tell)
    lecture.main()
    [outer], [a], [b] = lecture.steps("x = outer"), lecture.steps("a ="), lecture.steps("b =")
    assert (a.device_ns, b.device_ns, lecture.steps("y =")[0].device_ns) == (21, 31, 7), "1 ns is the launch itself"
    assert outer.device_ns == 21 + 4 + 31
    assert outer.ns == 21 + 4 + 31


def _apart(lecture: Probed, tell: Any) -> None:
    with lecture.recorder.apart():
        tell()


def test_nothing_is_synchronised_while_a_graph_is_captured(trace: Trace, clock: Clock) -> None:
    lecture = on_device(trace, clock, """
def main():
    launch(1)
    device.capturing = True
    x = launch(500)  # @inspect x
    device.capturing = False
    y = launch(5)  # @inspect y
""")  # fmt: skip
    assert lecture.steps("x = launch")[0].device_ns is None
    assert lecture.steps("y = launch")[0].device_ns == 5


def test_a_capture_that_begins_or_ends_within_a_step(trace: Trace, clock: Clock) -> None:
    lecture = on_device(trace, clock, """
def main():
    launch(1)
    begin()  # @inspect device
    launch(5)
    end()  # @inspect device
    y = launch(5)  # @inspect y
def begin(): device.capturing = True
def end(): device.capturing = False
""")  # fmt: skip
    assert lecture.steps("y = launch")[0].device_ns == 5


# ------------------------------------------------------------------------------ meters


class Meter:
    """What `metering.meters.Meter` is to the recorder: totals that go up, a peak that is taken.

    With a clock, each operation takes 1 ns, counting it 1,000, and reading the totals 50,000.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock
        self.spent_ns = 0
        self.flops = self.live = self.peak = self.pauses = 0

    def count(self, flops: int, alive: int = 0, free: int = 0) -> int:
        """Do `flops`, with `alive` more bytes, of which `free` are given back at once."""
        if not self.pauses:
            self.flops += flops
            if self.clock:
                self.spent_ns += self.clock.work(1 + 1_000) - 1
        self.live += alive
        self.peak = max(self.peak, self.live)
        self.live -= free
        return flops

    def take_peak(self) -> int:
        peak, self.peak = self.peak, self.live
        return peak

    def take_spent(self) -> float:
        spent, self.spent_ns = self.spent_ns, 0
        return spent / 1e9

    def reading(self) -> Reading:
        if self.clock:
            self.clock.work(50_000)
        return Reading(self.flops, self.live)

    @contextmanager
    def paused(self) -> Iterator[None]:
        self.pauses += 1
        yield
        self.pauses -= 1


class Reading:
    def __init__(self, flops: int, live: int) -> None:
        self.flops, self.live = flops, live

    def __sub__(self, earlier: Reading) -> Reading:
        return Reading(self.flops - earlier.flops, self.live)

    def plain(self) -> dict[str, Any]:
        return {"flops": self.flops, "live_bytes": self.live}


METERED = """
def main():
    count(1)
    x = f(10)  # @inspect x, count(1000)
    for i in range(3):  # @inspect i, count(1000)
        y = f(100)  # @stepover
    with manager():  # @inspect count(1000)
        f(2)
    try:
        f(3, fails=True)
    except ValueError:  # @inspect count(1000)
        count(4)
    g = generator()
    next(g)
    count(5)
    rest = list(g)
    return f(6)  # @inspect count(1000)

def f(n, fails=False):  # @inspect n, count(1000)
    count(n)  # @inspect n, count(1000)
    assert described(n)
    if fails: raise ValueError(n)
    return n

def generator():
    yield count(20)
    yield count(30)

class manager:
    def __enter__(self): count(7)
    def __exit__(self, *args): count(8)

class described:
    def __init__(self, n): self.n = n
    def __bool__(self): return count(0) == 0
    def __repr__(self): return str(count(1000))
"""


def metered(trace: Trace, text: str) -> tuple[Probed, Meter]:
    meter = Meter()
    return trace(text, instruments=Instruments(Describer(), meter=meter), given={"count": meter.count}), meter


def test_meters_count_what_a_step_did_and_what_it_called(trace: Trace) -> None:
    lecture, meter = metered(trace, METERED)
    flops = {code: [s.meters and s.meters["flops"] for s in lecture.steps(code)] for code in (
        "count(1)", "x = f(10)", "for i", "y = f(100)", "with manager", "f(2)", "f(3", "count(4)", "next(g)",
        "count(5)", "rest = ", "return f(6)", "count(n)", "yield count(20)", "yield count(30)",
    )}  # fmt: skip
    assert flops == {
        "count(1)": [1], "x = f(10)": [10], "for i": [0] * 4, "y = f(100)": [100] * 3, "with manager": [15],
        "f(2)": [2], "f(3": [3], "count(4)": [4], "next(g)": [20], "count(5)": [5], "rest = ": [30],
        "return f(6)": [6], "count(n)": [10, 2, 3, 6], "yield count(20)": flops["yield count(20)"],
        "yield count(30)": [30],
    }  # fmt: skip
    assert meter.pauses == 0
    assert meter.flops == 1 + 10 + 300 + 15 + 2 + 3 + 4 + 20 + 5 + 30 + 6


def test_peaks_are_those_within_the_step(trace: Trace) -> None:
    lecture, _ = metered(trace, """
def main():
    count(0, 100)
    count(0, 50, 50)
    nested()
    count(0, 10)
def nested():
    count(0, 1)
    count(0, 500, 500)
    deeper()
def deeper():
    count(0, 20, 20)
""")  # fmt: skip
    peaks = {code: lecture.steps(code)[0].meters["peak_bytes"] for code in (
        "count(0, 100)", "count(0, 50", "nested()", "count(0, 10)", "count(0, 1)", "count(0, 500", "deeper()",
        "count(0, 20",
    )}  # fmt: skip
    assert peaks == {
        "count(0, 100)": 100, "count(0, 50": 150, "nested()": 601, "count(0, 10)": 111, "count(0, 1)": 101,
        "count(0, 500": 601, "deeper()": 121, "count(0, 20": 121,
    }  # fmt: skip
    live = lecture.steps("nested()")[0].meters["live_bytes"]
    assert live == 101


def test_what_counting_takes_is_in_no_step(trace: Trace, clock: Clock) -> None:
    meter = Meter(clock)
    lecture = trace(
        """
def main():
    count(1)
    work(7)  # @inspect count(1000)
    f()
    for i in range(200):
        count(1)
def f():
    count(1)
    work(20)
    count(1)
""",
        instruments=Instruments(Describer(), meter=meter),
        given={"count": meter.count},
    )
    lasted = {code: {s.ns for s in lecture.steps(code)} for code in ("count(1)", "work(7)", "f()", "work(20)")}
    assert lasted == {"count(1)": {1}, "work(7)": {7}, "f()": {22}, "work(20)": {20}}
