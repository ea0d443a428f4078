"""Check this machine for problems in a separate process, so that the caller survives a crash or a hang of the checks.

for check in examine("cuda"):
    check.verdict, check.name, check.found, check.advice
    # "look", "load", "load average 9.0 on 8 cores: more was running than they hold", "times will vary; stop …"
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trace_tools.machines import devices, host
from trace_tools.util import formats

Verdict = Literal["ok", "look", "wrong"]

LIMIT_S = 90.0  # far more than the checks need; `nvidia-smi` alone may hang for 20 s
CHECKS = "trace_tools.machines.checks"
NVIDIA_SMI = "nvidia-smi"  # a check that only appears if that program hangs


@dataclass(frozen=True, slots=True)
class Check:
    """One check. "look": times or figures may mislead; "wrong": a trace would fail, or be wrong."""

    name: str
    verdict: Verdict
    found: str
    advice: str = ""  # remedy, if the verdict is not ok


def examine(device: str | None) -> Iterator[Check]:
    """Yield the checks. `device` is as in `devices.chosen`. The last check reports if their process did not finish."""
    package = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(part for part in (package, os.environ.get("PYTHONPATH")) if part)
    hiding = devices.environment(device) if device == "cpu" else {}
    command = [sys.executable, "-P", "-m", CHECKS, *([device] if device else [])]
    environment = {**os.environ, "PYTHONPATH": path, **hiding}
    try:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S, check=False
        )
        stdout, stderr, how = done.stdout, done.stderr, f"ended with {done.returncode}" if done.returncode else None
        if done.returncode < 0:
            how = f"ended by {signal.Signals(-done.returncode).name}"
    except subprocess.TimeoutExpired as error:
        stdout, stderr, how = error.stdout or b"", error.stderr or b"", f"not done in {LIMIT_S:g} s"
    last = None
    for line in stdout.decode().splitlines():
        last = Check(**json.loads(line))
        if last.name == NVIDIA_SMI:
            os.environ[host.IDENTITY] = host.HUNG
        yield last
    if how is not None:
        lines = [line for line in stderr.decode(errors="replace").splitlines() if line.strip()]
        message = formats.one_line(lines[-1], 200) if lines else ""
        if last is None and message.partition(":")[0] in ("ModuleNotFoundError", "ImportError", "OSError"):
            yield Check("torch", "wrong", message, devices.INSTALL)
            return
        after = f"after “{last.name}”" if last else "before its first check"
        found = f"{how}, {after}" + (f" ({message})" if message else "")
        yield Check("examination", "wrong", found, "" if device == "cpu" else devices.ON_THE_CPU)
