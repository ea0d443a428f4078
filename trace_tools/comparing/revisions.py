"""What a person calls a trace → the trace: a file, a folder with one in it, a file at a revision, one rank of these.

open_side("rendered/cpu/trace.yaml")
open_side("rendered/cpu")
open_side("HEAD~1:rendered/cpu/trace.yaml")  # as `git show` has it
open_side("rendered/cpu#rank1")              # as that rank of several ran the lecture
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from trace_tools.comparing.difference import Side
from trace_tools.errors import TraceFileError, UsageError
from trace_tools.file_format.trace_file import load
from trace_tools.git import show
from trace_tools.ranks import divided, of_rank

TRACE = "trace.yaml"


def open_side(argument: str) -> Side:
    """Load a trace, or what one rank of several did in it.

    Raises `TraceFileError` when it is none, and `UsageError` when git knows no such file at the revision, or when the
    trace has no such rank.
    """
    name, rank = (argument, None) if Path(argument).exists() else divided(argument)
    side = _opened(name)
    if rank is None:
        return side
    return Side(argument, of_rank(side.trace, rank), side.notes, f"{side.label}, rank {rank}")


def _opened(argument: str) -> Side:
    path = Path(argument)
    if path.is_dir() and (path / TRACE).is_file():
        path = path / TRACE
    if ":" in argument and not path.exists():
        return _at_revision(argument)
    loaded = load(path)
    return Side(str(path), loaded.trace, loaded.notes)


def _at_revision(argument: str) -> Side:
    """Read `REV:path`; the path counts from the top of the repository, or, with `./`, from here."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / TRACE
        with copy.open("wb") as file:
            show(argument, file)
        try:
            loaded = load(copy)
        except TraceFileError as error:
            raise UsageError(str(error).replace(str(copy), argument)) from None
    return Side(argument, loaded.trace, loaded.notes)
