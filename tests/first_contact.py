"""First contact with a card: each step prints the expected and the actual result, and all files go into one folder.

    python -m tests.first_contact [-o FOLDER] [--device D] [--section NAME] [--only NAME] [--lecture FILE]

`tests/first_contact.sh` finds a Python for it. This module needs only the standard library: measurements run in
processes of the project's own Python. Each process has a time limit; then it is interrupted, killed, or abandoned.
FOLDER and FOLDER.tgz are written even if steps fail. They contain no user names or host names, and only environment
variables that concern GPUs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

from trace_tools.describing.redact import Redactor

ROOT = Path(__file__).resolve().parents[1]
GPU_FILES = ("dev/nvidia[0-9]*", "dev/kfd", "dev/dxg")  # of NVIDIA, of AMD, and of both under WSL2
SHOWN = re.compile(r"CUDA|TORCH|NVIDIA|CUBLAS|OMP|HIP|ROCR")  # in the names of variables that the folder includes
SECRET = re.compile(r"TOKEN|KEY|SECRET|PASS|CREDENTIAL|AUTH|COOKIE")
# Lines of nvidia-smi that identify a card, a computer, or a program.
NAMES_SOMEBODY = re.compile(r"\b(UUID|GUID|Serial|Host|PDI)\b|^\s+(Name|Process ID)\s+:")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
DEVICE_ERROR = re.compile(r"CUDA error|HIP error|AcceleratorError|SIGSEGV|SIGABRT|SIGBUS")
ENDING_S = 30.0  # for an interrupted step to write its results
KILLED_S = 5.0  # for a killed step; a process that waits for its driver cannot end
LONG_S = 100.0  # a step that may take longer is announced
SMI_S = 2.0  # nvidia-smi answers within this time if the driver stays loaded
LEAST_FREE_BYTES, LEAST_FREE_TO_INSTALL_BYTES = 2 * 10**9, 12 * 10**9
LIMITS_S = {
    "nvidia-smi": 20.0,
    "set-up": 900.0,
    "torch": 90.0,
    "doctor": 240.0,
    "roof": 120.0,
    "section": 240.0,
    "lecture": 420.0,
    "diff": 60.0,
    "blocking": 180.0,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    ok: bool
    expected: str
    found: str

    def __str__(self) -> str:
        return self.found if self.ok else f"expected {self.expected}, found {self.found}"


class Stop(Exception):
    """Ends the run, with the finding that makes further steps pointless, and an exit code."""

    def __init__(self, finding: Finding, code: int = 1) -> None:
        super().__init__(str(finding))
        self.finding, self.code = finding, code


class Interrupted(Exception):
    """A signal has ended the run."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a process ended, and its whole output."""

    status: int | None  # None: the process exceeded its time limit
    seconds: float
    text: str

    @property
    def last_line(self) -> str:
        lines = [line.strip() for line in self.text.splitlines() if line.strip()]
        return lines[-1][:300] if lines else "nothing"

    @property
    def ended(self) -> str:
        if self.status is None:
            return f"no end after {self.seconds:.0f} s"
        how = signal.Signals(-self.status).name if self.status < 0 else f"exit code {self.status}"
        return f"{how} after {self.seconds:.1f} s: {self.last_line}"


class Contact:
    """One run: its folder, its Python, and the results of earlier steps that later ones need."""

    def __init__(self, options: argparse.Namespace, environment: Mapping[str, str]) -> None:
        self.out: Path = options.out
        self.device: str | None = options.device
        self.lecture: Path = options.lecture
        self.section: str = options.section
        self.only: str | None = options.only
        self.against: Path = options.against
        self.environment = {**environment, "PYTHONUNBUFFERED": "1"}
        self.set_up_by = environment.get("PYTHON", sys.executable)
        self.venv = environment.get("VENV", ".venv")
        self.python = self.set_up_by if self.venv == "none" else str(ROOT / self.venv / "bin" / "python")
        self.surprises = 0
        self.device_failed = False
        self.driver_hangs = False

    # ------------------------------------------------------------------ helpers of the steps

    def say(self, line: str) -> None:
        """Print a line and add it to the summary."""
        with suppress(OSError):  # a closed standard output does not end the run
            print(line, flush=True)
        with (self.out / "summary.txt").open("a", encoding="utf-8") as summary:
            summary.write(line + "\n")

    def run(self, command: Sequence[str], file: str, limit_s: float, **settings: str) -> Ran:
        """Run a process in its own session, with its output in a file of the folder."""
        path, started = self.out / file, time.monotonic()
        with path.open("wb") as printed:
            try:
                process = subprocess.Popen(
                    command,
                    cwd=ROOT,
                    env={**self.environment, **settings},
                    stdin=subprocess.DEVNULL,
                    stdout=printed,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                return Ran(127, 0.0, f"{command[0]}: {error.strerror}")
            try:
                status: int | None = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                if process.returncode != 0:
                    _end(process)
        seconds = time.monotonic() - started
        return Ran(status, seconds, path.read_text(encoding="utf-8", errors="replace"))

    def findings(self, command: str, argument: str, file: str, limit_s: float) -> Iterator[Finding]:
        """Run a command of `contact_figures` and yield its findings."""
        ran = self.run([self.python, "-m", "tests.contact_figures", command, argument], file, limit_s)
        for line in ran.text.splitlines():
            with suppress(ValueError, TypeError):  # the line is no finding, for example a warning of torch
                yield Finding(**json.loads(line))
        if ran.status != 0:
            yield Finding(False, f"the look at the {command} to end well", ran.ended)

    # ------------------------------------------------------------------ the steps

    def driver(self) -> Iterator[Finding]:
        """Look for a driver and time its answer."""
        expected = f"nvidia-smi to name the cards within {SMI_S:g} s"
        device_files = [str(path) for pattern in GPU_FILES for path in Path("/").glob(pattern)]
        if shutil.which("nvidia-smi", path=self.environment.get("PATH")) is None:
            if not device_files and self.device is None:
                expected = "nvidia-smi, or a GPU's device file (/dev/nvidia0, /dev/kfd, /dev/dxg)"
                raise Stop(Finding(False, expected, "no GPU; if there is one, name it with --device"), 2)
            if shutil.which("rocm-smi", path=self.environment.get("PATH")):
                self.run(["rocm-smi"], "driver.txt", LIMITS_S["nvidia-smi"])
            yield Finding(True, expected, f"no nvidia-smi; {', '.join(device_files) or 'no device file'}")
            return
        listed = self.run(["nvidia-smi", "-L"], "cards.txt", LIMITS_S["nvidia-smi"])
        names = re.findall(r"^\s*(?:GPU \d+|MIG .*?): ?(.*?) \(UUID", listed.text, re.MULTILINE)
        quick = listed.status == 0 and bool(names) and listed.seconds < SMI_S
        answer = f"{', '.join(names)} in {listed.seconds:.1f} s" if names else listed.ended
        yield Finding(quick, expected, answer)
        self.driver_hangs = listed.status is None
        if self.driver_hangs:
            if not self.is_set_up():
                raise Stop(Finding(False, "an answer of nvidia-smi, by which the build of torch is chosen", "none"))
            return
        modes = self.run(["nvidia-smi", "-q"], "driver.txt", LIMITS_S["nvidia-smi"]).text
        modes_shown = dict.fromkeys(re.findall(r"^\s+((?:Persistence|Compute) Mode)\s+: (\S+)", modes, re.MULTILINE))
        if modes_shown:
            shared = all(name != "Compute Mode" or mode == "Default" for name, mode in modes_shown)
            expected = "compute mode Default, by which several processes can use a card"
            yield Finding(shared, expected, ", ".join(f"{name.lower()} {mode}" for name, mode in modes_shown))

    def computer(self) -> Iterator[Finding]:
        """Describe the computer in environment.txt."""
        free = shutil.disk_usage(ROOT).free
        variables = sorted(
            f"{name}={value}"
            for name, value in self.environment.items()
            if SHOWN.search(name) and not SECRET.search(name)
        )
        system = platform.uname()
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        facts = f"{system.system} {system.release}, {system.machine}, {cores} cores, Python {platform.python_version()}"
        facts += f", {free / 1e9:.0f} GB free on this disk"
        (self.out / "environment.txt").write_text("\n".join([facts, *variables, ""]), encoding="utf-8")
        installs = not self.is_set_up() and find_spec("torch") is None
        least = LEAST_FREE_TO_INSTALL_BYTES if installs else LEAST_FREE_BYTES
        yield Finding(free >= least, f"{least / 1e9:.0f} GB free on this disk", facts)

    def set_up(self) -> Iterator[Finding]:
        """Make the project's virtual environment and import torch in it."""
        if self.venv != "none":
            ready = f"{self.venv}/.ready"
            make = [*("make", ready), f"PYTHON={self.set_up_by}", f"VENV={self.venv}"]
            command = (
                make if shutil.which("make") else ["bash", "trace_tools/machines/venv.sh", self.venv, self.set_up_by]
            )
            if shutil.which("make") or not self.is_set_up():
                made = self.run(command, "set-up.txt", LIMITS_S["set-up"])
                if made.status != 0:
                    raise Stop(Finding(False, f"`{' '.join(command)}` to end well", made.ended))
        code = "import torch; print(torch.__version__, torch.version.cuda or torch.version.hip)"
        imported = self.run([self.python, "-c", code], "torch.txt", LIMITS_S["torch"])
        if imported.status != 0:
            raise Stop(Finding(False, f"{self.python} to import torch", imported.ended))
        yield Finding(True, "", f"torch {imported.last_line}, imported in {imported.seconds:.1f} s")

    def is_set_up(self) -> bool:
        """Return whether torch is installed already."""
        return self.venv == "none" or (ROOT / self.venv / ".ready").exists()

    def doctor(self) -> Iterator[Finding]:
        """Run `make doctor`."""
        expected = "`make doctor` to find nothing wrong"
        asked = ["doctor", str(self.lecture), "--json", *self._on_device()]
        ran = self.run([self.python, "-m", "trace_tools", *asked], "doctor.json", LIMITS_S["doctor"])
        start = ran.text.find("{")
        try:
            checks = json.loads(ran.text[start:])["checks"] if start >= 0 else []
        except ValueError:
            checks = []
        if not checks:
            raise Stop(Finding(False, expected, ran.ended))
        for check in checks:
            name, line = check["name"], f"{check['name']}: {check['found']}"
            if check["verdict"] == "wrong":
                raise Stop(Finding(False, expected, line))
            if name == "device" and check["found"].startswith("cpu"):
                raise Stop(Finding(False, "a GPU that torch can use", line), 2)
            if check["verdict"] != "ok":
                yield Finding(False, f"{name} to be ok", f"{check['found']} ({check['advice']})")
            elif name in DOCTORS_FIGURES:
                yield Finding(True, "", line)

    def torch(self) -> Iterator[Finding]:
        """Write torch's report of its build and the system into the folder."""
        if self.driver_hangs:
            yield Finding(True, "", "not asked: it would wait for nvidia-smi")
            return
        ran = self.run([self.python, "-m", "torch.utils.collect_env"], "collect_env.txt", LIMITS_S["torch"])
        yield Finding(ran.status == 0, "torch.utils.collect_env to end well", ran.ended if ran.status else "written")

    def roof(self) -> Iterator[Finding]:
        """Measure the card's peaks twice."""
        yield from self.findings("roof", self.device or "", "roof.txt", LIMITS_S["roof"])

    def one_section(self) -> Iterator[Finding]:
        """Trace one section of the lecture."""
        yield from self._traced("section", self.section)

    def whole_lecture(self) -> Iterator[Finding]:
        """Trace the lecture."""
        yield from self._traced("lecture", self.only)

    def diff(self) -> Iterator[Finding]:
        """Compare the trace with a CPU's."""
        traces = self._traces("lecture") or self._traces("section")
        if not traces:
            yield Finding(False, "a trace to compare", "none")
            return
        sides = [str(self.against), str(traces[0])]
        report = self.out / "diff.md"
        command = [self.python, "-m", "trace_tools", "diff", *sides, "--format", "md", "-o", str(report)]
        ran = self.run(command, "diff.txt", LIMITS_S["diff"])
        well = ran.status in (0, 1, 3) and report.is_file()  # exit codes of a `diff` that wrote a report
        yield Finding(well, "a report of what differs from a CPU", report.name if well else ran.ended)

    def blocking(self) -> Iterator[Finding]:
        """If the device failed, run the lecture with one launch at a time to find the failing launch."""
        if not self.device_failed:
            yield Finding(True, "", "not needed: the device has not failed")
            return
        command = [self.python, str(self.lecture)]
        ran = self.run(command, "blocking.txt", LIMITS_S["blocking"], CUDA_LAUNCH_BLOCKING="1")
        ended = ran.ended if ran.status else "it ended well: the failure did not repeat"
        yield Finding(ran.status == 0, "the lecture to end well with CUDA_LAUNCH_BLOCKING=1", ended)

    def _traced(self, name: str, section: str | None) -> Iterator[Finding]:
        command = [self.python, "-m", "trace_tools", "trace", str(self.lecture), *self._on_device()]
        command += ["--passes", "1", "--keep-going", "-o", str(self.out / name)]
        command += ["--only", section] if section is not None else []
        ran = self.run(command, f"{name}.txt", LIMITS_S[name])
        self.device_failed |= DEVICE_ERROR.search(ran.text) is not None
        made = f"traced in {ran.seconds:.0f} s"
        yield Finding(ran.status in (0, 1), f"a trace within {LIMITS_S[name]:.0f} s", ran.ended if ran.status else made)
        traces = self._traces(name)
        if not traces:
            kept = ", ".join(path.name for path in (self.out / name).glob(".*") if path.is_dir())
            yield Finding(False, "a trace", f"none; journals in {kept}" if kept else "none")
        for path in traces[:1]:
            yield from self.findings("trace", str(path), f"{name}-judged.txt", LIMITS_S["diff"])

    def _traces(self, name: str) -> list[Path]:
        folder = self.out / name  # hidden folders: a killed tracer leaves copies of the lecture's folder
        return [*folder.glob("[!.]*/trace.yaml"), *folder.glob("[!.]*/partial/trace.yaml")]

    def _on_device(self) -> list[str]:
        return [] if self.device is None else ["--device", self.device]


DOCTORS_FIGURES = ("device", "workspace", "event clock", "host work", "idle wait", "floor")
Step = Callable[[Contact], Iterator[Finding]]
STEPS: dict[str, Step] = {
    "driver": Contact.driver,
    "computer": Contact.computer,
    "set-up": Contact.set_up,
    "doctor": Contact.doctor,
    "torch": Contact.torch,
    "roof": Contact.roof,
    "section": Contact.one_section,
    "lecture": Contact.whole_lecture,
    "diff": Contact.diff,
    "blocking": Contact.blocking,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the steps; return the exit code."""
    parser = argparse.ArgumentParser(prog="tests/first_contact.sh")
    parser.add_argument("-o", "--out", type=Path, default=Path("first-contact"), help="the folder to send home")
    parser.add_argument("--device", help="as of `trace`: cuda:1, mps, xpu (default: the best there is)")
    parser.add_argument("--section", default="compute_accounting", help="of the lecture: traced before the whole of it")
    parser.add_argument("--only", metavar="SECTION", help="trace this one where the whole lecture would be")
    parser.add_argument("--lecture", type=Path, default=ROOT / "lecture.py", help="another lecture")
    parser.add_argument("--against", type=Path, default=ROOT / "rendered/cpu/trace.yaml", help="another CPU's trace")
    parser.add_argument("--here", type=Path, default=Path.cwd(), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.lecture, options.against = options.here / options.lecture, options.here / options.against
    try:
        options.out = _new_folder(options.here / options.out)
    except OSError as error:
        parser.error(f"{options.out}: {error.strerror}")
    contact = Contact(options, os.environ)
    before = [(number, signal.signal(number, _interrupted)) for number in SIGNALS]
    code = 0
    try:
        code = _steps(contact, STEPS)
    except Interrupted as error:
        (number,) = error.args
        contact.say(f"interrupted by {signal.Signals(number).name}")
        code = 128 + number
    finally:
        packed = pack(contact.out)
        for number, handler in before:
            signal.signal(number, handler)
    print(f"send {packed}", flush=True)
    return code


def _steps(contact: Contact, steps: Mapping[str, Step]) -> int:
    """Run steps in turn; return the exit code."""
    started = time.monotonic()
    for name, step in steps.items():
        if LIMITS_S.get(name, 0.0) > LONG_S:
            print(f"{name} … at most {LIMITS_S[name]:.0f} s", flush=True)
        try:
            for finding in step(contact):
                _report(contact, name, finding)
        except Stop as stop:
            _report(contact, name, stop.finding)
            contact.say("stopped: the other steps need this one")
            return stop.code
        except (OSError, ValueError, LookupError) as error:  # a faulty step does not stop the others
            _report(contact, name, Finding(False, "the step to end", f"{type(error).__name__}: {error}"))
    minutes = (time.monotonic() - started) / 60
    contact.say(f"{contact.surprises or 'no'} surprise{'s' * (contact.surprises != 1)} in {minutes:.1f} minutes")
    return 1 if contact.surprises else 0


def _report(contact: Contact, name: str, finding: Finding) -> None:
    contact.surprises += not finding.ok
    contact.say(f"{name:9} {'ok' if finding.ok else 'SURPRISE'}: {finding}")


def _interrupted(number: int, frame: FrameType | None) -> None:
    for signal_number in SIGNALS:
        signal.signal(signal_number, signal.SIG_IGN)
    raise Interrupted(number)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Interrupt a process group as Ctrl-C does; if it does not end, kill it; if it still does not end, go on.

    The signals go to the whole group, because child processes that remain would disturb the next step.
    """
    for number, patience_s in ((signal.SIGINT, ENDING_S), (signal.SIGKILL, KILLED_S)):
        with suppress(OSError, subprocess.TimeoutExpired):
            os.killpg(process.pid, number)
            process.wait(patience_s)


def _new_folder(path: Path) -> Path:
    """Make a folder; if it exists, make one with a number after its name."""
    for number in range(1, 1000):
        candidate = path if number == 1 else path.with_name(f"{path.name}-{number}")
        if not candidate.exists() and not _packed(candidate).exists():
            candidate.mkdir(parents=True)
            return candidate
    raise FileExistsError(17, "there are a thousand of them", str(path))


def _packed(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.tgz")


def pack(folder: Path) -> Path:
    """Remove names and secrets from the texts, then pack the folder; return the packed file.

    A killed tracer leaves journals, which are kept, and copies of the lecture's folder, which may hold private files.
    """
    redact = Redactor.of_this_machine()
    for copy in folder.glob("*/.*/view-*"):
        shutil.rmtree(copy, ignore_errors=True)
    for path in (*folder.glob("*.*"), *folder.glob("*/.*/*.json")):
        if path.suffix in (".txt", ".json", ".md") and path.is_file():
            path.write_text(redact(_without_names(path)), encoding="utf-8")
    with tarfile.open(_packed(folder), "w:gz") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink():  # links may lead out of the folder
                archive.add(path, Path(folder.name) / path.relative_to(folder), filter=_without_owner)
    return _packed(folder)


def _without_names(path: Path) -> str:
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.name == "cards.txt":
        return re.sub(r" \(UUID: .*\)", "", text)
    if path.name == "driver.txt":
        return "".join(line for line in text.splitlines(keepends=True) if not NAMES_SOMEBODY.search(line))
    return text


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def write(findings: Iterable[Finding]) -> None:
    """Print findings for the parent process, one per line, as JSON."""
    for finding in findings:
        print(json.dumps(asdict(finding)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
