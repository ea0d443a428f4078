"""Run `new talk.py`: write a small lecture that teaches the vocabulary, ready to trace and to change."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from trace_tools.commands.arguments import PATH
from trace_tools.errors import UsageError
from trace_tools.source.lint import why_no_name
from trace_tools.util import formats
from trace_tools.util.files import why_not_inside

TEMPLATE = Path(__file__).with_name("new_lecture.txt")


@click.command()
@click.argument("path", type=PATH)
def new(path: Path) -> None:
    """Write a small example lecture to start from.

    PATH is the file to write. The ending .py is added if it is missing, and missing folders are created.

    \b
    Examples:
      trace-tools new talk
      trace-tools new lectures/01-tensors.py
    """
    if path.is_dir():
        raise UsageError(f"{path}: is a folder; expected a file, such as {path / 'talk.py'}")
    if not path.suffix:
        path = path.with_name(f"{path.name}.py")
    if path.suffix != ".py":
        raise UsageError(f"{path}: expected a name that ends in .py")
    if (why := why_not_inside(path.name) or why_no_name(path)) is not None:
        raise UsageError(f"{path}: {why}")
    title = formats.readable(path.stem).replace('"', "'")
    text = TEMPLATE.read_text(encoding="utf-8").replace("TITLE", title, 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path}: exists already and was not changed; choose another name") from None
    click.echo(f"wrote {path}; `trace-tools trace {shlex.quote(str(path))}` runs it and makes its pages")
