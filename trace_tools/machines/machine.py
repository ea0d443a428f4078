"""Describe the machine that runs the lecture, and the highest rates that it can reach.

`this_machine` takes a device and returns a `Machine`. A GPU in the table has the peaks of the table, with measured
rates next to them. CPUs have no datasheet, so their peaks are measured and marked so, as are the peaks of cards that
the table lacks.

    >>> this_machine("cpu").slug
    'amd-epyc-7763-2-cores'
    >>> peak_flops("bfloat16")  # FLOP/s of this machine, None if unknown
    989500000000000.0

The tracer measures in a process of its own and passes the result to the others. It writes `to_json(machine)` to a file
and puts the file's path into the environment as TRACE_TOOLS_MACHINE. The file has no serial number, host or user name.
"""

from __future__ import annotations

import math
import os
import platform
import re
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from trace_tools.errors import UsageError
from trace_tools.machines import accelerators, host
from trace_tools.machines.peaks import known_machine, peak_of, table_peaks
from trace_tools.source.imports import is_installed
from trace_tools.trace.model import Machine, Peak
from trace_tools.util import formats

if TYPE_CHECKING:
    import torch

STORED = "TRACE_TOOLS_MACHINE"  # environment variable: path of a machine measured earlier

# Words of a CPU's name that tell no models apart: "13th Gen Intel(R) Core(TM) i7-13700K", "AMD EPYC 7763 64-Core
# Processor", "Intel(R) Xeon(R) CPU E5-2686 v4 @ 2.30GHz", "AMD Ryzen 7 7840U w/ Radeon 780M Graphics".
CPU_NOISE = re.compile(
    r"\([^)]*\)|@.*|\bw(?:/|ith) .*|\b\d+(?:st|nd|rd|th) gen\b|\b\d+-core\b|\b(?:cpu|processor)\b", re.IGNORECASE
)
SAME = ("name", "device", "cpu", "cores", "multiprocessors", "emulated")

Versions = list[tuple[str, str]]


def this_machine(device: str | None = None, *, measure: bool | str = True) -> Machine:
    """Describe this machine with its peaks; `device` is a type, "cpu" or "cuda", or None for the best device.

    Measuring takes seconds, or a fifth for the peak that `measure` names, once per process; without it, only the table
    gives peaks. Raises UsageError for a device that does not exist and for a stored machine that can't be read.
    """
    path = os.environ.get(STORED)
    if path:
        stored = _stored(path)
        if device in (None, stored.device):
            return stored
    if device in (None, "cpu") and not is_installed("torch"):
        return computer()
    return _described(device or accelerators.best(), measure=measure)


def device() -> str:
    """Return the device type for a lecture's tensors, from the trace, else the best available, or "cpu".

    In torch's spelling: "cuda", also for AMD's GPUs.
    """
    path = os.environ.get(STORED)
    return _stored(path).device if path else accelerators.best() if is_installed("torch") else "cpu"


def memory_bytes() -> int | None:
    """Return the device's memory in bytes, used or not, except on a CPU.

    A lecture that chooses its sizes by it is the same on one card every day, whatever else uses that card.
    """
    return None if device() == "cpu" else this_machine(measure=False).memory_bytes


def peak_flops(dtype: torch.dtype | str) -> float | None:
    """Return this machine's dense matmul peak in FLOP/s, if it is known.

    From the table if it has this GPU, else measured. `dtype` is a `torch.dtype` or a name, including "tf32", "float8"
    and "float4"; float32 means without tf32, float64 the tensor cores' rate if they have one.
    """
    peak = _peak(dtype)
    return None if peak is None else peak.per_second


def peak_bandwidth() -> float | None:
    """Return this machine's memory bandwidth in bytes/s: from the table if it has this GPU, else measured."""
    peak = _peak("memory")
    return None if peak is None else peak.per_second


def slug(name: str) -> str:
    """Turn a device's name into a folder name: "NVIDIA H200" → "nvidia-h200"; only a-z, 0-9 and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:80].rstrip("-") or "machine"


def cpu_slug(name: str, cores: int) -> str:
    """Return the folder name of a CPU: "Intel(R) Xeon(R) Processor @ 2.60GHz" with 2 cores → "intel-xeon-2-cores".

    A chip by Apple has no cores in its name, because its model states them.
    """
    words = " ".join(CPU_NOISE.sub(" ", name).split())[:60] or "CPU"
    return slug(words if words.startswith("Apple ") else f"{words} {formats.plural(cores, 'core')}")


def is_same_machine(a: Machine, b: Machine) -> bool:
    """Return whether two descriptions can be of one machine, with the same device, CPU, cores and memory.

    Memory may differ by 5 %, because a new kernel leaves a little more or less of it.
    """
    as_much = math.isclose(a.memory_bytes or 0, b.memory_bytes or 0, rel_tol=0.05)
    return as_much and all(getattr(a, name) == getattr(b, name) for name in SAME)


def to_json(machine: Machine) -> str:
    """Return a machine as JSON, for `from_json`."""
    return msgspec.json.encode(machine).decode()


def from_json(text: str) -> Machine:
    """Parse the output of `to_json`. Raises msgspec.MsgspecError for other text."""
    return msgspec.json.decode(text, type=Machine)


def computer(device: str = "cpu") -> Machine:
    """Describe the computer around a device, as far as the system does, without peaks."""
    name, cores, ram_bytes = host.cpu_name(), host.usable_cores(), host.ram_bytes()
    return Machine(
        name=name,
        slug=cpu_slug(name, cores),
        device=device,
        memory_bytes=ram_bytes,
        cpu=name,
        cores=cores,
        ram_bytes=ram_bytes,
        os=host.operating_system(),
    )


def versions() -> Versions:
    """List the installed versions that a trace depends on: ("torch", "2.13.0+cpu")."""
    import torch

    cudnn = None
    if (number := cast(Any, torch.backends.cudnn).version()) is not None:
        # 8902 is 8.9.2, 91002 is 9.10.2: the scheme changed with version 9.
        major, remainder = divmod(number, 10_000 if number >= 90_000 else 1_000)
        cudnn = f"{major}.{remainder // 100}.{remainder % 100}"
    rows = [("python", platform.python_version()), ("torch", torch.__version__), ("cuda", torch.version.cuda)]
    rows.append(("cudnn", cudnn))
    for name in ("numpy", "einops", "jaxtyping", "triton"):
        with suppress(metadata.PackageNotFoundError):
            rows.append((name, metadata.version(name)))
    return [(name, str(version)) for name, version in rows if version]


def under_load(machine: Machine, other_cores: float | None) -> Machine:
    """Return a machine with the load noted in its measured peaks, if other processes used many cores."""
    if other_cores is None or other_cores < host.LOADED_CORES:
        return machine
    load = f", while other processes used {formats.number(other_cores, 2)} cores"
    peaks = [replace(peak, source=peak.source + load) if peak.measured else peak for peak in machine.peaks]
    return replace(machine, peaks=peaks)


def _peak(dtype: torch.dtype | str) -> Peak | None:
    name = re.sub(r"^(float[48])_.*", r"\1", str(dtype).removeprefix("torch."))
    machine = this_machine(measure=name)
    tensor_cores = peak_of(machine, "float64_tensor") if name == "float64" else None
    return tensor_cores if tensor_cores is not None and tensor_cores.per_second else peak_of(machine, name)


@cache
def _stored(path: str) -> Machine:
    try:
        return from_json(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeError, msgspec.MsgspecError) as error:
        raise UsageError(f"{STORED}: {path}: {error}; expected a file that to_json wrote") from error


@cache
def _described(device: str, *, measure: bool | str) -> Machine:
    """Describe the device and its computer, with measured peaks if asked; for a GPU, add driver and table values."""
    import torch

    from trace_tools.machines import float32_precision  # these import torch
    from trace_tools.machines.peak_benchmark import measured_peaks

    gpu = accelerators.accelerator(device)
    if gpu is not None and not gpu.is_available():
        raise UsageError(f"device {device!r}: PyTorch finds no {device.upper()} device; use --device cpu")
    described = replace(
        computer(device),
        tf32=float32_precision.name(),
        threads=torch.get_num_threads(),
        cache_bytes=host.cache_bytes(),
        peaks=measured_peaks(device, measure if isinstance(measure, str) else None) if measure else [],
    )
    if gpu is None:
        return described
    card = gpu.properties()
    return replace(
        described,
        name=card.name,
        slug=("emulated-" if card.emulated else "") + slug(card.name).removeprefix("emulated-"),
        memory_bytes=card.memory_bytes,
        multiprocessors=card.multiprocessors,
        compute_capability=card.capability,
        driver=host.gpu_driver(),
        cuda=gpu.built_for(),
        l2_bytes=card.l2_bytes,
        emulated=card.emulated,
        peaks=[*table_peaks(known_machine(card.name, card.multiprocessors)), *described.peaks],
    )
