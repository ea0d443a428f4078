"""Define the command line, the group of all commands. `trace-tools --help` lists them by purpose.

Exit codes: 0 success (diff: no difference that matters); 1 a difference, a mistake, a failed claim, an expression that
could not be evaluated, or an exception in the lecture; 2 bad usage, bad input, or an error of the system such as a full
disk; 3 diff could not judge times; 70 a fault of the tools, with its traceback printed or kept; 128 + n if signal n
ended the command.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from typing import Any

import click

from trace_tools import __version__
from trace_tools.errors import TraceToolsError, in_words

# In the order of the help; a command is in the module of `commands` with its name, or in that of `MODULES`.
GROUPS = {
    "Write": ["new", "check", "serve"],
    "Run": ["trace", "doctor"],
    "Read": ["render"],
    "Compare": ["diff"],
    "Keep": ["validate", "recover"],
}
MODULES = {"validate": "keep", "recover": "keep"}
COMMANDS = [name for names in GROUPS.values() for name in names]
STREAMS = ("stdin", "stdout", "stderr")


class OneLineErrors(click.Group):
    """A group of commands that report errors of the project and of the system as one line.

    A command is imported when it is used: importing all of them takes more than a tenth of a second.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        module = importlib.import_module(f"trace_tools.commands.{MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by group, each with the first sentence of its help."""
        for title, names in GROUPS.items():
            with formatter.section(title):
                listed = [(name, self.get_command(ctx, name)) for name in names]
                formatter.write_dl([(name, sentence(command)) for name, command in listed if command is not None])

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line, with characters escaped that a stream cannot encode."""
        for number, name in enumerate(STREAMS):
            if getattr(sys, name) is None:  # closed; now /dev/null, so that no other file gets its descriptor
                os.set_inheritable(descriptor := os.open(os.devnull, os.O_RDWR), True)
                setattr(sys, name, os.fdopen(descriptor, "w" if number else "r", encoding="utf-8", closefd=False))
            if number and hasattr(stream := getattr(sys, name), "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        return super().main(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _ended_by_signals() as signals:
            try:
                super().invoke(ctx)
                sys.stdout.flush()
            except (click.ClickException, click.Abort, click.exceptions.Exit):
                raise
            except KeyboardInterrupt as error:
                _print_line(str(error) or "interrupted")
                ctx.exit(128 + (signals or [signal.SIGINT])[-1])
            except BrokenPipeError:  # the reader is gone, as in `| head -1`
                _close_streams()
                ctx.exit(128 + signal.SIGPIPE)
            except Exception as error:
                if not isinstance(error, TraceToolsError | OSError | MemoryError):  # a fault of the tools
                    with contextlib.suppress(OSError):
                        click.echo(traceback.format_exc(), err=True, nl=False)
                    _print_line("error: trace-tools failed; the traceback above shows the location")
                    ctx.exit(os.EX_SOFTWARE)
                _print_line(f"error: {in_words(error)}")
                _close_streams()
                ctx.exit(getattr(error, "exit_code", 2))
            finally:
                if signals and signals[-1] != signal.SIGINT:  # all cleanup is done
                    ctx.exit(128 + signals[-1])


def sentence(command: click.Command) -> str:
    """Return the first line of a command's help without shortening it."""
    return (command.help or "").partition("\n")[0]


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[list[int]]:
    """Treat SIGHUP and SIGTERM as Ctrl-C; yield the list of received signals.

    Ignored signals, as under `nohup` and in a shell's background jobs, remain ignored.
    """
    received: list[int] = []

    def interrupt(number: int, frame: Any) -> None:
        received.append(number)
        signal.default_int_handler(number, frame)

    before = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            with contextlib.suppress(ValueError):  # not in the main thread
                before[number] = signal.signal(number, interrupt)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _close_streams() -> None:
    """Drop output that can no longer be written, so that exiting does not fail."""
    for name in STREAMS[1:]:
        stream = getattr(sys, name)
        try:
            stream.flush()
        except OSError:
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _print_line(line: str) -> None:
    """Print one line, with escapes for characters in file names that cannot be printed."""
    with contextlib.suppress(OSError):
        click.echo("".join(c if c.isprintable() else ascii(c)[1:-1] for c in line), err=True)


@click.group(cls=OneLineErrors, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="trace-tools", message="%(prog)s %(version)s")
def main() -> None:
    """Run a lecture and make pages that show what each line did.

    Start with `trace-tools new talk.py`, then `trace-tools trace talk.py`.
    `trace-tools COMMAND --help` shows an example and the options of a command.
    """
