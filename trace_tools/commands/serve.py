"""`serve lecture.py`: its pages in a browser, made again at each save."""

from __future__ import annotations

import gc
import os
import signal
import sys
import webbrowser
from pathlib import Path

import click

from trace_tools.commands.recover import recover_first
from trace_tools.errors import UsageError
from trace_tools.machines.devices import FORMS
from trace_tools.project import ProjectOption, of_project
from trace_tools.serving.board import Board, Status

NEEDED = ("starlette", "uvicorn", "watchfiles")


@click.command()
@click.argument("lecture", type=click.Path(path_type=Path), is_eager=True, callback=of_project)
@click.option("-o", "--out", type=click.Path(path_type=Path), default=Path(".serve"), show_default=True)
@click.option("--port", cls=ProjectOption, default=8000, show_default=True, help="0: any that is free.")
@click.option("--device", cls=ProjectOption, metavar="DEVICE", default="cpu", show_default=True, help=FORMS)
@click.option("--keep-going/--no-keep-going", cls=ProjectOption, help="Record what failed, and go on.")
@click.option("--include", multiple=True, metavar="PATH|MODULE", help="Trace this module, too, or all of a package.")
@click.option("--open/--no-open", "opens", cls=ProjectOption, default=True, show_default=True, help="Open a browser.")
def serve(
    lecture: Path, out: Path, port: int, device: str, include: tuple[str, ...], *, keep_going: bool, opens: bool
) -> None:
    """Show LECTURE's pages in a browser, and make them again at each save. Ctrl-C ends it."""
    _check_what_is_installed()
    from trace_tools.serving import server
    from trace_tools.serving.retracing import temporary_files
    from trace_tools.serving.session import Session

    if not lecture.is_file():
        raise UsageError(f"{lecture}: can't be read: no such file; expected a Python file")
    board = Board(_Log().show)
    at = server.listening(port)
    with temporary_files() as temporary:
        session = Session(lecture, out, board, device, temporary, keep_going=keep_going, include=include)
        serving = server.Server(server.application(board, lambda: session.site), board, at)
        gc.set_threshold(100_000, 20, 100)  # among so many objects, looking for cycles takes half of a page's time
        try:
            serving.start()
            click.echo(f"{serving.address}  (Ctrl-C ends it)")
            recover_first(out)
            session.begin()
            gc.freeze()  # the trace stays
            if opens:
                webbrowser.open(serving.address)
            session.watch()
        except KeyboardInterrupt:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)  # it is ending
        finally:
            serving.stop()
            session.stop()
    click.echo("", err=True)
    sys.stdout.flush()
    os._exit(0)  # Python would look through all of a trace's objects once more, for seconds


def _check_what_is_installed() -> None:
    from importlib.util import find_spec

    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise UsageError(f"serve needs {', '.join(missing)}; `pip install {' '.join(missing)}`")


class _Log:
    """Tells on the terminal what the pages are told; on a terminal, what is being done in one changing line."""

    def __init__(self) -> None:
        self._before = Status()

    def show(self, notice: Status) -> None:
        before, self._before = self._before, notice
        if sys.stderr.isatty():
            click.echo(f"\r\x1b[K{notice.doing}", nl=False, err=True)
        if notice.problems and notice.problems != before.problems:
            click.echo(
                "".join(f"\r\x1b[K{line}\n" if sys.stderr.isatty() else f"{line}\n" for line in notice.problems),
                nl=False,
                err=True,
            )
