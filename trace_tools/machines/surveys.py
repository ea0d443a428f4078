"""Cache measured peaks, so that not every trace of this machine has to measure again.

    remember(machine, versions)     # after measuring
    recalled(machine, versions)     # its measured peaks with their date, if all else is unchanged; else None

The cache has a file for each machine below $XDG_CACHE_HOME (~/.cache). Its name depends on the description, the
versions and the system's own identity. If the cache can't be read or written, machines are measured. Disturbed peaks
are not kept: those measured while other processes used the machine, and a GPU's that are far below its datasheet or
come from too small products.
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

from trace_tools.machines import devices
from trace_tools.machines.loads import LOADED_CORES
from trace_tools.machines.machine import from_json, to_json
from trace_tools.trace.model import Machine, Peak
from trace_tools.util import files, formats

DATED = re.compile(r", on \d{4}-\d\d-\d\d$")
SIDE = re.compile(r"(\d+)³ each")  # in the source of a measured peak
LOADED = "while other processes used"  # in the source of a peak that was measured under a load
LEAST_OF_DATASHEET = 0.3  # a GPU below this share is shared, asleep or too hot
IDENTITY = (
    "/etc/machine-id",
    "/proc/sys/kernel/random/boot_id",
)  # the first that can be read; only a hash of it is kept

Versions = list[tuple[str, str]]


def remember(machine: Machine, versions: Versions) -> None:
    """Store the measured peaks of a machine, except emulated and disturbed ones."""
    if machine.emulated or not any(peak.measured for peak in machine.peaks) or _were_disturbed(machine):
        return
    with suppress(OSError, RuntimeError):  # a full disk; no home folder
        path = _path(machine, versions)
        path.parent.mkdir(parents=True, exist_ok=True)
        date = datetime.now(UTC).date().isoformat()
        peaks = [replace(peak, source=f"{peak.source}, on {date}") if peak.measured else peak for peak in machine.peaks]
        files.replace(path, to_json(replace(machine, peaks=peaks)))


def under_load(machine: Machine, other_cores: float | None) -> Machine:
    """Return a machine with the load noted in its measured peaks, if other processes used many cores."""
    if other_cores is None or other_cores < LOADED_CORES:
        return machine
    words = f", {LOADED} {formats.number(other_cores, 2)} cores"
    peaks = [replace(peak, source=peak.source + words) if peak.measured else peak for peak in machine.peaks]
    return replace(machine, peaks=peaks)


def recalled(machine: Machine, versions: Versions) -> list[Peak] | None:
    """Return the stored peaks of a machine that was described but not measured now, each with its date."""
    with suppress(OSError, RuntimeError, ValueError, TypeError, KeyError):
        kept = from_json(_path(machine, versions).read_text(encoding="utf-8"))
        peaks = [peak for peak in kept.peaks if peak.measured]
        if all(DATED.search(peak.source) for peak in peaks) and replace(kept, peaks=machine.peaks) == machine:
            return peaks
    return None


def are_recalled(machine: Machine) -> bool:
    """Return whether the measured peaks of a machine come from the cache."""
    return any(peak.measured and DATED.search(peak.source) for peak in machine.peaks)


def _were_disturbed(machine: Machine) -> bool:
    """Return whether any measured peak can't be the machine's best."""
    if any(peak.measured and LOADED in peak.source for peak in machine.peaks):
        return True
    if machine.device == "cpu":
        return False
    promised = {peak.name: peak.per_second or 0.0 for peak in machine.peaks if not peak.measured}
    for peak in machine.peaks:
        if not peak.measured or peak.per_second is None:
            continue
        side = SIDE.search(peak.source)
        if (side is not None and int(side[1]) < devices.FILLING_SIDE) or (
            peak.per_second < LEAST_OF_DATASHEET * promised.get(peak.name, 0.0)
        ):
            return True
    return False


def _path(machine: Machine, versions: Versions) -> Path:
    described = to_json(replace(machine, peaks=[peak for peak in machine.peaks if not peak.measured]))
    identity = ""
    for file in map(Path, IDENTITY):
        with suppress(OSError):
            identity = identity or file.read_text(encoding="utf-8").strip()
    parts = [described, *(f"{name} {version}" for name, version in versions), platform.node(), identity]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "trace-tools" / "surveys" / f"{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:32]}.json"
