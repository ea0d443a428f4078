"""Run `serve lecture.py`: show its pages in a browser, and make them again at each save."""

from __future__ import annotations

import gc
import os
import signal
import sys
import webbrowser
from pathlib import Path

import click

from trace_tools.commands.recover import recover_first
from trace_tools.config import ProjectOption, of_project, trace_options
from trace_tools.errors import UsageError
from trace_tools.live.status import Status, StatusBoard
from trace_tools.machines.devices import FORMS
from trace_tools.tracing.options import TraceOptions

OUT = "Folder for the drafts and their pages."
DEVICE = {"default": "cpu", "show_default": True, "help": f"Device to run on: {FORMS}."}


@click.command()
@click.argument("lecture", type=click.Path(path_type=Path), is_eager=True, callback=of_project)
@click.option("-o", "--out", type=click.Path(path_type=Path), default=Path(".serve"), show_default=True, help=OUT)
@click.option("--port", cls=ProjectOption, show_default=True)
@trace_options("device", "keep_going", "main", "include", device=DEVICE)
@click.option("--open/--no-open", "opens", cls=ProjectOption, show_default=True)
def serve(lecture: Path, out: Path, port: int, options: TraceOptions, *, opens: bool) -> None:
    """Show a lecture's pages and update them at each save.

    The lecture runs as a draft, once and on the CPU. Ctrl-C ends the server.

    \b
    Examples:
      trace-tools serve talk.py
      trace-tools serve talk.py --port 0 --no-open
    """
    from trace_tools.live import server
    from trace_tools.live.session import Session, temporary_files

    if not lecture.is_file():
        raise UsageError(f"{lecture}: can't be read: no such file; expected a Python file")
    statuses = StatusBoard(_Log().show)
    socket = server.listening(port)
    with temporary_files() as temporary:
        session = Session(lecture, out, statuses, options, temporary)
        serving = server.Server(server.application(statuses, lambda: session.site), statuses, socket)
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


class _Log:
    """Prints on the terminal the messages that pages receive; a terminal shows the current activity in one changing
    line.
    """

    def __init__(self) -> None:
        self._previous = Status()

    def show(self, status: Status) -> None:
        previous, self._previous = self._previous, status
        if sys.stderr.isatty():
            click.echo(f"\r\x1b[K{status.doing}", nl=False, err=True)
        if status.problems and status.problems != previous.problems:
            click.echo(
                "".join(f"\r\x1b[K{line}\n" if sys.stderr.isatty() else f"{line}\n" for line in status.problems),
                nl=False,
                err=True,
            )
