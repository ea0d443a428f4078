"""`recover DIR`: the journals of a killed run → DIR/<machine>/partial/."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False))
def recover(folder: Path) -> None:
    """Merge the journals that a killed run left in DIR into DIR/<machine>/partial/trace.yaml."""
    from trace_tools.tracing import tracer

    recovered = tracer.recover(folder)
    for traced in recovered:
        click.echo(f"{traced.path}: {traced.trace.run.ended}")
    if not recovered:
        click.echo(f"{folder}: no journals of a killed run", err=True)


def recover_first(folder: Path) -> None:
    """Recover what a killed run left in a folder of traces, and say so."""
    from trace_tools.tracing.tracer import recover

    for recovered in recover(folder) if folder.is_dir() else ():
        click.echo(f"recovered the journals of a killed run: {recovered.path}", err=True)
