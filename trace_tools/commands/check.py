"""Run `check lecture.py…`: find mistakes in directives and narrative calls without running code.

Each mistake is a line that editors and pre-commit can parse: `lecture.py:12: …`. Exit codes: 0 no mistakes; 1
mistakes; 2 a file could not be read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from trace_tools.commands.arguments import PATH
from trace_tools.errors import LectureError
from trace_tools.util import formats

LEFT_OUT = ("__pycache__", "node_modules")  # folders, in addition to hidden ones and virtual environments


@click.command()
@click.argument("lectures", metavar="LECTURE...", nargs=-1, required=True, type=PATH)
def check(lectures: tuple[Path, ...]) -> None:
    """Find mistakes in lectures without running them.

    Each mistake is a line with the file, the line number and the reason. In a folder, every
    Python file with a `main`, cells, directives or imports from trace_tools is checked.

    \b
    Examples:
      trace-tools check talk.py
      trace-tools check *.py
      trace-tools check .
    """
    from trace_tools.source.lint import is_lecture, mistakes
    from trace_tools.source.statements import read_source

    lines: list[str] = []
    checked, unread = list[Path](), False
    for path in dict.fromkeys(file for given in lectures for file in _files(given)):
        try:
            source = read_source(path)
            if path in lectures or is_lecture(source):
                checked.append(path)
                lines += map(str, mistakes(path, source))
        except LectureError as error:  # it has no line if it could not be read, otherwise it is not Python
            lines.append(str(error))
            unread |= error.line is None
    for mistake in dict.fromkeys(lines):
        click.echo(mistake)
    if lines:
        sys.exit(2 if unread else 1)
    if not checked:
        click.echo("No lecture found; a lecture has a `main`, cells, directives, or imports from trace_tools.")
        return
    click.echo(f"No mistakes in {checked[0] if len(checked) == 1 else formats.plural(len(checked), 'lecture')}.")


def _files(path: Path) -> Iterator[Path]:
    """Yield a file, or the Python files of a folder and those below it."""
    if not path.is_dir():
        yield path
        return
    os.listdir(path)  # raises an error if it may not be read, as `os.walk` does not
    for folder, subfolders, names in os.walk(path):
        kept = [name for name in subfolders if name[0] != "." and name not in LEFT_OUT]
        subfolders[:] = sorted(name for name in kept if not Path(folder, name, "pyvenv.cfg").exists())
        yield from (Path(folder, name) for name in sorted(names) if name.endswith(".py"))
