"""Choose the build of torch that a driver and its cards can run, with Python's own modules only (before torch is
installed).

    nvidia-smi --query-gpu=driver_version,compute_cap --format=csv,noheader | python torch_build.py

prints arguments for pip, best first, one line each; standard error has the choice and its reason. Without a card that
torch can use, the choice is the CPU's build, or the plain release for an index that has no build by that name.

    >>> build_for("550.54.15", ["8.0"]).name
    'cu126'
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

RELEASE = "2.13.0"  # of torch; the Makefile reads it here
AMD = "/dev/kfd"  # Linux creates it if ROCm can use an AMD GPU
INDEX = "https://download.pytorch.org/whl"
ROCM = "rocm7.2"  # in the name of AMD's build of that release
FOR_AMD = f"`python -m pip install torch=={RELEASE} --index-url {INDEX}/{ROCM}` installs PyTorch's build for AMD's GPUs"
INSTALL = f"python -m pip install torch=={RELEASE}"  # if torch can't be imported


@dataclass(frozen=True, slots=True)
class Build:
    """One build of torch `RELEASE` for CUDA."""

    name: str  # "cu126": of its index, and the end of its version
    driver: int  # oldest version that runs it
    capabilities: tuple[str, ...]  # compute capabilities of its kernels
    on_arm: tuple[str, ...]  # those in its wheels for aarch64
    default: bool  # the build of an index without builds by name

    @property
    def arguments(self) -> str:
        """The arguments for `pip install`."""
        return f"torch=={RELEASE}+{self.name} --extra-index-url {INDEX}/{self.name}"

    def runs_on(self, capability: str, machine: str) -> bool:
        """Return whether the build has kernels for a card: with its major version, and its minor version or an earlier
        one.

        `machine` is the processor's architecture as `platform.machine` names it.

        Source: CUDA C++ Programming Guide, "Binary Compatibility".
        """
        major, minor = _version(capability)
        capabilities = self.on_arm if machine in ARM else self.capabilities
        versions = map(_version, capabilities)
        return any(kernel_major == major and kernel_minor <= minor for kernel_major, kernel_minor in versions)


# Newest first. Capabilities: PyTorch, RELEASE.md, "PyTorch CUDA Support Matrix", with tables for x86 and for aarch64;
# build on PyPI: issue 178665 of pytorch/pytorch, and the requirements of its wheel for aarch64 (CUDA 13.0). Drivers:
# NVIDIA, CUDA Compatibility, "Minor Version Compatibility", table 1.
BUILDS = (
    Build("cu130", 580, ("7.5", "8.0", "8.6", "9.0", "10.0", "12.0"), ("8.0", "9.0", "10.0", "11.0", "12.0"), True),
    Build("cu126", 525, ("5.0", "6.0", "7.0", "7.5", "8.0", "8.6", "9.0"), ("8.0", "9.0"), False),
)
ARM = ("aarch64", "arm64")


def build_for(driver: str, capabilities: Sequence[str], machine: str | None = None) -> Build | None:
    """Return the newest build that a driver ("580.95.05") and all its cards ("9.0") can run; None without such a build.

    `machine` is the processor's architecture, None for this machine's. Drivers too old to report compute capabilities
    leave them empty.
    """
    fitting = _fitting(capabilities, machine)
    return next((build for build in fitting if _version(driver)[0] >= build.driver), None)


def _fitting(capabilities: Sequence[str], machine: str | None) -> list[Build]:
    architecture = platform.machine() if machine is None else machine
    return [build for build in BUILDS if all(build.runs_on(capability, architecture) for capability in capabilities)]


def why_none(driver: str, capabilities: Sequence[str], machine: str | None = None) -> str:
    """Explain why no build fits this driver and these cards, and what to do."""
    fitting = _fitting(capabilities, machine)
    if not fitting:
        architecture = machine or platform.machine()
        where = f" on {architecture}" if architecture in ARM else ""
        return f"torch {RELEASE} has no build for compute capability {' and '.join(capabilities)}{where}"
    return f"driver {driver} is too old for torch {RELEASE}: install driver {min(b.driver for b in fitting)} or newer"


def choice(lines: Iterable[str], *, amd: bool = False) -> tuple[list[str], str]:
    """Return pip's arguments, best first, for nvidia-smi's output ("580.95.05, 9.0"), and a message about the choice.

    Without NVIDIA cards the choice is the CPU's build, even with `amd`: the GPU that ROCm can use may be a processor's
    graphics. The message then names AMD's build for users who want it.
    """
    columns = [[part.strip() for part in line.split(",")] for line in lines]
    cards = [(driver, card[:1]) for driver, *card in columns if is_version(driver)]
    on_cpu = [f"torch=={RELEASE}+cpu", f"torch=={RELEASE}"]
    if not cards and amd:
        return on_cpu, f"no NVIDIA GPU responds: torch {RELEASE}, the CPU build; {FOR_AMD}"
    if not cards:
        return on_cpu, f"no NVIDIA GPU responds: torch {RELEASE}, the CPU build"
    driver = cards[0][0]
    capabilities = sorted({name for _, card in cards for name in card if is_version(name)})
    build = build_for(driver, capabilities)
    if build is None:
        return on_cpu, f"{why_none(driver, capabilities)}; until then, the CPU build"
    description = f"driver {driver}" + (f", compute capability {' and '.join(capabilities)}" if capabilities else "")
    return [build.arguments, *([on_cpu[-1]] if build.default else [])], f"{description}: torch {RELEASE}+{build.name}"


def is_version(text: str) -> bool:
    """Return whether a text consists of numbers with points between them, unlike "[N/A]"."""
    return all(part.isdecimal() for part in text.split(".")) and "." in text


def _version(text: str) -> tuple[int, int]:
    major, minor, *_ = [*map(int, text.split(".")), 0]
    return major, minor


if __name__ == "__main__":
    lines, why = choice(sys.stdin, amd=Path(AMD).exists())
    print(why, file=sys.stderr)
    print(*lines, sep="\n")
