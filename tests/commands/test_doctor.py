"""`doctor`, and the choice of the device. A machine with a GPU is never traced on its CPU by accident."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result

from trace_tools.cli import main
from trace_tools.machines import checks as module
from trace_tools.machines.checks import Check
from trace_tools.machines.devices import FORMS
from trace_tools.machines.machine import STORED

ROOT = Path(__file__).resolve().parents[2]
OK = Check("device", "ok", "cpu")
LOOK = Check("load", "look", "load average 9.0 on 2 cores", "end what else runs here")
WRONG = Check("products", "wrong", "an 8×8 product is not what it should be", "believe nothing")


def replace_checks(monkeypatch: pytest.MonkeyPatch, *checks: Check) -> list[str | None]:
    calls: list[str | None] = []

    def examine(device: str | None) -> Iterator[Check]:
        calls.append(device)
        yield from checks

    monkeypatch.setattr(module, "checks", examine)
    return calls


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_report_of_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = replace_checks(monkeypatch, OK, LOOK)
    result = run("doctor", "--device", "cuda:1")
    assert (calls, result.exit_code, result.stderr) == (["cuda:1"], 0, "")
    assert result.stdout == (
        "ok    device              cpu\n"
        "look  load                load average 9.0 on 2 cores\n"
        "                          → end what else runs here\n"
        "2 checks: 0 wrong, 1 worth a look\n"
    )


def test_a_wrong_check_sets_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_checks(monkeypatch, OK, LOOK, WRONG)
    result = run("doctor")
    assert result.exit_code == 2 and result.stdout.endswith("3 checks: 1 wrong, 1 worth a look\n")


def test_unknown_device_is_a_one_line_error() -> None:
    for command in (["doctor"], ["trace", "lecture.py"], ["serve", "lecture.py"]):
        result = run(*command, "--device", "tpu")
        assert (result.exit_code, result.stderr) == (
            2,
            f"error: device 'tpu'; expected {FORMS}\n",
        )


@pytest.fixture
def lecture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "lecture.py"
    path.write_text("import torch\n\n\ndef main():\n    x = 1  # @inspect x\n", encoding="utf-8")
    return path


SMI = {
    "a GPU": "echo '580.95.05, NVIDIA H100 80GB HBM3'",
    "no GPU": "exit 9",
}


def run_with_smi(smi: str, folder: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a command with this machine's torch and a script as `nvidia-smi`."""
    program = folder / "bin" / "nvidia-smi"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\n{SMI[smi]}\n", encoding="utf-8")
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), **settings}
    for name in ("CUDA_VISIBLE_DEVICES", STORED):
        if name not in settings:
            environment.pop(name, None)
    command = [sys.executable, "-m", "trace_tools", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.skipif(torch.version.cuda is not None or torch.version.hip is not None, reason="needs torch's CPU build")
def test_trace_never_falls_back_from_gpu_to_cpu(lecture: Path) -> None:
    """With a GPU and torch's CPU build, nothing is overwritten, and the error names a remedy.

    `test_devices` tests the messages for each device.
    """
    old = lecture.parent / "rendered/cpu/trace.yaml"
    old.parent.mkdir(parents=True)
    old.write_text("as it was\n", encoding="utf-8")
    card, cpu = r"NVIDIA H100 80GB HBM3 \(driver 580.95.05\)", re.escape(torch.__version__)
    for arguments in ([], ["--device", "cuda"]):
        result = run_with_smi("a GPU", lecture.parent, "trace", "lecture.py", *arguments)
        *earlier_lines, last = result.stderr.splitlines()
        assert result.returncode == 2 and result.stdout == ""
        why = rf"{card}: torch {cpu} says 'Torch not compiled with CUDA enabled'"
        words = f"{why}; install torch .*, or trace the CPU: DEVICE=cpu"
        assert re.fullmatch(rf"error: .*{words} \(--device cpu\)", last)
        assert not [line for line in earlier_lines if line.startswith("error")]
    assert [path.read_text() for path in lecture.parent.glob("rendered/*/*")] == ["as it was\n"]


@pytest.mark.slow
def test_cpu_is_traced_on_request(lecture: Path) -> None:
    options = ("--passes", "1", "--device", "cpu", "--name", "own")
    result = run_with_smi("a GPU", lecture.parent, "trace", "lecture.py", *options)
    assert (result.returncode, "rendered/own/trace.yaml" in result.stdout) == (0, True), result.stderr


@pytest.mark.slow
def test_all_checks_on_this_machine(tmp_path: Path) -> None:
    result = run_with_smi("no GPU", tmp_path, "doctor", "--device", "cpu")
    names = {line[6:26].strip() for line in result.stdout.splitlines()}
    assert result.returncode == 0 and {"versions", "processor", "device", "threads"} <= names
