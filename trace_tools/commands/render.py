"""Run `render TRACE.yaml…`: make the pages again, with the current prose of the lecture."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from trace_tools.commands.arguments import PATH, TRACE, path_of
from trace_tools.commands.keep import recover_first
from trace_tools.errors import UsageError


@click.command()
@click.argument("traces", nargs=-1, required=True, type=path_of)
@click.option("-o", "--out", type=PATH, help="Folder for the pages (default: next to the traces).")
@click.option("--lecture", type=PATH, help="Take the prose and images from this file.")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if the pages are out of date.")
@click.option("--one-file", is_flag=True, help="Write one self-contained page: to -o, or the lecture's name.html.")
def render(traces: tuple[Path, ...], out: Path | None, lecture: Path | None, *, check: bool, one_file: bool) -> None:
    """Render the pages of traces again, with the current prose.

    Reworded prose appears without another run of the lecture. If code changed, or texts came or went, the pages say so.

    \b
    Examples:
      trace-tools render rendered/*/trace.yaml
      trace-tools render rendered/*/trace.yaml --check
      trace-tools render traces/cpu.yaml -o pages --lecture talk.py
      trace-tools render rendered/cpu/trace.yaml --one-file -o talk.html
    """
    from trace_tools.pages.site import render_files, site_of, stale_files
    from trace_tools.source.statements import read_text

    if lecture is not None:
        read_text(lecture)  # the pages would be of the stored text
    if one_file:
        if check or len(traces) > 1:
            raise UsageError("--one-file: expected one trace, without --check")
        _write_one_file(traces[0], out, lecture)
        return
    folders = [out] if out else dict.fromkeys(map(site_of, traces))
    for path in traces:
        if not path.is_file():
            raise UsageError(f"{path}: no such trace")
        if out is None and path.name != TRACE:
            raise UsageError(f"{path}: expected <machine>/{TRACE}, or -o with a folder for the pages")
    if check:
        stale = [line for folder in folders for line in stale_files(folder, lecture)]
        again = "the pages are out of date: run `trace-tools render` with the same traces, then commit the pages"
        for line in [*stale, again] if stale else ():
            click.echo(line, err=True)
        sys.exit(1 if stale else 0)
    for folder in folders:
        recover_first(folder)
    for line in render_files(traces, out, lecture):
        click.echo(line)


def _write_one_file(path: Path, out: Path | None, lecture: Path | None) -> None:
    from trace_tools.pages.html import one_file
    from trace_tools.pages.site import placed
    from trace_tools.trace.file import load
    from trace_tools.util.files import replace_file

    trace = load(path)
    if trace.run.cut_short:
        click.echo(f"{path}: {trace.run.ended}", err=True)
    written = out or Path(Path(trace.run.lecture).stem + ".html")
    site_trace = placed(trace, path, None, lecture)
    replace_file(written, one_file(site_trace.trace, site_trace.lecture_text, site_trace.lecture_folder))
    click.echo(str(written))
