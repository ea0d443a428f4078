"""`validate TRACE.yaml`: whether it follows the schema."""

from __future__ import annotations

from pathlib import Path

import click

from trace_tools.schema import Step


@click.command()
@click.argument("path", metavar="TRACE", type=click.Path(path_type=Path))
def validate(path: Path) -> None:
    """Check that TRACE follows the schema."""
    from trace_tools.file_format.trace_file import load

    loaded = load(path)
    for note in loaded.notes:
        click.echo(f"{path}: {note}", err=True)
    steps = sum(isinstance(event, Step) for event in loaded.trace.steps)
    click.echo(f"{path}: schema {loaded.trace.schema}, {steps} steps, {loaded.trace.run.ended}")
