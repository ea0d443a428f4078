"""Run `export TRACE.yaml`: save its lecture as one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trace_tools.commands.traces import TracePath
from trace_tools.errors import UsageError

if TYPE_CHECKING:
    from trace_tools.trace.trace_file import Loaded


@click.command()
@click.argument("path", metavar="TRACE", type=TracePath())
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), help="File to write (default: the lecture's name, in this folder)."
)
@click.option("--lecture", type=click.Path(path_type=Path), help="Take prose and images from this file.")
def export(path: Path, out: Path | None, lecture: Path | None) -> None:
    """Save a lecture as one HTML file.

    \b
    Example:
      trace-tools export rendered/cpu/trace.yaml -o talk.html
    """
    from trace_tools.trace.trace_file import load
    from trace_tools.util.files import replace

    loaded = load(path)
    for note in loaded.notes:
        click.echo(f"{path}: {note}", err=True)
    written = out or Path(Path(loaded.trace.run.lecture).stem + ".html")
    if not written.parent.is_dir():
        raise UsageError(f"{written.parent}: no such folder")
    if written.is_dir():
        raise UsageError(f"{written}: is a folder; expected a file to write")
    content = _page(loaded, path, lecture)
    replace(written, content)
    click.echo(str(written))


def _page(loaded: Loaded, path: Path, lecture: Path | None) -> str:
    from trace_tools.export.html_file import one_file
    from trace_tools.pages.site import placed

    lecture_name = Path(loaded.trace.run.lecture).name
    if lecture is not None and (lecture.name != lecture_name or not lecture.is_file()):
        raise UsageError(f"--lecture {lecture}: expected a file named {lecture_name}, as in the trace")
    return one_file(placed(loaded, path, None, lecture))
