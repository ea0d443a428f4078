"""Resolve a trace on the command line to its path; accept a file, a folder with a trace in it, or a name.

    @click.argument("path", metavar="TRACE", type=TracePath())
    path_of("cpu")             Path("rendered/cpu/trace.yaml"), if no file or folder here is called cpu
    path_of("rendered/cpu")    Path("rendered/cpu/trace.yaml")

A name refers to a folder in the project's folder of pages: `out` in its pyproject.toml, else `rendered`.
"""

from __future__ import annotations

from pathlib import Path

import click

from trace_tools.config import FILE, wanted
from trace_tools.errors import UsageError

TRACE = "trace.yaml"
RENDERED = "rendered"  # where `trace` puts its folders
SUFFIXES = (".yaml", ".yml", ".gz")  # of names that can only be files


class TracePath(click.ParamType[Path]):
    """An argument that is a trace."""

    name = "trace"

    def convert(self, value: str | Path, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the trace's path. Raises UsageError if it does not exist."""
        return path_of(value)


def path_of(name: str | Path) -> Path:
    """Return the path of a trace. An existing path wins; a name that can only be a file is returned unchanged.

    Raises UsageError that lists the traces in the folder of pages if no such path or name exists.
    """
    path = Path(name)
    if path.is_dir() and (path / TRACE).is_file():
        return path / TRACE
    if path.exists() or path.is_symlink() or path.suffix in SUFFIXES:
        return path
    named = _rendered() / path / TRACE
    if named.is_file():
        return named
    raise UsageError(f"{name}: no such trace; expected a file, a folder or a name: {what_is_there()}")


def what_is_there() -> str:
    """Name the traces in the project's folder of pages."""
    rendered = _rendered()
    there = sorted(found.parent.name for found in rendered.glob(f"*/{TRACE}"))
    return f"the traces in {rendered} are {', '.join(there)}" if there else f"{rendered} has no traces"


def _rendered() -> Path:
    found: Path = wanted(Path(FILE)).get("out", Path(RENDERED))
    return found
