"""The table of machines whose peaks are published.

A device's name as its driver gives it goes in, the machine's peaks with their source come out;
a name that is not in `known_machines.yaml` comes out as `None`, never as its nearest neighbour.

    >>> known_machine("NVIDIA H200").flops_per_second["bfloat16"]
    989500000000000.0
    >>> known_machine("NVIDIA H200 MIG 1g.18gb") is None
    True
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from trace_tools.schema import Peak

# float64_tensor is what matmuls run at where there is one; float64 is the ordinary cores' rate.
PEAK_NAMES = ("float64", "float64_tensor", "float32", "tf32", "float16", "bfloat16", "float8", "float4", "int8")
NOT_IN_THE_TABLE = "not in the table"


@dataclass(frozen=True, slots=True)
class KnownMachine:
    """One entry of the table, in plain units."""

    names: tuple[str, ...]  # as the driver names it
    multiprocessors: int
    flops_per_second: Mapping[str, float]  # dense, by name of peak; integer OP/s for int8
    bytes_per_second: float  # memory bandwidth
    memory_bytes: int
    source: str  # title of the document
    note: str  # dense or sparse there, and which accumulation


@cache
def known_machines() -> tuple[KnownMachine, ...]:
    """Read the table."""
    text = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
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
    """Find a machine by its device's whole name, as the driver gives it.

    With `multiprocessors`, a device that shows another number of them (a partition) is not that machine.
    """
    wanted = _plain(name)
    for machine in known_machines():
        if wanted in map(_plain, machine.names):
            return machine if multiprocessors in (None, machine.multiprocessors) else None
    return None


def table_peaks(known: KnownMachine | None) -> list[Peak]:
    """List every peak the table has a column for, memory last; what it doesn't say is `None`."""
    if known is None:
        return [Peak(name, None, NOT_IN_THE_TABLE) for name in (*PEAK_NAMES, "memory")]
    rates, source = known.flops_per_second, f"{known.source}: {known.note}"
    peaks = [Peak(name, rates.get(name), source if name in rates else NOT_IN_THE_TABLE) for name in PEAK_NAMES]
    return [*peaks, Peak("memory", known.bytes_per_second, known.source)]


def _plain(name: str) -> str:
    """Drop what differs between drivers: spacing, and the vendor's name in front."""
    return " ".join(name.split()).removeprefix("NVIDIA ")


def _scaled(figure: float, exponent: int) -> float:
    return float(round(figure * 10**exponent))  # 494.7 × 10¹² is a whole number: no binary dust
