"""Device times and meters, tested with a simulated device and meter whose figures are known."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.tracing.probed import Clock, Instruments, Probed, Trace, tracing
from trace_tools.describing.values import Describer
from trace_tools.machines import accelerators
from trace_tools.machines.accelerators import Accelerator, Mark


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock.replacing(monkeypatch)


@pytest.fixture
def trace(tmp_path: Path, clock: Clock) -> Trace:
    return tracing(tmp_path, clock)


# ------------------------------------------------------------------------------ a device parallel to the host


class Device:
    """Replaces `torch.cuda` with a queue of work, which is done when `synchronize` returns."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.queued = self.spent = self.allocated = 0
        self.log: list[str] = []
        self.initialised = self.capturing = False

    def fail(self) -> None:
        def raise_error(*_: object) -> None:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

        self.synchronize = self.is_current_stream_capturing = self.memory_allocated = raise_error  # type: ignore[assignment]

    def launch(self, ns: int, allocates: int = 0) -> None:
        """Take 1 ns of the host and, later, `ns` of the device."""
        self.initialised = True
        self.clock.work(1)
        self.queued += ns
        self.allocated += allocates

    def is_initialized(self) -> bool:
        return self.initialised

    def device_count(self) -> int:
        return 1

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

    def memory_allocated(self, device: int | None = None) -> int:
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
    instruments = Instruments(Describer(), gpu=Accelerator(device))
    return trace(text, instruments=instruments, given={"launch": device.launch, "device": device})


def test_annotated_steps_are_timed_alone_on_the_device(trace: Trace, clock: Clock) -> None:
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


def test_queued_work_outside_steps_is_recorded(trace: Trace, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerators, "perf_counter", clock)
    lecture = on_device(trace, clock, """
def main():
    launch(1)
    launch(3_000_000)
    x = launch(500)  # @inspect x
    launch(20_000)
    y = f()  # @inspect y
def f():
    launch(2_000_000)
    z = launch(700)  # @inspect z
""")  # fmt: skip
    [x], [y], [z] = lecture.steps("x = "), lecture.steps("y = "), lecture.steps("z = ")
    assert x.queued_ns == 3_000_001
    assert y.queued_ns is None, "20 µs cannot be distinguished from waiting for an idle device"
    assert z.queued_ns is None and y.device_ns == 2_000_700, "a step around it includes the wait"


def test_only_annotated_steps_wait_for_the_device(trace: Trace, clock: Clock) -> None:
    """The wait before a step is for earlier work, the wait after it for its own work."""
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
    """A device whose events share a timeline with the host's clock, as on a GPU."""

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


def test_both_clocks_exclude_description_and_drawing(tmp_path: Path, clock: Clock) -> None:
    device = RealTime(clock)

    def draw() -> None:
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
""", "lecture.py", tmp_path / "x.journal", instruments=Instruments(SlowDescriber(device), gpu=Accelerator(device)),
        given={"launch": device.launch, "tell": lambda: None})  # fmt: skip
    vars(lecture.module)["tell"] = lambda: _excluded(lecture, draw)
    lecture.main()
    [outer], [a], [b] = lecture.steps("x = outer"), lecture.steps("a ="), lecture.steps("b =")
    assert (a.device_ns, b.device_ns, lecture.steps("y =")[0].device_ns) == (21, 31, 7), "1 ns is the launch itself"
    assert outer.device_ns == 21 + 4 + 31
    assert outer.ns == 21 + 4 + 31


def test_both_clocks_exclude_probes(tmp_path: Path, clock: Clock) -> None:
    """Probes do not wait for the device: they delay its end only where the device waits for the host.

    The expected figures are those of the same statements without `probe`.
    """
    device = RealTime(clock)
    lecture = Probed("""
def main():
    launch(1)
    x = by_the_host()  # @inspect x
    y = by_the_device()  # @inspect y
    z = [by_the_device(), launch(40)]  # @inspect z
def by_the_host():
    launch(20)
    work(50)
    probe()
    work(5)
def by_the_device():
    launch(500)
    probe()
    work(5)
""", "lecture.py", tmp_path / "x.journal", instruments=Instruments(Describer(), gpu=Accelerator(device)),
        given={"launch": device.launch, "work": clock.work, "probe": lambda: None})  # fmt: skip

    def probe() -> None:
        clock.work(100)
        lecture.recorder.clock.lost += 100e-9

    vars(lecture.module)["probe"] = probe
    lecture.main()
    [x], [y], [z] = lecture.steps("x = "), lecture.steps("y = "), lecture.steps("z = ")
    assert [(step.device_ns, step.ns) for step in (x, y, z)] == [(56, 56), (501, 501), (541, 541)]
    assert [step.launch_ns for step in (x, y, z)] == [56, 6, 7]


def test_both_clocks_agree_when_the_tracer_is_delayed(tmp_path: Path, clock: Clock) -> None:
    """Inner steps wait for earlier work, and other processes take the core from the tracer.

    The expected figures are those of the lecture's own work.
    """
    device = RealTime(clock)

    class DelayedGpu(Accelerator):
        def start(self) -> Mark:
            """Mark the time; afterwards another process takes the core for 900 ns."""
            mark = super().start()
            clock.work(900)
            return mark

    lecture = Probed("""
def main():
    launch(1)
    x = outer()  # @inspect x
    y = launch(6)  # @inspect y
    z = by_the_host()  # @inspect z
def outer():
    launch(500)
    probe()
    a = launch(20)  # @inspect a
    launch(300)
    assert a is None
    for i in range(2):
        launch(40)
        inner()
def inner():
    b = launch(30)  # @inspect b
def by_the_host():
    work(700)
    c = launch(5)  # @inspect c
""", "lecture.py", tmp_path / "x.journal", instruments=Instruments(SlowDescriber(device), gpu=DelayedGpu(device)),
        given={"launch": device.launch, "work": clock.work, "probe": lambda: None})  # fmt: skip
    vars(lecture.module)["probe"] = lambda: _probe(lecture, clock, 100)
    lecture.main()
    [x], [y], [z], [a] = lecture.steps("x = "), lecture.steps("y = "), lecture.steps("z = "), lecture.steps("a = ")
    own_ns = 501 + 21 + 301 + 2 * (41 + 31)  # launching takes 1 ns, and each wait empties the queue
    assert [(step.device_ns, step.ns) for step in (x, y, z, a)] == [(own_ns, own_ns), (7, 7), (706, 706), (21, 21)]
    assert [(step.device_ns, step.ns) for step in lecture.steps("b = ")] == [(31, 31), (31, 31)]


def _probe(lecture: Probed, clock: Clock, ns: int) -> None:
    clock.work(ns)
    lecture.recorder.clock.lost += ns / 1e9


def _excluded(lecture: Probed, call: Any) -> None:
    with lecture.recorder.clock.excluded():
        call()


def test_errors_end_the_timing_of_annotated_steps(trace: Trace, clock: Clock) -> None:
    """Otherwise the recorder waits for each later step, as if an outer step were still timed."""
    lecture = on_device(trace, clock, """
def main():
    launch(1)
    try:
        x = fails()  # @inspect x
    except ValueError:
        pass
    if launch(3):  # @inspect x
        y = launch(2)  # @inspect y
def fails():
    y = launch(1)  # @inspect y
    z = 1 + raises()  # @inspect z
def raises(): raise ValueError
""")  # fmt: skip
    assert lecture.recorder.clock.timed_steps == 0


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


def test_statements_after_a_device_failure_are_not_blamed(trace: Trace, clock: Clock) -> None:
    """After a failure the driver raises in every call, also in those that return the capture status and memory."""
    lecture = on_device(trace, clock, """
def main():
    launch(1)
    x = launch(5)  # @inspect x
    device.fail()
    y = 1 + 1  # @inspect y
    assert y == 2
    f()
    z = [launch(7)]  # @inspect z
def f():
    w = work(3)  # @inspect w
""")  # fmt: skip
    device_clock = lecture.recorder.clock
    assert (device_clock.device_failed, device_clock.waited_at) == ("the device failed at line 6", 4)
    [y], [w], [z] = lecture.steps("y = "), lecture.steps("w = "), lecture.steps("z = ")
    assert (y.device_ns, w.device_ns, z.device_ns) == (None,) * 3
    assert (w.ns, z.ns) == (3, 1), "by the host's clock"
    assert [len(step.warnings) for step in (y, w, z)] == [1, 0, 0]


def test_device_failure_inside_with_names_the_with_line(trace: Trace, clock: Clock) -> None:
    lecture = on_device(trace, clock, """
def main():
    launch(1)
    with manager() as x:  # @inspect x
        work(3)
class manager:
    def __enter__(self): device.fail()
    def __exit__(self, *args): pass
""")  # fmt: skip
    [warning] = [warning for step in lecture.run.steps.values() for warning in step.warnings]
    assert "in work launched after line 4;" in warning


def test_launch_time_is_host_time_before_waiting(trace: Trace, clock: Clock) -> None:
    lecture = on_device(trace, clock, """
def main():
    launch(1)
    x = [launch(500), work(20), launch(500)]  # @inspect x
    y = work(30)  # @inspect y
""")  # fmt: skip
    [x], [y] = lecture.steps("x = "), lecture.steps("y = ")
    assert (x.launch_ns, x.device_ns, x.ns) == (22, 1000, 1022)
    assert (y.launch_ns, y.device_ns, y.ns) == (30, 0, 30)


def test_graph_capture_may_begin_or_end_within_a_step(trace: Trace, clock: Clock) -> None:
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
    """Replaces `metering.meters.Meter`: totals increase, and reading the peak resets it."""

    def __init__(self) -> None:
        self.flops = self.live = self.peak = self.pauses = 0

    def count(self, flops: int, alive: int = 0, free: int = 0) -> int:
        """Count `flops`, allocate `alive` bytes, and free `free` of them at once."""
        if not self.pauses:
            self.flops += flops
        self.live += alive
        self.peak = max(self.peak, self.live)
        self.live -= free
        return flops

    def take_peak(self) -> int:
        peak, self.peak = self.peak, self.live
        return peak

    def reading(self) -> Reading:
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
        return {"flops": self.flops, "live_bytes": self.live, "operators": []}


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


def test_meters_count_a_step_and_its_calls(trace: Trace) -> None:
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


def test_memory_peaks_are_measured_within_each_step(trace: Trace) -> None:
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
