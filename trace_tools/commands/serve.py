"""Run `serve lecture.py`: show its pages in a browser, and make them again at each save."""

from __future__ import annotations

import os
import signal
import sys
import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trace_tools.commands.arguments import PATH, trace_options
from trace_tools.commands.keep import recover_first
from trace_tools.machines.devices import FORMS
from trace_tools.tracing.options import TraceOptions

if TYPE_CHECKING:
    from trace_tools.live.session import Status

PORT = "Port of the web server; 0 picks a free one."
DEVICE = {"default": "cpu", "show_default": True, "help": f"Device to run on: {FORMS}."}


@click.command()
@click.argument("lecture", type=PATH)
@click.option("-o", "--out", type=PATH, default=Path(".serve"), show_default=True, help="Folder for drafts and pages.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help=PORT)
@trace_options("device", "keep_going", device=DEVICE)
@click.option("--open/--no-open", "opens", default=True, show_default=True, help="Open the pages in a browser.")
def serve(lecture: Path, out: Path, port: int, options: TraceOptions, *, opens: bool) -> None:
    """Show a lecture's pages and update them at each save.

    The lecture runs as a draft, once and on the CPU. Ctrl-C ends the server.

    \b
    Examples:
      trace-tools serve talk.py
      trace-tools serve talk.py --port 0 --no-open
    """
    from trace_tools.live.server import Server, application, listening
    from trace_tools.live.session import Session
    from trace_tools.source.statements import read_text

    read_text(lecture)  # its mistakes are shown, but a file that can't be read is refused
    socket = listening(port)
    out.mkdir(parents=True, exist_ok=True)
    session = Session(lecture, out, replace(options, force=True, draft=True), _show)
    server = Server(application(out, lambda: session.status), socket)
    try:
        server.start()
        click.echo(f"{server.address}  (Ctrl-C ends it)")
        recover_first(out)
        if opens:
            webbrowser.open(server.address)
        session.watch()
    except KeyboardInterrupt:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # it is ending
    finally:
        session.close()
        server.stop()
    sys.stdout.flush()
    os._exit(0)  # open streams of browsers would keep the server's thread


def _show(status: Status) -> None:
    """Print the status that pages receive: problems as lines, progress as one changing line of a terminal."""
    on_terminal = sys.stderr.isatty()
    if on_terminal:
        click.echo(f"\r\x1b[K{status.doing}", nl=False, err=True)
    if not status.doing:  # the pages were made, or can't be
        for line in status.problems:
            click.echo(line, err=True)
