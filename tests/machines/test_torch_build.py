"""The choice of a build of torch, compared with figures read by hand from PyTorch's and NVIDIA's tables."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases_in_one import each
from tests.programs import PYTHON, require
from trace_tools.machines import torch_build

ROOT = Path(__file__).resolve().parents[2]


@each(
    ("driver", "capabilities", "name"),
    [
        ("580.95.05", ["9.0"], "cu130"),  # H100
        ("580.95.05", ["8.9"], "cu130"),  # RTX 4090: the kernels of 8.6 run on it
        ("595.10", ["12.1"], "cu130"),
        ("580.65.06", ["7.0"], "cu126"),  # V100, which CUDA 13 does not support
        ("550.54.15", ["9.0"], "cu126"),  # a driver of CUDA 12
        ("525.60.13", ["6.1"], "cu126"),
        ("580.95.05", ["7.5", "9.0"], "cu130"),
        ("580.95.05", ["7.0", "9.0"], "cu126"),  # cu126 supports both cards
        ("580.95.05", ["7.0", "12.0"], None),  # no build supports both cards
        ("570.26", ["10.0"], None),  # Blackwell with a driver of CUDA 12
        ("470.82.01", ["8.0"], None),
        ("580.95.05", ["3.7"], None),  # K80
        ("580.95.05", [], "cu130"),
    ],
)
def test_build_for_a_driver_and_its_cards(driver: str, capabilities: list[str], name: str | None) -> None:
    build = torch_build.build_for(driver, capabilities, "x86_64")
    assert (build and build.name) == name


@each(
    ("driver", "capabilities", "name"),
    [
        ("580.95.05", ["9.0"], "cu130"),  # GH200
        ("550.54.15", ["9.0"], "cu126"),
        ("580.95.05", ["12.1"], "cu130"),  # GB10
        ("580.95.05", ["11.0"], "cu130"),  # Thor: only Arm's wheels have kernels for it
        ("570.86.10", ["10.0"], None),  # GB200 with a driver of CUDA 12
        ("580.95.05", ["7.5"], None),  # T4G: only x86's wheels have kernels for it
        ("535.10", [], "cu126"),
    ],
)
def test_build_on_arm(driver: str, capabilities: list[str], name: str | None) -> None:
    for machine in ("aarch64", "arm64"):
        build = torch_build.build_for(driver, capabilities, machine)
        assert (build and build.name) == name
    if capabilities == ["7.5"]:
        assert "on aarch64" in torch_build.why_none(driver, capabilities, "aarch64")
        assert "driver" not in torch_build.why_none(driver, capabilities, "aarch64")


@each(
    ("smi_output", "arguments", "words"),
    [
        (
            "580.95.05, 9.0\n",
            ["torch==2.13.0+cu130 --extra-index-url https://download.pytorch.org/whl/cu130", "torch==2.13.0"],
            "driver 580.95.05, compute capability 9.0: torch 2.13.0+cu130",
        ),
        (
            "550.54.15, 8.0\n550.54.15, 7.0\n",
            ["torch==2.13.0+cu126 --extra-index-url https://download.pytorch.org/whl/cu126"],
            "driver 550.54.15, compute capability 7.0 and 8.0: torch 2.13.0+cu126",
        ),
        ("535.10, [N/A]\n", None, "driver 535.10: torch 2.13.0+cu126"),
        ("", ["torch==2.13.0+cpu", "torch==2.13.0"], "no NVIDIA GPU responds: torch 2.13.0, the CPU build"),
        ("No devices were found\n", None, "no NVIDIA GPU responds: torch 2.13.0, the CPU build"),
        (
            "470.82.01, 8.0\n",
            ["torch==2.13.0+cpu", "torch==2.13.0"],
            "driver 470.82.01 is too old for torch 2.13.0: install driver 525 or newer; until then, the CPU build",
        ),
        (
            "560.1, 12.0\n",
            None,
            "driver 560.1 is too old for torch 2.13.0: install driver 580 or newer; until then, the CPU build",
        ),
        (
            "580.1, 3.7\n",
            None,
            "torch 2.13.0 has no build for compute capability 3.7; until then, the CPU build",
        ),
    ],
)
def test_pip_arguments_and_reason_printed_for_make(smi_output: str, arguments: list[str] | None, words: str) -> None:
    """The script runs before anything is installed: with this file alone, without this project on the path."""
    command = [sys.executable, "-I", "-S", str(Path(torch_build.__file__))]
    completed = subprocess.run(command, input=smi_output, capture_output=True, text=True, check=True)
    assert completed.stderr == f"{words}\n"
    assert arguments is None or completed.stdout.splitlines() == arguments


def test_choice_names_the_rocm_index_for_amd_gpus() -> None:
    on_cpu, why = torch_build.choice([], amd=True)
    assert on_cpu == torch_build.choice([])[0] and f"{torch_build.INDEX}/rocm7.2" in why
    with_both, why = torch_build.choice(["580.95.05, 9.0"], amd=True)
    assert "cu130" in with_both[0] and "rocm" not in why


# A Python without torch. Its pip only writes its arguments to a file, and fails for arguments that contain LACKS.
FAKE = f"""#!/bin/sh
case "$*" in
  "-m venv "*) for last; do :; done; mkdir -p "$last/bin"; cp "$0" "$last/bin/python" ;;
  *"import torch"*) exit 1 ;;
  "-m pip install"*) echo "$*" >> pip.log; case "$*" in *$LACKS*) exit 1 ;; esac ;;
  *) exec {PYTHON} "$@" ;;
esac
"""
PIP = "-m pip install -q "


@pytest.mark.slow
@pytest.mark.parametrize(
    ("smi", "lacks", "installed", "message"),
    [
        ("echo 580.95.05, 9.0", "nothing", "torch==2.13.0+cu130 --extra-index-url", "9.0: torch 2.13.0+cu130"),
        ("echo 580.95.05, 7.0", "nothing", "torch==2.13.0+cu126 --extra-index-url", "7.0: torch 2.13.0+cu126"),
        ("echo 580.95.05, 9.0", "+cu130", "torch==2.13.0\n", "2.13.0+cu130"),
        ("exit 9", "nothing", "torch==2.13.0+cpu\n", "no NVIDIA GPU responds"),
        ("exit 9", "+cpu", "torch==2.13.0\n", "no NVIDIA GPU responds"),
        (
            'case "$*" in *compute_cap*) exit 2 ;; *) echo 470.82.01 ;; esac',
            "nothing",
            "torch==2.13.0+cpu\n",
            "too old",
        ),
    ],
)
@pytest.mark.parametrize(
    "command", ["make .venv/.ready PYTHON=./python3 VENV=.venv", "sh trace_tools/machines/venv.sh .venv ./python3"]
)
def test_chosen_build_is_installed_and_named(
    tmp_path: Path, command: str, smi: str, lacks: str, installed: str, message: str
) -> None:
    require("make", "sh")
    (tmp_path / "trace_tools/machines").mkdir(parents=True)
    for name in ("Makefile", "trace_tools/machines/venv.sh", "pyproject.toml", "trace_tools/machines/torch_build.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    for name, body in (("python3", FAKE), ("nvidia-smi", f"#!/bin/sh\n{smi}\n")):
        (tmp_path / name).write_text(body, encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "LACKS": lacks}
    completed = subprocess.run(
        command.split(), cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    pip_calls = (tmp_path / "pip.log").read_text().splitlines(keepends=True)
    attempts = [line.removeprefix(PIP) for line in pip_calls if "torch==" in line]
    assert attempts[-1].startswith(installed) and len(attempts) == (1 if lacks == "nothing" else 2)
    assert message in completed.stderr and (tmp_path / ".venv/.ready").exists()
