"""The table of known machines, compared with figures typed a second time and computed from the hardware."""

from __future__ import annotations

import pytest

from tests.cases_in_one import each
from trace_tools.machines.peaks import PEAK_NAMES, known_machine, known_machines, table_peaks
from trace_tools.trace.model import Peak

# Typed from the vendors' documents, independently of the YAML file: dense TFLOP/s (TOP/s); GB/s, GB; multiprocessors,
# FLOPs per clock in each (float16 in, float32 accumulated, dense), boost clock in GHz; width of the memory's bus in
# bits, Gbit/s on each of its pins. "-" if the documents give no figure. A rate with 2:4 sparsity, which is often
# mistaken for the peak, would be twice what the clock allows.
FIGURES = """
name                    |f64  f64t  f32   tf32  f16    bf16   f8     f4   i8    |GB/s GB |SMs FLOP GHz  |bits Gb/s
Tesla V100-SXM2-16GB    |7.8  -     15.7  -     125    -      -      -    -     |900  16 |80  1024 1.53 |-
Tesla V100-SXM2-32GB    |7.8  -     15.7  -     125    -      -      -    -     |900  32 |-             |4096 1.752
Tesla V100-PCIE-16GB    |7    -     14    -     112    -      -      -    -     |900  16 |80  1024 1.38 |-
Tesla V100-PCIE-32GB    |7    -     14    -     112    -      -      -    -     |900  32 |-             |-
Tesla V100S-PCIE-32GB   |8.2  -     16.4  -     130    -      -      -    -     |1134 32 |-             |-
Tesla T4                |-    -     8.1   -     65     -      -      -    130   |320  16 |40  1024 1.59 |256  10
NVIDIA A100-SXM4-40GB   |9.7  19.5  19.5  156   312    312    -      -    624   |1555 40 |-             |5120 2.43
NVIDIA A100-PCIE-40GB   |9.7  19.5  19.5  156   312    312    -      -    624   |1555 40 |-             |5120 2.43
NVIDIA A100-SXM4-80GB   |9.7  19.5  19.5  156   312    312    -      -    624   |2039 80 |108 2048 1.41 |5120 3.186
NVIDIA A100 80GB PCIe   |9.7  19.5  19.5  156   312    312    -      -    624   |1935 80 |-             |5120 3.024
NVIDIA A10              |-    -     31.2  62.5  125    125    -      -    250   |600  24 |72  1024 1.695|384  12.5
NVIDIA A10G             |-    -     -     -     -      -      -      -    -     |600  24 |-             |384  12.5
NVIDIA A30              |-    -     -     82    165    165    -      -    -     |933  24 |56  2048 1.44 |3072 2.43
NVIDIA A40              |-    -     37.4  74.8  149.7  149.7  -      -    299.3 |696  48 |84  1024 1.74 |384  14.5
NVIDIA RTX A6000        |-    -     38.7  77.4  154.8  154.8  -      -    309.7 |768  48 |84  1024 1.8  |384  16
NVIDIA L4               |-    -     30.3  60    121    121    242    -    242   |300  24 |58  1024 2.04 |192  12.5
NVIDIA L40              |-    -     90.5  90.5  181    181    362    -    362   |864  48 |-             |384  18
NVIDIA L40S             |-    -     91.6  183   362    362    733    -    733   |864  48 |142 1024 2.52 |384  18
NVIDIA RTX 6000 Ada Generation |- - - - 364 364 728 - -                         |960  48 |142 1024 2.505|384  20
NVIDIA GeForce RTX 3090 |-    -     35.6  35.6  71     71     -      -    284   |936  24 |82  512  1.695|384  19.5
NVIDIA GeForce RTX 4090 |1.29 -     82.6  82.6  165.2  165.2  330.3  -    660.6 |1008 24 |128 512  2.52 |384  21
NVIDIA GeForce RTX 5090 |-    -     104.8 104.8 209.5  209.5  419    1676 838   |1792 32 |170 512  2.407|512  28
NVIDIA H100 80GB HBM3   |33.5 67    67    494.7 989.5  989.5  1979   -    1979  |3350 80 |132 4096 1.83 |5120 5.24
NVIDIA H100 PCIe        |25.6 51.2  51.2  378   756.5  756.5  1513   -    1513  |2039 80 |114 4096 1.62 |5120 3.186
NVIDIA H200             |33.5 67    67    494.7 989.5  989.5  1979   -    1979  |4800 141|132 4096 1.83 |6144 6.4
NVIDIA H100 NVL         |-    -     -     417.5 835.5  835.5  1670.5 -    1670.5|3938 94 |-             |-
NVIDIA H200 NVL         |-    -     60    417.5 835.5  835.5  1670.5 -    1670.5|4800 141|-             |6144 6.4
NVIDIA GH200 144G HBM3e |33.5 67    67    494.7 989.5  989.5  1979   -    1979  |4900 144|-             |-
NVIDIA GH200 480GB      |33.5 67    67    494.7 989.5  989.5  1979   -    1979  |4000 96 |132 4096 1.83 |6144 5.24
NVIDIA B200             |37   37    75    1100  2250   2250   4500   9000 4500  |8000 180|148 8192 1.86 |8192 8.0
NVIDIA B300 SXM6 AC     |1.2  -     75    1100  2250   2250   4500   13500 -   |7700 270|148 8192 1.86 |-
NVIDIA GB300            |1.3  -     80    1250  2500   2500   5000   15000 -   |8000 279|-             |8192 8.0
AMD Instinct MI300X     |81.7 163.4 163.4 -     1307.4 1307.4 2614.9 -    2614.9|5300 192|304 2048 2.1  |8192 5.2
AMD Instinct MI355X     |-    -     157.3 -     2500   2500   5000   10000 5000|8000 288|256 4096 2.4  |8192 8.0
"""
ROWS = [[cell.strip() for cell in line.split("|")] for line in FIGURES.strip().splitlines()[1:]]
NARROWER = [
    *(("float64", "float64_tensor"), ("float32", "tf32"), ("tf32", "float16"), ("float16", "bfloat16")),
    *(("bfloat16", "float8"), ("float8", "float4"), ("float16", "int8")),
]


@each(("name", "rates", "memory", "clock", "bus"), ROWS)
def test_table_agrees_with_the_typed_figures(name: str, rates: str, memory: str, clock: str, bus: str) -> None:
    machine = known_machine(name)
    assert machine is not None
    typed = {peak: float(rate) * 1e12 for peak, rate in zip(PEAK_NAMES, rates.split(), strict=True) if rate != "-"}
    assert dict(machine.flops_per_second) == pytest.approx(typed, rel=1e-12)
    bandwidth, size = memory.split()
    assert machine.bytes_per_second == float(bandwidth) * 1e9
    assert machine.memory_bytes == int(size) * 10**9
    if clock != "-":
        multiprocessors, flops, gigahertz = map(float, clock.split())
        assert typed["float16"] == pytest.approx(multiprocessors * flops * gigahertz * 1e9, rel=0.015)
        assert known_machine(name, int(multiprocessors)) is machine
        assert known_machine(name, int(multiprocessors) // 8) is None, "a partition, which keeps the name"
    if bus != "-":
        bits, gigabits = map(float, bus.split())
        assert machine.bytes_per_second == pytest.approx(bits * gigabits * 1e9 / 8, rel=0.03)
    for wide, narrow in NARROWER:
        assert typed.get(wide, 0.0) <= typed.get(narrow, 1e99), (wide, narrow)
    assert "datasheet" in machine.source.replace("data sheet", "datasheet") or "whitepaper" in machine.source
    assert "dense" in machine.note


def test_typed_figures_cover_the_whole_table_without_repetition() -> None:
    assert sorted(machine.names[0] for machine in known_machines()) == sorted(row[0] for row in ROWS)
    names = [name for machine in known_machines() for name in machine.names]
    assert len(names) == len(set(names))


@each(
    ("name", "entry"),
    [
        ("A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB"),  # drivers before 470 left the vendor out
        ("NVIDIA Tesla T4", "Tesla T4"),
        ("NVIDIA  H100 PCIe ", "NVIDIA H100 PCIe"),
        ("AMD Instinct MI300X OAM", "AMD Instinct MI300X"),
        ("AMD Instinct MI300X VF", "AMD Instinct MI300X"),
    ],
)
def test_variants_of_names_are_known(name: str, entry: str) -> None:
    assert known_machine(name) is known_machine(entry) is not None


UNKNOWN_NAMES = """
NVIDIA A10M | NVIDIA A100 | NVIDIA A100-SXM-64GB | NVIDIA A100X | NVIDIA A800-SXM4-80GB | NVIDIA L40G | NVIDIA L20
NVIDIA L2 | NVIDIA T400 | NVIDIA T4G | Tesla V100-SXM3-32GB | Tesla V100-SXM2-32GB-LS | Tesla V100-DGXS-32GB
NVIDIA GeForce RTX 3090 Ti | NVIDIA GeForce RTX 4080 SUPER | NVIDIA GeForce RTX 4090 D
NVIDIA GeForce RTX 4090 Laptop GPU | NVIDIA GeForce RTX 5090 D | NVIDIA GeForce RTX 5090 D v2
NVIDIA GeForce RTX 5090 Laptop GPU | NVIDIA H100 | NVIDIA H100 96GB HBM3 | NVIDIA H100 64GB HBM2 | NVIDIA H20
NVIDIA H800 | NVIDIA GB200 | NVIDIA B300 | NVIDIA GB300 Max-Q | NVIDIA GB10 | AMD Instinct MI300A | AMD Instinct MI325X
AMD Instinct MI350X | AMD Instinct MI250X | NVIDIA H100 80GB HBM3 MIG 1g.10gb | NVIDIA A100-SXM4-40GB MIG 1g.5gb
NVIDIA H200 MIG 1g.18gb | NVIDIA A100-40C | GRID A100-10C | NVIDIA A10-24Q | GRID T4-16Q | NVIDIA L40S-48Q
NVIDIA H100XM-80C | NVIDIA | H | nvidia-h200 | AMD EPYC 7763 64-Core Processor | Orin | |
"""  # similar names with other figures, slices, virtual GPUs, and incomplete names


@each("name", [name.strip() for line in UNKNOWN_NAMES.strip().splitlines() for name in line.split("|")])
def test_similar_names_are_unknown(name: str) -> None:
    assert known_machine(name) is None


def test_peaks_of_a_known_machine_name_their_source() -> None:
    peaks = {peak.name: peak for peak in table_peaks(known_machine("Tesla T4"))}
    assert list(peaks) == [*PEAK_NAMES, "memory"]
    assert peaks["float16"].per_second == 65e12
    source = "NVIDIA T4 Tensor Core GPU datasheet; memory from the NVIDIA T4 product brief"
    assert peaks["float16"].source.startswith(f"{source}: dense")
    assert peaks["memory"] == Peak("memory", 320e9, source)
    assert peaks["bfloat16"] == Peak("bfloat16", None, "not in the table")


def test_an_unknown_machine_has_no_peaks() -> None:
    assert table_peaks(known_machine("NVIDIA GB10")) == [
        Peak(name, None, "not in the table") for name in (*PEAK_NAMES, "memory")
    ]
