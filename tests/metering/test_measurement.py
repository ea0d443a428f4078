"""`measure` with known sleeps, call counters and a simulated CUDA clock; `count` against FLOPs and bytes by hand."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.cases_in_one import each
from tests.simulated_cuda import SimulatedCuda, in_use
from trace_tools.metering import measurement
from trace_tools.metering.measurement import Count, Measurement, called_once, count, measure
from trace_tools.metering.meters import Meter

X, W = torch.rand(8, 16), torch.rand(16, 4)
NO_OPERATOR = "no torch operator ran in it: NumPy, plain Python and other threads are not counted"


def test_measuring_does_not_import_torch() -> None:
    code = "import sys; from trace_tools.metering.measurement import measure\n"
    code += "measure(lambda: 0); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_count_of_a_matrix_product() -> None:
    assert count(lambda: X @ W) == Count(
        flops=2 * 8 * 16 * 4,
        bytes_read=4 * (8 * 16 + 16 * 4),
        bytes_written=4 * 8 * 4,
        peak_bytes=4 * (8 * 16 + 16 * 4 + 8 * 4),
        flops_by_operator={"aten.mm": 1024},
        operators={"aten.mm": 1},
        uncounted=(),
    )
    assert count(torch.mm, X, W).bytes_moved == 896
    assert count(torch.mm, X, mat2=W).intensity == 1024 / 896


def test_operators_of_a_count_are_sorted_by_size() -> None:
    product = count(lambda: (X @ W).relu().sort().values * 2)
    assert list(product.flops_by_operator.items()) == [("aten.mm", 1024), ("aten.mul", 32), ("aten.relu", 32)]
    assert product.uncounted == ("aten.sort",)


def test_operators_without_formula_leave_no_intensity() -> None:
    sort, mixed = count(lambda: X.sort()), count(lambda: (X @ W).sort())
    assert (sort.flops, sort.intensity, mixed.flops, mixed.intensity) == (None, None, 1024, None)
    assert sort.bytes_moved and sort.why == mixed.why == "not counted: aten.sort"


def test_count_keeps_no_result_and_raises_exceptions() -> None:
    results: list[weakref.ref[torch.Tensor]] = []

    def f() -> torch.Tensor:
        y = X @ W
        results.append(weakref.ref(y))
        return y

    count(f)
    assert results[0]() is None
    with pytest.raises(ZeroDivisionError):
        count(lambda: 1 / 0)


def test_a_measurement_of_a_sleep() -> None:
    slept = measure(lambda: time.sleep(0.002), min_seconds=0.05, repeats=5)
    assert 0.002 <= slept.seconds < 0.2
    assert len(slept.samples_s) == 5
    assert min(slept.samples_s) <= slept.seconds <= max(slept.samples_s)
    assert slept.device == "cpu" or slept.device.startswith("cuda:")


def test_short_functions_are_called_often_and_long_ones_few_times() -> None:
    calls = []
    short = measure(lambda: calls.append(1), repeats=4, min_seconds=0.04)
    assert short.calls_per_sample > 1000 and short.seconds < 1e-4
    assert len(calls) > 4 * short.calls_per_sample
    calls.clear()
    assert len(measure(lambda: calls.append(time.sleep(0.05)), max_seconds=0.01).samples_s) == 1  # type: ignore[func-returns-value]
    assert len(calls) == 2  # one to warm up
    assert len(measure(lambda: time.sleep(0.05), max_seconds=0.21).samples_s) <= 4  # of 20


def test_summaries_of_samples() -> None:
    measured = Measurement((1.0, 2.0, 3.0, 4.0, 10.0), 7, "cpu")
    assert (measured.seconds, measured.spread) == (3.0, (4.0 - 2.0) / 3.0)
    single = Measurement((1.0,), 1, "cpu")
    assert (single.seconds, single.spread) == (1.0, None)


def test_no_garbage_is_collected_while_samples_are_taken() -> None:
    enabled = []
    assert gc.isenabled()
    measure(lambda: enabled.append(gc.isenabled()), min_seconds=0, warmup=2, repeats=3)
    assert enabled == [True, True, False, False, False]
    assert gc.isenabled()
    calls = iter(range(4))
    with pytest.raises(StopIteration):
        measure(lambda: next(calls), min_seconds=0.01)
    assert gc.isenabled()


@each(
    ("functions", "options", "message"),
    [
        ([lambda: None], {"repeats": 0}, "repeats is 0"),
        ([lambda: 1, 2], {}, "found an int"),
        ([], {}, "found no function"),
    ],
)
def test_wrong_arguments_are_errors(functions: list[Any], options: dict[str, int], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"measure: {message}"):
        measure(*functions, **options)  # type: ignore[call-overload]


def test_a_witness_may_call_each_function_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Counting:
        def counts(self) -> None:
            raise AssertionError("`count` was not called")

        def on_measure(self, functions: Any, sample: Any) -> list[Measurement]:
            return [called_once(f) for f in functions]

    monkeypatch.setattr(measurement, "witness", Counting())
    with Meter() as meter:
        measured = measure(lambda: X @ W, lambda: X @ W)
        single = measure(lambda: X @ W)
    assert meter.totals.operators == {"aten.mm": 3}
    assert [len(one.samples_s) == one.calls_per_sample == 1 for one in (*measured, single)] == [True] * 3


def test_numpy_work_is_reported_as_not_counted() -> None:
    x = np.ones(8)
    for f in (lambda: np.dot(x, x), lambda: sum(range(10))):
        assert count(f) == Count(None, None, None, None, {}, {}, (), why=NO_OPERATOR)
    view = count(lambda: X.t())
    assert (view.flops, view.bytes_moved, view.intensity, view.why) == (0, 0, None, None)


def test_without_torch_only_time_is_measured(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('none here')\n")
    script = (
        "from trace_tools import count, measure\n"
        "c = count(sum, [1, 2])\n"
        "print(measure(lambda: sum([1, 2])).seconds > 0, c.flops, c.peak_bytes, c.why)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    printed = subprocess.check_output([sys.executable, "-c", script], text=True, env=environment)
    assert printed.strip() == f"True None None {NO_OPERATOR}"


class Ramping(SimulatedCuda):
    """A device that reaches full speed after 40 ms of work, and drops to a third in a pause of half a second."""

    busy_s = 0.0

    def kernel(self) -> None:
        if self.now - self.until.get((0, "current"), 0.0) > 0.5:
            self.busy_s = 0.0
        seconds = 1e-3 * (1 + 2 * max(0.0, 1 - self.busy_s / 0.04))
        self.busy_s += seconds
        self.launch(seconds)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Ramping:
    return in_use(monkeypatch, Ramping())


def test_cuda_measurements_use_the_clock_of_the_device(cuda: Ramping) -> None:
    measured = measure(cuda.kernel, repeats=10, min_seconds=0.2)
    assert (measured.device, len(measured.samples_s)) == ("cuda:0", 10)
    assert measured.seconds == pytest.approx(0.001, rel=1e-3)
    assert measured.calls_per_sample * 0.001 >= 0.2 / 10
    batch = ["synchronize", "record", *["launch"] * measured.calls_per_sample, "record", "waited", "synchronize"]
    last = len(cuda.log) - cuda.log[::-1].index("launch") + 3  # the event, the wait for it, and that for the device
    assert cuda.log[last - len(batch) : last] == batch


def measure_briefly(*functions: Any) -> Any:
    return measure(*functions, repeats=5, min_seconds=0.02, max_seconds=0.2)


def test_a_pause_does_not_slow_the_next_measurement(cuda: Ramping) -> None:
    cuda.now += 3
    first, second = measure_briefly(cuda.kernel), measure_briefly(cuda.kernel)
    assert first.seconds == pytest.approx(second.seconds, rel=1e-3) == pytest.approx(0.001, rel=1e-3)
    before = cuda.busy_s
    measure_briefly(cuda.kernel)
    assert cuda.busy_s - before < 0.05, "a device that has just worked needs no long warm-up"
    cuda.now += 3
    first, second = measure_briefly(cuda.kernel, cuda.kernel)
    assert first.samples_s == pytest.approx(second.samples_s)


def test_samples_of_compared_functions_alternate(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    now = 0.0
    monkeypatch.setattr(measurement, "perf_counter", lambda: now)

    def slower(name: str) -> None:
        nonlocal now
        calls.append(name)
        now += 1e-5 * len(calls)  # the machine becomes slower with each call

    a, b, c = measure(*(lambda name=name: slower(name) for name in "abc"), warmup=1, repeats=6, min_seconds=0)
    assert a.calls_per_sample == b.calls_per_sample == c.calls_per_sample == 1
    assert "".join(calls) == "abc" + "abc" + "cba" + "abc" + "cba" + "abc" + "cba"
    assert {len(one.samples_s) for one in (a, b, c)} == {6}
    assert a.seconds == pytest.approx(c.seconds, rel=0.1)
