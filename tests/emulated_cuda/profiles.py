"""The cards that the emulated device can be, as their drivers describe them.

    >>> PROFILES["t4"].capability
    (7, 5)

Names, capabilities and numbers of multiprocessors are those of real cards, except for "unlisted", an invented card
that is in no table. The memory is the figure that the driver reports, in MiB. `nvidia_smi.py` uses the same table.
This module imports only the standard library, because it is read before torch and without torch.
"""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20
DRIVER = "580.95.05"
HOPPER_KIB = 32 << 10  # torch's workspaces, by architecture: aten/src/ATen/cuda/CublasHandlePool.cpp of torch 2.13


@dataclass(frozen=True)
class Profile:
    """One card, or a part of one."""

    name: str
    memory_mib: int
    capability: tuple[int, int]
    multiprocessors: int
    threads_each: int = 2048
    l2_mib: int = 4
    rocm: str = ""  # the architecture's name, on AMD's cards
    others_mib: int = 0  # memory that other processes use
    mig: str = ""  # the slice's name: nvidia-smi can't tell its clocks or its processes
    workspace_kib: int = 8320  # torch's workspace for matrix products, per thread and stream

    @property
    def memory_bytes(self) -> int:
        return self.memory_mib * MIB


PROFILES = {
    "emulated": Profile("Emulated CUDA device", 3500, (9, 0), 16),
    "h100": Profile("NVIDIA H100 80GB HBM3", 81079, (9, 0), 132, l2_mib=50, workspace_kib=HOPPER_KIB),
    "a100": Profile("NVIDIA A100-SXM4-40GB", 40339, (8, 0), 108, l2_mib=40),
    "4090": Profile("NVIDIA GeForce RTX 4090", 24081, (8, 9), 128, 1536, 72),
    "t4": Profile("Tesla T4", 14913, (7, 5), 40, 1024),
    "v100": Profile("Tesla V100-SXM2-16GB", 16144, (7, 0), 80, l2_mib=6),
    "mi300x": Profile(
        "AMD Instinct MI300X", 196288, (9, 4), 304, rocm="gfx942:sramecc+:xnack-", workspace_kib=128 << 10
    ),
    "mig": Profile(
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb", 9728, (9, 0), 16, l2_mib=6, mig="1g.10gb", workspace_kib=HOPPER_KIB
    ),
    "unlisted": Profile("NVIDIA Unlisted 24GB", 24081, (8, 9), 66, 1536, 48),
    "shared": Profile(
        "NVIDIA H100 80GB HBM3",
        81079,
        (9, 0),
        132,
        l2_mib=50,
        others_mib=81079 - 300 - 2048,
        workspace_kib=HOPPER_KIB,
    ),
}
