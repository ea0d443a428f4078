"""Floors computed by hand from the datasheets' figures in `known_machines.yaml`.

H100 SXM: 67 TFLOP/s in float32, 494.7 in tf32, 989.5 in bfloat16, 67 in float64 on tensor cores, 3,350 GB/s.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.cases_in_one import each
from tests.messages import says
from tests.traces import example_trace
from trace_tools.analysis.floors import (
    Ceiling,
    ceilings,
    fit_in_words,
    floor_of,
    has_work,
    most_live_bytes,
    why_no_floors,
)
from trace_tools.trace.model import Measured, Meters, Step, Work

CEILINGS = {one.name: one for one in ceilings()}
H100, T4 = CEILINGS["NVIDIA H100 80GB HBM3"], CEILINGS["Tesla T4"]


def step(*work: Work, **changes: object) -> Step:
    """Return a step that ran these operators once each; `changes` replace its fields."""
    meters = Meters(
        flops=sum(flops for _, _, flops, _ in work),
        operators=[(operator, 1) for operator, *_ in work],
        work=list(work) or None,
    )
    return replace(Step(0, 0, 0, 1, meters=meters), **changes)  # type: ignore[arg-type]


def test_a_matmul_is_bound_by_arithmetic() -> None:
    """4096³ in bfloat16: 2·4096³ = 137,438,953,472 FLOPs ÷ 989.5e12 = 138.9 µs; 3·4096²·2 bytes ÷ 3.35e12 = 30 µs."""
    floor = floor_of(step(("aten.mm", "bfloat16", 2 * 4096**3, 3 * 4096**2 * 2)), H100)
    assert floor.seconds == pytest.approx(138.8973e-6, rel=1e-5)
    assert floor.binds == "bfloat16"


def test_an_addition_is_bound_by_memory() -> None:
    """2²⁰ numbers of float32 added: 3·4·2²⁰ = 12,582,912 bytes ÷ 3.35e12 = 3.756 µs; 2²⁰ ÷ 67e12 = 16 ns."""
    floor = floor_of(step(("aten.add", "float32", 2**20, 3 * 4 * 2**20)), H100)
    assert floor.seconds == pytest.approx(3.75609e-6, rel=1e-5)
    assert floor.binds == "memory"


def test_the_floor_of_a_step_is_the_sum_over_its_operators() -> None:
    """The sum is 138.8973 + 3.75609 µs. The floor of all FLOPs and bytes together would be 138.8973 µs only."""
    matmul, add = ("aten.mm", "bfloat16", 2 * 4096**3, 3 * 4096**2 * 2), ("aten.add", "float32", 2**20, 12 * 2**20)
    floor = floor_of(step(matmul, add), H100)
    assert floor.seconds == pytest.approx(142.65339e-6, rel=1e-5)
    assert floor.binds == "bfloat16"


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
    floor = floor_of(step((operator, dtype, 10**12, 0)), H100)
    assert floor.seconds == pytest.approx(1 / tera)


@pytest.mark.parametrize("operator", ["aten.mm", "aten.add", "aten._scaled_dot_product_flash_attention_for_cpu"])
def test_a_slow_narrow_dtype_uses_the_peak_of_a_wider_one(operator: str) -> None:
    """A CPU that is slow at float16 may compute in float32 instead; float64 keeps its own peak."""
    ceiling = Ceiling("CPU", {"float32": 200e9, "float16": 40e9, "float64": 100e9}, 80e9, "measured")
    assert floor_of(step((operator, "float16", 10**9, 0)), ceiling).seconds == pytest.approx(1 / 200)
    assert floor_of(step((operator, "float64", 10**9, 0)), ceiling).seconds == pytest.approx(1 / 100)


def test_precision_medium_uses_tf32_on_gpus_and_the_faster_format_on_cpus() -> None:
    """`tf32_or_bfloat16` is the dtype of matmuls at torch's precision "medium". A GPU without tf32 uses float32."""
    matmul = step(("aten.mm", "tf32_or_bfloat16", 10**12, 0))
    assert floor_of(matmul, H100).seconds == pytest.approx(1 / 494.7)
    assert floor_of(matmul, T4).seconds == pytest.approx(1 / 8.1)
    for bfloat16_tera, tera in ((0.9, 0.9), (0.05, 0.2)):
        cpu = Ceiling("CPU", {"float32": 0.2e12, "bfloat16": bfloat16_tera * 1e12}, 80e9, "measured")
        assert floor_of(matmul, cpu).seconds == pytest.approx(1 / tera)


def test_a_dtype_without_a_peak_has_no_floor() -> None:
    floor = floor_of(step(("aten.add", "float32", 1, 12), ("aten.mm", "bfloat16", 10, 10)), T4)
    assert (floor.seconds, floor.why) == (None, "no bfloat16 peak of Tesla T4 is known")


@pytest.mark.parametrize(
    ("step_without_floor", "reason"),
    [
        (step(meters=None), "nothing was counted"),
        (step(meters=Meters(flops=10**12)), "its operators ran on the meta device, which computes nothing"),
        (step(), "its operators computed nothing and moved no bytes of memory"),
        (step(("aten.add", "float32", 1, 12), harness=True), "it includes the operators of all the calls that"),
        (step(measured=[Measured([1.0]), Measured([1.0])]), "it contains several measurements"),
        (step(measured=[Measured([1.0], why="no torch operator ran in it")]), "no torch operator ran in it"),
    ],
)
def test_a_missing_floor_has_a_reason(step_without_floor: Step, reason: str) -> None:
    floor = floor_of(step_without_floor, H100)
    assert floor.seconds is None and floor.why is not None and floor.why.startswith(reason)


def test_a_measured_call_has_the_floor_of_one_call() -> None:
    all_calls = Meters(flops=10**15, work=[("aten.mm", "float32", 10**15, 0)])
    call = Measured([0.5], flops=67 * 10**9, work=[("aten.mm", "float32", 67 * 10**9, 0)])
    assert floor_of(step(meters=all_calls, measured=[call], harness=True), H100).seconds == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("live_gb", "answer"),
    [
        (None, "Unknown, because its memory was not metered"),
        (20, "Its tensors would: at most 20 GB of 40 GB were alive at once; workspaces are not counted"),
        (42, "Hardly: 42 GB of tensors were alive at once; a card sold as 40 GB may have slightly more or less"),
        (43, "No: 43 GB of tensors were alive at once, more than 40 GB"),  # 40 GiB are 42.9 GB
    ],
)
def test_a_40_gb_card_may_have_slightly_more_memory(live_gb: int | None, answer: str) -> None:
    """Torch reports 39.59 GiB of memory on an A100 of 40 GB, or 42.5 · 10⁹ bytes."""
    a100 = CEILINGS["NVIDIA A100-SXM4-40GB"]
    assert fit_in_words(None if live_gb is None else live_gb * 10**9, a100) == answer


def test_all_known_machines_have_ceilings() -> None:
    assert [ceiling.name for ceiling in ceilings()][:2] == ["Tesla V100-SXM2-16GB", "Tesla V100-SXM2-32GB"]
    assert all(ceiling.memory_bytes and ceiling.bytes_per_second for ceiling in ceilings())


def test_only_older_traces_lack_work_and_peak_live_bytes() -> None:
    trace = example_trace()
    assert has_work(trace) and why_no_floors(trace) is None
    assert most_live_bytes(trace) == 136
    older = replace(trace, steps=[step(meters=Meters(operators=[("aten.mm", 1)]))])
    assert says(why_no_floors(older), "operator", "trace it again")
    assert most_live_bytes(older) is None
