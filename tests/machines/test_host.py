"""The computer's description, read from trees of files as Linux lays them out."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

from trace_tools.machines import host


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 8),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, 8),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/cpu.max": "300000 100000\n"}, 3),
        ({"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/cpu.max": "150000 100000\n"}, 2),
        ({"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/cpu.max": "5000 100000\n"}, 1),
        (
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/docker/1\n2:memory:/docker/1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "400000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            4,
        ),
        (
            {
                "proc/self/cgroup": "1:cpu:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            8,
        ),
    ],
)
def test_usable_cores(files: dict[str, str], cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    assert host.usable_cores(tree(tmp_path, files)) == cores


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"}, None),
        ({"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "1048576\n"}, 1048576),
        ({"proc/self/cgroup": "2:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "2097152\n"}, 2097152),
        ({"proc/self/cgroup": "2:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2**63 - 4096}\n"}, None),
    ],
)
def test_ram_bytes(files: dict[str, str], limit: int | None, tmp_path: Path) -> None:
    whole = host.ram_bytes(tmp_path / "nothing")
    assert host.ram_bytes(tree(tmp_path, files)) == (limit or whole)


def test_cpu_name_of_intel_and_amd(tmp_path: Path) -> None:
    cpuinfo = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Intel(R) Xeon(R) CPU @    2.00GHz\nprocessor\t: 1\n"
    assert host.cpu_name(tree(tmp_path, {"proc/cpuinfo": cpuinfo})) == "Intel(R) Xeon(R) CPU @ 2.00GHz"


def test_cpu_name_of_arm_comes_from_lscpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cpuinfo = "processor\t: 0\nBogoMIPS\t: 2000.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n"
    lscpu = tmp_path / "lscpu"
    lscpu.write_text(
        "#!/bin/sh\ncat << END\nArchitecture:   aarch64\nVendor ID:      ARM\n  Model name:   Neoverse-V2\nEND\n"
    )
    lscpu.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert host.cpu_name(tree(tmp_path, {"proc/cpuinfo": cpuinfo})) == "Neoverse-V2"


def test_cpu_name_is_never_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert host.cpu_name(tmp_path) != ""
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "")
    assert host.cpu_name(tmp_path) == "CPU"


def test_what_may_slow_a_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (9.04, 1.0, 1.0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    cpus = "sys/devices/system/cpu"
    files = {
        "proc/self/cgroup": "0::/a\n",
        "sys/fs/cgroup/a/cpu.stat": "usage_usec 5\nnr_periods 40\nnr_throttled 12\nthrottled_usec 3\n",
        f"{cpus}/cpu0/cpufreq/scaling_governor": "powersave\n",
        f"{cpus}/cpu0/thermal_throttle/core_throttle_count": "2\n",
        f"{cpus}/cpu11/thermal_throttle/core_throttle_count": "3\n",
    }
    assert host.notes(tree(tmp_path, files)) == [
        "load average 9.0 on 8 cores: more was running than they hold",
        "CPU quota used up 12 times so far",
        "CPU frequency governor: powersave",
        "CPU cores slowed by heat 5 times since the computer started",
    ]
    monkeypatch.setattr(os, "getloadavg", lambda: (7.9, 9.0, 9.0))
    assert host.notes(tmp_path / "nothing") == []
