"""Run `doctor`: describe this machine and its likely problems on one page, to copy into a bug report.

Exit codes: 0 no problem, though some lines may be worth a look; 2 a problem: a trace would fail or be wrong.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import click

from trace_tools.config import ProjectOption, of_project
from trace_tools.errors import TraceFileError, UsageError
from trace_tools.machines.machine import STORED
from trace_tools.machines.preflight import Check, PastMemory, examine
from trace_tools.source.imports import imported
from trace_tools.source.statements import read_source
from trace_tools.trace.trace_file import load_head
from trace_tools.util import formats


@click.command()
@click.argument("lecture", type=click.Path(path_type=Path), required=False, is_eager=True, callback=of_project)
@click.option("-o", "--out", cls=ProjectOption)
@click.option("--device", cls=ProjectOption)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
def doctor(lecture: Path | None, out: Path | None, device: str | None, *, as_json: bool) -> None:
    """Check whether this machine is ready for a trace.

    Each line has a verdict (ok, look or wrong), a finding, and advice where something is wrong. With LECTURE, the free
    memory is compared with the memory that earlier traces of it in OUT needed.

    \b
    Examples:
      trace-tools doctor
      trace-tools doctor talk.py --device cuda
    """
    checks = []
    without_torch = (
        lecture is not None
        and device in (None, "cpu")
        and "torch" not in imported(read_source(lecture), lecture.parent)
    )
    unneeded = Check("torch", "ok", "the lecture does not use torch, so no other check is needed")
    for check in [unneeded] if without_torch else examine(device, quick=False, past=past_memory(lecture, out)):
        checks.append(check)
        if not as_json:
            advice = f"\n{'':25} → {check.advice}" if check.advice else ""
            click.echo(f"{check.verdict:5} {check.name:19} {check.found}{advice}")
            sys.stdout.flush()
    wrong, look = (sum(check.verdict == verdict for check in checks) for verdict in ("wrong", "look"))
    if as_json:
        verdict = "wrong" if wrong else "look" if look else "ok"
        click.echo(json.dumps({"verdict": verdict, "checks": [asdict(check) for check in checks]}, indent=2))
    else:
        click.echo(f"{formats.plural(len(checks), 'check')}: {wrong} wrong, {look} worth a look")
    if wrong:
        sys.exit(2)


def past_memory(lecture: Path | None, out: Path | None) -> PastMemory:
    """Return the memory that a lecture needed, from its traces in a folder of machines, by default next to it."""
    ram_bytes = 0
    device_bytes: dict[str, int] = {}
    for path in sorted((out or lecture.parent / "rendered").glob("*/trace.yaml")) if lecture else ():
        with suppress(TraceFileError):  # other commands report a broken trace
            head = load_head(path)
            if lecture and head.run.lecture == lecture.name:
                name = head.machine.name
                for process in head.run.processes:
                    ram_bytes = max(ram_bytes, process.peak_ram_bytes or 0)
                    device_bytes[name] = max(device_bytes.get(name, 0), process.peak_device_bytes or 0)
    return PastMemory(ram_bytes or None, {name: size for name, size in device_bytes.items() if size})


def examine_first(device: str | None, lecture: Path, out: Path) -> None:
    """Examine the machine briefly and print problems; skip the examination if the machine was measured earlier.

    Raises UsageError for the first problem.
    """
    if STORED in os.environ:
        return
    for check in examine(device, quick=True, past=past_memory(lecture, out)):
        if check.verdict == "wrong":
            raise UsageError("; ".join(filter(None, (check.found, check.advice))))
        if check.verdict == "look":
            click.echo(f"{check.name}: {check.found}; {check.advice}", err=True)
