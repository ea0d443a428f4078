"""Run `doctor`: describe this machine and its likely problems on one page, to copy into a bug report.

Exit codes: 0 no problem, though some lines may be worth a look; 2 a problem: a trace would fail or be wrong.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from trace_tools.config import ProjectOption, of_project
from trace_tools.errors import UsageError
from trace_tools.machines.machine import STORED
from trace_tools.machines.preflight import examine
from trace_tools.util import formats


@click.command()
@click.argument("lecture", type=click.Path(path_type=Path), required=False, is_eager=True, callback=of_project)
@click.option("--device", cls=ProjectOption)
def doctor(lecture: Path | None, device: str | None) -> None:
    """Check whether this machine is ready for a trace.

    The settings are those of LECTURE's project. Each line has a verdict (ok, look or wrong), a finding, and advice.
    Every trace that uses torch begins with this.

    \b
    Examples:
      trace-tools doctor
      trace-tools doctor --device cuda
    """
    checks = list(examine(device))
    for check in checks:
        advice = f"\n{'':25} → {check.advice}" if check.advice else ""
        click.echo(f"{check.verdict:5} {check.name:19} {check.found}{advice}")
    wrong, look = (sum(check.verdict == verdict for check in checks) for verdict in ("wrong", "look"))
    click.echo(f"{formats.plural(len(checks), 'check')}: {wrong} wrong, {look} worth a look")
    if wrong:
        sys.exit(2)


def examine_first(device: str | None) -> None:
    """Examine the machine and print problems; skip the examination if the machine was measured earlier.

    Raises UsageError for the first problem.
    """
    for check in () if STORED in os.environ else examine(device):
        if check.verdict == "wrong":
            raise UsageError("; ".join(filter(None, (check.found, check.advice))))
        if check.verdict == "look":
            click.echo(f"{check.name}: {check.found}; {check.advice}", err=True)
