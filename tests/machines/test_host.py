"""The description of the computer, read from copies of Linux's system files and from a script as `nvidia-smi`."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.programs import require
from trace_tools.machines import host

Script = Callable[[str], None]


def write_files(root: Path, files: dict[str, str]) -> Path:
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
    assert host.usable_cores(write_files(tmp_path, files)) == cores


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
def test_ram_is_limited_by_the_control_group(files: dict[str, str], limit: int | None, tmp_path: Path) -> None:
    unlimited = host.ram_bytes(tmp_path / "nothing")
    assert host.ram_bytes(write_files(tmp_path, files)) == (limit or unlimited)


def test_caches_of_the_last_level_are_summed(tmp_path: Path) -> None:
    """Two cores have a cache of their own at level 2, and two pairs of cores share one each at level 3."""
    files = {}
    for core, pair in ((0, "0-1"), (1, "0-1"), (2, "2-3"), (3, "2-3")):
        for index, level, size, shared in ((0, 1, "48K", core), (2, 2, "1024K", core), (3, 3, "32M", pair)):
            folder = f"sys/devices/system/cpu/cpu{core}/cache/index{index}"
            files |= {f"{folder}/level": f"{level}\n", f"{folder}/size": f"{size}\n"}
            files[f"{folder}/shared_cpu_list"] = f"{shared}\n"
    assert host.cache_bytes(write_files(tmp_path, files)) == 2 * 32 * 1024**2
    assert host.cache_bytes(tmp_path / "nothing") is None


def test_peak_memory_of_this_process(tmp_path: Path) -> None:
    assert (
        host.peak_bytes(write_files(tmp_path, {"proc/self/status": "VmPeak:\t  9 kB\nVmHWM:\t   70 kB\n"})) == 70 * 1024
    )
    assert host.peak_bytes(tmp_path / "none") is None
    code = "from trace_tools.machines import host; x = b'x' * (1 << 28); del x; print(host.peak_bytes())"
    small, large = (
        int(subprocess.check_output([sys.executable, "-c", text])) for text in (code.replace("28", "8"), code)
    )
    assert (1 << 28) * 0.98 < large - small < (1 << 28) * 1.02


def test_cpu_name_of_intel_and_amd(tmp_path: Path) -> None:
    cpuinfo = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Intel(R) Xeon(R) CPU @    2.00GHz\nprocessor\t: 1\n"
    assert host.cpu_name(write_files(tmp_path, {"proc/cpuinfo": cpuinfo})) == "Intel(R) Xeon(R) CPU @ 2.00GHz"


ARM = "processor\t: 0\nBogoMIPS\t: 2000.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\nCPU revision\t: 0\n"


def write_lscpu(folder: Path, *names: str) -> None:
    """Write a script `lscpu` that prints these names into a new folder."""
    lines = "".join(f"  Model name:   {name}\n" for name in names)
    folder.mkdir()
    (folder / "lscpu").write_text(f"#!/bin/sh\nprintf %s 'Architecture:   aarch64\n{lines}'\n")
    (folder / "lscpu").chmod(0o755)


@pytest.mark.parametrize(
    ("lscpu_names", "name"),
    [
        (["Neoverse-V2"], "Neoverse-V2"),  # Grace
        (["Cortex-X925", "Cortex-A725"], "Cortex-X925 and Cortex-A725"),  # GB10
        (["-", "-"], "aarch64"),  # an old lscpu
        (None, "aarch64"),  # a container without lscpu
    ],
)
def test_cpu_name_of_arm(
    lscpu_names: list[str] | None, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The /proc/cpuinfo of Arm has no "model name"; lscpu prints one name for each kind of core."""
    write_lscpu(tmp_path / "bin", *lscpu_names or ())
    monkeypatch.setenv("PATH", str(tmp_path / "bin" if lscpu_names is not None else tmp_path / "none"))
    monkeypatch.setattr(host.platform, "processor", lambda: "")
    monkeypatch.setattr(host.platform, "machine", lambda: "aarch64")
    assert host.cpu_name(write_files(tmp_path, {"proc/cpuinfo": ARM})) == name


def test_a_computer_of_256_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read an EPYC's name, usable cores, caches and CPU time."""
    cpuinfo = "\n".join(f"processor\t: {n}\nmodel name\t: AMD EPYC 9754 128-Core Processor\n" for n in range(256))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(256)))
    caches = {
        f"sys/devices/system/cpu/cpu{n}/cache/index3/{name}": text
        for n in range(256)
        for name, text in (
            ("level", "3"),
            ("size", "16384K"),
            ("shared_cpu_list", f"{n // 16 * 16}-{n // 16 * 16 + 15}"),
        )
    }

    def stat(busy: int) -> str:
        return "\n".join(["cpu  1 1 1 1", *(f"cpu{n} {busy} 0 0 9 0 0 0 0 0 0" for n in range(256)), "intr 1"])

    root = write_files(tmp_path, {"proc/cpuinfo": cpuinfo, "proc/stat": stat(100), **caches})
    assert host.cpu_name(root) == "AMD EPYC 9754 128-Core Processor"
    assert host.usable_cores(root) == 256
    assert host.cache_bytes(root) == 16 * (16 << 20)
    before = host.cpu_time(root)
    write_files(tmp_path, {"proc/stat": stat(100 + os.sysconf("SC_CLK_TCK"))})  # each core was busy for 1 s
    after = host.cpu_time(root)
    assert before is not None and after is not None and after.all_s - before.all_s == 256


def test_cpu_name_is_never_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert host.cpu_name(tmp_path) != ""
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "")
    assert host.cpu_name(tmp_path) == "CPU"


def test_notes_on_what_may_slow_a_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (9.04, 1.0, 1.0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    cpus = "sys/devices/system/cpu"
    files = {
        "proc/self/cgroup": "0::/a\n",
        "sys/fs/cgroup/a/cpu.stat": "usage_usec 5\nnr_periods 40\nnr_throttled 12\nthrottled_usec 3\n",
        f"{cpus}/cpu0/cpufreq/scaling_governor": "powersave\n",
    }
    assert host.cpu_notes(write_files(tmp_path, files)) == [
        "load average 9.0 on 8 cores: more tasks were running than there are cores",
        "CPU quota used up 12 times so far",
        "CPU frequency governor: powersave",
    ]
    monkeypatch.setattr(os, "getloadavg", lambda: (7.9, 9.0, 9.0))
    assert host.cpu_notes(tmp_path / "nothing") == []


def test_cores_that_other_processes_keep_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 2}, raising=False)
    monkeypatch.setattr(os, "sysconf", lambda name: 100)  # ticks a second

    def read(at_s: float, busy: int, own: float, quota: str = "max 100000\n") -> host.CpuTime | None:
        """Read the CPU time of a computer with 3 cores; this process may use cores 1 and 2."""
        files = {
            # user nice system idle iowait irq softirq steal guest guest_nice
            "proc/stat": f"cpu  9 9 9 9\ncpu0 {at_s * 100:.0f} 0 0 0 0 0 0 0 0 0\n"
            f"cpu1 {busy} 1 2 9000 500 3 4 5 {busy} 0\ncpu2 {busy} 0 0 9000 0 0 0 0 0 0\nintr 5\n",
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
    assert host.cpu_time(tmp_path / "nothing") is None


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    """Put a shell script as `nvidia-smi` first on the PATH."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    def write(body: str) -> None:
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)

    return write


SMI = """
case "$*" in
  *driver_version*) echo "580.159.04" ;;
  *clocks.sm*clocks_event_reasons.active*) {answer} ;;
  *query-compute-apps*) {processes} ;;
  *) echo "Field is not a valid field to query." ; exit 2 ;;
esac
"""


def smi(
    state: str = "1980, 1980, 45, 312.05, 700.00",
    reasons: str = "0x0000000000000000",
    processes: str = "true",
) -> str:
    return SMI.format(answer=f"echo '{state}, {reasons}'", processes=processes)


def test_driver_version(script: Script) -> None:
    script(smi())
    assert host.gpu_driver() == "580.159.04"


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([], False),
        (["nvidiactl", "nvidia-uvm", "nvidia-caps"], False),
        (["nvidia0"], True),
        (["nvidiactl", "nvidia12"], True),
    ],
)
def test_nvidia_card_is_detected_by_its_device_file(files: list[str], expected: bool, tmp_path: Path) -> None:
    assert host.has_card(write_files(tmp_path, {f"dev/{name}": "" for name in files})) is expected


@pytest.mark.parametrize(
    ("state", "note"),
    [
        ("1980, 1980, 45, 312.05, 700.00", "GPU: SM clock 1980 of 1980 MHz, 45 °C, 312 of 700 W"),
        ("345, 1980, 28, 76.34, 700.00", "GPU: SM clock 345 of 1980 MHz, 28 °C, 76 of 700 W"),
        ("1590, 1590, 61, [N/A], [N/A]", "GPU: SM clock 1590 of 1590 MHz, 61 °C"),
        ("[N/A], [N/A], [N/A], [N/A], [N/A]", "GPU: clock, temperature and power can't be read"),
        ("[Not Supported], 1, 40, 20.00, [Unknown Error]", "GPU: 40 °C, 20 W"),
        ("No devices were found", "GPU: clock, temperature and power can't be read"),
    ],
)
def test_clock_temperature_and_power(state: str, note: str, script: Script) -> None:
    script(smi(state))
    assert host.gpu_notes() == [note]


@pytest.mark.parametrize(
    ("bits", "note"),
    [
        ("0x0000000000000004", "GPU clocks held back: power limit"),
        ("0x0000000000000024", "GPU clocks held back: power limit, heat (driver)"),
        ("0x00000000000000c8", "GPU clocks held back: hardware slowdown, heat (hardware), power brake"),
        ("0x0000000000000001", None),  # idle
        ("0x0000000000000002", None),  # clocks were set by an application
        ("[N/A]", None),
    ],
)
def test_reasons_that_hold_gpu_clocks_back(bits: str, note: str | None, script: Script) -> None:
    script(smi(reasons=bits))
    assert host.gpu_notes()[1:] == ([note] if note else [])


@pytest.mark.parametrize(
    ("processes", "notes"),
    [
        ("{me}, 530", []),
        ("{me}, 530\\n{parent}, 520", []),
        ("{me}, 530\\n2624394, 164", ["GPU in use by 1 process besides this run, 164 MiB"]),
        ("{me}, 530\\n2624394, 164\\n3664501, 2804", ["GPU in use by 2 processes besides this run, 2968 MiB"]),
        ("{me}, 530\\n2624394, [N/A]", ["GPU in use by 1 process besides this run, 0 MiB"]),
        ("2624394, 164", ["GPU in use by 1 process besides this run, 164 MiB (this run may be among them)"]),
        ("No running processes found", []),
        ("[N/A], [N/A]", []),
    ],
)
def test_other_processes_on_the_gpu_are_counted(processes: str, notes: list[str], script: Script) -> None:
    listed = processes.format(me=os.getpid(), parent=os.getppid())
    script(smi(processes=f"printf '{listed}\\n'"))
    assert host.gpu_notes()[1:] == notes


def test_a_failing_nvidia_smi_gives_no_notes(script: Script) -> None:
    for body in ("exit 9", "echo NVIDIA-SMI has failed because it couldn\\'t communicate; exit 9"):
        script(body)
        assert host.gpu_notes() == [] and not host.timed_out


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


def test_without_nvidia_smi_there_are_no_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert host.gpu_notes() == []
