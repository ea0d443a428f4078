"""Read the state of the computer around the device: its CPU, the share that this process may use, its GPU's driver.

In containers, cores and memory follow the limits of the control groups. Functions that read files take the folder to
use instead of `/`; a value that can't be read is `None`. A program that is missing or fails gives no values. Process
ids are only compared with our own, and never shown.

    >>> usable_cores(), cpu_name()
    (2, 'AMD EPYC 7763 64-Core Processor')
    >>> gpu_notes()
    ['GPU: SM clock 1980 of 1980 MHz, 45 °C, 312 of 700 W', 'GPU clocks held back: power limit']
"""

from __future__ import annotations

import math
import os
import platform
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trace_tools.machines import accelerators

ROOT = Path("/")
IDENTITY = "TRACE_TOOLS_GPU"  # environment variable: nvidia-smi's identifier of the GPU that the process will use
IDENTITY_FILE = "gpu.txt"  # in a run's folder: the value for that variable
SENSORS = "clocks.sm,clocks.max.sm,temperature.gpu,power.draw,power.limit,clocks_event_reasons.active"
TIMEOUT_S = 10.0
timed_out = False  # whether nvidia-smi has in this process, which then does not call it again
# Of one core: a process that never waits uses 1. Services of an idle machine use some hundredths.
LOADED_CORES = 0.5
# Bits of NVML's nvmlClocksEventReasons. Left out: an idle GPU (0x1), and the clocks that applications or displays
# asked for (0x2, 0x100).
REASONS = {
    0x4: "power limit",
    0x8: "hardware slowdown",
    0x10: "kept in step with other GPUs",
    0x20: "heat (driver)",
    0x40: "heat (hardware)",
    0x80: "power brake",
}


@dataclass(frozen=True, slots=True)
class CpuTime:
    """CPU time used until a moment, in seconds, and the moment itself."""

    at_s: float
    all_s: float  # on the cores that this process may use, by all processes and by the system
    own_s: float  # by this process, and by its children that have ended


def cpu_name(root: Path = ROOT) -> str:
    """Return the CPU's model name; "CPU" if the system does not report one."""
    for name in _cpu_names(root):
        name = " ".join(name.split())
        if name not in ("", "-", "unknown"):
            return name
    return "CPU"


def _cpu_names(root: Path) -> Iterator[str]:
    """Yield candidates for the CPU's name, best first; run another program only if the files have no name."""
    cpuinfo = _read(root / "proc/cpuinfo")
    yield from re.findall(r"^model name\s*:\s*(.*)$", cpuinfo, re.MULTILINE)[:1]
    models = (name.strip() for name in re.findall(r"^\s*Model name:\s*(.*)$", _output("lscpu") or "", re.MULTILINE))
    # Arm processors mix kinds of cores
    yield " and ".join(dict.fromkeys(name for name in models if name not in ("", "-")))
    yield (_output("sysctl", "-n", "machdep.cpu.brand_string") or "") if platform.system() == "Darwin" else ""
    yield platform.processor()
    yield platform.machine()


def usable_cores(root: Path = ROOT) -> int:
    """Count the cores that this process may use: its affinity, limited by the quota of its control groups."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for folder in _control_groups(root, "cpu"):
        quota, _, period = (
            _read(folder / "cpu.max") or f"{_read(folder / 'cpu.cfs_quota_us')} {_read(folder / 'cpu.cfs_period_us')}"
        ).partition(" ")
        if quota.isdigit() and period.isdigit():  # "max" and "-1" mean no limit
            cores = min(cores, max(1, math.ceil(int(quota) / int(period))))
    return cores


def ram_bytes(root: Path = ROOT) -> int | None:
    """Return the bytes of the computer's memory that this process may use, limited by its control groups."""
    limits = []
    if {"SC_PAGE_SIZE", "SC_PHYS_PAGES"} <= os.sysconf_names.keys():
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for folder in _control_groups(root, "memory"):
        limit = _read(folder / "memory.max") or _read(folder / "memory.limit_in_bytes")
        if limit.isdigit():
            limits.append(int(limit))
    return min(limits, default=None)


def cache_bytes(root: Path = ROOT) -> int | None:
    """Return the size of the CPU's largest cache level, summed over all of its instances, as Linux reports it."""
    sizes: dict[tuple[int, str], int] = {}  # by level and the cores that share an instance
    for folder in (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cache/index[0-9]*"):
        level, size = _read(folder / "level"), re.fullmatch(r"(\d+)([KMG])", _read(folder / "size"))
        if level.isdigit() and size is not None:
            shared = _read(folder / "shared_cpu_list")
            sizes[int(level), shared] = int(size[1]) << {"K": 10, "M": 20, "G": 30}[size[2]]
    largest = max((level for level, _ in sizes), default=0)
    return sum(size for (level, _), size in sizes.items() if level == largest) or None


def peak_bytes(root: Path = ROOT) -> int | None:
    """Return this process's peak memory in bytes, if the system reports it.

    `getrusage` is not used, because there a process inherits the peak of its parent.
    """
    peak = re.search(r"^VmHWM:\s+(\d+) kB", _read(root / "proc/self/status"), re.MULTILINE)
    return 1024 * int(peak[1]) if peak else None


def operating_system() -> str:
    """Return the system's name and its kernel's version number, without the name of a build or host."""
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        name = f"macOS {platform.mac_ver()[0]}" if platform.system() == "Darwin" else ""
    version = re.match(r"[\d.]*\d", platform.release())
    kernel = f"{platform.system()} {version[0]}" if version else platform.system()
    return ", ".join(part for part in (name, kernel, platform.machine()) if part)


def cpu_time(root: Path = ROOT) -> CpuTime | None:
    """Read the CPU time used so far, by this process with its ended children and by all processes; None if it can't be
    read.

    Returns None under the quota of a control group, because other groups share the cores, and the total CPU time does
    not show the load on this group. Source: `man 5 proc`, /proc/stat: user, nice, system, idle, iowait, irq, softirq
    and steal, in ticks.
    """
    try:
        mine, tick = os.sched_getaffinity(0), os.sysconf("SC_CLK_TCK")
    except (AttributeError, OSError, ValueError):  # missing on some systems
        return None
    lines = re.findall(r"^cpu(\d+) (.*)$", _read(root / "proc/stat"), re.MULTILINE)
    busy = [sum(map(int, [*ticks.split()[:3], *ticks.split()[5:8]])) for number, ticks in lines if int(number) in mine]
    if len(busy) < len(mine) or usable_cores(root) < len(mine):
        return None
    return CpuTime(time.monotonic(), sum(busy) / tick, sum(os.times()[:4]))


def other_cores(before: CpuTime | None, after: CpuTime | None) -> float | None:
    """Return the average number of cores that other processes kept busy between two moments, if both are known."""
    if before is None or after is None or after.at_s <= before.at_s:
        return None
    others_s = (after.all_s - before.all_s) - (after.own_s - before.own_s)
    return round(max(0.0, others_s) / (after.at_s - before.at_s), 2)


def gpu_driver() -> str | None:
    """Return the GPU driver's version, "580.159.04", if nvidia-smi answers."""
    return next(iter(_nvidia_smi("--query-gpu=driver_version")), None) or None


def card() -> str | None:
    """Name the first GPU that nvidia-smi reports, if any: "NVIDIA H200 (driver 580.95.05)"."""
    lines = [line.partition(",") for line in _nvidia_smi("--query-gpu=driver_version,name")]
    names = (f"{name.strip() or 'a GPU'} (driver {driver})" for driver, _, name in lines if driver[:1].isdigit())
    return next(names, None)


def has_card(root: Path = ROOT) -> bool:
    """Return whether the kernel gives this process an NVIDIA GPU, whether or not its driver works.

    A container without a GPU has no such file, whatever `/proc` reports about the computer around it.
    """
    return any(re.fullmatch(r"nvidia\d+", file.name) for file in (root / "dev").glob("nvidia*"))


def notes(device: str) -> list[str]:
    """List known conditions that may slow a device now, one short line each."""
    return [*(gpu_notes() if device != "cpu" else []), *cpu_notes()]


def cpu_notes(root: Path = ROOT) -> list[str]:
    """List conditions that may slow the CPU now: load by others, a quota that throttles, a governor."""
    notes = []
    cores = usable_cores(root)
    with suppress(OSError, AttributeError):  # missing on some systems
        if (load := os.getloadavg()[0]) > cores:
            notes.append(f"load average {load:.1f} on {cores} cores: more tasks were running than there are cores")
    stats = [_read(folder / "cpu.stat") for folder in _control_groups(root, "cpu")]
    throttled = [int(times) for text in stats for times in re.findall(r"^nr_throttled (\d+)$", text, re.MULTILINE)]
    if any(throttled):
        notes.append(f"CPU quota used up {max(throttled)} times so far")
    governor = _read(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if governor not in ("", "performance"):
        notes.append(f"CPU frequency governor: {governor}")
    return notes


def gpu_notes() -> list[str]:
    """List the GPU's clock, temperature and power, the reasons for lower clocks, and its other users."""
    notes = []
    for line in _nvidia_smi(f"--query-gpu={SENSORS}", *_selected_gpu())[:1]:
        figures = [part.strip() for part in line.split(",")]  # "1980", "45", "312.05", "0x04", or "[N/A]"
        clock, fastest, celsius, watts, limit = map(_number, [*figures, *[""] * 5][:5])
        parts = [
            f"SM clock {_of(clock, fastest)} MHz" if clock is not None else "",
            f"{celsius:.0f} °C" if celsius is not None else "",
            f"{_of(watts, limit)} W" if watts is not None else "",
        ]
        notes.append("GPU: " + (", ".join(filter(None, parts)) or "clock, temperature and power can't be read"))
        bits = int(figures[-1], 16) if re.fullmatch("0x[0-9a-fA-F]+", figures[-1]) else 0
        if reasons := ", ".join(reason for bit, reason in REASONS.items() if bits & bit):
            notes.append(f"GPU clocks held back: {reasons}")
    if used := gpu_users():
        notes.append(f"GPU in use by {used}")
    return notes


def _of(figure: float, highest: float | None) -> str:
    return f"{figure:.0f}" + ("" if highest is None else f" of {highest:.0f}")


def gpu_users() -> str | None:
    """Describe the other processes on the GPU, if any: "2 processes besides this run, 326 MiB".

    In a container the ids may be the host's, so that this run looks like the others.
    """
    # "2624394, 164" (MiB, or "[N/A]") per process
    columns = [line.partition(",") for line in _nvidia_smi("--query-compute-apps=pid,used_memory", *_selected_gpu())]
    listed = {int(pid): _number(mib) or 0.0 for pid, _, mib in columns if pid.isdigit()}
    own_ids = {os.getpid(), os.getppid()}  # the parent measured the peaks
    others = [mib for pid, mib in listed.items() if pid not in own_ids]
    doubt = "" if own_ids & listed.keys() else " (this run may be among them)"
    count = "1 process" if len(others) == 1 else f"{len(others)} processes"
    return f"{count} besides this run, {sum(others):.0f} MiB{doubt}" if others else None


def _selected_gpu() -> list[str]:
    """Return nvidia-smi's arguments that select PyTorch's GPU; the two number GPUs differently under
    CUDA_VISIBLE_DEVICES.
    """
    # torch would initialise a GPU to answer, and the lecture would then begin with a warm one
    gpu = accelerators.in_use()
    try:
        identity = os.environ.get(IDENTITY) if gpu is None else gpu.properties().identity
    except (RuntimeError, AssertionError):  # even a query fails if the card is full
        return []
    return [f"--id={identity}"] if identity else []


def _nvidia_smi(*arguments: str) -> list[str]:
    """Return nvidia-smi's lines of comma-separated figures; empty if it refuses, or has timed out in this process."""
    global timed_out
    if timed_out:
        return []
    output = _output("nvidia-smi", *arguments, "--format=csv,noheader,nounits")
    timed_out = output is None
    return [line.strip() for line in (output or "").splitlines()]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:  # "[N/A]", "[Not Supported]"
        return None


def _control_groups(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of this process's control groups, of versions 1 and 2, and of all groups above them."""
    mount = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        top = mount / controller if controllers else mount
        parts = Path(path).parts[1:]
        for depth in range(len(parts), -1, -1):
            yield top.joinpath(*parts[:depth])


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""


def _output(*command: str) -> str | None:
    """Return a program's output; empty if the program is missing or fails ("Field … is not a valid field"), None if it
    hangs.
    """
    environment = {**os.environ, "LC_ALL": "C"}  # lscpu translates its labels
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, env=environment, check=False
        )
    except OSError:
        return ""
    except subprocess.TimeoutExpired:
        return None
    return "" if done.returncode else done.stdout
