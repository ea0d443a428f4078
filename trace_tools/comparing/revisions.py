"""What a person calls a trace → the trace: a file, a folder with one in it, or a file at a revision.

open_side("rendered/cpu/trace.yaml")
open_side("rendered/cpu")
open_side("HEAD~1:rendered/cpu/trace.yaml")  # as `git show` has it
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from trace_tools.comparing.difference import Side
from trace_tools.errors import TraceFileError, UsageError
from trace_tools.file_format.trace_file import load
from trace_tools.git import show

TRACE = "trace.yaml"


def open_side(argument: str) -> Side:
    """Load a trace.

    Raises `TraceFileError` when it is none, and `UsageError` when git knows no such file at the revision.
    """
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
