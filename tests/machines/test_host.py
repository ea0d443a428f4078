"""The description of the computer, read from copies of Linux's system files and from a script as `nvidia-smi`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cases_in_one import each
from tests.messages import says
from tests.programs import require
from trace_tools.machines import host

Script = Callable[[str], None]


def write_files(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def write_program(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


CGROUP, GROUP = "proc/self/cgroup", "sys/fs/cgroup"
UNLIMITED = host.ram_bytes(Path("/nothing"))
V1 = {CGROUP: "4:cpu,cpuacct:/docker/1\n2:memory:/docker/1\n"}
STATUS = "VmPeak:\t  9 kB\nVmHWM:\t   70 kB\n"


@each(
    ("function", "files", "expected"),
    [
        (host.usable_cores, {}, 8),
        (host.usable_cores, {CGROUP: "0::/\n", f"{GROUP}/cpu.max": "max 100000\n"}, 8),
        (host.usable_cores, {CGROUP: "0::/a/b\n", f"{GROUP}/a/cpu.max": "300000 100000\n"}, 3),
        (host.usable_cores, {CGROUP: "0::/a\n", f"{GROUP}/a/cpu.max": "150000 100000\n"}, 2),
        (host.usable_cores, {CGROUP: "0::/a\n", f"{GROUP}/a/cpu.max": "5000 100000\n"}, 1),
        (
            host.usable_cores,
            {**V1, f"{GROUP}/cpu/cpu.cfs_quota_us": "400000\n", f"{GROUP}/cpu/cpu.cfs_period_us": "100000\n"},
            4,
        ),
        (
            host.usable_cores,
            {**V1, f"{GROUP}/cpu/cpu.cfs_quota_us": "-1\n", f"{GROUP}/cpu/cpu.cfs_period_us": "100000\n"},
            8,
        ),
        (host.ram_bytes, {}, UNLIMITED),
        (host.ram_bytes, {CGROUP: "0::/a\n", f"{GROUP}/a/memory.max": "max\n"}, UNLIMITED),
        (host.ram_bytes, {CGROUP: "0::/a\n", f"{GROUP}/a/memory.max": "1048576\n"}, 1048576),
        (host.ram_bytes, {**V1, f"{GROUP}/memory/memory.limit_in_bytes": "2097152\n"}, 2097152),
        (host.ram_bytes, {**V1, f"{GROUP}/memory/memory.limit_in_bytes": f"{2**63 - 4096}\n"}, UNLIMITED),
        (host.peak_bytes, {"proc/self/status": STATUS}, 70 * 1024),
        (host.peak_bytes, {}, None),
        (host.cache_bytes, {}, None),
        (host.cpu_time, {}, None),
        (host.cpu_notes, {}, []),
        (host.has_card, {}, False),
        (host.has_card, {"dev/nvidiactl": "", "dev/nvidia-uvm": "", "dev/nvidia-caps": ""}, False),
        (host.has_card, {"dev/nvidiactl": "", "dev/nvidia12": ""}, True),
    ],
)
def test_what_the_system_files_say(
    function: Callable[[Path], Any], files: dict[str, str], expected: object, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    monkeypatch.setattr(os, "getloadavg", lambda: (7.9, 9.0, 9.0))
    assert function(write_files(tmp_path, files)) == expected


def test_caches_of_the_last_level_are_summed(tmp_path: Path) -> None:
    """On a computer with 32 threads each pair has caches of its own at levels 1 and 2, and 16 threads share level 3."""
    files = {}
    for thread in range(32):
        for index, level, size, sharing in ((0, 1, "48K", 2), (2, 2, "1024K", 2), (3, 3, "16M", 16)):
            folder, first = f"sys/devices/system/cpu/cpu{thread}/cache/index{index}", thread // sharing * sharing
            files |= {f"{folder}/level": f"{level}\n", f"{folder}/size": f"{size}\n"}
            files[f"{folder}/shared_cpu_list"] = f"{first}-{first + sharing - 1}\n"
    assert host.cache_bytes(write_files(tmp_path, files)) == 2 * (16 << 20)


ARM = "processor\t: 0\nBogoMIPS\t: 2000.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\nCPU revision\t: 0\n"
X86 = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Intel(R) Xeon(R) CPU @    2.00GHz\nprocessor\t: 1\n"


@each(
    ("cpuinfo", "lscpu_names", "machine", "name"),
    [
        (X86, ["unused"], "x86_64", "Intel(R) Xeon(R) CPU @ 2.00GHz"),
        # The /proc/cpuinfo of Arm has no "model name"; lscpu prints one name for each kind of core.
        (ARM, ["Neoverse-V2"], "aarch64", "Neoverse-V2"),  # Grace
        (ARM, ["Cortex-X925", "Cortex-A725"], "aarch64", "Cortex-X925 and Cortex-A725"),  # GB10
        (ARM, ["-", "-"], "aarch64", "aarch64"),  # an old lscpu
        (ARM, None, "aarch64", "aarch64"),  # a container without lscpu
        ("", None, "", "CPU"),
    ],
)
def test_cpu_name(
    cpuinfo: str,
    lscpu_names: list[str] | None,
    machine: str,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if lscpu_names is not None:
        lines = "".join(f"  Model name:   {model}\n" for model in lscpu_names)
        write_program(tmp_path / "lscpu", f"printf %s 'Architecture:   aarch64\n{lines}'")
    monkeypatch.setattr(host.platform, "processor", lambda: "")
    monkeypatch.setattr(host.platform, "machine", lambda: machine)
    assert host.cpu_name(write_files(tmp_path, {"proc/cpuinfo": cpuinfo})) == name


def test_notes_on_what_may_slow_a_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (9.04, 1.0, 1.0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    files = {
        CGROUP: "0::/a\n",
        f"{GROUP}/a/cpu.stat": "usage_usec 5\nnr_periods 40\nnr_throttled 12\nthrottled_usec 3\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
    }
    load, quota, governor = host.cpu_notes(write_files(tmp_path, files))
    assert says(load, "9.0", "8 cores") and says(quota, "12 times") and says(governor, "powersave")


def test_cores_that_other_processes_keep_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 2}, raising=False)
    monkeypatch.setattr(os, "sysconf", lambda name: 100)  # ticks a second

    def read(at_s: float, busy: int, own: float, quota: str = "max 100000\n") -> host.CpuTime | None:
        """Read the CPU time of a computer with 3 cores; this process may use cores 1 and 2."""
        files = {
            # user nice system idle iowait irq softirq steal guest guest_nice
            "proc/stat": f"cpu  9 9 9 9\ncpu0 {at_s * 100:.0f} 0 0 0 0 0 0 0 0 0\n"
            f"cpu1 {busy} 1 2 {at_s:.0f} {at_s:.0f} 3 4 5 {busy} 0\ncpu2 {busy} 0 0 {at_s:.0f} 0 0 0 0 0 0\nintr 5\n",
            "proc/self/cgroup": "0::/a\n",
            "sys/fs/cgroup/a/cpu.max": quota,
        }
        monkeypatch.setattr(host.time, "monotonic", lambda: at_s)
        monkeypatch.setattr(os, "times", lambda: (own, 1.0, own, 1.0, at_s))
        return host.cpu_time(write_files(tmp_path, files))

    # In 10 s both cores were busy for 8 s (800 ticks each). This process and its children used 3 s of CPU time each.
    before, after = read(100.0, busy=1000, own=1), read(110.0, busy=1800, own=4)
    assert host.other_cores(before, after) == pytest.approx((2 * 8 - 6) / 10)
    assert host.other_cores(before, read(110.0, busy=1000, own=2)) == 0  # ticks are coarse
    assert host.other_cores(before, before) is None and host.other_cores(None, after) is None
    assert read(120.0, 1, 1, quota="100000 100000\n") is None  # with a quota, other processes use the same cores


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    """Put a shell script as `nvidia-smi` first on the PATH."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    return lambda body: write_program(tmp_path / "nvidia-smi", body)


def smi(
    state: str = "1980, 1980, 45, 312.05, 700.00", reasons: str = "0x0000000000000000", processes: str = "true"
) -> str:
    return f"""case "$*" in
  *driver_version*) echo "580.159.04" ;;
  *clocks.sm*clocks_event_reasons.active*) echo '{state}, {reasons}' ;;
  *query-compute-apps*) {processes} ;;
  *) echo "Field is not a valid field to query." ; exit 2 ;;
esac"""


@each(
    ("body", "card"),
    [
        ("echo '580.95.05, NVIDIA H100, 80GB'", "NVIDIA H100, 80GB (driver 580.95.05)"),
        ("printf '580.95.05, A\\n580.95.05, B\\n'", "A (driver 580.95.05)"),
        ("echo 580.95.05", "a GPU (driver 580.95.05)"),
        ("echo No devices were found", None),
        ("exit 9", None),
    ],
)
def test_a_card_is_read_from_nvidia_smi(body: str, card: str | None, script: Script) -> None:
    script(body)
    assert host.card() == card


RUNNING = f"printf '{os.getpid()}, 530\\n"  # of this process


@each(
    ("answer", "notes"),
    [
        ({"state": "1980, 1980, 45, 312.05, 700.00"}, ["GPU: SM clock 1980 of 1980 MHz, 45 °C, 312 of 700 W"]),
        ({"state": "1590, 1590, 61, [N/A], [N/A]"}, ["GPU: SM clock 1590 of 1590 MHz, 61 °C"]),
        ({"state": "[N/A], [N/A], [N/A], [N/A], [N/A]"}, ["GPU: clock, temperature and power can't be read"]),
        ({"state": "[Not Supported], 1, 40, 20.00, [Unknown Error]"}, ["GPU: 40 °C, 20 W"]),
        ({"reasons": "0x0000000000000024"}, ["GPU clocks held back: power limit, heat (driver)"]),
        (
            {"reasons": "0x00000000000000d8"},
            ["GPU clocks held back: hardware slowdown, kept in step with other GPUs, heat (hardware), power brake"],
        ),
        ({"reasons": "0x0000000000000003"}, []),  # idle; clocks were set by an application
        ({"reasons": "[N/A]"}, []),
        ({"processes": f"{RUNNING}'"}, []),
        ({"processes": f"{RUNNING}{os.getppid()}, 520'"}, []),
        ({"processes": f"{RUNNING}4, 164'"}, ["GPU in use by 1 process besides this run, 164 MiB"]),
        ({"processes": f"{RUNNING}4, 164\\n5, 2804'"}, ["GPU in use by 2 processes besides this run, 2968 MiB"]),
        ({"processes": f"{RUNNING}4, [N/A]'"}, ["GPU in use by 1 process besides this run, 0 MiB"]),
        (
            {"processes": "echo 4, 164"},
            ["GPU in use by 1 process besides this run, 164 MiB (this run may be among them)"],
        ),
        ({"processes": "echo No running processes found"}, []),
    ],
)
def test_notes_on_a_gpu(answer: dict[str, str], notes: list[str], script: Script) -> None:
    script(smi(**answer))
    assert host.gpu_notes()["state" not in answer :] == notes


def test_nvidia_smi_that_fails_or_is_missing_gives_no_notes(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(smi())
    assert host.gpu_driver() == "580.159.04"
    for body in ("exit 9", "echo NVIDIA-SMI has failed because it couldn\\'t communicate; exit 9"):
        script(body)
        assert host.gpu_notes() == [] and not host.timed_out
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert host.gpu_notes() == []


def test_a_hanging_nvidia_smi_is_started_only_once(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("sleep")
    monkeypatch.setattr(host, "timed_out", False)
    monkeypatch.setattr(host, "TIMEOUT_S", 0.2)
    script(f"echo asked >> {tmp_path}/log; exec sleep 20")
    assert host.gpu_notes() == [] and host.card() is None and host.timed_out
    host.gpu_driver()
    assert (tmp_path / "log").read_text() == "asked\n"
