"""`doctor`, and the look at the machine with which `trace` begins: never a CPU's trace by accident."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result

from tests.traces import example_trace
from trace_tools.cli import main
from trace_tools.commands import doctor as module
from trace_tools.machines.devices import FORMS
from trace_tools.machines.machine import STORED
from trace_tools.machines.preflight import Check, PastMemory
from trace_tools.trace.model import Process
from trace_tools.trace.trace_file import write

ROOT = Path(__file__).resolve().parents[2]
OK = Check("device", "ok", "cpu")
LOOK = Check("load", "look", "load average 9.0 on 2 cores", "end what else runs here")
WRONG = Check("products", "wrong", "an 8×8 product is not what it should be", "believe nothing")


def finding(monkeypatch: pytest.MonkeyPatch, *found: Check) -> list[tuple[str | None, bool]]:
    asked: list[tuple[str | None, bool]] = []

    def examine(device: str | None, *, quick: bool, past: PastMemory) -> Iterator[Check]:
        asked.append((device, quick))
        yield from found

    monkeypatch.setattr(module, "examine", examine)
    monkeypatch.delenv(STORED, raising=False)
    return asked


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_its_page(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = finding(monkeypatch, OK, LOOK)
    ran = run("doctor", "--device", "cuda:1")
    assert (asked, ran.exit_code, ran.stderr) == ([("cuda:1", False)], 0, "")
    assert ran.stdout == (
        "ok    device              cpu\n"
        "look  load                load average 9.0 on 2 cores\n"
        "                          → end what else runs here\n"
        "2 checks: 0 wrong, 1 worth a look\n"
    )


def test_what_a_lecture_took_is_read_from_its_traces(tmp_path: Path) -> None:
    def put(folder: str, lecture: str, name: str, *processes: Process) -> None:
        made = example_trace()
        made = replace(made, machine=replace(made.machine, name=name))
        path = tmp_path / folder / "trace.yaml"
        path.parent.mkdir()
        write(replace(made, run=replace(made.run, lecture=lecture, processes=[*processes])), path)

    put("one", "a.py", "A card", Process("pass 1", "complete", peak_ram_bytes=5, peak_device_bytes=70))
    put("two", "a.py", "Another", Process("pass 1", "complete"), Process("metering", "complete", peak_ram_bytes=9))
    put("three", "b.py", "A card", Process("pass 1", "complete", peak_ram_bytes=99, peak_device_bytes=990))
    (tmp_path / "four").mkdir()
    (tmp_path / "four/trace.yaml").write_text("no trace", encoding="utf-8")
    assert module.past_memory(Path("x/a.py"), tmp_path) == PastMemory(9, {"A card": 70})
    assert module.past_memory(Path("c.py"), tmp_path) == module.past_memory(None, tmp_path) == PastMemory()


def test_what_is_wrong_is_in_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    finding(monkeypatch, OK, LOOK, WRONG)
    ran = run("doctor")
    assert ran.exit_code == 2 and ran.stdout.endswith("3 checks: 1 wrong, 1 worth a look\n")


@pytest.mark.parametrize(("found", "verdict"), [([OK], "ok"), ([OK, LOOK], "look"), ([LOOK, WRONG], "wrong")])
def test_json(found: list[Check], verdict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    finding(monkeypatch, *found)
    ran = run("doctor", "--json")
    said = json.loads(ran.stdout)
    assert (said["verdict"], ran.exit_code) == (verdict, 2 if verdict == "wrong" else 0)
    assert [Check(**check) for check in said["checks"]] == found


def test_an_unknown_device_is_one_line() -> None:
    for command in (["doctor"], ["trace", "lecture.py"], ["bench", "a.py", "b.py"], ["serve", "lecture.py"]):
        ran = run(*command, "--device", "tpu")
        assert (ran.exit_code, ran.stderr) == (
            2,
            f"error: device 'tpu'; expected {FORMS}\n",
        )


@pytest.fixture
def lecture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "lecture.py"
    path.write_text("import torch\n\n\ndef main():\n    x = 1  # @inspect x\n", encoding="utf-8")
    return path


def test_a_trace_begins_with_it(lecture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = finding(monkeypatch, OK, LOOK, WRONG)
    ran = run("trace", str(lecture), "--device", "cuda")
    assert (asked, ran.exit_code) == ([("cuda", True)], 2)
    assert ran.stderr == (
        "load: load average 9.0 on 2 cores; end what else runs here\n"
        "error: an 8×8 product is not what it should be; believe nothing\n"
    )
    assert not list(lecture.parent.glob("rendered/*"))


def test_a_lecture_that_is_none_is_told_of_first(lecture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = finding(monkeypatch, WRONG)
    lecture.write_text("x = 1\n", encoding="utf-8")
    assert "defines no function `main`" in run("trace", str(lecture)).stderr
    assert asked == []


def test_a_machine_that_was_measured_earlier_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    finding(monkeypatch, WRONG)
    monkeypatch.setenv(STORED, "machine.json")
    module.examine_first(None, Path("lecture.py"), Path("rendered"))


SMI = {
    "a GPU": "case \"$*\" in *compute_cap*) echo '580.95.05, 9.0, NVIDIA H100 80GB HBM3' ;; *) echo 580.95.05 ;; esac",
    "an old driver": "case \"$*\" in *compute_cap*) exit 2 ;; *name*) echo '470.82.01, Tesla T4' ;; esac",
    "no GPU": "exit 9",
}


def tool(smi: str, folder: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a command beside an `nvidia-smi` that is a script, with this machine's torch."""
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
def test_never_a_trace_of_the_cpu_by_accident(lecture: Path) -> None:
    """With the CPU's build of torch beside a GPU: nothing is overwritten, and one line says what to do.

    `test_devices` has what is said for each device that can be asked for.
    """
    old = lecture.parent / "rendered/cpu/trace.yaml"
    old.parent.mkdir(parents=True)
    old.write_text("as it was\n", encoding="utf-8")
    cpu, least = re.escape(torch.__version__), r"torch [\d.]+: install driver \d+ or newer, or"
    install = r"`python -m pip install torch==[\d.]+\+cu130 --extra-index-url \S+` installs a build for it, or"
    unfit = rf"NVIDIA H100 80GB HBM3 \(driver 580.95.05\): torch {cpu} is built without CUDA; {install}"
    old_driver = rf"Tesla T4 \(driver 470.82.01\): .*; driver 470.82.01 is too old for {least}"
    cases = (("a GPU", [], unfit), ("an old driver", ["--device", "cuda"], old_driver))
    for smi, arguments, words in cases:
        ran = tool(smi, lecture.parent, "trace", "lecture.py", *arguments)
        *looks, last = ran.stderr.splitlines()
        assert ran.returncode == 2 and ran.stdout == ""
        assert re.fullmatch(rf"error: .*{words} trace the CPU: DEVICE=cpu \(--device cpu\)", last)
        assert not [line for line in looks if line.startswith("error")]
    benched = tool("a GPU", lecture.parent, "bench", "lecture.py", "lecture.py", "--budget", "0")
    assert benched.returncode == 2 and "is built without CUDA" in benched.stderr.splitlines()[-1]
    assert [path.read_text() for path in lecture.parent.glob("rendered/*/*")] == ["as it was\n"]


@pytest.mark.slow
def test_a_trace_of_the_cpu_on_purpose(lecture: Path) -> None:
    ran = tool("a GPU", lecture.parent, "trace", "lecture.py", "--passes", "1", "--device", "cpu")
    assert (ran.returncode, "rendered/cpu/trace.yaml" in ran.stdout) == (0, True), ran.stderr


@pytest.mark.slow
def test_the_whole_of_it_here(tmp_path: Path) -> None:
    ran = tool("no GPU", tmp_path, "doctor", "--json", "--device", "cpu")
    said = json.loads(ran.stdout)
    assert ran.returncode == 0 and said["verdict"] in ("ok", "look")
    assert {"versions", "device", "products", "threads", "drift"} <= {check["name"] for check in said["checks"]}
