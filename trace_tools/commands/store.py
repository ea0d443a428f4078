"""Run `store`: keep traces by lecture, commit and machine, and show the time of a statement over commits.

python -m trace_tools store add traces rendered/*/trace.yaml            traces/<lecture>/<commit>/<machine>/<run>/…
python -m trace_tools store list traces --machine H100
python -m trace_tools store history traces "x @ w" --machine H100       on the terminal; -o DIR: as pages
python -m trace_tools store index traces                                rebuild the index from the files
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from trace_tools.commands.traces import TracePath
from trace_tools.util.formats import visible

PATH = click.Path(path_type=Path)


@click.group()
def store() -> None:
    """Keep traces of many runs and show how times change.

    STORE is a folder: traces are filed by lecture, commit and machine.

    \b
    Examples:
      trace-tools store add traces rendered/*/trace.yaml
      trace-tools store list traces --machine H100
      trace-tools store history traces "x @ w"
    """


@store.command()
@click.argument("folder", metavar="STORE", type=PATH)
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True, type=TracePath())
def add(folder: Path, traces: tuple[Path, ...]) -> None:
    """Copy traces into STORE, which is created if needed.

    A trace that is already in the store is not added again.

    \b
    Example:
      trace-tools store add traces rendered/*/trace.yaml
    """
    from trace_tools.store.store import Store

    with Store.create(folder) as opened:
        for path in traces:
            kept, is_new = opened.add(path)
            click.echo(f"{folder / kept}" + ("" if is_new else " (already stored)"))
        _warn(opened.troubles)


@store.command("list")
@click.argument("folder", metavar="STORE", type=PATH)
@click.option("--lecture", default="", help="Only this lecture, by the name of its folder.")
@click.option("--commit", default="", help="Only this commit, by the name of its folder.")
@click.option("--machine", default="", metavar="TEXT", help="Only machines with this text in their name, such as H100.")
def list_(folder: Path, lecture: str, commit: str, machine: str) -> None:
    """List the runs in STORE, oldest first.

    The columns are separated by tabs: start, lecture, commit, machine, how it ended, file.

    \b
    Example:
      trace-tools store list traces --machine H100
    """
    from trace_tools.store.store import Store

    with Store(folder) as opened:
        _warn(opened.troubles)
        for run in opened.runs(lecture=lecture, commit=commit, machine=machine):
            ending = "emulated" if run.emulated else run.ended
            _row(run.started, run.lecture, run.commit, run.name, ending, str(folder / run.path))


@store.command()
@click.argument("folder", metavar="STORE", type=PATH)
@click.argument("statement", required=False)
@click.option("--lecture", default="", help="Only this lecture, by the name of its folder.")
@click.option("--machine", default="", metavar="TEXT", help="Only machines with this text in their name, such as H100.")
@click.option(
    "-o", "--out", type=PATH, help="Write pages to this folder; without STATEMENT, for all annotated statements."
)
def history(folder: Path, statement: str | None, lecture: str, machine: str, out: Path | None) -> None:
    """Show how long a statement took in each run.

    STATEMENT is a line number of the newest version, or a piece of its code.

    \b
    Examples:
      trace-tools store history traces "x @ w" --machine H100
      trace-tools store history traces -o history
    """
    from trace_tools.errors import UsageError
    from trace_tools.store.history import changes_text, find, histories, history_of
    from trace_tools.store.store import Store
    from trace_tools.util.formats import duration

    if statement is None and out is None:
        raise UsageError("expected STATEMENT (a line number or a piece of code), or -o DIR for pages of all statements")
    with Store(folder) as opened:
        _warn(opened.troubles)
        if statement is None:
            shown = histories(opened, lecture=lecture, machine=machine)
        else:
            shown = [history_of(opened, find(opened, statement, lecture=lecture), machine=machine)]
        _warn(dict.fromkeys(one.why_no_changes for one in shown if one.why_no_changes))
        if out is not None:
            from trace_tools.store.history import MADE_HERE, history_files
            from trace_tools.util.files import update_folder

            update_folder(out, history_files(shown), MADE_HERE)
            click.echo(str(out / "index.html"))
            return
        for one in shown:
            for slug, series in one.series.items():
                for point in series.points:
                    _row(point.started, point.commit, slug, f"line {point.line}", duration(point.ns))
            for line in changes_text(one):
                click.echo(_plain(line))


@store.command()
@click.argument("folder", metavar="STORE", type=PATH)
def index(folder: Path) -> None:
    """Rebuild the index of STORE from its files.

    \b
    Example:
      trace-tools store index traces
    """
    from trace_tools.store.store import Store

    with Store(folder) as opened:
        opened.rebuild()
        _warn(opened.troubles)
        click.echo(f"{folder}: {len(opened.runs())} runs")


def _row(*cells: str) -> None:
    click.echo("\t".join(map(_plain, cells)))


def _warn(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(_plain(line), err=True)


def _plain(text: str) -> str:
    """Return a text on one line and without tabs, because names in a trace may contain any character."""
    return visible(text.translate({ord("\n"): "\\n", ord("\t"): "\\t"}))
