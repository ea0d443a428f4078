"""What would go wrong on this machine: a process of its own looks, so that no crash and no hang ends the one that asks.

    for check in examine("cuda", quick=True):
        check.verdict, check.name, check.found, check.advice
        # "look", "load", "load average 9.0 on 8 cores: more was running than they hold", "end what else runs here"

`quick` leaves out what takes seconds: a trace begins with it.
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
from typing import IO, Literal

from trace_tools import formats
from trace_tools.machines import devices, torch_build

Verdict = Literal["ok", "look", "wrong"]

LIMIT_S = {True: 90.0, False: 180.0}  # quick or not: far beyond what it takes; `nvidia-smi` alone may hang for 20 s
CHECKS = "trace_tools.machines.checks"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. "look": times or figures may mislead; "wrong": a trace would fail, or be wrong."""

    name: str
    verdict: Verdict
    found: str
    advice: str = ""  # what to do, where it is not ok


@dataclass(frozen=True, slots=True)
class Taken:
    """The most memory that earlier runs of a lecture have held at once."""

    ram_bytes: int | None = None
    device_bytes: Mapping[str, int] = field(default_factory=dict)  # by the device's name: sizes may follow the device


NOTHING_KNOWN = Taken()


def examine(device: str | None, *, quick: bool, taken: Taken = NOTHING_KNOWN) -> Iterator[Check]:
    """Yield what is found, as it is found. `device` as `devices.chosen` takes it.

    Where the process that looks doesn't come to its end, the last check says so.
    """
    package = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(part for part in (package, os.environ.get("PYTHONPATH")) if part)
    hidden = devices.environment(device) if device == "cpu" else {}
    asked = ["quick" if quick else "full", device or "", json.dumps(asdict(taken))]
    command = [sys.executable, "-P", "-m", CHECKS, *asked]
    last = None
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        process = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": path, **hidden},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            encoding="utf-8",
        )
        timer = threading.Timer(LIMIT_S[quick], process.kill)
        timer.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                last = Check(**json.loads(line))
                yield last
            status = process.wait()
        finally:
            overdue = not timer.is_alive()
            timer.cancel()
            process.kill()
            process.wait()
        if status != 0:
            yield _unfinished(last, f"not done in {LIMIT_S[quick]:g} s" if overdue else "", status, said, device)


def _unfinished(last: Check | None, why: str, status: int, said: IO[str], device: str | None) -> Check:
    """Return what is wrong where the process ended before it had looked at everything."""
    said.seek(0)
    words = formats.one_line(([line for line in said.read().splitlines() if line.strip()] or [""])[-1], 200)
    if last is None and words.partition(":")[0] in ("ModuleNotFoundError", "ImportError", "OSError"):
        return Check("torch", "wrong", words, torch_build.INSTALL)
    how = why or (f"ended by {signal.Signals(-status).name}" if status < 0 else words or f"ended with {status}")
    after = f"after “{last.name}”" if last else "before its first check"
    told = f" ({words})" if words and words != how else ""
    advice = "" if device == "cpu" else devices.ON_THE_CPU
    return Check("examination", "wrong", f"{how}, {after}{told}", advice)
