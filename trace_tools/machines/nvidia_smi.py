"""What `nvidia-smi` tells about the GPU in use: its driver, and what may be slowing it.

The program is asked for comma-separated figures; where it is missing, fails or hangs, there is nothing
to tell. Process ids are only compared with our own, and never shown.

    >>> notes()
    ['GPU: SM clock 1980 of 1980 MHz, 45 °C, 312 of 700 W', 'GPU clocks held back: power limit']
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TIMEOUT_S = 10
# Bits of NVML's nvmlClocksEventReasons (until driver 535: nvmlClocksThrottleReasons). Left out: an idle
# GPU (0x1), and the clocks that applications or displays asked for (0x2, 0x100).
REASONS = {
    0x4: "power limit",
    0x8: "hardware slowdown",
    0x10: "kept in step with other GPUs",
    0x20: "heat (driver)",
    0x40: "heat (hardware)",
    0x80: "power brake",
}


def driver_version() -> str | None:
    """Give the driver's version: "580.159.04"; None where there is no driver."""
    lines = _ask("--query-gpu=driver_version")
    if lines:
        return lines[0]
    for driver in ("nvidia", "amdgpu"):
        try:
            return Path(f"/sys/module/{driver}/version").read_text().strip()
        except OSError:
            continue
    return None


def notes() -> list[str]:
    """Note the GPU's clock, temperature and power, what holds its clocks back, and who else uses it."""
    gpu = _selected_gpu()
    state = _ask("--query-gpu=clocks.sm,clocks.max.sm,temperature.gpu,power.draw,power.limit", *gpu)
    reasons = _ask("--query-gpu=clocks_event_reasons.active", *gpu) or _ask(
        "--query-gpu=clocks_throttle_reasons.active", *gpu
    )
    processes = _ask("--query-compute-apps=pid,used_memory", *gpu)
    own = {os.getpid(), os.getppid()}  # the parent measured the roof
    return [*map(_state_note, state[:1]), *_reason_notes(reasons[:1]), *_process_notes(processes, own)]


def _state_note(line: str) -> str:
    """Read "1980, 1980, 45, 312.05, 700.00", of which any may be "[N/A]"."""
    clock, fastest, celsius, watts, limit = [*map(_number, line.split(",")), *[None] * 5][:5]
    parts = []
    if clock is not None:
        parts.append(f"SM clock {clock:.0f}" + (f" of {fastest:.0f} MHz" if fastest is not None else " MHz"))
    if celsius is not None:
        parts.append(f"{celsius:.0f} °C")
    if watts is not None:
        parts.append(f"{watts:.0f}" + (f" of {limit:.0f} W" if limit is not None else " W"))
    return "GPU: " + (", ".join(parts) or "clock, temperature and power can't be read")


def _reason_notes(lines: list[str]) -> list[str]:
    """Read "0x0000000000000024": a set of bits."""
    try:
        active = int(lines[0], 16) if lines else 0
    except ValueError:  # "[N/A]"
        active = 0
    reasons = [reason for bit, reason in REASONS.items() if active & bit]
    return [f"GPU clocks held back: {', '.join(reasons)}"] if reasons else []


def _process_notes(lines: list[str], own: set[int]) -> list[str]:
    """Read "2624394, 164" (MiB, or "[N/A]") per process; in a container the ids may be the host's."""
    columns = [line.partition(",") for line in lines]
    listed = {int(pid): _number(mib) or 0.0 for pid, _, mib in columns if pid.isdigit()}
    others = [mib for pid, mib in listed.items() if pid not in own]
    if not others:
        return []
    count = "1 process" if len(others) == 1 else f"{len(others)} processes"
    doubt = "" if own & listed.keys() else " (this run may be among them)"
    return [f"GPU in use by {count} besides this run, {sum(others):.0f} MiB{doubt}"]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:  # "[N/A]", "[Not Supported]"
        return None


def _selected_gpu() -> list[str]:
    """Name the GPU that PyTorch uses: its number is not nvidia-smi's under CUDA_VISIBLE_DEVICES."""
    torch = sys.modules.get("torch")  # a GPU is in use only where torch is loaded
    if torch is None or not torch.cuda.is_available():
        return []
    identity = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "uuid", None)
    return [f"--id=GPU-{identity}"] if identity else []


def _ask(*question: str) -> list[str]:
    """Give nvidia-smi's lines; none where it is missing, refuses or hangs."""
    command = ["nvidia-smi", *question, "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    if done.returncode != 0:  # "Field … is not a valid field to query."
        return []
    return [line.strip() for line in done.stdout.decode(errors="replace").splitlines()]
