"""What is read from nvidia-smi, played by a script that prints what drivers print."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from trace_tools.machines import nvidia_smi

Script = Callable[[str], None]


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    """Put an `nvidia-smi` in front on the PATH, as a shell script."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    def write(body: str) -> None:
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)

    return write


SMI = """
case "$*" in
  *driver_version*) echo "580.159.04" ;;
  *clocks.sm*) echo "{state}" ;;
  *clocks_event_reasons.active*) {reasons} ;;
  *query-compute-apps*) {processes} ;;
  *) echo "Field is not a valid field to query." ; exit 2 ;;
esac
"""


def smi(
    state: str = "1980, 1980, 45, 312.05, 700.00",
    reasons: str = "echo 0x0000000000000000",
    processes: str = "true",
) -> str:
    return SMI.format(state=state, reasons=reasons, processes=processes)


def test_driver_version(script: Script) -> None:
    script(smi())
    assert nvidia_smi.driver_version() == "580.159.04"


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
    assert nvidia_smi.notes() == [note]


@pytest.mark.parametrize(
    ("bits", "note"),
    [
        ("0x0000000000000004", "GPU clocks held back: power limit"),
        ("0x0000000000000024", "GPU clocks held back: power limit, heat (driver)"),
        ("0x00000000000000c8", "GPU clocks held back: hardware slowdown, heat (hardware), power brake"),
        ("0x0000000000000001", None),  # idle
        ("0x0000000000000002", None),  # clocks that were asked for
        ("[N/A]", None),
    ],
)
def test_what_holds_the_clocks_back(bits: str, note: str | None, script: Script) -> None:
    script(smi(reasons=f"echo '{bits}'"))
    assert nvidia_smi.notes()[1:] == ([note] if note else [])


def test_older_drivers_call_it_throttling(script: Script) -> None:
    refuse = """echo 'Field "clocks_event_reasons.active" is not a valid field to query.'; exit 2"""
    body = smi(reasons=refuse).replace("  *) ", "  *clocks_throttle_reasons.active*) echo 0x0000000000000020 ;;\n  *) ")
    script(body)
    assert nvidia_smi.notes()[1:] == ["GPU clocks held back: heat (driver)"]


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
def test_who_else_uses_the_gpu(processes: str, notes: list[str], script: Script) -> None:
    listed = processes.format(me=os.getpid(), parent=os.getppid())
    script(smi(processes=f"printf '{listed}\\n'"))
    assert nvidia_smi.notes()[1:] == notes


def test_an_nvidia_smi_that_fails_or_hangs(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvidia_smi, "TIMEOUT_S", 0.2)
    for body in ("exit 9", "echo NVIDIA-SMI has failed because it couldn\\'t communicate; exit 9", "exec sleep 20"):
        script(body)
        assert nvidia_smi.notes() == []


def test_no_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert nvidia_smi.notes() == []
