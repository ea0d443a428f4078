"""`render TRACE.yaml…`: make the pages again, with the lecture's prose as it is now."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import click

from trace_tools.commands.recover import recover_first
from trace_tools.errors import UsageError
from trace_tools.project import ProjectOption, of_project


@click.command()
@click.argument("traces", nargs=-1, required=True, type=click.Path(path_type=Path), is_eager=True, callback=of_project)
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Default: where the traces lie.")
@click.option("--lecture", cls=ProjectOption, help="The lecture as it is now, for its prose.")
@click.option("--check", is_flag=True, help="Make none; fail where those that lie there are not of these traces.")
def render(traces: tuple[Path, ...], out: Path | None, lecture: Path | None, *, check: bool) -> None:
    """Make Markdown and HTML pages of TRACES."""
    from trace_tools.publishing.site import render_files, site_of

    folders = [out] if out else dict.fromkeys(map(site_of, traces))
    if check:
        missing = next((path for path in traces if not path.is_file()), None)
        if missing is not None:
            raise UsageError(f"{missing}: no such trace")
        _check_pages(folders, lecture)
        return
    for folder in folders:
        recover_first(folder)
    for line in render_files(traces, out, lecture):
        click.echo(line)


def _check_pages(folders: Iterable[Path], lecture: Path | None) -> None:
    from trace_tools.publishing.check import stale_files

    stale = [line for folder in folders for line in stale_files(folder, lecture)]
    for line in stale:
        click.echo(line, err=True)
    if stale:
        click.echo("these pages are not of these traces: run `make render`, and commit what it writes", err=True)
        sys.exit(1)
