"""Measured peaks, compared with torch's own benchmark timer."""

from __future__ import annotations

import re

import pytest
import torch
from torch.utils.benchmark import Timer

from trace_tools.machines import peak_benchmark
from trace_tools.machines.accelerators import Properties


def test_measured_peak_is_near_torchs_timer() -> None:
    a, b = torch.randn(2, 512, 512)
    timer = Timer("a @ b", globals={"a": a, "b": b}, num_threads=torch.get_num_threads())
    timer_rate = 2 * 512**3 / timer.timeit(20).median
    rate = peak_benchmark._matmul_peak("cpu", None, "float32").per_second or 0.0
    assert 1 / 50 < rate / timer_rate < 50  # a wrong unit would be farther off


def test_cpu_peaks_name_their_source_and_measuring_restores_torchs_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"MATMUL_BUDGET_S": 0.02, "COPY_BUDGET_S": 0.02, "COPIED_BYTES": 1 << 24, "ROUNDS": 2}.items():
        monkeypatch.setattr(peak_benchmark, name, value)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    torch.set_float32_matmul_precision("medium")
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    try:
        peaks = {peak.name: peak for peak in peak_benchmark.measured_peaks("cpu")}
        state = torch.get_float32_matmul_precision(), torch.get_default_dtype(), torch.get_default_device().type
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
        torch.set_float32_matmul_precision("highest")
    assert state == ("medium", torch.float64, "meta")
    assert torch.equal(torch.get_rng_state(), before)
    assert set(peaks) == {"float32", "float64", "bfloat16", "float16", "memory"}
    for name, peak in peaks.items():
        assert peak.measured and 1e7 < (peak.per_second or 0.0) < 1e15
        assert re.match(rf"measured: best of \d+ \w.* \d+{' MiB' if name == 'memory' else '³'}", peak.source), peak


@pytest.mark.parametrize("load_s", [0.0, 0.02, 0.5])
def test_slow_loading_of_kernels_does_not_change_the_peak(load_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a simulated card each kernel's first call takes `load_s` longer, and a cold card is half as fast."""
    now, loaded, work_s = [0.0], set[tuple[int, bool]](), [0.0]

    class Card:
        def properties(self) -> Properties:
            return Properties("a card", 80 << 30)

        def memory_info(self) -> tuple[int, int]:
            return 80 << 30, 80 << 30

        def start(self) -> float:
            now[0] += 10e-6
            return now[0]

        def stop(self, mark: float) -> float:
            now[0] += 5e-6
            return now[0] - mark

    def mm(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
        kernel = (len(a), b.is_contiguous())
        now[0] += 0.0 if kernel in loaded else load_s
        loaded.add(kernel)
        seconds = 2 * len(a) ** 3 / 700e12 * (1 if work_s[0] > 0.2 else 2)
        work_s[0] += seconds
        now[0] += 10e-6 + seconds

    monkeypatch.setattr(peak_benchmark, "perf_counter", lambda: now[0])
    monkeypatch.setattr(torch, "randn", lambda *shape, **_: torch.empty(*shape, device="meta"))
    monkeypatch.setattr(torch, "mm", mm)
    rate, side, _, _ = peak_benchmark._best_matmul("cpu", Card(), torch.bfloat16)  # type: ignore[arg-type]
    assert side == 8192 and rate == pytest.approx(700e12, rel=0.02)


def test_what_cannot_be_measured_has_a_reason_but_no_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    peak = peak_benchmark._matmul_peak("cpu", None, "bool")  # torch has no bool matmul
    assert peak.per_second is None and re.match(r"not measured: .*[Bb]ool", peak.source)

    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(peak_benchmark, "COPIED_BYTES", 1 << 20)
    monkeypatch.setattr(peak_benchmark, "_best_seconds", full)
    peak = peak_benchmark._copy_peak("cpu", None)
    assert (peak.per_second, peak.source) == (None, "not measured: CUDA out of memory.")
