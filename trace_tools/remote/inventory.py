"""Read machines.yaml: the machines of a fleet and how to reach them. Each mistake is one line with its position.

machines:
- {name: here, engine: local}
- {name: h200, engine: ssh, host: gpu-box, python: ~/venv/bin/python, devices: [cuda, cpu]}
- {name: h100, engine: slurm, host: login, partition: gpu, gres: "gpu:h100:1", account: me}
- {name: cloud, engine: sky, accelerators: "H100:1"}

read(Path("machines.yaml")).machines[1].host      # "gpu-box"
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from trace_tools.errors import TraceFileError, UsageError
from trace_tools.machines.devices import checked
from trace_tools.machines.machine import slug
from trace_tools.trace.plain_yaml import careful
from trace_tools.trace.structure import from_plain, short
from trace_tools.util.files import why_not_inside
from trace_tools.util.structs import Struct, field

FOLDER = "~/.cache/trace-tools/fleet"
LARGEST_BYTES = 1 << 20  # largest inventory
MOST_MACHINES = 1000
MOST_MINUTES = 30 * 24 * 60
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_HOST = re.compile(r"[A-Za-z0-9_][\w.@:-]*")  # cannot be an option of ssh
_WORD = re.compile(r"[A-Za-z0-9_\[(][\w.,:;=|&*()\[\]+/-]*")  # one argument for Slurm
_CONTROL = re.compile("[\x00-\x1f\x7f]")

# The engines with their own fields; fields without a default here are required.
SLURM = ("partition", "constraint", "account", "qos", "gres", "cpus", "time")  # options of Slurm
ENGINES = {
    "local": (),
    "ssh": ("host", "ssh_config"),
    "slurm": ("host", "ssh_config", "batch", "nodes", *SLURM),
    "sky": ("accelerators", "ssh_config"),
}
NEEDED = {"ssh": "host", "sky": "accelerators"}


class Entry(Struct, frozen=True):
    """One machine: `name` names its folder; a trace contains no other fact about how the machine was reached."""

    name: str
    engine: str
    python: str | None = None  # a command: "~/venv/bin/python", "apptainer exec --nv ~/torch.sif python3"
    torch: str | None = None  # the release that must be installed there
    devices: list[str] = field(default_factory=list)  # each traced separately; empty: the best available
    folder: str = FOLDER  # on that machine, for the archive
    minutes: int = 240  # time limit, including the queue
    host: str | None = None  # as for ssh; for slurm, where to run sbatch and srun, if not here
    ssh_config: str | None = None  # a file for `ssh -F`, relative to the inventory's folder
    partition: str | None = None
    constraint: str | None = None
    account: str | None = None
    qos: str | None = None
    gres: str | None = None
    cpus: int | None = None
    time: str | None = None
    nodes: int | None = None  # how many nodes share the ranks of one trace
    batch: bool = False  # use sbatch instead of srun: the job survives a lost connection and is found again
    accelerators: str | None = None  # for sky: "H100:1"


class Inventory(Struct, frozen=True):
    """A fleet: its machines, and the files below the lecture's folder that are sent in addition to the modules that it
    imports.
    """

    machines: list[Entry]
    files: list[str] = field(default_factory=list)  # patterns: "data/*.csv"


def read(path: Path) -> Inventory:
    """Read and check an inventory. Raises UsageError with the position of a mistake."""
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise UsageError(f"{path}: is larger than {LARGEST_BYTES >> 20} MiB, the limit for an inventory")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"{path}: can't be read: {error.strerror or error}; expected an inventory of machines"
        ) from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is not UTF-8") from None
    try:
        inventory = from_plain(Inventory, careful(text, path), path)
    except TraceFileError as error:
        raise UsageError(str(error)) from None
    except RecursionError:
        raise UsageError(f"{path}: nested too deeply for an inventory") from None
    for where, mistake in _mistakes(inventory):
        raise UsageError(f"{path}: {where}: {mistake}")
    return inventory


def _mistakes(inventory: Inventory) -> Iterator[tuple[str, str]]:
    if not inventory.machines or len(inventory.machines) > MOST_MACHINES:
        yield "machines", f"expected 1 to {MOST_MACHINES}, found {len(inventory.machines)}"
    for number, pattern in enumerate(inventory.files):
        if (why := why_not_inside(pattern)) is not None:
            yield f"files[{number}]", why
    folders: dict[str, str] = {}
    for number, entry in enumerate(inventory.machines):
        where = f"machines[{number}]"
        yield from ((f"{where}.{name}", mistake) for name, mistake in _entry_mistakes(entry))
        for device in devices_of(entry):
            if (other := folders.setdefault(folder := folder_of(entry, device), entry.name)) != entry.name or (
                entry.name in [earlier.name for earlier in inventory.machines[:number]]
            ):
                yield f"{where}.name", f"{entry.name!r} and machine {other!r} would both write rendered/{folder}"


def _entry_mistakes(entry: Entry) -> Iterator[tuple[str, str]]:
    if not _NAME.fullmatch(entry.name) or slug(entry.name) != entry.name:
        yield "name", f"found {short(entry.name)}; expected a-z, 0-9 and single hyphens, at most 80 characters"
    if entry.name == "diff":
        yield "name", "'diff' is the folder of the comparison; choose another name"
    if entry.engine not in ENGINES:
        yield "engine", f"found {short(entry.engine)}; expected one of {', '.join(ENGINES)}"
        return
    other_fields = {name for names in ENGINES.values() for name in names} - {*ENGINES[entry.engine]}
    for entry_field in fields(entry):
        value = getattr(entry, entry_field.name)
        if entry_field.name in other_fields and value not in (None, False):
            yield entry_field.name, f"does not apply to the engine {entry.engine}"
        if isinstance(value, str) and (not value or _CONTROL.search(value)):
            yield entry_field.name, f"found {short(value)}; expected a text of one line"
    if (needed := NEEDED.get(entry.engine)) and getattr(entry, needed) is None:
        yield needed, f"is missing; the engine {entry.engine} needs it"
    if entry.host is not None and not _HOST.fullmatch(entry.host):
        yield "host", f"found {short(entry.host)}; expected a host as in `ssh HOST`"
    for name in (*SLURM, "accelerators", "torch"):
        value = getattr(entry, name)
        if isinstance(value, str) and not _WORD.fullmatch(value):
            yield name, f"found {short(value)}; expected one word"
    for name in ("cpus", "nodes"):
        if (count := getattr(entry, name)) is not None and count < 1:
            yield name, f"found {count}; expected at least 1"
    if not 1 <= entry.minutes <= MOST_MINUTES:
        yield "minutes", f"found {entry.minutes}; expected 1 to {MOST_MINUTES:,}"
    if not entry.folder.startswith(("/", "~/")):
        yield "folder", f"found {short(entry.folder)}; expected a path on that machine, beginning with / or ~/"
    if entry.python is not None:
        try:
            words = shlex.split(entry.python)
        except ValueError as error:
            yield "python", f"{short(entry.python)}: {error}"
        else:
            if not words or words[0].startswith("-"):
                yield "python", f"found {short(entry.python)}; expected a command"
    for number, device in enumerate(entry.devices):
        try:
            checked(device)
        except UsageError as error:
            yield f"devices[{number}]", str(error)
        if device in entry.devices[:number]:
            yield f"devices[{number}]", f"{device} is listed twice"


def devices_of(entry: Entry) -> list[str | None]:
    """Return the devices to trace separately; None for the best available."""
    return [*entry.devices] or [None]


def folder_of(entry: Entry, device: str | None) -> str:
    """Return the folder below OUT for a machine's trace on one of its devices."""
    return f"{entry.name}-{slug(device)}" if device is not None and len(entry.devices) > 1 else entry.name
