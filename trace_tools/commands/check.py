"""Run `check lecture.py…`: find mistakes in directives and narrative calls without running code.

Each mistake is a line that editors and pre-commit can parse: `lecture.py:12: …`. Exit codes: 0 no mistakes; 1 mistakes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from trace_tools.errors import TraceToolsError
from trace_tools.util import formats

LEFT_OUT = ("__pycache__", "node_modules")  # folders, in addition to hidden ones and virtual environments


@click.command()
@click.argument("lectures", metavar="LECTURE...", nargs=-1, required=True, type=click.Path(path_type=Path))
def check(lectures: tuple[Path, ...]) -> None:
    """Find mistakes in lectures without running them.

    Each mistake is a line: file, line number, what is wrong. In a folder, all lectures are checked: the Python files
    with a `main`, cells, directives or imports from trace_tools.

    \b
    Examples:
      trace-tools check talk.py
      trace-tools check *.py
      trace-tools check .
    """
    from trace_tools.source.lint import is_lecture, mistakes
    from trace_tools.source.statements import read_source

    lines: list[str] = []
    checked: list[Path] = []
    for path in dict.fromkeys(file for given in lectures for file in _files(given)):
        try:
            source = read_source(path)
            if path in lectures or is_lecture(source):
                checked.append(path)
                lines += map(str, mistakes(path, source))
        except TraceToolsError as error:  # it is not Python
            lines.append(str(error))
    for mistake in dict.fromkeys(lines):
        click.echo(mistake)
    if lines:
        sys.exit(1)
    if not checked:
        click.echo("No lecture found; a lecture has a `main`, cells, directives, or imports from trace_tools.")
        return
    click.echo(f"No mistakes in {checked[0] if len(checked) == 1 else formats.plural(len(checked), 'lecture')}.")


def _files(path: Path) -> Iterator[Path]:
    """Yield a file, or the Python files of a folder and those below it."""
    if not path.is_dir():
        yield path
        return
    for folder, subfolders, names in os.walk(path):
        kept = [name for name in subfolders if name[0] != "." and name not in LEFT_OUT]
        subfolders[:] = sorted(name for name in kept if not Path(folder, name, "pyvenv.cfg").exists())
        yield from (Path(folder, name) for name in sorted(names) if name.endswith(".py"))
