"""first_contact.sh, tested without a GPU: it packs its results even if a step or the whole run fails."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests import contact_figures, first_contact
from tests.cases_in_one import each
from tests.diff.planted import made
from tests.first_contact import Contact, Finding, Stop
from tests.programs import require
from trace_tools.trace.model import Claim, Machine, Peak, Process, Step, Trace

SCRIPT = Path(first_contact.__file__).with_suffix(".sh")
SLEEPS = '#!/bin/sh\ntrap \'\' INT\necho $$ >> "$LOG"\nsleep 60 &\necho $! >> "$LOG"\nwait\nsleep 60\n'
NAMES_A_CARD = "#!/bin/sh\necho 'GPU 0: A card (UUID: GPU-1234)'\n"


@pytest.fixture
def smi(tmp_path: Path) -> Iterator[Path]:
    """Return the path of an nvidia-smi on PATH, which a test writes; afterwards wait until its processes have ended."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "nvidia-smi").touch(0o755)
    yield folder / "nvidia-smi"
    deadline = time.monotonic() + 10
    while (running := [pid for pid in pids(tmp_path) if is_alive(pid)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not running


def pids(folder: Path) -> list[int]:
    log = folder / "log"
    return [int(pid) for pid in log.read_text().split()] if log.exists() else []


def is_alive(pid: int) -> bool:
    """Return whether a process runs; an ended process may still wait for its parent to collect its status."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def environment(smi: Path, **more: str) -> dict[str, str]:
    log = str(smi.parent.parent / "log")
    path = f"{smi.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return {**os.environ, "PATH": path, "LOG": log, "PYTHON": sys.executable, "VENV": "none", **more}


def contact(folder: Path, environment: dict[str, str]) -> Contact:
    (folder / "out").mkdir()
    options = {"device": None, "lecture": folder / "talk.py", "section": "s", "only": None, "against": folder / "cpu"}
    return Contact(argparse.Namespace(out=folder / "out", **options), environment)


def unpacked(packed: Path) -> dict[str, bytes]:
    with tarfile.open(packed) as archive:
        files = [(entry.name, archive.extractfile(entry)) for entry in archive]
        return {name: file.read() for name, file in files if file is not None}


@pytest.mark.skipif(any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/kfd").exists(), reason="there is a GPU")
def test_missing_gpu_is_one_line(tmp_path: Path) -> None:
    bash, dirname = require("bash", "dirname")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/dirname").symlink_to(dirname)
    variables = {**os.environ, "PATH": str(tmp_path / "bin"), "PYTHON": sys.executable}
    for name in ("first-contact", "first-contact-2"):  # an existing archive is kept
        completed = subprocess.run([bash, str(SCRIPT)], cwd=tmp_path, env=variables, capture_output=True, text=True)
        assert completed.returncode == 2 and completed.stderr == ""
        surprise, stopped, last = completed.stdout.splitlines()
        assert surprise.startswith("driver    SURPRISE: expected ") and "found no GPU" in surprise
        assert last == f"send {tmp_path / name}.tgz"
        assert unpacked(tmp_path / f"{name}.tgz") == {f"{name}/summary.txt": f"{surprise}\n{stopped}\n".encode()}


@pytest.mark.slow
def test_hanging_driver_is_stopped_at_its_time_limit(
    smi: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("sh", "sleep")
    smi.write_text(SLEEPS)
    monkeypatch.setitem(first_contact.LIMITS_S, "nvidia-smi", 0.5)
    monkeypatch.setattr(first_contact, "ENDING_S", 0.5)
    started, run = time.monotonic(), contact(tmp_path, environment(smi))
    (finding,) = run.driver()
    assert time.monotonic() - started < 10 and len(pids(tmp_path)) == 2
    assert not finding.ok and finding.found.startswith("no end after ")
    (collected,) = run.torch()  # skips collect_env, which would call nvidia-smi and never end
    assert collected.ok and not (run.out / "collect_env.txt").exists()
    run.venv = str(tmp_path / "none")
    with pytest.raises(Stop):  # the choice of the torch build needs the output of nvidia-smi
        list(run.driver())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_ends_the_run_and_packs_its_results(number: signal.Signals, smi: Path, tmp_path: Path) -> None:
    bash, *_ = require("bash", "dirname", "sleep")
    smi.write_text(SLEEPS.replace("trap '' INT", "trap 'kill $!; exit 3' INT"))
    command = [bash, str(SCRIPT), "-o", "sent"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment(smi), stdout=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 30
        while len(pids(tmp_path)) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(number)
        printed, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert printed.splitlines()[-2:] == [f"interrupted by {number.name}", f"send {tmp_path / 'sent.tgz'}"]
    assert f"interrupted by {number.name}\n" in unpacked(tmp_path / "sent.tgz")["sent/summary.txt"].decode()


def test_failing_steps(smi: Path, tmp_path: Path) -> None:
    """A failing step does not stop the others; a failing step that the others need ends the run."""
    run, executed = contact(tmp_path, environment(smi)), []

    def passes(_: Contact) -> Iterator[Finding]:
        executed.append("passes")
        yield Finding(True, "a", "b")

    def breaks(_: Contact) -> Iterator[Finding]:
        yield Finding(False, "a", "b")
        raise FileNotFoundError("c")

    def stops(_: Contact) -> Iterator[Finding]:
        yield from ()
        raise Stop(Finding(False, "a GPU", "none"), 2)

    assert first_contact._steps(run, {"one": breaks, "two": passes}) == 1
    assert first_contact._steps(run, {"one": stops, "two": passes}) == 2
    assert first_contact._steps(contact(tmp_path / "bin", environment(smi)), {"two": passes}) == 0
    assert executed == ["passes"] * 2
    assert (run.out / "summary.txt").read_text().splitlines() == [
        "one       SURPRISE: expected a, found b",
        "one       SURPRISE: expected the step to end, found FileNotFoundError: c",
        "two       ok: b",
        "2 surprises in 0.0 minutes",
        "one       SURPRISE: expected a GPU, found none",
        "stopped: the other steps need this one",
    ]


def test_missing_and_failing_programs(smi: Path, tmp_path: Path) -> None:
    run = contact(tmp_path, environment(smi))
    assert run.run(["/nowhere/python", "-c", ""], "a.txt", 5).ended.endswith("No such file or directory")
    ends = {"import sys; sys.exit('no')": "exit code 1", "import os; os.kill(os.getpid(), 9)": "SIGKILL"}
    for code, ending in ends.items():
        assert run.run([sys.executable, "-c", code], "a.txt", 30).ended.startswith(ending)
    smi.write_text("#!/bin/sh\necho failed; exit 9\n")
    (finding,) = run.driver()
    assert not finding.ok and finding.found.startswith("exit code 9") and finding.found.endswith("failed")
    for mode, ok in (("Default", True), ("Exclusive_Process", False)):
        modes = f"    Persistence Mode : Enabled\n    Compute Mode : {mode}\n"
        smi.write_text(f"{NAMES_A_CARD}test $1 = -q && printf '{modes}' || true\n")
        _, finding = run.driver()
        assert (finding.ok, finding.found) == (ok, f"persistence mode Enabled, compute mode {mode}")
    run.python = "/nowhere/python"
    with pytest.raises(Stop, match="to import torch"):
        list(run.set_up())


@pytest.mark.slow
def test_run_stops_if_torch_cannot_use_the_gpu(smi: Path, tmp_path: Path) -> None:
    """The driver names a GPU that the torch of this machine does not find."""
    bash, _ = require("bash", "dirname")
    smi.write_text(NAMES_A_CARD + "case $* in *compute_cap*) echo 580.95.05, 9.0, A card;; esac\n")
    lecture = tmp_path / "talk.py"
    lecture.write_text("import torch\n\n\ndef main():\n    pass\n")
    variables = environment(smi, CUDA_VISIBLE_DEVICES="")
    command = [bash, str(SCRIPT), "--lecture", "talk.py", "-o", "sent"]
    completed = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert completed.returncode == 2, completed.stdout
    lines = completed.stdout.splitlines()
    assert [line for line in lines if line.startswith("driver")] == ["driver    ok: A card in 0.0 s"]
    assert any(line.startswith("doctor    SURPRISE: expected a GPU that torch can use") for line in lines)
    files = unpacked(tmp_path / "sent.tgz")
    assert {"sent/doctor.json", "sent/environment.txt", "sent/summary.txt"} <= files.keys()
    assert b"1234" not in b"".join(files.values())


def test_archive_contains_no_secrets_or_names(smi: Path, tmp_path: Path) -> None:
    home = os.path.expanduser("~")
    secrets = {"NVIDIA_API_KEY": "nvapi-secret-1", "MY_PASSWORD": "secret-2-secret", "CUDA_HOME": f"{home}/cuda"}
    run = contact(tmp_path, environment(smi, **secrets, OMP_NUM_THREADS="3"))
    list(run.computer())
    (run.out / "driver.txt").write_text(
        "    Product Name   : A card\n    Serial Number : 99\n    Processes\n        Name : /home/ann/x\n"
    )
    (run.out / "torch.txt").write_text(f"torch @ file://{home}/wheels\n")
    run_folder = run.out / "section/.run-1"
    (run_folder / "view-0/copy").mkdir(parents=True)
    (run_folder / "view-0/copy/.env").write_text("secret-3")
    (run_folder / "view-0/copy/trace.yaml").touch()
    assert run._traces("section") == []
    (run_folder / "pass-1.journal").write_bytes(b"\x00\xff")
    (run_folder / "pass-1.json").write_text(f'"{home}/talk.py"')
    (run.out / "link.txt").symlink_to("/etc/hostname")
    files = unpacked(first_contact.pack(run.out))
    assert set(files) == {
        *("out/driver.txt", "out/environment.txt", "out/torch.txt"),
        *("out/section/.run-1/pass-1.journal", "out/section/.run-1/pass-1.json"),
    }
    text = b"\n".join(files.values())
    assert b"OMP_NUM_THREADS=3" in text and b"CUDA_HOME=~/cuda" in text and b"A card" in text
    assert not [word for word in (b"secret", b"99", b"ann", home.encode() + b"/") if word in text]
    assert not (run_folder / "view-0").exists()


def peak(rate: float | None, side: int = 8192) -> Peak:
    return Peak("bfloat16", rate, f"measured: best of 9 matmuls, {side}³ each", measured=True)


@each(
    ("first", "second", "problems"),
    [
        (peak(700e12), peak(720e12), []),
        (peak(700e12), peak(750e12), ["two bfloat16 peaks"]),
        (peak(2e12, 256), peak(2e12, 256), ["at 4096³", "30% of the datasheet's"]),
        (peak(700e12), replace(peak(None), source="not measured: out of memory"), ["a measured bfloat16 peak"]),
    ],
)
def test_peaks_measured_twice_are_compared(first: Peak, second: Peak, problems: list[str]) -> None:
    findings = list(contact_figures.measured_twice(first, second, Peak("bfloat16", 989.5e12, "a datasheet")))
    assert [finding.ok for finding in findings] == ([False] * len(problems) or [True])
    assert all(problem in str(finding) for problem, finding in zip(problems, findings, strict=False))


def test_problems_of_a_trace_are_found() -> None:
    trace = made(0)
    card = Machine("A card", "a-card", "cuda", peaks=[replace(peak(7e14), name=n) for n in ("float32", "bfloat16")])
    card.peaks.append(Peak("memory", 3e12, "a datasheet"))
    first = next(step for step in trace.steps if isinstance(step, Step))
    timed = replace(first, device_ns=[1000])
    run = replace(trace.run, processes=[Process("pass 1", "complete")])

    def problems(machine: Machine = card, ended: str = "complete", step: Step = timed) -> list[str]:
        changed_run = replace(run, processes=[Process("pass 1", ended)], complete=ended == "complete", ended=ended)
        steps = [step if event is first else event for event in trace.steps]
        changed: Trace = replace(trace, run=changed_run, machine=machine, steps=steps)
        return [str(finding) for finding in contact_figures.of_trace(changed) if not finding.ok]

    known_lines = problems()
    for lines, expected in (
        (problems(ended="AcceleratorError at line 7"), "AcceleratorError at line 7"),
        (
            problems(step=replace(timed, claim=Claim("x < 1", False, failed_runs=["pass 1, cold"]))),
            "claim failed: x < 1",
        ),
        (problems(machine=replace(card, peaks=[])), "none of float32, bfloat16, memory"),
        (problems(machine=replace(card, device="cpu")), "A card (cpu)"),
        (problems(step=first), "0 of "),
    ):
        (new_line,) = [line for line in lines if line not in known_lines and expected in line][:1]
        assert expected in new_line
