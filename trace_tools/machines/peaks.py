"""Look up the published peaks of a machine in a table, and select a machine's peak for each purpose.

`known_machine` finds a device by its name, as the driver reports it, and returns the peaks with their source. A name
that is not in `known_machines.yaml` gives `None`, never the entry of a similar name.

    >>> known_machine("NVIDIA H200").flops_per_second["bfloat16"]
    989500000000000.0
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from trace_tools.trace.model import Machine, Peak

# float64_tensor is the rate of matmuls on cards that have it; float64 is the ordinary cores' rate.
PEAK_NAMES = ("float64", "float64_tensor", "float32", "tf32", "float16", "bfloat16", "float8", "float4", "int8")
NOT_IN_THE_TABLE = "not in the table"


@dataclass(frozen=True, slots=True)
class KnownMachine:
    """One entry of the table, in plain units."""

    names: tuple[str, ...]  # as the driver reports them
    multiprocessors: int
    flops_per_second: Mapping[str, float]  # dense, by name of peak; integer OP/s for int8
    bytes_per_second: float  # memory bandwidth
    memory_bytes: int
    source: str  # title of the document
    note: str  # whether the document prints dense or sparse rates, and for which accumulation


@cache
def known_machines() -> tuple[KnownMachine, ...]:
    """Read the table."""
    text = Path(__file__).with_name("known_machines.yaml").read_text(encoding="utf-8")
    return tuple(
        KnownMachine(
            names=tuple(entry["names"]),
            multiprocessors=entry["multiprocessors"],
            flops_per_second={name: _scaled(tera, 12) for name, tera in entry["dense_tera_per_second"].items()},
            bytes_per_second=_scaled(entry["gigabytes_per_second"], 9),
            memory_bytes=entry["gigabytes"] * 10**9,
            source=entry["source"],
            note=entry["note"],
        )
        for entry in yaml.safe_load(text)
    )


def known_machine(name: str, multiprocessors: int | None = None) -> KnownMachine | None:
    """Return the entry for a device's full name, as the driver reports it.

    With `multiprocessors`, a device with another number of them (a part of a card) is not that machine.
    """
    plain_name = _plain(name)
    for machine in known_machines():
        if plain_name in map(_plain, machine.names):
            return machine if multiprocessors in (None, machine.multiprocessors) else None
    return None


def table_peaks(machine: KnownMachine | None) -> list[Peak]:
    """List a peak for each column of the table, memory last; rates that the table lacks are `None`."""
    if machine is None:
        return [Peak(name, None, NOT_IN_THE_TABLE) for name in (*PEAK_NAMES, "memory")]
    rates, source = machine.flops_per_second, f"{machine.source}: {machine.note}"
    peaks = [Peak(name, rates.get(name), source if name in rates else NOT_IN_THE_TABLE) for name in PEAK_NAMES]
    return [*peaks, Peak("memory", machine.bytes_per_second, machine.source)]


def peak_of(machine: Machine, name: str) -> Peak | None:
    """Return the machine's peak of that name, from the table, else measured, else a peak with the reason why it is
    unknown.
    """
    peaks = [peak for peak in machine.peaks if peak.name == name]
    return min(peaks, key=lambda peak: (peak.per_second is None, peak.measured), default=None)


def matrix_format(machine: Machine) -> str:
    """Return the 16-bit format of a device's matrix units: "bfloat16", or "float16" if they lack it.

    NVIDIA's have bfloat16 from compute capability 8.0 on (CUDA C++ Programming Guide, "Compute Capabilities"). On
    older cards torch computes in bfloat16 without these units, more slowly than in float32.
    """
    major = (machine.compute_capability or "").partition(".")[0]
    return "float16" if major.isdecimal() and int(major) < 8 else "bfloat16"


def has_tf32(compute_capability: str | None) -> bool:
    """Return whether a device can compute float32 products in tf32: NVIDIA's from capability 8.0 on."""
    major = (compute_capability or "").partition(".")[0]
    return major.isdecimal() and int(major) >= 8


def leading_peak(machine: Machine) -> Peak | None:
    """Return the leading compute peak of pages, which also state its ridge.

    float32 on a CPU, which widens bfloat16 for most operations; on a device the 16-bit format of its matrix units; else
    the fastest known.
    """
    names = dict.fromkeys(peak.name for peak in machine.peaks if peak.name != "memory" and "int" not in peak.name)
    peaks = {name: peak for name in names if (peak := peak_of(machine, name)) is not None and peak.per_second}
    leading = peaks.get("float32" if machine.device == "cpu" else matrix_format(machine))
    return leading or max(peaks.values(), key=lambda peak: peak.per_second or 0.0, default=None)


def ridge(flops_per_second: float | None, bytes_per_second: float | None) -> float | None:
    """Return the intensity (FLOP/byte) where the compute and memory roofs meet, if both are known."""
    return flops_per_second / bytes_per_second if flops_per_second and bytes_per_second else None


def _plain(name: str) -> str:
    """Remove differences between drivers: spacing, and the vendor's name in front."""
    return " ".join(name.split()).removeprefix("NVIDIA ")


def _scaled(figure: float, exponent: int) -> float:
    return float(round(figure * 10**exponent))  # 494.7 × 10¹² is a whole number: no rounding error
