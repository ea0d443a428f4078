"""Device times and meters, tested with a simulated device and meter whose figures are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.simulated_cuda import SimulatedCuda
from tests.tracing.probed import Clock, Probed, Trace
from trace_tools.describing.values import Describer
from trace_tools.machines.accelerators import Accelerator, Mark

# ------------------------------------------------------------------------------ a device parallel to the host


class Device(SimulatedCuda):
    """Has the clock of the test. A launch takes 1 ns, a wait for an idle device none. It may fail, or capture."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        super().__init__()
        self.wait_s = 0.0
        self.initialised = self.capturing = self.failed = self.failing = False

    @property
    def now(self) -> float:
        return self.clock()

    @now.setter
    def now(self, seconds: float) -> None:
        self.clock.now = round(1e9 * seconds)

    def launch(self, ns: int, allocates: int = 0) -> None:
        self.initialised = True
        self.clock.work(1)
        self.until[0, "current"] = max(self.until.get((0, "current"), 0.0), self.now) + ns / 1e9
        self.bytes[0] += allocates

    def is_initialized(self) -> bool:
        return self.initialised

    def is_current_stream_capturing(self) -> bool:
        """After a failure the driver raises in every call, also in this one."""
        if self.failed:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return self.capturing

    def synchronize(self, index: int | None = None) -> None:
        self.failed |= self.failing  # the next wait reports what went wrong in a kernel
        assert not self.is_current_stream_capturing(), "synchronising would end the capture"
        super().synchronize(index)


class SlowDescriber(Describer):
    """Takes 700 ns of the host and 80 of the device for each value."""

    def __init__(self, device: Device) -> None:
        super().__init__()
        self.device = device

    def describe(self, value: Any) -> Any:
        self.device.clock.work(700)
        self.device.launch(80)
        return super().describe(value)


class DelayedGpu(Accelerator):
    def start(self) -> Mark:
        """Mark the time; afterwards another process takes the core for 900 ns."""
        mark = super().start()
        self.module.clock.work(900)
        return mark


def on_device(
    folder: Path, clock: Clock, text: str, gpu: type[Accelerator] = Accelerator, *, slow: bool = False
) -> Probed:
    """Trace a lecture that may `launch` work, and let the tracer `probe` and `draw` for a while."""
    device = Device(clock)
    describer = SlowDescriber(device) if slow else Describer()

    def probe() -> None:
        clock.work(100)
        lecture.recorder.clock.lost += 100e-9

    def draw() -> None:
        with lecture.recorder.clock.excluded():
            clock.work(5_000)

    given = {"launch": device.launch, "work": clock.work, "device": device, "probe": probe, "draw": draw}
    lecture = Probed(text, "lecture.py", folder / "x.journal", describer=describer, gpu=gpu(device), given=given)
    return lecture.main()


def test_annotated_steps_are_timed_alone_on_the_device(tmp_path: Path, clock: Clock) -> None:
    """The wait before a step is for earlier work, the wait after it for its own work; other steps do not wait."""
    lecture = on_device(tmp_path, clock, """
def main():
    before = 1  # @inspect before  #: [(None, None, 0)]
    launch(1000)  #: [(None, None, 1)]
    x = launch(500, 64)  # @inspect x  #: [(1, 501, 501)]
    for i in range(3):  # @inspect i  #: [*[(0, 0, 0)] * 3, (None, None, 0)]
        launch(10)  #: [(None, None, 1)] * 3
    launch(7)
    y = [launch(500), work(20), launch(500)]  # @inspect y  #: [(22, 1001, 1001)]
    f()  #: [(None, None, 10)]
    with open("/dev/null"):
        launch(5)
    z = work(30)  # @inspect z  #: [(30, 30, 30)]
    return launch(30)  # @inspect x  #: [(1, 31, 31)]
def f():
    y = launch(9)  # @inspect y  #: [(1, 10, 10)]
""").check("launch_ns", "device_ns", "ns")  # fmt: skip
    assert lecture.steps("x = launch")[0].allocated_bytes == 64


def test_queued_work_outside_steps_is_recorded(tmp_path: Path, clock: Clock) -> None:
    """20 µs cannot be distinguished from waiting for an idle device, and a step around another includes its wait."""
    on_device(tmp_path, clock, """
def main():
    launch(1)
    launch(3_000_000)
    x = launch(500)  # @inspect x  #: [(3_000_000, 501)]
    launch(20_000)
    y = f()  # @inspect y  #: [(None, 2_000_702)]
def f():
    launch(2_000_000)
    z = launch(700)  # @inspect z  #: [(None, 701)]
""").check("queued_ns", "device_ns")  # fmt: skip


@pytest.mark.parametrize(("gpu", "slow"), [(Accelerator, False), (Accelerator, True), (DelayedGpu, True)])
def test_both_clocks_exclude_the_tracer(tmp_path: Path, clock: Clock, gpu: type[Accelerator], slow: bool) -> None:
    """Values are described, a figure is drawn, probes run, inner steps wait for earlier work, and other processes take
    the core from the tracer. The expected figures are those of the lecture's own work, of which a launch takes 1 ns.

    Probes do not wait for the device: they delay its end only where the device waits for the host.
    """
    lecture = on_device(tmp_path, clock, """
def main():
    launch(1)
    x = outer()  # @inspect x  #: [(501 + 21 + 301 + 2 * (41 + 31),) * 2]
    y = launch(6)  # @inspect y  #: [(7, 7)]
    z = by_the_host()  # @inspect z  #: [(707, 707)]
    v = by_the_device()  # @inspect v  #: [(501, 501)]
    w = [by_the_device(), launch(40)]  # @inspect w  #: [(541, 541)]
def outer():
    launch(500)
    probe()
    a = launch(20)  # @inspect a  #: [(21, 21)]
    launch(300)
    assert a is None
    draw()
    for i in range(2):
        launch(40)
        inner()
def inner():
    b = launch(30)  # @inspect b  #: [(31, 31)] * 2
def by_the_host():
    launch(20)
    work(700)
    probe()
    c = launch(5)  # @inspect c  #: [(6, 6)]
def by_the_device():
    launch(500)
    probe()
    work(5)
""", gpu, slow=slow).check("device_ns", "ns")  # fmt: skip
    assert [lecture.steps(code)[0].launch_ns for code in ("v =", "w =")] == [6, 7]


def test_errors_end_the_timing_of_annotated_steps(tmp_path: Path, clock: Clock) -> None:
    """Otherwise the recorder waits for each later step, as if an outer step were still timed."""
    lecture = on_device(tmp_path, clock, """
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


def test_nothing_is_synchronised_while_a_graph_is_captured(tmp_path: Path, clock: Clock) -> None:
    """A capture may also begin or end within a step."""
    on_device(tmp_path, clock, """
def main():
    launch(1)
    begin()  # @inspect device
    x = launch(500)  # @inspect x  #: [None]
    end()  # @inspect device
    y = launch(5)  # @inspect y  #: [6]
def begin(): device.capturing = True
def end(): device.capturing = False
""").check("device_ns")  # fmt: skip


@pytest.mark.parametrize("state", ["failed", "failing"])
def test_statements_after_a_device_failure_are_not_blamed(tmp_path: Path, clock: Clock, state: str) -> None:
    """From then on times are by the host's clock."""
    lecture = on_device(tmp_path, clock, f"""
def main():
    launch(1)
    x = launch(5)  # @inspect x  #: [(6, 6)]
    device.{state} = True
    y = 1 + 1  # @inspect y  #: [(None, 0)]
    assert y == 2
    f()
    z = [launch(7)]  # @inspect z  #: [(None, 1)]
def f():
    w = work(3)  # @inspect w  #: [(None, 3)]
""").check("device_ns", "ns")  # fmt: skip
    device_clock = lecture.recorder.clock
    assert (device_clock.device_failed, device_clock.waited_at) == ("the device failed at line 6", 4)
    assert [len(lecture.steps(code)[0].warnings) for code in ("y = ", "w = ", "z = ")] == [1, 0, 0]


def test_device_failure_inside_with_names_the_with_line(tmp_path: Path, clock: Clock) -> None:
    lecture = on_device(tmp_path, clock, """
def main():
    launch(1)
    with manager() as x:  # @inspect x
        work(3)
class manager:
    def __enter__(self): device.failed = True
    def __exit__(self, *args): pass
""")  # fmt: skip
    [warning] = [warning for step in lecture.run.steps.values() for warning in step.warnings]
    assert "in work launched after line 4;" in warning


# ------------------------------------------------------------------------------ meters


class Reading(NamedTuple):
    flops: int
    live: int

    def __sub__(self, earlier: Reading) -> Reading:
        return Reading(self.flops - earlier.flops, self.live)

    def plain(self) -> dict[str, Any]:
        return {"flops": self.flops, "live_bytes": self.live, "operators": []}


class Meter:
    """Replaces `metering.meters.Meter`: totals increase, and reading the peak resets it."""

    def __init__(self) -> None:
        self.flops = self.live = self.peak = 0

    def count(self, flops: int, alive: int = 0, free: int = 0) -> int:
        """Count `flops`, allocate `alive` bytes, and free `free` of them at once."""
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


def metered(trace: Trace, text: str) -> tuple[Probed, Meter]:
    meter = Meter()
    return trace(text, meter=meter, given={"count": meter.count}, limit=4), meter


def test_meters_count_a_step_and_its_calls(trace: Trace) -> None:
    """Expressions of `@inspect` are not evaluated, and values are not described: they would count."""
    lecture, meter = metered(trace, """
def main():
    count(1)  #: [1]
    x = f(10)  # @inspect x, count(1000)  #: [10]
    for i in range(3):  # @inspect i, count(1000)  #: [0] * 4
        y = f(100)  # @stepover  #: [100] * 3
    for i in range(9):
        with manager():  # @inspect count(1000)  #: [15] * 4
            f(2)  #: [2] * 4
    try:
        f(3, fails=True)  #: [3]
    except ValueError:  # @inspect count(1000)
        count(4)  #: [4]
    g = generator()
    next(g)  #: [20]
    count(5)  #: [5]
    rest = list(g)  #: [30]
    return f(6)  # @inspect count(1000)  #: [6]
def f(n, fails=False):  # @inspect n, count(1000)
    count(n)  # @inspect n, count(1000)  #: [10, 2, 2, 2, 2, 3, 6]
    assert described(n)
    if fails: raise ValueError(n)
    return n
def generator():
    yield count(20)
    yield count(30)  #: [30]
class manager:
    def __enter__(self): count(7)
    def __exit__(self, *args): count(8)
class described:
    def __init__(self, n): self.n = n
    def __bool__(self): return count(0) == 0
    def __repr__(self): return str(count(1000))
""")  # fmt: skip
    lecture.check("flops")
    assert meter.flops == 1 + 10 + 300 + 9 * (15 + 2) + 3 + 4 + 20 + 5 + 30 + 6


def test_memory_peaks_are_measured_within_each_step(trace: Trace) -> None:
    lecture, _ = metered(trace, """
def main():
    count(0, 100)  #: [(100, 100)]
    count(0, 50, 50)  #: [(150, 100)]
    nested()  #: [(601, 101)]
    count(0, 10)  #: [(111, 111)]
def nested():
    count(0, 1)  #: [(101, 101)]
    count(0, 500, 500)  #: [(601, 101)]
    deeper()  #: [(121, 101)]
def deeper():
    count(0, 20, 20)  #: [(121, 101)]
""")  # fmt: skip
    lecture.check("peak_bytes", "live_bytes")
