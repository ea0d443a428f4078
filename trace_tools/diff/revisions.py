"""Load a trace by a name that people use: a file, its folder, a file at a revision, or one rank of these.

open_side("rendered/cpu/trace.yaml")
open_side("rendered/cpu")
open_side("HEAD~1:rendered/cpu/trace.yaml")  # as in `git show`
open_side("rendered/cpu#rank1")              # the trace of that rank
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from trace_tools.diff.difference import Side
from trace_tools.errors import TraceFileError, UsageError
from trace_tools.trace.ranks import divided, of_rank
from trace_tools.trace.trace_file import load
from trace_tools.util.git import show

TRACE = "trace.yaml"


def open_side(argument: str) -> Side:
    """Load a trace, or the trace of one of its ranks.

    Raises `TraceFileError` if it is not a trace, `UsageError` if git has no such file at the revision or the trace has
    no such rank.
    """
    name, rank = (argument, None) if Path(argument).exists() else divided(argument)
    path = Path(name) / TRACE if (Path(name) / TRACE).is_file() else Path(name)
    side = _at_revision(name) if ":" in name and not path.exists() else Side(str(path), load(path).trace)
    return side if rank is None else Side(argument, of_rank(side.trace, rank), f"{side.label}, rank {rank}")


def _at_revision(argument: str) -> Side:
    """Read `REV:path`; the path is relative to the root of the repository, or, with `./`, to the current folder."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / TRACE
        with copy.open("wb") as file:
            show(argument, file)
        try:
            return Side(argument, load(copy).trace)
        except TraceFileError as error:
            raise UsageError(str(error).replace(str(copy), argument)) from None
