"""`recover DIR`: the journals of a killed run → DIR/<machine>/partial/."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False))
def recover(folder: Path) -> None:
    """Merge the journals that a killed run left in DIR into DIR/<machine>/partial/trace.yaml."""
    from trace_tools.tracing import tracer

    recovered, aside = tracer.recover(folder)
    for traced in recovered:
        click.echo(f"{traced.path}: {traced.trace.run.ended}")
    _say_what_was_set_aside(aside)
    if not recovered and not aside:
        click.echo(f"{folder}: no journals of a killed run", err=True)


def recover_first(folder: Path) -> None:
    """Recover what a killed run left in a folder of traces, and say so."""
    from trace_tools.tracing.tracer import recover

    recovered, aside = recover(folder) if folder.is_dir() else ([], [])
    for traced in recovered:
        click.echo(f"recovered the journals of a killed run: {traced.path}", err=True)
    _say_what_was_set_aside(aside)


def _say_what_was_set_aside(folders: Iterable[Path]) -> None:
    for folder in folders:
        click.echo(f"{folder}: journals that this version can't merge; kept there", err=True)
