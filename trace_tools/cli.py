"""The command line: the group of all commands.

    python -m trace_tools trace lecture.py        run it, write rendered/<machine>/trace.yaml and its pages
    python -m trace_tools render TRACE.yaml…      make the pages again, with the lecture's prose as it is now
    python -m trace_tools diff A.yaml B.yaml      what changed, and whether it matters
    python -m trace_tools bench A.py B.py         two versions, run here in turn until they can be told apart
    python -m trace_tools compare TRACE.yaml…     many machines side by side
    python -m trace_tools serve lecture.py        its pages in a browser, made again at each save
    python -m trace_tools validate TRACE.yaml
    python -m trace_tools recover DIR             the journals of a killed run → DIR/<machine>/partial/

Exit codes: 0 done (diff: no difference that matters); 1 a difference, a failed claim, an expression that
could not be evaluated, or a lecture that raised; 2 bad usage or bad input.
"""

from __future__ import annotations

from typing import Any

import click

from trace_tools.commands.bench import bench
from trace_tools.commands.compare import compare
from trace_tools.commands.diff import diff
from trace_tools.commands.recover import recover
from trace_tools.commands.render import render
from trace_tools.commands.serve import serve
from trace_tools.commands.trace import trace
from trace_tools.commands.validate import validate
from trace_tools.errors import TraceToolsError


class OneLineErrors(click.Group):
    """A group whose commands show the project's own errors as one line."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except TraceToolsError as error:
            click.echo(f"error: {error}", err=True)
            ctx.exit(error.exit_code)


@click.group(cls=OneLineErrors, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def main() -> None:
    """Trace an executable lecture, and render what it did."""


for command in (trace, render, diff, bench, compare, serve, validate, recover):
    main.add_command(command)
