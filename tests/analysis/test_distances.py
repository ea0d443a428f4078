"""Ratios of time to floor: computed by hand, and for real runs under the measured roofs of their machines."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.messages import says
from tests.pages.recording import Recording
from trace_tools.analysis.distances import (
    EXPECTED,
    Distance,
    Estimator,
    KindLost,
    distances,
    estimator_of,
    held,
    lost_by_kind,
    verdict,
)
from trace_tools.analysis.floors import Floor, measured_ceiling
from trace_tools.machines.machine import STORED, with_best_peaks
from trace_tools.machines.peak_benchmark import measured_peaks
from trace_tools.trace.model import Machine, Measured, Meters, Peak, Trace, Work
from trace_tools.trace.trace_file import load

ROOT = Path(__file__).resolve().parents[2]
LECTURE = """\
def main():
    train()


def train():
    y = x @ w
    z = y + 1
    seconds = measure(f)
    work()


def work():
    u = z.clone()
"""
# a machine with 1 GFLOP/s, 1 GB/s and a cache of 1,000 bytes
PEAKS = [Peak("float32", 1e9, "measured", measured=True), Peak("memory", 1e9, "measured", measured=True)]
MACHINE = Machine("A processor", "cpu", "cpu", cache_bytes=1_000, peaks=PEAKS)


def meters(*work: Work) -> Meters:
    """Return the meters of operators that ran once each."""
    return Meters(operators=[(operator, 1) for operator, *_ in work], work=list(work))


def recorded(clone_ns: int = 3_000) -> Trace:
    """Return a trace of the lecture on `MACHINE`; `clone_ns` is the time of `u = z.clone()`."""
    recording = Recording(LECTURE)
    train = recording.call(recording.frame("main"), "train()", "train")
    recording.step(train, "y = ", host_ns=[400_000] * 3, meters=meters(("aten.mm", "float32", 200_000, 4_000)))
    recording.step(
        train, "z = ", host_ns=[9_000], meters=meters(("aten.add", "float32", 10, 3_000), ("aten.clone", None, 0, 500))
    )
    call = Measured([1e-3, 2e-3, 9e-3], work=[("aten.mm", "float32", 10**6, 0), ("aten.sum", "float32", 10**6, 0)])
    recording.step(train, "seconds = ", host_ns=[10**9], measured=[call], harness=True)
    call_of_work = recording.step(train, "work()", host_ns=[10_000], meters=meters(("aten.clone", None, 0, 4_000)))
    recording.step(
        recording.frame("work", call_of_work), "u = ", host_ns=[clone_ns], meters=meters(("aten.clone", None, 0, 4_000))
    )
    return recording.trace(machine=MACHINE)


def test_distances_are_times_divided_by_floors() -> None:
    """The floors are 200, 3.5, 2,000, 4 and 4 µs, and the times 400, 9, 2,000, 10 and 3 µs.

    Additions account for 3 of the 3.5 µs, so the second step is elementwise.
    """
    steps = distances(recorded())
    assert [round(step.ratio, 6) for step in steps] == [2, round(9 / 3.5, 6), 1, 2.5, 0.75]
    assert [step.kind for step in steps] == ["matmul", "elementwise", "mixed", "copy", "copy"]
    assert [step.own for step in steps] == [True, True, True, False, True], (
        "the time of a call includes the called function"
    )
    assert [step.steady for step in steps] == [True, False, True, False, False]


def test_times_served_by_a_cache_do_not_contradict_the_roof() -> None:
    """Moving 4,000 bytes takes 4 µs at 1 GB/s, or 2 µs if a cache served 1,000 of them and keeps 1,000.

    So a time of 3 µs is possible, and 1 µs is above the roof.
    """
    possible, too_fast = distances(recorded()), distances(recorded(clone_ns=1_000))
    assert [step.cached for step in possible] == [False] * 4 + [True] and held(possible) == 1
    assert too_fast[-1].above_roof and held(too_fast) == 0.8
    assert says(verdict(possible), "4 of 5 steps", "; 1 ", "cache")
    assert says(verdict(too_fast), "4 of 5 steps", "; 1 ", "roof", "too low", "--survey")


def test_lost_time_is_summed_by_kind_without_double_counting() -> None:
    """The call `work()` is left out, because its time contains that of `u = z.clone()`."""
    kinds = lost_by_kind(distances(recorded()))
    assert [(kind.kind, kind.steps) for kind in kinds] == [
        ("matmul", 1),
        ("elementwise", 1),
        ("mixed", 1),
        ("copy", 1),
    ]
    assert kinds[0] == KindLost("matmul", 1, pytest.approx(400e-6), pytest.approx(200e-6), pytest.approx(2))
    assert [kind.lost for kind in kinds] == pytest.approx([200e-6, 5.5e-6, 0, -1e-6])


def test_a_machine_without_a_measured_roof_has_no_distances() -> None:
    unmeasured = [replace(peak, measured=False) for peak in PEAKS]
    assert distances(replace(recorded(), machine=replace(MACHINE, peaks=unmeasured))) == []


@pytest.mark.parametrize("path", sorted(ROOT.glob("rendered/*/trace.yaml")), ids=lambda path: path.parent.name)
def test_floors_are_below_the_times_of_the_committed_traces(path: Path) -> None:
    """At least 99% of all steps, and 99% of the heavy ones, do not contradict the measured roof."""
    trace = load(path).trace
    if trace.machine.emulated or measured_ceiling(trace.machine) is None:
        pytest.skip("no measured roof")
    steps = distances(trace)
    heavy = [step for step in steps if step.floor.heavy]
    print(verdict(steps), verdict(heavy), sep="\n")
    assert len(steps) > 1_000 and len(heavy) > 100
    assert held(steps) >= EXPECTED and held(heavy) >= EXPECTED


LECTURE_OF_OPERATORS = """\
import torch
from trace_tools import measure, text

def main():
    products()
    memory()
    training()

def products():
    for n in (64, 256, 512, 1024):
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            a, b = torch.randn(n, n).to(dtype), torch.randn(n, n).to(dtype)
            c = a @ b  # @inspect c.shape
            d = a @ b.t()
        seconds = measure(lambda: a @ b, repeats=3, min_seconds=0.01).seconds  # @inspect seconds [s]

def memory():
    for n in (1_000, 100_000, 20_000_000):
        x = torch.randn(n)
        y = x.clone()
        y.copy_(x)
        z = x + y
        z.mul_(2)
        total = z.sum()
        zeros = torch.zeros(n)
        same = torch.dot(x, y)
        kept = x[x > 0]
        double = x.double()

def training():
    model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 256))
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(6):
        x = torch.randn(128, 256)
        loss = torch.nn.functional.mse_loss(model(x), x)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.slow
def test_floors_are_below_the_times_of_a_real_run(tmp_path: Path) -> None:
    """The roof is the best of several measurements, because a single one on a busy machine may be too low."""
    (tmp_path / "real.py").write_text(LECTURE_OF_OPERATORS)
    environment = {name: value for name, value in os.environ.items() if name != STORED}
    environment |= {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "trace_tools", "trace", "real.py", "--device", "cpu", "-o", "out"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    trace = load(tmp_path / "out" / "cpu" / "trace.yaml").trace
    surveys = [trace.machine]
    for _ in range(8):
        steps = distances(trace, measured_ceiling(with_best_peaks(surveys)))
        if held(steps) >= 0.99:
            break
        surveys.append(replace(trace.machine, peaks=measured_peaks("cpu")))
    assert len(steps) > 80
    assert {step.kind for step in steps} >= {"matmul", "elementwise", "reduction", "copy", "fill", "mixed"}
    print(verdict(steps))
    assert held(steps) >= 0.99, [step for step in steps if step.above_roof]


def distance(kind: str, floor: float, ratio: float, *, steady: bool = True, calls: int = 1) -> Distance:
    """Return the distance of a step with a floor in seconds, and with `ratio` times that floor as its time."""
    floor_of_kind = Floor(floor, "memory", {kind: floor}, floor, calls=calls)  # type: ignore[dict-item]
    return Distance(0, ratio * floor, floor_of_kind, kind, own=True, steady=steady)


def machine(matmul_ratio: float, copy_ratio: float) -> list[Distance]:
    """Return the distances of ten matmuls and ten copies on one machine, with these ratios of time to floor."""
    floors = [1e-4 * (n + 1) for n in range(10)]
    return [distance("matmul", floor, matmul_ratio) for floor in floors] + [
        distance("copy", floor, copy_ratio) for floor in floors
    ]


def test_estimates_are_scaled_by_kind_and_cross_validated() -> None:
    """The times of each machine are estimated from the other's: 20 copies exactly, 20 matmuls off by a factor of 4."""
    estimator = estimator_of([machine(2, 3), machine(8, 3)])
    assert estimator is not None and estimator.tried == 40
    assert estimator.ratios == {"matmul": pytest.approx(4), "copy": pytest.approx(3)}, (
        "the geometric means √(2·8) and √(3·3)"
    )
    assert (estimator.half, estimator.most) == (pytest.approx((1 + 4) / 2), pytest.approx(4))
    floor = Floor(3e-4, "memory", {"matmul": 1e-4, "copy": 2e-4}, 0.0, calls=2)
    assert estimator.seconds(floor) == pytest.approx(4 * 1e-4 + 3 * 2e-4)


def test_equal_machines_are_estimated_exactly() -> None:
    estimator = estimator_of([machine(2, 3), machine(2, 3), machine(2, 3)])
    assert estimator is not None and (estimator.half, estimator.most) == (pytest.approx(1), pytest.approx(1))
    assert estimator.tried == 60


def test_an_estimate_needs_two_machines() -> None:
    assert estimator_of([]) is estimator_of([machine(2, 3)]) is estimator_of([machine(2, 3), []]) is None


def test_only_heavy_and_steady_steps_are_used() -> None:
    """Launches take most of the time of light steps, so these also get no estimate.

    Neither does a kind of operator without a ratio, or a step without a floor.
    """
    light = [distance("matmul", 1e-6, 5_000, calls=1_000) for _ in range(50)]
    unsteady = [distance("copy", 1e-4, 900, steady=False) for _ in range(50)]
    estimator = estimator_of([[*machine(2, 3), *light, *unsteady], machine(2, 3)])
    assert estimator == Estimator(
        {"matmul": pytest.approx(2), "copy": pytest.approx(3)}, pytest.approx(1), pytest.approx(1), 40
    )
    assert estimator is not None and estimator.seconds(light[0].floor) is None
    assert estimator.seconds(Floor(1e-3, "memory", {"reduction": 1e-3}, calls=1)) is None, (
        "no machine has a ratio for reductions"
    )
    assert estimator.seconds(Floor(None, why="nothing was counted")) is None
