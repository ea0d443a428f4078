"""Run `validate TRACE.yaml`: check whether the trace follows the schema."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from trace_tools.commands.traces import TracePath
from trace_tools.trace.model import Step


@click.command()
@click.argument("path", metavar="TRACE", type=TracePath())
def validate(path: Path) -> None:
    """Check that a trace file is complete and well formed.

    \b
    Example:
      trace-tools validate rendered/cpu/trace.yaml
    """
    from trace_tools.trace.file import load

    loaded = load(path)
    for note in loaded.notes:
        click.echo(f"{path}: {note}", err=True)
    steps = sum(isinstance(event, Step) for event in loaded.trace.steps)
    click.echo(f"{path}: schema {loaded.trace.schema}, {steps} steps, {loaded.trace.run.ended}")
    if loaded.notes:
        sys.exit(1)
