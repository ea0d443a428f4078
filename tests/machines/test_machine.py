"""The description of this machine, compared with Python, torch and the operating system."""

from __future__ import annotations

import dataclasses
import getpass
import importlib.metadata
import os
import platform
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.cases_in_one import each
from tests.messages import says
from trace_tools.errors import UsageError
from trace_tools.machines import host, machine
from trace_tools.machines.peaks import known_machine, matrix_format, table_peaks
from trace_tools.trace.model import Machine, Peak


@pytest.fixture(autouse=True)
def _no_stored_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(machine.STORED, raising=False)


# The machine


def test_cpu_description_agrees_with_the_system() -> None:
    described = machine.this_machine("cpu", measure=False)
    assert described.device == "cpu" and described.name == described.cpu
    assert described.name == " ".join(described.name.split()) != ""
    assert described.threads == torch.get_num_threads()
    assert described.tf32 == torch.get_float32_matmul_precision()
    assert described.cores is not None and 1 <= described.cores <= (os.cpu_count() or 1)
    assert described.os is not None and platform.system() in described.os
    assert (described.multiprocessors, described.driver, described.cuda) == (None, None, None)
    assert described.memory_bytes == described.ram_bytes is not None
    if Path("/proc/meminfo").exists():
        kibibytes = re.search(r"MemTotal:\s+(\d+) kB", Path("/proc/meminfo").read_text())
        assert kibibytes is not None and 0 < described.ram_bytes <= int(kibibytes[1]) * 1024
    assert described is machine.this_machine("cpu", measure=False), "it is measured once"
    if not torch.cuda.is_available():
        assert machine.this_machine(measure=False) is described


def test_description_names_neither_person_nor_computer() -> None:
    written = machine.to_json(machine.this_machine(measure=False))
    for secret in (socket.gethostname(), getpass.getuser(), platform.release()):
        assert not re.search(rf"\b{re.escape(secret)}\b", written) or re.fullmatch(r"[\d.]+", secret)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_without_cuda_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="device 'cuda': PyTorch finds no CUDA device"):
        machine.this_machine("cuda")


@pytest.mark.cuda
def test_gpu_description_agrees_with_torch() -> None:
    described = machine.this_machine("cuda")
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    assert described.name == torch.cuda.get_device_name()
    assert described.emulated is hasattr(properties, "emulated")
    assert described.slug in (machine.slug(described.name), f"emulated-{machine.slug(described.name)}")
    assert ("emulated" in described.slug) is described.emulated
    assert described.memory_bytes == properties.total_memory
    assert described.multiprocessors == properties.multi_processor_count
    published = {peak.name: peak.per_second for peak in described.peaks if not peak.measured}
    for peak in described.peaks:
        if peak.measured and peak.per_second and published[peak.name]:
            assert 0.1 < peak.per_second / published[peak.name] < 1.15, peak
    # A card outside the table has a measured peak, from this process or from an earlier trace.
    peak, published_rate = machine.peak_flops("bfloat16"), published["bfloat16"]
    assert peak is not None and (peak == published_rate if published_rate is not None else peak > 0)
    assert isinstance(host.notes("cuda"), list)


# Peaks, and machines stored for other processes


def store_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, described: Machine) -> None:
    file = tmp_path / "machine.json"
    file.write_text(machine.to_json(described), encoding="utf-8")
    monkeypatch.setenv(machine.STORED, str(file))


H200 = Machine(
    name="NVIDIA H200",
    slug="nvidia-h200",
    device="cuda",
    memory_bytes=150110011392,
    multiprocessors=132,
    peaks=[
        *table_peaks(known_machine("NVIDIA H200")),
        Peak("bfloat16", 788e12, "measured: best of 100 matmuls, 8192³ each", measured=True),
        Peak("memory", 4.3e12, "measured: best of 50 copies of 2048 MiB, bytes read and written", measured=True),
    ],
)


def test_stored_machine_is_used_as_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store_machine(tmp_path, monkeypatch, H200)
    assert machine.this_machine() == H200
    assert machine.this_machine("cuda") == H200
    assert machine.this_machine("cpu", measure=False).device == "cpu"
    assert machine.memory_bytes() == 150110011392  # of the card, so that sizes do not depend on its other users


H200_PEAKS = {
    **dict.fromkeys((torch.bfloat16, "bfloat16", torch.float16), 989.5e12),
    **dict.fromkeys((torch.int8, "float8", torch.float8_e4m3fn, torch.float8_e5m2), 1979e12),
    **{torch.float32: 67e12, "tf32": 494.7e12, torch.float64: 67e12},
    **dict.fromkeys(("float4", torch.complex64, "no such dtype")),
}
V100 = dataclasses.replace(H200, peaks=table_peaks(known_machine("Tesla V100-SXM2-16GB")))
UNKNOWN = dataclasses.replace(H200, name="NVIDIA X1", peaks=[*table_peaks(None), *H200.peaks[-2:]])
CPU = Machine("CPU", "cpu", "cpu", peaks=[Peak("float32", 2e11, "measured", measured=True)])


@each(
    ("described", "peaks", "bandwidth"),
    [
        (H200, H200_PEAKS, 4.8e12),
        (V100, {"float64": 7.8e12}, 900e9),  # without tensor cores for it
        (UNKNOWN, {"bfloat16": 788e12, "float64": None}, 4.3e12),
        (CPU, {"float32": 2e11, "tf32": None}, None),
    ],
)
def test_peaks_are_those_of_the_table_or_measured(
    described: Machine, peaks: dict[Any, float | None], bandwidth: float | None, tmp_path: Path, monkeypatch: Any
) -> None:
    store_machine(tmp_path, monkeypatch, described)
    assert {dtype: machine.peak_flops(dtype) for dtype in peaks} == peaks
    assert machine.peak_bandwidth() == bandwidth


def test_format_of_the_matrix_units() -> None:
    for capability in ("7.0", "7.5", "8.0", "12.0", "gfx942", None):
        expected = "float16" if capability in ("7.0", "7.5") else "bfloat16"
        assert matrix_format(Machine("X", "x", "cuda", compute_capability=capability)) == expected


def test_a_mac_traces_its_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert machine.device() == "cpu"


def test_json_round_trip() -> None:
    for described in (H200, machine.this_machine("cpu", measure=False), Machine("é³", "cpu", "cpu")):
        assert machine.from_json(machine.to_json(described)) == described


@each("text", [None, "", "{", "[]", "{}", '{"peaks": [], "colour": 1}'])
def test_unreadable_stored_machine_is_a_usage_error(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "machine.json"
    if text is not None:
        file.write_text(text)
    monkeypatch.setenv(machine.STORED, str(file))
    with pytest.raises(UsageError, match=r"TRACE_TOOLS_MACHINE: .*machine\.json: "):
        machine.this_machine()


# Names


@each(
    ("name", "expected"),
    [
        ("NVIDIA H200", "nvidia-h200"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "nvidia-h100-80gb-hbm3-mig-1g-10gb"),
        ("../../etc", "etc"),
        ("…", "machine"),
        (f"{'a' * 79} b", "a" * 79),
    ],
)
def test_folder_name_of_a_gpu(name: str, expected: str) -> None:
    assert machine.slug(name) == expected


@each(
    ("name", "expected"),
    [
        ("AMD EPYC 7763 64-Core Processor", "amd-epyc-7763-2-cores"),
        ("AMD Ryzen 7 7840U w/ Radeon 780M Graphics", "amd-ryzen-7-7840u-2-cores"),
        ("Intel(R) Xeon(R) CPU E5-2686 v4 @ 2.30GHz", "intel-xeon-e5-2686-v4-2-cores"),
        ("Intel Xeon Processor (Skylake, IBRS)", "intel-xeon-2-cores"),
        ("13th Gen Intel(R) Core(TM) i7-13700K", "intel-core-i7-13700k-2-cores"),
        ("Apple M3", "apple-m3"),
        ("(TM) CPU", "cpu-2-cores"),
        ("a" * 90, f"{'a' * 60}-2-cores"),
    ],
)
def test_folder_name_of_a_cpu(name: str, expected: str) -> None:
    assert machine.cpu_slug(name, 2) == expected


def test_versions_are_the_installed_ones() -> None:
    versions = dict(machine.versions())
    assert versions["python"] == platform.python_version()
    assert versions["torch"] == torch.__version__
    assert versions["einops"] == importlib.metadata.version("einops")
    assert versions.get("cuda") == torch.version.cuda
    assert all(versions.values())


@each(("number", "version"), [(8902, "8.9.2"), (90100, "9.1.0"), (91002, "9.10.2"), (None, None)])
def test_cudnn_version(number: int | None, version: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: number)
    assert dict(machine.versions()).get("cudnn") == version


def test_importing_does_not_load_torch() -> None:
    code = "import sys, trace_tools.machines.machine; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_peaks_measured_under_load_are_marked() -> None:
    datasheet, measured = Peak("float32", 2e13, "datasheet"), Peak("float32", 1.5e13, "measured: best", measured=True)
    card = Machine("A card", "a-card", "cuda", cores=2, peaks=[datasheet, measured])
    assert machine.under_load(card, None) == machine.under_load(card, 0.1) == card
    loaded = machine.under_load(card, 1.9)
    assert loaded.peaks[0] == datasheet and says(loaded.peaks[1].source, "measured: best", "1.9 cores")
