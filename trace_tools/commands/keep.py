"""Run `recover DIR`, which turns the journals of killed runs into traces, and `validate TRACE.yaml`.

Exit codes of `recover`: 0 done, or no journals found; 2 some journals remain, for example because the disk is full. Of
`validate`: 1 if the file was cut short.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from trace_tools.commands.arguments import PATH, path_of
from trace_tools.trace.model import Step


@click.command()
@click.argument("folder", metavar="DIR", type=PATH)
def recover(folder: Path) -> None:
    """Write the trace of a run that was killed.

    A run records each step as it goes. `recover` turns the steps found in DIR into
    DIR/<machine>/partial/trace.yaml. `trace-tools render` then makes its pages.

    \b
    Example:
      trace-tools recover rendered
    """
    next(folder.iterdir(), None)  # raises an error if it is no folder, or may not be read
    if (unwritten := _recovered(folder)) is None:
        click.echo(f"{folder}: no interrupted run found", err=True)
    if unwritten:
        sys.exit(2)


def recover_first(folder: Path) -> None:
    """Recover the journals of a killed run in a folder of traces, and report it."""
    if folder.is_dir():
        _recovered(folder, "an earlier run was killed; its steps are now in ")


def _recovered(folder: Path, notice: str = "") -> int | None:
    """Recover and report; return how many journals wait for another try, if any were found."""
    from trace_tools.tracing.run_folder import recover as recover_all

    recovered, kept = recover_all(folder)
    for traced in recovered:
        text = f"{traced.path}: {traced.trace.run.ended}; `trace-tools render {traced.path}` makes its pages"
        click.echo(f"{notice}{traced.path}" if notice else text, err=bool(notice))
    for error in kept:
        why = f"kept these journals; no trace could be made from them{' yet' * error.intact}: {error.why}"
        click.echo(f"{error.folder}: {why}", err=True)
    return sum(error.intact for error in kept) if recovered or kept else None


@click.command()
@click.argument("path", metavar="TRACE", type=path_of)
def validate(path: Path) -> None:
    """Check that a trace file is complete and well formed.

    \b
    Example:
      trace-tools validate rendered/cpu/trace.yaml
    """
    from trace_tools.trace.file import load

    trace = load(path)
    steps = sum(isinstance(event, Step) for event in trace.steps)
    click.echo(f"{path}: schema {trace.schema}, {steps} steps, {trace.run.ended}")
    if trace.run.cut_short:
        sys.exit(1)
