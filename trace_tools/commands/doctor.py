"""`doctor`: what this machine is, and what would go wrong on it; one page to copy into a report of a bug.

Exit codes: 0 nothing is wrong, though some of it may be worth a look; 2 something is wrong: a trace would fail, or be.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict

import click

from trace_tools.errors import UsageError
from trace_tools.machines.devices import FORMS, checked
from trace_tools.machines.examination import Check, examine
from trace_tools.machines.machine import STORED


@click.command()
@click.option("--device", type=checked, metavar="DEVICE", help=f"{FORMS}; default: cuda where there is one.")
@click.option("--json", "as_json", is_flag=True, help="For a script.")
def doctor(device: str | None, *, as_json: bool) -> None:
    """Look at this machine: a line for each thing, ok, look or wrong; what was found, and what to do."""
    found = []
    for check in examine(device, quick=False):
        found.append(check)
        if not as_json:
            click.echo(_line(check))
            sys.stdout.flush()
    wrong, look = (sum(check.verdict == verdict for check in found) for verdict in ("wrong", "look"))
    if as_json:
        verdict = "wrong" if wrong else "look" if look else "ok"
        click.echo(json.dumps({"verdict": verdict, "checks": [asdict(check) for check in found]}, indent=2))
    else:
        click.echo(f"{len(found)} checks: {wrong} wrong, {look} worth a look")
    if wrong:
        sys.exit(2)


def examine_first(device: str | None) -> None:
    """Look at the machine for a moment, and say what is worth a look; nothing where it was measured earlier.

    Raises UsageError for the first thing that is wrong.
    """
    if STORED in os.environ:
        return
    for check in examine(device, quick=True):
        if check.verdict == "wrong":
            raise UsageError("; ".join(filter(None, (check.found, check.advice))))
        if check.verdict == "look":
            click.echo(f"{check.name}: {check.found}; {check.advice}", err=True)


def _line(check: Check) -> str:
    advice = f"\n{'':25} → {check.advice}" if check.advice else ""
    return f"{check.verdict:5} {check.name:19} {check.found}{advice}"
