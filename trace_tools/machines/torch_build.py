"""Which build of torch a driver and its cards can run; needs nothing but Python, for torch is not there yet.

    nvidia-smi --query-gpu=driver_version,compute_cap --format=csv,noheader | python torch_build.py

prints what pip is to install, best first, a line each, and on standard error what was chosen, and why. Without a card
that torch can use it is the CPU's build, or, where an index has none by that name, the release as it is.

    >>> build_for("550.54.15", ["8.0"])
    Build(name='cu126', driver=525, capabilities=('5.0', '6.0', '7.0', '7.5', '8.0', '8.6', '9.0'), default=False)
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

RELEASE = "2.13.0"  # of torch; the Makefile reads it here
INDEX = "https://download.pytorch.org/whl"
INSTALL = f"python -m pip install torch=={RELEASE}"  # where none can be imported


@dataclass(frozen=True, slots=True)
class Build:
    """One build of torch `RELEASE` for CUDA."""

    name: str  # "cu126": of its index, and the end of its version
    driver: int  # the oldest that runs it
    capabilities: tuple[str, ...]  # compute capabilities with kernels in it
    default: bool  # the one that an index without builds by name has

    @property
    def arguments(self) -> str:
        """What `pip install` is to be told."""
        return f"torch=={RELEASE}+{self.name} --extra-index-url {INDEX}/{self.name}"

    def runs_on(self, capability: str) -> bool:
        """Return whether there are kernels for a card: those of its major version, its minor or an earlier one.

        Source: CUDA C++ Programming Guide, "Binary Compatibility".
        """
        major, minor = _version(capability)
        return any(of == major and least <= minor for of, least in map(_version, self.capabilities))


# Newest first. Capabilities: PyTorch, RELEASE.md, "PyTorch CUDA Support Matrix"; which build is on PyPI: issue 178665
# of pytorch/pytorch. Drivers: NVIDIA, CUDA Compatibility, "Minor Version Compatibility", table 1.
BUILDS = (
    Build("cu130", 580, ("7.5", "8.0", "8.6", "9.0", "10.0", "12.0"), default=True),
    Build("cu126", 525, ("5.0", "6.0", "7.0", "7.5", "8.0", "8.6", "9.0"), default=False),
)


def build_for(driver: str, capabilities: Sequence[str]) -> Build | None:
    """Return the newest build that a driver ("580.95.05") and all its cards ("9.0") can run; None where none is.

    A driver that is too old to say what a card's capability is says nothing of it.
    """
    return next((b for b in BUILDS if _version(driver)[0] >= b.driver and all(map(b.runs_on, capabilities))), None)


def why_none(driver: str, capabilities: Sequence[str]) -> str:
    """Say why no build is for these, and what to do."""
    fitting = [build for build in BUILDS if all(map(build.runs_on, capabilities))]
    if not fitting:
        return f"torch {RELEASE} has no build for compute capability {' and '.join(capabilities)}"
    return f"driver {driver} is too old for torch {RELEASE}: install driver {min(b.driver for b in fitting)} or newer"


def choice(lines: Iterable[str]) -> tuple[list[str], str]:
    """Return pip's arguments, best first, for what nvidia-smi says ("580.95.05, 9.0"), and the choice in words."""
    columns = [[part.strip() for part in line.split(",")] for line in lines]
    cards = [(driver, card[:1]) for driver, *card in columns if is_version(driver)]
    on_cpu = [f"torch=={RELEASE}+cpu", f"torch=={RELEASE}"]
    if not cards:
        return on_cpu, f"no NVIDIA GPU answers: torch {RELEASE}, the CPU's build"
    driver = cards[0][0]
    capabilities = sorted({name for _, card in cards for name in card if is_version(name)})
    build = build_for(driver, capabilities)
    if build is None:
        return on_cpu, f"{why_none(driver, capabilities)}; until then, the CPU's build"
    here = f"driver {driver}" + (f", compute capability {' and '.join(capabilities)}" if capabilities else "")
    return [build.arguments, *([on_cpu[-1]] if build.default else [])], f"{here}: torch {RELEASE}+{build.name}"


def is_version(text: str) -> bool:
    """Return whether these are numbers with points between them, which "[N/A]" is not."""
    return all(part.isdecimal() for part in text.split(".")) and "." in text


def _version(text: str) -> tuple[int, int]:
    major, minor, *_ = [*map(int, text.split(".")), 0]
    return major, minor


if __name__ == "__main__":
    lines, why = choice(sys.stdin)
    print(why, file=sys.stderr)
    print(*lines, sep="\n")
