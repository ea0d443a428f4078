"""Run `doctor`: describe this machine and its likely problems on one page, to copy into a bug report.

Exit codes: 0 no problem, though some lines may be worth a look; 2 a problem: a trace would fail or be wrong.
"""

from __future__ import annotations

import os
import sys

import click

from trace_tools.commands.arguments import trace_options
from trace_tools.errors import UsageError
from trace_tools.machines import devices
from trace_tools.tracing.options import TraceOptions
from trace_tools.util import formats


@click.command()
@trace_options("device")
def doctor(options: TraceOptions) -> None:
    """Check whether this machine is ready for a trace.

    Each line has a verdict (ok, look or wrong), a finding, and advice.

    \b
    Examples:
      trace-tools doctor
      trace-tools doctor --device cuda
    """
    try:
        if options.device == "cpu":
            os.environ.update(devices.environment(options.device))  # before torch is imported, which reads it
        from trace_tools.machines.checks import checks
    except (ImportError, OSError) as error:  # a library of torch's that can't be loaded
        raise UsageError(f"{formats.one_line(str(error), 200)}; {devices.INSTALL}") from error
    verdicts = []
    for check in checks(options.device):
        advice = f"\n{'':25} → {check.advice}" if check.advice else ""
        click.echo(f"{check.verdict:5} {check.name:19} {check.found}{advice}")
        verdicts.append(check.verdict)
    wrong, look = (verdicts.count(verdict) for verdict in ("wrong", "look"))
    click.echo(f"{formats.plural(len(verdicts), 'check')}: {wrong} wrong, {look} worth a look")
    if wrong:
        sys.exit(2)
