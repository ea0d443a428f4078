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
from click.testing import CliRunner

from trace_tools.cli import main
from trace_tools.machines import checks as module
from trace_tools.machines.checks import Check
from trace_tools.machines.devices import FORMS
from trace_tools.machines.machine import STORED

ROOT = Path(__file__).resolve().parents[2]
OK = Check("device", "ok", "cpu")
LOOK = Check("load", "look", "load average 9.0 on 2 cores", "end what else runs here")
WRONG = Check("products", "wrong", "an 8×8 product is not what it should be", "believe nothing")


@pytest.mark.parametrize(("found", "code", "wrong"), [((OK, LOOK), 0, 0), ((OK, LOOK, WRONG), 2, 1)])
def test_report_of_doctor(found: tuple[Check, ...], code: int, wrong: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def examine(device: str | None) -> Iterator[Check]:
        assert device == "cuda:1"
        yield from found

    monkeypatch.setattr(module, "checks", examine)
    result = CliRunner().invoke(main, ["doctor", "--device", "cuda:1"])
    lines = result.stdout.splitlines()
    assert (result.exit_code, result.stderr) == (code, "")
    assert lines[:3] == [
        "ok    device              cpu",
        "look  load                load average 9.0 on 2 cores",
        "                          → end what else runs here",
    ]
    assert lines[-1] == f"{len(found)} checks: {wrong} wrong, 1 worth a look"


def test_unknown_device_is_a_one_line_error() -> None:
    for command in (["doctor"], ["trace", "lecture.py"], ["serve", "lecture.py"]):
        result = CliRunner().invoke(main, [*command, "--device", "tpu"])
        assert (result.exit_code, result.stderr) == (2, f"error: device 'tpu'; expected {FORMS}\n")


def run_with_smi(script: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command with this machine's torch and a script as `nvidia-smi`."""
    program = folder / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    (folder / "lecture.py").write_text("import torch\n\n\ndef main():\n    x = 1  # @inspect x\n", encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name not in ("CUDA_VISIBLE_DEVICES", STORED)}
    environment |= {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "trace_tools", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


H100 = "echo '580.95.05, NVIDIA H100 80GB HBM3'"


@pytest.mark.slow
@pytest.mark.skipif(torch.version.cuda is not None or torch.version.hip is not None, reason="needs torch's CPU build")
@pytest.mark.parametrize("arguments", [[], ["--device", "cuda"]])
def test_trace_never_falls_back_from_gpu_to_cpu(arguments: list[str], tmp_path: Path) -> None:
    """With a GPU and torch's CPU build, nothing is overwritten, and the error names a remedy.

    `test_devices` tests the messages for each device.
    """
    old = tmp_path / "rendered/cpu/trace.yaml"
    old.parent.mkdir(parents=True)
    old.write_text("as it was\n", encoding="utf-8")
    result = run_with_smi(H100, tmp_path, "trace", "lecture.py", *arguments)
    assert result.returncode == 2 and result.stdout == ""
    card, cpu = r"NVIDIA H100 80GB HBM3 \(driver 580.95.05\)", re.escape(torch.__version__)
    why = rf"{card}: torch {cpu} says 'Torch not compiled with CUDA enabled'"
    remedy = r"install torch .*, or trace the CPU: DEVICE=cpu \(--device cpu\)"
    errors = [line for line in result.stderr.splitlines() if line.startswith("error")]
    assert len(errors) == 1 and re.fullmatch(rf"error: .*{why}; {remedy}", errors[0])
    assert [path.read_text() for path in tmp_path.glob("rendered/*/*")] == ["as it was\n"]


@pytest.mark.slow
def test_all_checks_on_this_machine(tmp_path: Path) -> None:
    result = run_with_smi("exit 9", tmp_path, "doctor", "--device", "cpu")
    names = {line[6:26].strip() for line in result.stdout.splitlines()}
    assert result.returncode == 0 and {"versions", "processor", "device", "threads"} <= names
