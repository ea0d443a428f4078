"""The measured roof, against torch's own benchmark timer."""

from __future__ import annotations

import re

import pytest
import torch
from torch.utils.benchmark import Timer

from trace_tools.machines import machine, roof


def test_the_roof_is_near_what_torchs_timer_sees() -> None:
    a, b = torch.randn(2, 512, 512)
    timer = Timer("a @ b", globals={"a": a, "b": b}, num_threads=torch.get_num_threads())
    seen = 2 * 512**3 / timer.timeit(20).median
    peaks = {peak.name: peak.per_second for peak in machine.this_machine("cpu").peaks}
    assert peaks["float32"] is not None
    assert 1 / 50 < peaks["float32"] / seen < 50  # far off only if a unit is


def test_no_way_to_compute_a_product_is_faster_than_the_roof() -> None:
    """A convolution is computed by another library, which may be twice as fast: the best of some tries."""
    image, weight, n = torch.randn(1, 512, 16, 32), torch.randn(512, 512, 1, 1), 512
    convolve = Timer(
        "F.conv2d(x, w)",
        setup="import torch.nn.functional as F",
        globals={"x": image.contiguous(memory_format=torch.channels_last), "w": weight},
        num_threads=torch.get_num_threads(),
    )
    roofs = []
    for _ in range(5):
        seen = 2 * n**3 / convolve.timeit(20).median
        roofs.append(roof._matmul_peak("cpu", None, "float32").per_second or 0.0)
        if max(roofs) > 0.8 * seen:
            break
    assert max(roofs) > 0.8 * seen


def test_measuring_leaves_torch_as_it_was() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    torch.set_float32_matmul_precision("medium")
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    try:
        peaks = roof.measured_peaks("cpu")
        state = torch.get_float32_matmul_precision(), torch.get_default_dtype(), torch.get_default_device().type
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
        torch.set_float32_matmul_precision("highest")
    assert state == ("medium", torch.float64, "meta")
    assert torch.equal(torch.get_rng_state(), before)
    assert all(peak.per_second for peak in peaks)


def test_a_dtype_without_matmul_has_no_peak_and_a_reason() -> None:
    peak = roof._matmul_peak("cpu", None, "bool")  # torch has no bool matmul
    assert peak.per_second is None
    assert re.match(r"not measured: .*[Bb]ool", peak.source)


def test_memory_without_room_for_a_copy_has_no_peak_and_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(roof, "_best_seconds", full)
    peak = roof._copy_peak("cpu", None)
    assert (peak.per_second, peak.source) == (None, "not measured: CUDA out of memory.")
