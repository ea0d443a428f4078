"""This machine: what the lecture runs on, and the rates it can't exceed.

Nothing goes in but the device; a `schema.Machine` comes out. A GPU's peaks are the table's, with what
was measured beside them; a CPU has no datasheet, so its roof is measured and says so.

    >>> this_machine("cpu").slug
    'cpu'
    >>> peak_flops("bfloat16")  # FLOP/s of the machine at hand, None where nobody knows
    989500000000000.0

The tracer measures once and hands the result to its other processes: it writes `to_json(machine)` to a
file whose path it puts in the environment as TRACE_TOOLS_MACHINE. No serial number, host or user name.
"""

from __future__ import annotations

import json
import os
import platform
import re
import runpy
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cache
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from trace_tools import accelerators
from trace_tools.accelerators import BACKENDS
from trace_tools.errors import UsageError
from trace_tools.imports import is_installed
from trace_tools.machines import host
from trace_tools.machines.known_machines import known_machine, table_peaks
from trace_tools.schema import Machine, Peak

if TYPE_CHECKING:
    import torch

STORED = "TRACE_TOOLS_MACHINE"  # environment variable: path of a machine measured earlier


def this_machine(device: str | None = None, *, measure: bool = True) -> Machine:
    """Describe this machine with its peaks; `device` is a type, "cpu" or "cuda", or None for the best there is.

    Measuring takes about a second, once per process; without, the peaks are those of the table. Raises UsageError for
    a device that is not there and for a stored machine that can't be read.
    """
    if device not in (None, "cpu", *BACKENDS):
        raise UsageError(f"device {device!r}; expected one of cpu, {', '.join(BACKENDS)}")
    path = os.environ.get(STORED)
    if path:
        stored = _stored(path)
        if device in (None, stored.device):
            return stored
    if device in (None, "cpu") and not is_installed("torch"):
        return without_torch([])[0]
    return _described(device or accelerators.best(), measure=measure)


def device() -> str:
    """Name the type of device that a lecture's tensors go to: the one that is traced, else the best there is, or "cpu".

    As torch spells it: "cuda" (which AMD's GPUs are, too), "mps", "xpu".
    """
    path = os.environ.get(STORED)
    return _stored(path).device if path else accelerators.best() if is_installed("torch") else "cpu"


def peak_flops(dtype: torch.dtype | str) -> float | None:
    """Give this machine's dense matmul peak in FLOP/s, or None where none is known.

    From the table on a GPU, measured on a CPU. `dtype` is a `torch.dtype` or a name, among them "tf32",
    "float8" and "float4"; float32 means without tf32, float64 the tensor cores' rate where there is one.
    """
    name = re.sub(r"^(float[48])_.*", r"\1", str(dtype).removeprefix("torch."))
    if name == "float64":
        return _peak("float64_tensor") or _peak("float64")
    return _peak(name)


def peak_bandwidth() -> float | None:
    """Give this machine's memory bandwidth in bytes/s: from the table on a GPU, measured on a CPU."""
    return _peak("memory")


def slug(name: str) -> str:
    """Turn a device's name into a folder's: "NVIDIA H200" → "nvidia-h200"; only a-z, 0-9 and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:80].rstrip("-") or "machine"


def to_json(machine: Machine) -> str:
    """Write a machine as JSON, for `from_json`."""
    return json.dumps(asdict(machine))


def from_json(text: str) -> Machine:
    """Read what `to_json` wrote. Raises ValueError, TypeError or KeyError for anything else."""
    fields = json.loads(text)
    return Machine(**{**fields, "peaks": [Peak(**peak) for peak in fields["peaks"]]})


def without_torch(used: Sequence[tuple[str, str]]) -> tuple[Machine, list[tuple[str, str]]]:
    """Describe the computer for a lecture without torch, and the versions of what it uses: nothing is measured."""
    name, ram_bytes = host.cpu_name(), host.ram_bytes()
    computer = Machine(
        name=name,
        slug="cpu",
        device="cpu",
        memory_bytes=ram_bytes,
        cpu=name,
        cores=host.usable_cores(),
        ram_bytes=ram_bytes,
        os=host.operating_system(),
    )
    return computer, [("python", platform.python_version()), *used]


def with_best_peaks(measured: Sequence[Machine]) -> Machine:
    """Give the first machine with the best of each peak that they measured: none can be faster than its roof."""
    every = [{peak.name: peak for peak in machine.peaks if peak.measured} for machine in measured]
    best = {name: max((of[name] for of in every if name in of), key=lambda p: p.per_second or 0) for name in every[0]}
    return replace(measured[0], peaks=[best[p.name] if p.measured else p for p in measured[0].peaks])


def conditions(device: str | None = None) -> list[str]:
    """Note what may have slowed this pass, one short line each: clocks, heat, throttling, other users.

    `device` as in `this_machine`. What can't be read on this machine is left out.
    """
    gpu = host.gpu_notes() if (device or this_machine().device) != "cpu" else []
    return [*gpu, *host.cpu_notes()]


def versions() -> list[tuple[str, str]]:
    """List the versions a trace depends on, of what is installed: ("torch", "2.13.0+cpu")."""
    torch, cuda = _torch_build()
    found = [
        ("python", platform.python_version()),
        ("torch", torch),
        ("cuda", cuda),
        ("cudnn", _cudnn_version(_cudnn()) if cuda else None),
        *((name, _version(name)) for name in ("numpy", "einops", "jaxtyping", "triton")),
    ]
    return [(name, str(version)) for name, version in found if version]


def _peak(name: str) -> float | None:
    machine = this_machine()
    measured = machine.device == "cpu"
    return next((p.per_second for p in machine.peaks if p.name == name and p.measured == measured), None)


@cache
def _stored(path: str) -> Machine:
    try:
        return from_json(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{STORED}: {path}: {error}; expected a file that to_json wrote") from error


@cache
def _described(device: str, *, measure: bool) -> Machine:
    """Measure the device, or not, and describe the computer around it; of a GPU, add what driver and table say."""
    import torch

    from trace_tools.machines import float32_precision  # these import torch
    from trace_tools.machines.roof import measured_peaks

    gpu = accelerators.accelerator(device)
    if gpu is not None and not gpu.is_available():
        raise UsageError(f"device {device!r}: PyTorch finds no {device.upper()} device; expected one, or 'cpu'")
    name, ram_bytes = host.cpu_name(), host.ram_bytes()
    computer = Machine(
        name=name,
        slug="cpu",
        device=device,
        memory_bytes=ram_bytes,
        tf32=float32_precision.name(),
        cpu=name,
        cores=host.usable_cores(),
        threads=torch.get_num_threads(),
        ram_bytes=ram_bytes,
        cache_bytes=host.cache_bytes(),
        os=host.operating_system(),
        peaks=measured_peaks(device) if measure else [],
    )
    if gpu is None:
        return computer
    card = gpu.properties()
    return replace(
        computer,
        name=card.name,
        slug=("emulated-" if card.emulated else "") + slug(card.name).removeprefix("emulated-"),
        memory_bytes=card.memory_bytes,
        multiprocessors=card.multiprocessors,
        compute_capability=card.capability,
        driver=card.driver or host.gpu_driver(),
        cuda=gpu.built_for(),
        l2_bytes=card.l2_bytes,
        emulated=card.emulated,
        peaks=[*table_peaks(known_machine(card.name, card.multiprocessors)), *computer.peaks],
    )


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _torch_build() -> tuple[str, str | None]:
    """Return torch's version and that of the CUDA it was built for; loads no torch, which takes seconds."""
    found = None if "torch" in sys.modules else PathFinder.find_spec("torch")
    for folder in (found and found.submodule_search_locations) or ():
        built = runpy.run_path(str(Path(folder) / "version.py"))
        return built["__version__"], built["cuda"]
    import torch

    return torch.__version__, torch.version.cuda


def _cudnn() -> int | None:
    import torch

    return cast(Any, torch.backends.cudnn).version()  # type: ignore[no-any-return]


def _cudnn_version(number: int | None) -> str | None:
    """Spell cuDNN's number out: 8902 → 8.9.2, 91002 → 9.10.2 (the scheme changed with version 9)."""
    if number is None:
        return None
    major, rest = divmod(number, 10_000 if number >= 90_000 else 1_000)
    return f"{major}.{rest // 100}.{rest % 100}"
