"""Floors computed by hand from the datasheets' figures in `known_machines.yaml`.

H100 SXM: 67 TFLOP/s in float32, 494.7 in tf32, 989.5 in bfloat16, 67 in float64 on tensor cores, 3,350 GB/s.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.cases_in_one import each
from trace_tools.analysis.rates import Floor, floor_of
from trace_tools.machines.peaks import KnownMachine, known_machine
from trace_tools.trace.model import Measured, Meters, Step, Work


def known(name: str) -> KnownMachine:
    machine = known_machine(name)
    assert machine is not None
    return machine


H100, T4 = known("NVIDIA H100 80GB HBM3"), known("Tesla T4")


def seconds(step: Step, machine: KnownMachine) -> float | None:
    floor = floor_of(step, machine)
    assert floor is not None
    return floor.seconds


def step(*work: Work, **changes: object) -> Step:
    """Return a step that ran these operators once each; `changes` replace its fields."""
    meters = Meters(
        flops=sum(flops for _, _, flops, _ in work),
        operators=[(operator, 1) for operator, *_ in work],
        work=list(work) or None,
    )
    return replace(Step(0, 0, 0, 1, meters=meters), **changes)  # type: ignore[arg-type]


MATMUL = "aten.mm", "bfloat16", 2 * 4096**3, 3 * 4096**2 * 2
ADDITION = "aten.add", "float32", 2**20, 3 * 4 * 2**20


@each(
    ("work", "microseconds", "roof"),
    [
        # 4096³ in bfloat16: 2·4096³ = 137,438,953,472 FLOPs ÷ 989.5e12 = 138.9 µs; 3·4096²·2 bytes ÷ 3.35e12 = 30 µs
        ([MATMUL], 138.8973, "bfloat16"),
        # 2²⁰ numbers of float32 added: 3·4·2²⁰ = 12,582,912 bytes ÷ 3.35e12 = 3.756 µs; 2²⁰ ÷ 67e12 = 16 ns
        ([ADDITION], 3.75609, "memory"),
        # The sum over the operators. The floor of all FLOPs and bytes together would be 138.8973 µs only.
        ([MATMUL, ADDITION], 142.65339, "bfloat16"),
    ],
)
def test_floors_of_arithmetic_and_of_memory(work: list[Work], microseconds: float, roof: str) -> None:
    floor = floor_of(step(*work), H100)
    assert floor is not None and floor.seconds == pytest.approx(1e-6 * microseconds, rel=1e-5)
    assert floor.roof == roof


@each(
    ("operator", "dtype", "tera"),
    [
        ("aten.mm", "float32", 67),
        ("aten.mm", "tf32", 494.7),  # the lecture enabled tf32
        ("aten.convolution", "tf32", 494.7),  # cuDNN uses tf32 by default
        ("aten._cudnn_rnn", "float32", 494.7),  # cuDNN uses tf32 by default
        ("aten._scaled_dot_product_efficient_attention", "float32", 494.7),  # fused attention uses the units of tf32
        ("aten.mul", "float32", 67),
        ("aten.mm", "float64", 67),  # on tensor cores; other cores reach 33.5
        ("aten._scaled_mm", "float8_e4m3fn", 1979),
        ("aten._int_mm", "int8", 1979),
        ("aten._scaled_dot_product_flash_attention", "float16", 989.5),
    ],
)
def test_floors_use_the_peak_of_the_dtype_and_its_units(operator: str, dtype: str, tera: float) -> None:
    assert seconds(step((operator, dtype, 10**12, 0)), H100) == pytest.approx(1 / tera)


@each("operator", ["aten.mm", "aten.add", "aten._scaled_dot_product_flash_attention_for_cpu"])
def test_a_slow_narrow_dtype_uses_the_peak_of_a_wider_one(operator: str) -> None:
    """A CPU that is slow at float16 may compute in float32 instead; float64 keeps its own peak."""
    cpu = replace(T4, flops_per_second={"float32": 200e9, "float16": 40e9, "float64": 100e9})
    assert seconds(step((operator, "float16", 10**9, 0)), cpu) == pytest.approx(1 / 200)
    assert seconds(step((operator, "float64", 10**9, 0)), cpu) == pytest.approx(1 / 100)


def test_precision_medium_uses_tf32_on_gpus_and_the_faster_format_on_cpus() -> None:
    """`tf32_or_bfloat16` is the dtype of matmuls at torch's precision "medium". A GPU without tf32 uses float32."""
    matmul = step(("aten.mm", "tf32_or_bfloat16", 10**12, 0))
    assert seconds(matmul, H100) == pytest.approx(1 / 494.7)
    assert seconds(matmul, T4) == pytest.approx(1 / 8.1)
    for bfloat16_tera, tera in ((0.9, 0.9), (0.05, 0.2)):
        cpu = replace(T4, flops_per_second={"float32": 0.2e12, "bfloat16": bfloat16_tera * 1e12})
        assert seconds(matmul, cpu) == pytest.approx(1 / tera)
        assert seconds(step(("aten.mm", "tf32", 10**12, 0)), cpu) == pytest.approx(1 / 0.2)


def test_a_dtype_without_a_peak_has_no_floor() -> None:
    matmul = step(("aten.add", "float32", 1, 12), ("aten.mm", "bfloat16", 10, 10))
    assert floor_of(matmul, T4) == Floor(None, "bfloat16")


def test_unknown_work_has_no_floor() -> None:
    adding = "aten.add", "float32", 1, 12
    for unknown in (
        step(meters=None),
        step(meters=Meters(flops=10**12)),  # on the meta device
        step(),
        step(adding, harness=True),  # of all calls of `measure`
        step(measured=[Measured([1.0], work=[adding]), Measured([1.0], work=[adding])]),
        step(measured=[Measured([1.0], why="no torch operator ran in it")]),
        step(meters=Meters(work=[adding], uncounted=["aten.sort"])),
    ):
        assert floor_of(unknown, H100) is None


def test_a_measured_call_has_the_floor_of_one_call() -> None:
    all_calls = Meters(flops=10**15, work=[("aten.mm", "float32", 10**15, 0)])
    call = Measured([0.5], flops=67 * 10**9, work=[("aten.mm", "float32", 67 * 10**9, 0)])
    assert seconds(step(meters=all_calls, measured=[call], harness=True), H100) == pytest.approx(1e-3)
