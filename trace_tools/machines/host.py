"""The computer around the device, and what may slow it: its CPU, what of it this process may use, its GPU's driver.

Containers are looked through: cores and memory are what the control groups leave. Readers of files take the
folder that stands for `/`; what can't be read is `None`. A program that is missing, fails or hangs has nothing to
tell. Process ids are only compared with our own, and never shown.

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
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trace_tools import accelerators
from trace_tools.machines import torch_build

ROOT = Path("/")
IDENTITY = "TRACE_TOOLS_GPU"  # environment variable: by which nvidia-smi knows the GPU that the process will use
IDENTITY_FILE = "gpu.txt"  # in a run's folder: that name
TIMEOUT_S = 10.0
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


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU as its driver lists it; what an older driver doesn't say is empty."""

    driver: str  # "580.95.05"
    capability: str  # "9.0"
    name: str


def cpu_name(root: Path = ROOT) -> str:
    """Name the CPU's model; "CPU" when nothing on this system knows it."""
    for name in _cpu_names(root):
        name = " ".join(name.split())
        if name not in ("", "-", "unknown"):
            return name
    return "CPU"


def _cpu_names(root: Path) -> Iterator[str]:
    """Give the candidates for a name, best first, asking another program only when files don't tell."""
    yield from re.findall(r"^model name\s*:\s*(.*)$", _read(root / "proc/cpuinfo"), re.MULTILINE)[:1]
    yield from re.findall(r"^\s*Model name:\s*(.*)$", _output("lscpu"), re.MULTILINE)[:1]  # Arm: only lscpu knows
    yield _output("sysctl", "-n", "machdep.cpu.brand_string") if platform.system() == "Darwin" else ""
    yield platform.processor()
    yield platform.machine()


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


def cache_bytes(root: Path = ROOT) -> int | None:
    """Return the size of the CPU's largest level of cache, all of its instances together, as Linux tells it."""
    sizes: dict[tuple[int, str], int] = {}  # by level and the cores that share an instance
    for folder in (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cache/index[0-9]*"):
        level, size = _read(folder / "level"), re.fullmatch(r"(\d+)([KMG])", _read(folder / "size"))
        if level.isdigit() and size is not None:
            shared = _read(folder / "shared_cpu_list")
            sizes[int(level), shared] = int(size[1]) << {"K": 10, "M": 20, "G": 30}[size[2]]
    largest = max((level for level, _ in sizes), default=0)
    return sum(size for (level, _), size in sizes.items() if level == largest) or None


def available_bytes(root: Path = ROOT) -> int | None:
    """Give the memory that processes can still be given, in bytes: the computer's, cut to what control groups leave."""
    known = re.search(r"^MemAvailable:\s+(\d+) kB", _read(root / "proc/meminfo"), re.MULTILINE)
    left = [1024 * int(known[1])] if known else []
    for folder in _control_groups(root, "memory"):
        limit = _read(folder / "memory.max") or _read(folder / "memory.limit_in_bytes")
        used = _read(folder / "memory.current") or _read(folder / "memory.usage_in_bytes")
        if limit.isdigit() and used.isdigit():
            cached = re.search(r"^(?:total_)?inactive_file (\d+)$", _read(folder / "memory.stat"), re.MULTILINE)
            left.append(max(0, int(limit) - int(used) + (int(cached[1]) if cached else 0)))
    return min(left, default=None)


def peak_bytes(root: Path = ROOT) -> int | None:
    """Give the most memory that this process has held at once, in bytes; None where the system doesn't say.

    Not by `getrusage`, for which a process begins with what the one that started it held.
    """
    known = re.search(r"^VmHWM:\s+(\d+) kB", _read(root / "proc/self/status"), re.MULTILINE)
    return 1024 * int(known[1]) if known else None


def operating_system() -> str:
    """Name the system and its kernel's version number, without a build's or a host's name."""
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        name = f"macOS {platform.mac_ver()[0]}" if platform.system() == "Darwin" else ""
    version = re.match(r"[\d.]*\d", platform.release())
    kernel = f"{platform.system()} {version[0]}" if version else platform.system()
    return ", ".join(part for part in (name, kernel, platform.machine()) if part)


def gpu_driver() -> str | None:
    """Give the GPU driver's version: "580.159.04"; None where there is no driver."""
    asked = _nvidia_smi("--query-gpu=driver_version")
    files = [_read(ROOT / f"sys/module/{driver}/version") for driver in ("nvidia", "amdgpu")]
    return next(filter(None, [*asked[:1], *files]), None)


def cards() -> list[Card]:
    """List the GPUs that nvidia-smi answers for; none where it is missing, fails or hangs."""
    lines = _nvidia_smi("--query-gpu=driver_version,compute_cap,name")
    lines = lines or [line.replace(",", ", ,", 1) for line in _nvidia_smi("--query-gpu=driver_version,name")]
    columns = [[*(part.strip() for part in line.split(",", 2)), "", ""] for line in lines]
    return [
        Card(driver, capability if torch_build.is_version(capability) else "", name)
        for driver, capability, name, *_ in columns
        if torch_build.is_version(driver)
    ]


def has_card(root: Path = ROOT) -> bool:
    """Return whether the kernel has given this process a GPU of NVIDIA, though its driver may not work.

    A container that was given none has no such file, whatever `/proc` says of the computer around it.
    """
    return any(re.fullmatch(r"nvidia\d+", file.name) for file in (root / "dev").glob("nvidia*"))


def has_amd_card(root: Path = ROOT) -> bool:
    """Return whether there is a GPU of AMD that ROCm's driver serves and that is no part of a processor.

    Source: Linux, drivers/gpu/drm/amd/amdkfd/kfd_topology.c: a node of the topology has compute units, cores, or both.
    """
    if not (root / "dev/kfd").exists():  # this process was given none
        return False
    nodes = (root / "sys/class/kfd/kfd/topology/nodes").glob("*/properties")
    counts = [dict(line.split()[:2] for line in _read(node).splitlines() if " " in line.strip()) for node in nodes]
    return any(count.get("simd_count", "0") != "0" and count.get("cpu_cores_count") == "0" for count in counts)


def cpu_notes(root: Path = ROOT) -> list[str]:
    """Note what may slow the CPU now: load by others, a quota that throttles, a governor, heat."""
    notes = []
    cores = usable_cores(root)
    with suppress(OSError, AttributeError):  # not on every system
        if (load := os.getloadavg()[0]) > cores:
            notes.append(f"load average {load:.1f} on {cores} cores: more was running than they hold")
    stats = [_read(folder / "cpu.stat") for folder in _control_groups(root, "cpu")]
    throttled = [int(times) for text in stats for times in re.findall(r"^nr_throttled (\d+)$", text, re.MULTILINE)]
    if any(throttled):
        notes.append(f"CPU quota used up {max(throttled)} times so far")
    cpus = root / "sys/devices/system/cpu"
    governor = _read(cpus / "cpu0/cpufreq/scaling_governor")
    if governor not in ("", "performance"):
        notes.append(f"CPU frequency governor: {governor}")
    counts = map(_read, cpus.glob("cpu[0-9]*/thermal_throttle/core_throttle_count"))
    if hot := sum(int(count) for count in counts if count.isdigit()):
        notes.append(f"CPU cores slowed by heat {hot} times since the computer started")
    return notes


def gpu_notes() -> list[str]:
    """Note the GPU's clock, temperature and power, what holds its clocks back, and who else uses it."""
    gpu = _selected_gpu()
    notes = []
    for state in _nvidia_smi("--query-gpu=clocks.sm,clocks.max.sm,temperature.gpu,power.draw,power.limit", *gpu)[:1]:
        # "1980, 1980, 45, 312.05, 700.00", of which any may be "[N/A]"
        clock, fastest, celsius, watts, limit = [*map(_number, state.split(",")), *[None] * 5][:5]
        parts = []
        if clock is not None:
            parts.append(f"SM clock {clock:.0f}" + (f" of {fastest:.0f} MHz" if fastest is not None else " MHz"))
        if celsius is not None:
            parts.append(f"{celsius:.0f} °C")
        if watts is not None:
            parts.append(f"{watts:.0f}" + (f" of {limit:.0f} W" if limit is not None else " W"))
        notes.append("GPU: " + (", ".join(parts) or "clock, temperature and power can't be read"))
    if reasons := gpu_slowed_by():
        notes.append(f"GPU clocks held back: {', '.join(reasons)}")
    if used := processes_in_words(*gpu_processes()):
        notes.append(f"GPU in use by {used}")
    return notes


def gpu_slowed_by() -> list[str] | None:
    """Name what holds the GPU's clocks back now; None where nobody can tell."""
    gpu = _selected_gpu()
    bits = _nvidia_smi("--query-gpu=clocks_event_reasons.active", *gpu)
    bits = bits or _nvidia_smi("--query-gpu=clocks_throttle_reasons.active", *gpu)
    if not bits or not re.fullmatch("0x[0-9a-fA-F]+", bits[0]):  # "[N/A]"
        return None
    return [reason for bit, reason in REASONS.items() if int(bits[0], 16) & bit]


def gpu_processes() -> tuple[list[float], bool]:
    """List what other processes hold on the GPU (MiB each), and whether this run was told from them.

    In a container the ids may be the host's, and then it is among them.
    """
    # "2624394, 164" (MiB, or "[N/A]") per process
    columns = [line.partition(",") for line in _nvidia_smi("--query-compute-apps=pid,used_memory", *_selected_gpu())]
    listed = {int(pid): _number(mib) or 0.0 for pid, _, mib in columns if pid.isdigit()}
    own = {os.getpid(), os.getppid()}  # the parent measured the roof
    return [mib for pid, mib in listed.items() if pid not in own], bool(own & listed.keys())


def processes_in_words(held: list[float], own: bool) -> str | None:
    """Say what `gpu_processes` found; None where there are none."""
    if not held:
        return None
    count = "1 process" if len(held) == 1 else f"{len(held)} processes"
    return f"{count} besides this run, {sum(held):.0f} MiB" + ("" if own else " (this run may be among them)")


def _selected_gpu() -> list[str]:
    """Name the GPU that PyTorch uses: its number is not nvidia-smi's under CUDA_VISIBLE_DEVICES."""
    gpu = accelerators.in_use()  # asking torch would put another to use, and the lecture would begin with a warm one
    try:
        identity = os.environ.get(IDENTITY) if gpu is None else gpu.properties().identity
    except (RuntimeError, AssertionError):  # a card that is full, say, can't even be asked
        return []
    return [f"--id={identity}"] if identity else []


def _nvidia_smi(*question: str) -> list[str]:
    """Give nvidia-smi's lines of comma-separated figures; none where it refuses."""
    answer = _output("nvidia-smi", *question, "--format=csv,noheader,nounits")
    return [line.strip() for line in answer.splitlines()]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:  # "[N/A]", "[Not Supported]"
        return None


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


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""


def _output(*command: str) -> str:
    """Give what a program prints; nothing where it is missing, fails ("Field … is not a valid field") or hangs."""
    environment = {**os.environ, "LC_ALL": "C"}  # lscpu translates its labels
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, env=environment, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return "" if done.returncode else done.stdout
