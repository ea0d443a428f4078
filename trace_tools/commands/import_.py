"""`import FILE`: edtrace's JSON becomes a trace; a notebook, or a script in percent cells, a lecture."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from trace_tools.errors import TraceFileError, UsageError


@click.command("import")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Of a trace its folder; of a lecture its file.")
def import_(path: Path, out: Path | None) -> None:
    """Make a trace of FILE.json, which edtrace wrote, or a lecture of FILE.ipynb or FILE.py (percent cells)."""
    if path.suffix == ".json":
        _import_trace(path, out or Path("rendered"))
    elif path.suffix in (".ipynb", ".py"):
        _import_cells(path, out)
    else:
        raise UsageError(f"{path}: expected .json (a trace of edtrace's), .ipynb or .py (cells)")


def _import_trace(path: Path, out: Path) -> None:
    from trace_tools.exchange.edtrace_import import SLUG, imported
    from trace_tools.file_format.trace_file import load_head, write

    trace = imported(path)
    written = out / SLUG / "trace.yaml"
    if written.exists():
        try:
            other = load_head(written).run.lecture
        except TraceFileError:
            other = "something else"
        if other != trace.run.lecture:
            raise UsageError(f"{written}: is of {other}, and stays as it is; choose another folder with -o")
    written.parent.mkdir(parents=True, exist_ok=True)
    write(trace, written)
    click.echo(f"{written}: trace-tools render {shlex.quote(str(written))} makes its pages")


def _import_cells(path: Path, out: Path | None) -> None:
    from trace_tools.exchange.cells_import import lecture_of_cells

    text = lecture_of_cells(path)
    named = "".join(c if c.isalnum() else "_" for c in path.stem)
    written = out or path.with_name(f"{named}_lecture.py" if path.suffix == ".py" else f"{named}.py")
    try:
        with written.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{written}: is there already, and stays as it is; choose another file with -o") from None
    click.echo(f"{written}: trace-tools trace {shlex.quote(str(written))} runs it and makes its pages")
