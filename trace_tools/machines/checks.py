"""Check this machine: compute on it, and read its settings. No check changes a setting of the machine.

for check in checks("cuda"):
    check.verdict, check.name, check.found, check.advice
    # "look", "load", "load average 9.0 on 8 cores: more was running than they hold", "times will vary; stop …"
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch

from trace_tools.errors import UsageError
from trace_tools.machines import accelerators, devices, host
from trace_tools.machines.accelerators import Accelerator
from trace_tools.machines.machine import versions
from trace_tools.util import formats

SCARCE_BYTES = 2**31  # less free memory may not hold a lecture's large tensors
SHARED = 0.10  # share of a card's memory, used by others, that is reported
SETTINGS = {  # environment variables and their effects
    "CUDA_LAUNCH_BLOCKING": "each launch waits for its kernel, so launch times are wrong and kernels cannot overlap",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "the allocator caches no memory, so memory figures differ from a normal run",
    "PYTORCH_CUDA_ALLOC_CONF": "memory figures may differ from a normal run",
    "PYTORCH_ALLOC_CONF": "memory figures may differ from a normal run",
    "CUBLAS_WORKSPACE_CONFIG": "matrix products use a different workspace size than usual",
    "PYTORCH_TUNABLEOP_ENABLED": "matrix products are tuned when they are first called, so first calls take long",
    "NVIDIA_TF32_OVERRIDE": "float32 products may have another precision than torch reports",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "float32 products use tf32, even where the lecture turned it off",
}


Verdict = Literal["ok", "look", "wrong"]


@dataclass(frozen=True, slots=True)
class Check:
    """One check. "look": times or figures may mislead; "wrong": a trace would fail, or be wrong."""

    name: str
    verdict: Verdict
    found: str
    advice: str = ""  # remedy, if the verdict is not ok


def checks(asked: str | None) -> Iterator[Check]:
    """Yield the checks of the machine; if the device can't be used at all, the check that reports it is the last.

    `asked` is as in `devices.chosen`.
    """
    packages = ", ".join(f"{name} {version}" for name, version in versions())
    yield Check("versions", "ok", f"{packages}; {host.operating_system()}")
    yield Check("processor", "ok", f"{host.cpu_name()}, {host.usable_cores()} cores, {_bytes(host.ram_bytes())}")
    try:
        device = devices.chosen(asked)
    except UsageError as error:
        yield Check("device", "wrong", str(error))
        return
    gpu = accelerators.accelerator(device)
    try:
        if gpu is None:
            yield Check("device", "ok", "cpu")
        else:
            yield from _card(gpu)
        yield from _host()
    except RuntimeError as error:  # from the device: all later checks would fail in the same way
        advice = devices.ON_THE_CPU if gpu is not None else ""
        yield Check("device", "wrong", f"an operation failed: {formats.one_line(str(error), 200)}", advice)
    if host.timed_out:
        advice = "traces will lack the card's clocks, temperature and other users; try `nvidia-smi -pm 1`"
        yield Check("nvidia-smi", "look", f"gave no answer in {host.TIMEOUT_S:g} s", advice)


def _card(gpu: Accelerator) -> Iterator[Check]:
    """Describe the card, its free memory, and the programs that share it."""
    card = gpu.properties()
    parts = [card.name, _bytes(card.memory_bytes), f"driver {host.gpu_driver() or 'unknown'}"]
    parts += [f"compute capability {card.capability}"] if card.capability else []
    parts += [f"card {gpu.index()} of {gpu.count()}"] if gpu.count() > 1 else []
    yield Check("device", "ok", ", ".join(parts))
    free, total = gpu.memory_info()
    free += gpu.reserved_bytes()
    scarce = free < SCARCE_BYTES or free < (1 - SHARED) * total
    advice = "large tensors may not fit; stop other programs that use this card" if scarce else ""
    yield Check("GPU memory", "look" if scarce else "ok", f"{_bytes(free)} of {_bytes(total)} are free", advice)
    for note in host.gpu_notes():
        yield Check("GPU now", "ok" if note.startswith("GPU: ") else "look", note)


def _host() -> Iterator[Check]:
    """Check the environment's settings, the threads of torch, and other programs."""
    for name in SETTINGS:
        if (value := os.environ.get(name, "")) not in ("", "0"):
            found = f"{name}={formats.one_line(value, 80)}: {SETTINGS[name]}"
            yield Check("environment", "look", found, f"unset {name}")
    threads, cores = torch.get_num_threads(), host.usable_cores()
    advice = f"more threads than cores slow each other down; set OMP_NUM_THREADS={cores}" if threads > cores else ""
    yield Check("threads", "look" if advice else "ok", f"{threads} on {cores} cores", advice)
    for note in host.cpu_notes():
        yield Check("load", "look", note, "times will vary; stop other programs, or use more --passes")


def _bytes(size: int | None) -> str:
    return "unknown memory" if size is None else formats.quantity(size, "B", 3)
