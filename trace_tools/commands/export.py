"""`export TRACE.yaml --format …`: a trace in another tool's format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trace_tools.errors import UsageError

if TYPE_CHECKING:
    from trace_tools.schema import Trace

ENDINGS = {  # of the files that are written where none is named
    "edtrace": ".json",
    "notebook": ".ipynb",
    "percent": ".percent.py",
    "perfetto": ".perfetto.json",
}


@click.command()
@click.argument("path", metavar="TRACE", type=click.Path(path_type=Path))
@click.option("--format", "kind", required=True, type=click.Choice([*ENDINGS]))
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Default: the lecture's name, here.")
def export(path: Path, kind: str, out: Path | None) -> None:
    """Write TRACE as edtrace's JSON, as a notebook or percent cells, or for Perfetto."""
    from trace_tools.file_format.trace_file import load
    from trace_tools.files import replace

    loaded = load(path)
    for note in loaded.notes:
        click.echo(f"{path}: {note}", err=True)
    written = out or Path(Path(loaded.trace.run.lecture).stem + ENDINGS[kind])
    if not written.parent.is_dir():
        raise UsageError(f"{written.parent}: no such folder")
    replace(written, _exported(loaded.trace, kind))
    click.echo(str(written))


def _exported(trace: Trace, kind: str) -> str:
    if kind == "edtrace":
        from trace_tools.exchange.edtrace_export import exported

        return json.dumps(exported(trace), indent=2, allow_nan=False) + "\n"
    if kind == "perfetto":
        from trace_tools.exchange.perfetto import events_of

        return json.dumps(events_of(trace), allow_nan=False) + "\n"
    from trace_tools.exchange.notebook import notebook, percent

    return notebook(trace) if kind == "notebook" else percent(trace)
