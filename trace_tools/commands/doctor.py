"""`doctor`: what this machine is, and what would go wrong on it; one page to copy into a report of a bug.

Exit codes: 0 nothing is wrong, though some of it may be worth a look; 2 something is wrong: a trace would fail, or be.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import click

from trace_tools import formats
from trace_tools.errors import TraceFileError, UsageError
from trace_tools.file_format.trace_file import load_head
from trace_tools.imports import imported
from trace_tools.machines.devices import FORMS
from trace_tools.machines.examination import Check, Taken, examine
from trace_tools.machines.machine import STORED
from trace_tools.project import ProjectOption, of_project
from trace_tools.statements import read_source


@click.command()
@click.argument("lecture", type=click.Path(path_type=Path), required=False, is_eager=True, callback=of_project)
@click.option("-o", "--out", cls=ProjectOption, help="Default: rendered, beside the lecture.")
@click.option("--device", cls=ProjectOption, metavar="DEVICE", help=f"{FORMS}; default: cuda where there is one.")
@click.option("--json", "as_json", is_flag=True, help="For a script.")
def doctor(lecture: Path | None, out: Path | None, device: str | None, *, as_json: bool) -> None:
    """Look at this machine: a line for each thing, ok, look or wrong; what was found, and what to do.

    With LECTURE, free memory is compared with what its traces in OUT say that it takes.
    """
    found = []
    plain = (
        lecture is not None
        and device in (None, "cpu")
        and "torch" not in imported(read_source(lecture), lecture.parent)
    )
    unneeded = Check("torch", "ok", "the lecture uses none, so there is nothing else to look at")
    for check in [unneeded] if plain else examine(device, quick=False, taken=taken_by(lecture, out)):
        found.append(check)
        if not as_json:
            click.echo(_line(check))
            sys.stdout.flush()
    wrong, look = (sum(check.verdict == verdict for check in found) for verdict in ("wrong", "look"))
    if as_json:
        verdict = "wrong" if wrong else "look" if look else "ok"
        click.echo(json.dumps({"verdict": verdict, "checks": [asdict(check) for check in found]}, indent=2))
    else:
        click.echo(f"{formats.plural(len(found), 'check')}: {wrong} wrong, {look} worth a look")
    if wrong:
        sys.exit(2)


def taken_by(lecture: Path | None, out: Path | None) -> Taken:
    """Return what the traces of a lecture in a folder of machines, by default beside it, say of the memory it takes."""
    ram_bytes = 0
    device_bytes: dict[str, int] = {}
    for path in sorted((out or lecture.parent / "rendered").glob("*/trace.yaml")) if lecture else ():
        with suppress(TraceFileError):  # it is none's to mend here
            there = load_head(path)
            if lecture and there.run.lecture == lecture.name:
                name = there.machine.name
                for process in there.run.processes:
                    ram_bytes = max(ram_bytes, process.peak_ram_bytes or 0)
                    device_bytes[name] = max(device_bytes.get(name, 0), process.peak_device_bytes or 0)
    return Taken(ram_bytes or None, {name: size for name, size in device_bytes.items() if size})


def examine_first(device: str | None, lecture: Path, out: Path) -> None:
    """Look at the machine for a moment, and say what is worth a look; nothing where it was measured earlier.

    Raises UsageError for the first thing that is wrong.
    """
    if STORED in os.environ:
        return
    for check in examine(device, quick=True, taken=taken_by(lecture, out)):
        if check.verdict == "wrong":
            raise UsageError("; ".join(filter(None, (check.found, check.advice))))
        if check.verdict == "look":
            click.echo(f"{check.name}: {check.found}; {check.advice}", err=True)


def _line(check: Check) -> str:
    advice = f"\n{'':25} → {check.advice}" if check.advice else ""
    return f"{check.verdict:5} {check.name:19} {check.found}{advice}"
