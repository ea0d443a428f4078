"""`store`: traces kept by lecture, commit and machine, and what a statement took over time.

python -m trace_tools store add traces rendered/*/trace.yaml            traces/<lecture>/<commit>/<machine>/<run>/…
python -m trace_tools store list traces --machine H100
python -m trace_tools store history traces "x @ w" --machine H100       on the terminal; -o DIR: as pages
python -m trace_tools store index traces                                the index, made again from the files
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from trace_tools.formats import visible

PATH = click.Path(path_type=Path)


@click.group()
def store() -> None:
    """Keep traces by lecture, commit and machine; ask what a statement took over time."""


@store.command()
@click.argument("folder", metavar="STORE", type=PATH)
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True, type=PATH)
def add(folder: Path, traces: tuple[Path, ...]) -> None:
    """Put TRACES into STORE, which is made where it is missing; what is there already stays as it is."""
    from trace_tools.storing.store import Store

    with Store.create(folder) as opened:
        for path in traces:
            place, is_new = opened.add(path)
            click.echo(f"{folder / place}" + ("" if is_new else ": was there"))
        _tell(opened.troubles)


@store.command("list")
@click.argument("folder", metavar="STORE", type=PATH)
@click.option("--lecture", default="", help="As its folder is named.")
@click.option("--commit", default="", help="As its folder is named.")
@click.option("--machine", default="", metavar="TEXT", help="In the machine's name: H100.")
def list_(folder: Path, lecture: str, commit: str, machine: str) -> None:
    """List the runs in STORE, in order of time: a line for each, tabs between."""
    from trace_tools.storing.store import Store

    with Store(folder) as opened:
        _tell(opened.troubles)
        for run in opened.runs(lecture=lecture, commit=commit, machine=machine):
            told = "emulated" if run.emulated else run.ended
            _row(run.started, run.lecture, run.commit, run.name, told, str(folder / run.path))


@store.command()
@click.argument("folder", metavar="STORE", type=PATH)
@click.argument("statement", required=False)
@click.option("--lecture", default="", help="As its folder is named. Default: the only one.")
@click.option("--machine", default="", metavar="TEXT", help="In the machine's name: H100.")
@click.option("-o", "--out", type=PATH, help="Folder for pages; without STATEMENT, of every annotated one.")
def history(folder: Path, statement: str | None, lecture: str, machine: str, out: Path | None) -> None:
    """Say what STATEMENT (a line of the newest version, or a piece of its code) took in each run."""
    from trace_tools.errors import UsageError
    from trace_tools.formats import duration
    from trace_tools.storing.history import find, histories, history_of, told
    from trace_tools.storing.store import Store

    if statement is None and out is None:
        raise UsageError("expected a statement: a line, or a piece of its code; or -o DIR for pages of all")
    with Store(folder) as opened:
        _tell(opened.troubles)
        if statement is None:
            found = histories(opened, lecture=lecture, machine=machine)
        else:
            found = [history_of(opened, find(opened, statement, lecture=lecture), machine=machine)]
        _tell(dict.fromkeys(one.why_no_changes for one in found if one.why_no_changes))
        if out is not None:
            from trace_tools.files import update_folder
            from trace_tools.storing.pages import MADE_HERE, history_files

            update_folder(out, history_files(found), MADE_HERE)
            click.echo(str(out / "index.html"))
            return
        for one in found:
            for slug, series in one.series.items():
                for point in series.points:
                    _row(point.started, point.commit, slug, f"line {point.line}", duration(point.ns))
            for line in told(one):
                click.echo(_plain(line))


@store.command()
@click.argument("folder", metavar="STORE", type=PATH)
def index(folder: Path) -> None:
    """Make the index of STORE again from its files."""
    from trace_tools.storing.store import Store

    with Store(folder) as opened:
        opened.rebuild()
        _tell(opened.troubles)
        click.echo(f"{folder}: {len(opened.runs())} runs")


def _row(*cells: str) -> None:
    click.echo("\t".join(map(_plain, cells)))


def _tell(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(_plain(line), err=True)


def _plain(text: str) -> str:
    """Return a text on one line and without tabs, whatever a trace has in its names."""
    return visible(text.translate({ord("\n"): "\\n", ord("\t"): "\\t"}))
