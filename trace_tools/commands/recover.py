"""`recover DIR`: the journals of a killed run → DIR/<machine>/partial/, or DIR/<machine>/ where all of it was done.

Exit codes: 0 done, or there was nothing to do; 2 something was left to do: a full disk, say.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from trace_tools.tracing.run_folder import Kept


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False))
def recover(folder: Path) -> None:
    """Merge the journals that a killed run left in DIR into DIR/<machine>/partial/trace.yaml."""
    from trace_tools.tracing import run_folder

    recovered, kept = run_folder.recover(folder, again=True)
    for traced in recovered:
        click.echo(f"{traced.path}: {traced.trace.run.ended}")
    _say_what_was_kept(kept)
    if not recovered and not kept:
        click.echo(f"{folder}: no journals of a killed run", err=True)
    if any(one.again for one in kept):
        sys.exit(2)


def recover_first(folder: Path) -> None:
    """Recover what a killed run left in a folder of traces, and say so."""
    from trace_tools.tracing.run_folder import recover

    recovered, kept = recover(folder) if folder.is_dir() else ([], [])
    for traced in recovered:
        click.echo(f"recovered the journals of a killed run: {traced.path}", err=True)
    _say_what_was_kept(kept)


def _say_what_was_kept(kept: Iterable[Kept]) -> None:
    for one in kept:
        click.echo(
            f"{one.folder}: journals that can't be merged{' now' * one.again}, and are kept: {one.why}", err=True
        )
