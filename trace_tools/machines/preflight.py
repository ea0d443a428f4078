"""Check this machine for problems in a separate process, so that the caller survives a crash or a hang of the checks.

    for check in examine("cuda", quick=True):
        check.verdict, check.name, check.found, check.advice
        # "look", "load", "load average 9.0 on 8 cores: more was running than they hold", "times will vary; stop …"

`quick` leaves out the checks that take seconds; every trace begins with it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from trace_tools.machines import devices, host
from trace_tools.util import formats

Verdict = Literal["ok", "look", "wrong"]

LIMIT_S = {True: 90.0, False: 180.0}  # quick or not: far more than it needs; `nvidia-smi` alone may hang for 20 s
CHECKS = "trace_tools.machines.checks"


@dataclass(frozen=True, slots=True)
class Check:
    """One check. "look": times or figures may mislead; "wrong": a trace would fail, or be wrong."""

    name: str
    verdict: Verdict
    found: str
    advice: str = ""  # remedy, if the verdict is not ok


@dataclass(frozen=True, slots=True)
class PastMemory:
    """The peak memory of earlier runs of a lecture."""

    ram_bytes: int | None = None
    # by the device's name, because sizes may depend on the device
    device_bytes: Mapping[str, int] = field(default_factory=dict)


UNKNOWN_PAST = PastMemory()
NVIDIA_SMI = "nvidia-smi"  # a check that only appears if that program hangs


def examine(device: str | None, *, quick: bool, past: PastMemory = UNKNOWN_PAST) -> Iterator[Check]:
    """Yield the checks as they arrive. `device` is as in `devices.chosen`.

    If the checking process does not finish, the last check reports that.
    """
    package = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(part for part in (package, os.environ.get("PYTHONPATH")) if part)
    hiding = devices.environment(device) if device == "cpu" else {}
    arguments = ["quick" if quick else "full", device or "", json.dumps(asdict(past))]
    command = [sys.executable, "-P", "-m", CHECKS, *arguments]
    last = None
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as stderr:
        process = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": path, **hiding},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            encoding="utf-8",
        )
        timer = threading.Timer(LIMIT_S[quick], process.kill)
        timer.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                last = Check(**json.loads(line))
                if last.name == NVIDIA_SMI:
                    os.environ[host.IDENTITY] = host.HUNG
                yield last
            status = process.wait()
        finally:
            overdue = not timer.is_alive()
            timer.cancel()
            process.kill()
            process.wait()
        if status != 0:
            stderr.seek(0)
            message = formats.one_line(([line for line in stderr.read().splitlines() if line.strip()] or [""])[-1], 200)
            if last is None and message.partition(":")[0] in ("ModuleNotFoundError", "ImportError", "OSError"):
                yield Check("torch", "wrong", message, devices.INSTALL)
                return
            if overdue:
                how = f"not done in {LIMIT_S[quick]:g} s"
            else:
                how = f"ended by {signal.Signals(-status).name}" if status < 0 else message or f"ended with {status}"
            after = f"after “{last.name}”" if last else "before its first check"
            detail = f" ({message})" if message and message != how else ""
            advice = "" if device == "cpu" else devices.ON_THE_CPU
            yield Check("examination", "wrong", f"{how}, {after}{detail}", advice)
