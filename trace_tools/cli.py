"""The command line: the group of all commands.

    python -m trace_tools new talk.py             a small lecture to begin with
    python -m trace_tools check lecture.py        mistakes in its directives and words, without running it
    python -m trace_tools trace lecture.py        run it, write rendered/<machine>/trace.yaml and its pages
    python -m trace_tools fleet machines.yaml     trace it on many machines at once, bring the traces home, compare
    python -m trace_tools render TRACE.yaml…      make the pages again, with the lecture's prose as it is now
    python -m trace_tools diff A.yaml B.yaml      what changed, and whether it matters
    python -m trace_tools bench A.py B.py         two versions, run here in turn until they can be told apart
    python -m trace_tools compare TRACE.yaml…     many machines side by side
    python -m trace_tools serve lecture.py        its pages in a browser, made again at each save
    python -m trace_tools store add DIR TRACE…    traces by lecture, commit and machine; store history: over time
    python -m trace_tools site --url ADDRESS      the pages, for a host of static files
    python -m trace_tools doctor                  what this machine is, and what would go wrong on it
    python -m trace_tools import FILE             edtrace's JSON → a trace; a notebook or percent cells → a lecture
    python -m trace_tools export TRACE.yaml       a trace for edtrace, Jupyter, jupytext or Perfetto
    python -m trace_tools validate TRACE.yaml
    python -m trace_tools recover DIR             the journals of a killed run → DIR/<machine>/partial/

Exit codes: 0 done (diff: no difference that matters); 1 a difference, a mistake, a failed claim, an expression that
could not be evaluated, or a lecture that raised; 2 bad usage or bad input, or the system's refusal: a full disk, say;
128 + n what signal n ended.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
from collections.abc import Iterator
from keyword import iskeyword
from typing import Any

import click

from trace_tools import __version__
from trace_tools.errors import TraceToolsError, in_words, is_refusal

# In the order in which they are listed: modules of `commands`, each with a command of its name (`import_`: a keyword).
COMMANDS = [
    "new",
    "check",
    "trace",
    "fleet",
    "render",
    "serve",
    "diff",
    "compare",
    "bench",
    "store",
    "site",
    "doctor",
    "import",
    "export",
    "validate",
    "recover",
]
STREAMS = ("stdin", "stdout", "stderr")


class OneLineErrors(click.Group):
    """A group whose commands show the project's own errors, and those of the system, as one line.

    A command is loaded when it is asked for: others need more than a tenth of a second for what they import.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        name = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        found = getattr(importlib.import_module(f"trace_tools.commands.{name}"), name)
        assert isinstance(found, click.Command)
        return found

    def main(self, *args: Any, **kwargs: Any) -> Any:
        _open_streams()
        return super().main(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _ended_by_signals() as signals:
            try:
                super().invoke(ctx)
                sys.stdout.flush()
            except TraceToolsError as error:
                _say(f"error: {error}")
                ctx.exit(error.exit_code)
            except BrokenPipeError:  # nobody reads on: `| head -1`
                _close_streams()
                ctx.exit(128 + signal.SIGPIPE)
            except (OSError, MemoryError, RuntimeError) as error:
                if not is_refusal(error):
                    raise
                _say(f"error: {in_words(error)}")
                _close_streams()
                ctx.exit(2)
            except KeyboardInterrupt as error:
                _say(str(error) or "interrupted")
                ctx.exit(128 + (signals or [signal.SIGINT])[-1])
            finally:
                if signals and signals[-1] != signal.SIGINT:  # whatever there was still to do, is done
                    ctx.exit(128 + signals[-1])


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[list[int]]:
    """Take the end of the terminal or of the session for Ctrl-C; yield the signals that came.

    One that is ignored, as `nohup` and a shell's background jobs have it, stays ignored.
    """
    came: list[int] = []

    def interrupt(number: int, frame: Any) -> None:
        came.append(number)
        signal.default_int_handler(number, frame)

    before = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            with contextlib.suppress(ValueError):  # not in the main thread
                before[number] = signal.signal(number, interrupt)
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _open_streams() -> None:
    """Give the standard streams that were closed to /dev/null, or the first files opened would be in their place.

    A letter that a stream's encoding doesn't have is shown by its number.
    """
    for number, name in enumerate(STREAMS):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free: this one
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))
        if number and hasattr(stream := getattr(sys, name), "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _close_streams() -> None:
    """Leave nothing to be written at exit to a stream that takes nothing any more."""
    for name in STREAMS[1:]:
        stream = getattr(sys, name)
        try:
            stream.flush()
        except OSError:
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _say(line: str) -> None:
    """Print one line, whatever is in the names of files that it tells of."""
    with contextlib.suppress(OSError):
        click.echo("".join(c if c.isprintable() else ascii(c)[1:-1] for c in line), err=True)


@click.group(cls=OneLineErrors, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="trace-tools", message="%(prog)s %(version)s")
def main() -> None:
    """Trace an executable lecture, and render what it did."""
