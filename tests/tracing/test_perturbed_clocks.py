"""Altered clocks are wrong at each reading, in both directions, and correct again afterwards."""

from __future__ import annotations

import math
import os
import time
import timeit
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from trace_tools import measure, peak_flops
from trace_tools.machines.machine import STORED, to_json
from trace_tools.trace.model import Machine, Peak
from trace_tools.tracing import perturbed_clocks
from trace_tools.tracing.perturbed_clocks import LEVELS, OTHER_SEED, perturb_clocks, perturb_seeds


def test_clocks_are_wrong_but_monotonic_and_restored_afterwards(tmp_path: Path) -> None:
    clocks = [getattr(time, name + ns) for name in perturbed_clocks.CLOCKS for ns in ("", "_ns")]
    before = [*clocks, timeit.default_timer, timeit.Timer.timeit]
    with perturb_clocks(0, inverted=False, folder=tmp_path):
        for name in ("perf_counter", "monotonic", "time"):
            read = getattr(time, name)
            readings = [read() for _ in range(200)]
            assert all(later >= earlier for earlier, later in pairwise(readings))
            assert isinstance(getattr(time, f"{name}_ns")(), int)
        real, start = before[0], time.perf_counter()
        began = real()
        while real() - began < 0.05:
            pass
        assert not 0.8 < (time.perf_counter() - start) / (real() - began) < 1.3
    after = [getattr(time, name + ns) for name in perturbed_clocks.CLOCKS for ns in ("", "_ns")]
    assert [*after, timeit.default_timer, timeit.Timer.timeit] == before


@pytest.mark.parametrize("seed", range(5))
def test_successive_clock_factors_differ_and_invert(seed: int, tmp_path: Path) -> None:
    up, down = (perturbed_clocks._factors(seed, inverted=inverted) for inverted in (False, True))
    factors, inverted_factors = [up() for _ in range(24)], [down() for _ in range(24)]
    assert all(math.isclose(a * b, 1) for a, b in zip(factors, inverted_factors, strict=True))
    assert all(max(a, 1 / a) >= min(LEVELS) for a in factors)
    for start in range(16):
        window = sorted(factors[start : start + 8])
        assert all(later / earlier > 1.35 for earlier, later in pairwise(window))


def test_measured_values_are_altered_and_datasheet_peaks_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine("A processor", "cpu", "cpu", peaks=[Peak("float32", 1e9, "measured", measured=True)])
    machine_file = tmp_path / "machine.json"
    machine_file.write_text(to_json(machine), encoding="utf-8")
    monkeypatch.setenv(STORED, str(machine_file))
    calls: list[int] = []
    with perturb_clocks(1, inverted=True, folder=tmp_path):
        measurement = measure(lambda: calls.append(1) or time.sleep(0.02))
        assert calls == [1] and not 0.8 < measurement.seconds / 0.02 < 1.3
        assert peak_flops("float32") not in (None, 1e9)
    assert peak_flops("float32") == 1e9 and os.environ[STORED] == str(machine_file)
    (tmp_path / "gpu").mkdir()  # another folder, because each machine file is read only once
    gpu = Machine("NVIDIA H200", "h200", "cuda", peaks=[Peak("float32", 67e12, "its datasheet")])
    machine_file.with_name("gpu.json").write_text(to_json(gpu), encoding="utf-8")
    monkeypatch.setenv(STORED, str(machine_file.with_name("gpu.json")))
    with perturb_clocks(1, inverted=True, folder=tmp_path / "gpu"):
        assert peak_flops("float32") == 67e12


def test_perturbed_seeds_reach_the_gpu_but_not_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: False)
    state = torch.get_rng_state()
    with perturb_seeds():
        torch.manual_seed(7)
        cpu_numbers = torch.rand(3)
        assert torch.Generator().manual_seed(7).initial_seed() == 7
        torch.manual_seed(2**64 - 1)  # the largest seed
    torch.manual_seed(7)
    assert seeds == [7 + OTHER_SEED, OTHER_SEED - 1, 7] and torch.equal(torch.rand(3), cpu_numbers), "CPU unchanged"
    torch.set_rng_state(state)
