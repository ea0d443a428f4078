"""Run `recover DIR`: write the journals of a killed run to DIR/<machine>/partial/, or DIR/<machine>/ if it had
finished.

Exit codes: 0 done, or no journals found; 2 some journals remain, for example because the disk is full.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from trace_tools.tracing.run_folder import KeptError


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False))
def recover(folder: Path) -> None:
    """Write the trace of a run that was killed.

    A run records each step as it goes. `recover` turns the steps found in DIR into
    DIR/<machine>/partial/trace.yaml.

    \b
    Example:
      trace-tools recover rendered
    """
    from trace_tools.tracing import run_folder

    recovered, kept = run_folder.recover(folder)
    for traced in recovered:
        click.echo(f"{traced.path}: {traced.trace.run.ended}")
    _report_kept(kept)
    if not recovered and not kept:
        click.echo(f"{folder}: no interrupted run found", err=True)
    if any(one.intact for one in kept):
        sys.exit(2)


def recover_first(folder: Path) -> None:
    """Recover the journals of a killed run in a folder of traces, and report it."""
    from trace_tools.tracing.run_folder import recover

    recovered, kept = recover(folder) if folder.is_dir() else ([], [])
    for traced in recovered:
        click.echo(f"an earlier run was killed; its steps are now in {traced.path}", err=True)
    _report_kept(kept)


def _report_kept(kept: Iterable[KeptError]) -> None:
    for one in kept:
        click.echo(
            f"{one.folder}: kept these journals; no trace could be made from them{' yet' * one.intact}: {one.why}",
            err=True,
        )
