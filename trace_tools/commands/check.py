"""`check lecture.py…`: what is wrong in directives and narrative calls, without running anything.

One line for each mistake, as editors and pre-commit read them: `lecture.py:12: …`. Exit codes: 0 none; 1 mistakes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from trace_tools.errors import LectureError


@click.command()
@click.argument("lectures", nargs=-1, required=True, type=click.Path(path_type=Path))
def check(lectures: tuple[Path, ...]) -> None:
    """Say what is wrong in the directives and words of LECTURES; nothing is run."""
    from trace_tools.mistakes import mistakes

    found: list[LectureError] = []
    for path in lectures:
        try:
            found += mistakes(path)
        except LectureError as error:  # it is no Python
            found.append(error)
    for mistake in found:
        click.echo(str(mistake))
    if found:
        sys.exit(1)
