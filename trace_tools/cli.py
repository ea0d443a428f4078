"""The command line: the only place that prints or exits.

    python -m trace_tools trace lecture.py        run it, write rendered/<machine>/trace.yaml and its pages
    python -m trace_tools render TRACE.yaml…      make the pages again, with the lecture's prose as it is now
    python -m trace_tools diff A.yaml B.yaml      what changed, and whether it matters
    python -m trace_tools bench A.py B.py         two versions, run here in turn until they can be told apart
    python -m trace_tools compare TRACE.yaml…     many machines side by side
    python -m trace_tools serve lecture.py        its pages in a browser, made again at each save
    python -m trace_tools validate TRACE.yaml
    python -m trace_tools recover DIR             the journals of a killed run → DIR/<machine>/partial/

Exit codes: 0 done (diff: no difference that matters); 1 a difference, a failed claim, an expression that
could not be evaluated, or a lecture that raised; 2 bad usage or bad input.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from trace_tools.benching.command import bench_command
from trace_tools.comparing.commands import diff_command
from trace_tools.comparing.compare_command import compare
from trace_tools.errors import TraceToolsError, UsageError
from trace_tools.schema import Step, Trace
from trace_tools.serving.command import serve
from trace_tools.summary import problems, quiet, where_time_went


class OneLineErrors(click.Group):
    """A group whose commands show the project's own errors as one line."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except TraceToolsError as error:
            click.echo(f"error: {error}", err=True)
            ctx.exit(error.exit_code)


@click.group(cls=OneLineErrors, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def main() -> None:
    """Trace an executable lecture, and render what it did."""


main.add_command(bench_command)
main.add_command(diff_command)
main.add_command(compare)
main.add_command(serve)


@main.command()
@click.argument("lecture", type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), default=Path("rendered"), show_default=True)
@click.option("--device", type=click.Choice(["cpu", "cuda"]), help="Default: cuda where there is one.")
@click.option("--passes", type=click.IntRange(min=1), default=3, show_default=True, help="Fresh processes.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--limit", type=click.IntRange(min=2), default=100, show_default=True, help="Executions kept.")
@click.option("--only", metavar="SECTION", help="Run only this one of the functions that main calls.")
@click.option("--keep-going", is_flag=True, help="Record a failed claim and go on.")
@click.option("--inspect-all", is_flag=True, help="Inspect what every assignment assigns.")
@click.option("--name", help="Folder for this machine, instead of its device's name.")
@click.option("--force", is_flag=True, help="Replace another lecture's trace.")
def trace(out: Path, **options: Any) -> None:
    """Run LECTURE on this machine; write OUT/<machine>/trace.yaml and its pages."""
    from trace_tools.publishing.site import render_folder
    from trace_tools.tracing.tracer import Request, Tracer

    progress = Progress()
    tracer = Tracer(Request(out=out, **options), progress.show)
    _recover(out)
    try:
        traced = tracer.run()
    finally:
        progress.done()
    started = time.monotonic()
    pages = render_folder(out, lecture=options["lecture"])
    seconds = [*traced.seconds, ("pages", time.monotonic() - started)]
    click.echo(f"{traced.path}\n{pages}")
    click.echo(where_time_went(traced.trace, seconds), err=True)
    click.echo(quiet(traced.trace) or "one pass only: nothing is known of how much times vary here", err=True)
    report(traced.trace)


@main.command()
@click.argument("traces", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Default: where the traces lie.")
@click.option("--lecture", type=click.Path(path_type=Path), help="The lecture as it is now, for its prose.")
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
        _recover(folder)
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


@main.command()
@click.argument("path", metavar="TRACE", type=click.Path(path_type=Path))
def validate(path: Path) -> None:
    """Check that TRACE follows the schema."""
    from trace_tools.file_format.trace_file import load

    loaded = load(path)
    for note in loaded.notes:
        click.echo(f"{path}: {note}", err=True)
    steps = sum(isinstance(event, Step) for event in loaded.trace.steps)
    click.echo(f"{path}: schema {loaded.trace.schema}, {steps} steps, {loaded.trace.run.ended}")


@main.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False))
def recover(folder: Path) -> None:
    """Merge the journals that a killed run left in DIR into DIR/<machine>/partial/trace.yaml."""
    from trace_tools.tracing import tracer

    recovered = tracer.recover(folder)
    for traced in recovered:
        click.echo(f"{traced.path}: {traced.trace.run.ended}")
    if not recovered:
        click.echo(f"{folder}: no journals of a killed run", err=True)


def _recover(folder: Path) -> None:
    """Recover what a killed run left in a folder of traces."""
    from trace_tools.tracing.tracer import recover

    for recovered in recover(folder) if folder.is_dir() else ():
        click.echo(f"recovered the journals of a killed run: {recovered.path}", err=True)


def report(trace: Trace) -> None:
    """Print what went wrong in a trace, and exit with 1 if anything did."""
    found = problems(trace)
    for line in found:
        click.echo(line, err=True)
    if found:
        sys.exit(1)


class Progress:
    """Shows where each process is: one changing line on a terminal, a line per process in a log."""

    def __init__(self) -> None:
        self.shown: str | None = None

    def done(self) -> None:
        """Leave the terminal's line empty."""
        if sys.stderr.isatty():
            click.echo("\r\x1b[K", nl=False, err=True)

    def show(self, process: str, place: str) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r\x1b[K{process}: {place}", nl=False, err=True)
        elif process != self.shown:
            click.echo(process, err=True)
        self.shown = process
