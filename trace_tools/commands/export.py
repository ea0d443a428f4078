"""`export TRACE.yaml --format …`: a trace in another tool's format, or its lecture as one file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trace_tools.errors import UsageError

if TYPE_CHECKING:
    from trace_tools.file_format.trace_file import Loaded
    from trace_tools.schema import Trace

ENDINGS = {  # of the files that are written where none is named
    "edtrace": ".json",
    "notebook": ".ipynb",
    "percent": ".percent.py",
    "perfetto": ".perfetto.json",
    "html": ".html",
    "pdf": ".pdf",
}


@click.command()
@click.argument("path", metavar="TRACE", type=click.Path(path_type=Path))
@click.option("--format", "kind", required=True, type=click.Choice([*ENDINGS]))
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Default: the lecture's name, here.")
@click.option("--lecture", type=click.Path(path_type=Path), help="html, pdf: as it is now, for its prose and images.")
def export(path: Path, kind: str, out: Path | None, lecture: Path | None) -> None:
    """Write TRACE as edtrace's JSON, a notebook, percent cells, for Perfetto; or as one page, HTML or PDF."""
    from trace_tools.file_format.trace_file import load
    from trace_tools.files import replace

    loaded = load(path)
    for note in loaded.notes:
        click.echo(f"{path}: {note}", err=True)
    written = out or Path(Path(loaded.trace.run.lecture).stem + ENDINGS[kind])
    if not written.parent.is_dir():
        raise UsageError(f"{written.parent}: no such folder")
    if written.is_dir():
        raise UsageError(f"{written}: is a folder; expected a file to write")
    pages = kind in ("html", "pdf")
    replace(written, _page(loaded, path, kind, lecture) if pages else _exported(loaded.trace, kind))
    click.echo(str(written))


def _page(loaded: Loaded, path: Path, kind: str, lecture: Path | None) -> str | bytes:
    from trace_tools.exchange.one_file import one_file
    from trace_tools.exchange.pdf import printed
    from trace_tools.publishing.site import placed

    named = Path(loaded.trace.run.lecture).name
    if lecture is not None and (lecture.name != named or not lecture.is_file()):
        raise UsageError(f"--lecture {lecture}: expected a file {named}, of which the trace is")
    page = one_file(placed(loaded, path, None, lecture))
    return page if kind == "html" else printed(page)


def _exported(trace: Trace, kind: str) -> str:
    if kind == "edtrace":
        from trace_tools.exchange.edtrace_export import exported

        return json.dumps(exported(trace), indent=2, allow_nan=False) + "\n"
    if kind == "perfetto":
        from trace_tools.exchange.perfetto import events_of

        return json.dumps(events_of(trace), allow_nan=False) + "\n"
    from trace_tools.exchange.notebook import notebook, percent

    return notebook(trace) if kind == "notebook" else percent(trace)
