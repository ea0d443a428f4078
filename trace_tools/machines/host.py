"""The computer around the device: its CPU, what of it this process may use, its operating system.

Containers are looked through: cores and memory are what the control groups leave. Every reader takes the
folder that stands for `/`; what can't be read is `None`.

    >>> usable_cores(), cpu_name()
    (2, 'AMD EPYC 7763 64-Core Processor')
"""

from __future__ import annotations

import math
import os
import platform
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/")


def cpu_name(root: Path = ROOT) -> str:
    """Name the CPU's model; "CPU" when nothing on this system knows it."""
    for name in _cpu_names(root):
        name = " ".join(name.split())
        if name not in ("", "-", "unknown"):
            return name
    return "CPU"


def usable_cores(root: Path = ROOT) -> int:
    """Count the cores this process may use: its affinity, cut to its control groups' quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for folder in _control_groups(root, "cpu"):
        quota, _, period = (
            _read(folder / "cpu.max") or f"{_read(folder / 'cpu.cfs_quota_us')} {_read(folder / 'cpu.cfs_period_us')}"
        ).partition(" ")
        if quota.isdigit() and period.isdigit():  # "max" and "-1" mean no limit
            cores = min(cores, max(1, math.ceil(int(quota) / int(period))))
    return cores


def ram_bytes(root: Path = ROOT) -> int | None:
    """Give the memory this process may use in bytes: the computer's, cut to its control groups' limit."""
    limits = []
    if {"SC_PAGE_SIZE", "SC_PHYS_PAGES"} <= os.sysconf_names.keys():
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for folder in _control_groups(root, "memory"):
        limit = _read(folder / "memory.max") or _read(folder / "memory.limit_in_bytes")
        if limit.isdigit():
            limits.append(int(limit))
    return min(limits, default=None)


def operating_system() -> str:
    """Name the system and its kernel's version number, without a build's or a host's name."""
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        name = f"macOS {platform.mac_ver()[0]}" if platform.system() == "Darwin" else ""
    version = re.match(r"[\d.]*\d", platform.release())
    kernel = f"{platform.system()} {version[0]}" if version else platform.system()
    return ", ".join(part for part in (name, kernel, platform.machine()) if part)


def notes(root: Path = ROOT) -> list[str]:
    """Note what may slow the CPU now: load by others, a quota that throttles, a governor, heat."""
    found = []
    cores = usable_cores(root)
    load = _load_average()
    if load > cores:
        found.append(f"load average {load:.1f} on {cores} cores: more was running than they hold")
    throttled = max((_throttled(folder) for folder in _control_groups(root, "cpu")), default=0)
    if throttled:
        found.append(f"CPU quota used up {throttled} times so far")
    cpus = root / "sys/devices/system/cpu"
    governor = _read(cpus / "cpu0/cpufreq/scaling_governor")
    if governor not in ("", "performance"):
        found.append(f"CPU frequency governor: {governor}")
    hot = sum(_count(file) for file in cpus.glob("cpu[0-9]*/thermal_throttle/core_throttle_count"))
    if hot:
        found.append(f"CPU cores slowed by heat {hot} times since the computer started")
    return found


def _cpu_names(root: Path) -> Iterator[str]:
    """Give the candidates for a name, best first, asking another program only when files don't tell."""
    yield from re.findall(r"^model name\s*:\s*(.*)$", _read(root / "proc/cpuinfo"), re.MULTILINE)[:1]
    yield from re.findall(r"^\s*Model name:\s*(.*)$", _output("lscpu"), re.MULTILINE)[:1]  # Arm: only lscpu knows
    yield _output("sysctl", "-n", "machdep.cpu.brand_string") if platform.system() == "Darwin" else ""
    yield platform.processor()
    yield platform.machine()


def _control_groups(root: Path, controller: str) -> Iterator[Path]:
    """Give the folders of this process's control groups, of versions 1 and 2, and of all above them."""
    mount = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        top = mount / controller if controllers else mount
        parts = Path(path).parts[1:]
        for depth in range(len(parts), -1, -1):
            yield top.joinpath(*parts[:depth])


def _load_average() -> float:
    try:
        return os.getloadavg()[0]
    except (OSError, AttributeError):  # not on every system
        return 0.0


def _throttled(folder: Path) -> int:
    match = re.search(r"^nr_throttled (\d+)$", _read(folder / "cpu.stat"), re.MULTILINE)
    return int(match[1]) if match else 0


def _count(file: Path) -> int:
    text = _read(file)
    return int(text) if text.isdigit() else 0


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""


def _output(*command: str) -> str:
    environment = {**os.environ, "LC_ALL": "C"}  # lscpu translates its labels
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=5, env=environment, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
