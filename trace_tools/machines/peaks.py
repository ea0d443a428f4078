"""Select a machine's peaks for each purpose, and compute the ridge where compute and memory roofs meet."""

from __future__ import annotations

from trace_tools.trace.model import Machine, Peak


def peak_of(machine: Machine, name: str) -> Peak | None:
    """Return the machine's peak of that name: the table's, else the measured one, else the one with the reason why
    it is unknown.
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


def has_tf32(machine: Machine) -> bool:
    """Return whether torch can compute float32 products in tf32 on a machine: NVIDIA's from capability 8.0 on."""
    is_amd = (machine.compute_capability or "").startswith("gfx")
    return machine.device == "cuda" and not is_amd and matrix_format(machine) == "bfloat16"


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
    """Return the intensity (FLOP/byte) at which the compute and memory roofs meet; None without both."""
    return flops_per_second / bytes_per_second if flops_per_second and bytes_per_second else None
