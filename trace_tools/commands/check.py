"""`check lecture.py…`: what is wrong in directives, narrative calls and the project's settings; nothing is run.

One line for each mistake, as editors and pre-commit read them: `lecture.py:12: …`. Exit codes: 0 none; 1 mistakes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from trace_tools.errors import TraceToolsError
from trace_tools.project import wanted


@click.command()
@click.argument("lectures", nargs=-1, required=True, type=click.Path(path_type=Path))
def check(lectures: tuple[Path, ...]) -> None:
    """Say what is wrong in the directives and words of LECTURES; nothing is run."""
    from trace_tools.mistakes import mistakes

    found: list[str] = []
    for path in lectures:
        try:
            found += map(str, mistakes(path))
        except TraceToolsError as error:  # it is no Python
            found.append(str(error))
        try:
            wanted(path)
        except TraceToolsError as error:  # of the project's file
            found.append(str(error))
    for mistake in dict.fromkeys(found):
        click.echo(mistake)
    if found:
        sys.exit(1)
