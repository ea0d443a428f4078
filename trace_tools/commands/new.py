"""`new talk.py`: a small lecture that teaches the vocabulary, to be traced as it is and changed from there."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from trace_tools.errors import UsageError
from trace_tools.mistakes import why_no_name

TEMPLATE = Path(__file__).with_name("new_lecture.txt")


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
def new(path: Path) -> None:
    """Write a small lecture to PATH, which must not be there yet."""
    if path.suffix != ".py" or not path.stem.isidentifier():
        raise UsageError(f"{path}: expected a name that Python can import, such as my_lecture.py")
    if (why := why_no_name(path)) is not None:
        raise UsageError(f"{path}: {why}; expected another name")
    title = path.stem.replace("_", " ").strip().capitalize() or "A lecture"
    text = TEMPLATE.read_text(encoding="utf-8").replace("TITLE", title, 1)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path}: is there already, and stays as it is") from None
    typed = shlex.quote(str(path))
    click.echo(
        f"{path}: trace-tools trace {typed} runs it and makes its pages; trace-tools serve {typed} while you write"
    )
