"""The cards that the emulated device can be, as their drivers describe them.

    >>> PROFILES["t4"].capability
    (7, 5)

Names, capabilities and numbers of multiprocessors are those of real cards, except for "emulated", an invented card
that is in no table. The memory is the figure that the driver reports, in MiB. `nvidia_smi.py` uses the same table.
This module imports only the standard library, because it is read before torch and without torch.
"""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20
DRIVER = "580.95.05"


@dataclass(frozen=True)
class Profile:
    """One card."""

    name: str
    memory_mib: int
    capability: tuple[int, int]
    multiprocessors: int
    threads_each: int = 2048
    l2_mib: int = 4
    workspace_kib: int = 8320  # torch's for matrix products: aten/src/ATen/cuda/CublasHandlePool.cpp of torch 2.13

    @property
    def memory_bytes(self) -> int:
        return self.memory_mib * MIB


PROFILES = {
    "emulated": Profile("Emulated CUDA device", 3500, (9, 0), 16),
    "h100": Profile("NVIDIA H100 80GB HBM3", 81079, (9, 0), 132, l2_mib=50, workspace_kib=32 << 10),
    "a100": Profile("NVIDIA A100-SXM4-40GB", 40339, (8, 0), 108, l2_mib=40),
    "t4": Profile("Tesla T4", 14913, (7, 5), 40, 1024),
}
