"""What was measured of this machine earlier: it need not be measured again for each trace of it.

    remember(machine, versions)     # after it was measured
    recalled(machine, versions)     # its measured peaks with their date, where nothing else has changed; else None

A file for each machine below $XDG_CACHE_HOME (~/.cache), named by what describes it, the versions and the system's own
identity. The cache serves: where it can't be read or written, machines are measured.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from trace_tools import files
from trace_tools.machines.machine import from_json, to_json
from trace_tools.schema import Machine, Peak

DATED = re.compile(r", on \d{4}-\d\d-\d\d$")
IDENTITY = (
    "/etc/machine-id",
    "/proc/sys/kernel/random/boot_id",
)  # the first that can be read; a hash of it is kept

Versions = list[tuple[str, str]]


def remember(machine: Machine, versions: Versions) -> None:
    """Keep the measured peaks of a machine; an emulated one's are none."""
    if machine.emulated or not any(peak.measured for peak in machine.peaks):
        return
    with suppress(OSError, RuntimeError):  # a full disk; nobody's home
        path = _path(machine, versions)
        path.parent.mkdir(parents=True, exist_ok=True)
        date = datetime.now(UTC).date().isoformat()
        peaks = [replace(peak, source=f"{peak.source}, on {date}") if peak.measured else peak for peak in machine.peaks]
        files.replace(path, to_json(replace(machine, peaks=peaks)))


def recalled(machine: Machine, versions: Versions) -> list[Peak] | None:
    """Return the measured peaks of a machine that was described but not measured now, each with its date."""
    with suppress(OSError, RuntimeError, ValueError, TypeError, KeyError):
        kept = from_json(_path(machine, versions).read_text(encoding="utf-8"))
        peaks = [peak for peak in kept.peaks if peak.measured]
        if all(DATED.search(peak.source) for peak in peaks) and replace(kept, peaks=machine.peaks) == machine:
            return peaks
    return None


def are_recalled(machine: Machine) -> bool:
    """Whether what was measured of a machine was measured on another day, or earlier on this one."""
    return any(peak.measured and DATED.search(peak.source) for peak in machine.peaks)


def _path(machine: Machine, versions: Versions) -> Path:
    described = to_json(replace(machine, peaks=[peak for peak in machine.peaks if not peak.measured]))
    said = [described, *(f"{name} {version}" for name, version in versions), platform.node(), _identity()]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "trace-tools" / "surveys" / f"{hashlib.sha256(chr(0).join(said).encode()).hexdigest()[:32]}.json"


def _identity() -> str:
    for path in map(Path, IDENTITY):
        with suppress(OSError):
            if found := path.read_text(encoding="utf-8").strip():
                return found
    return ""
