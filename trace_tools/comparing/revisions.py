"""What a person calls a trace → the trace: a file, a folder with one in it, or a file at a revision.

open_side("rendered/cpu/trace.yaml")
open_side("rendered/cpu")
open_side("HEAD~1:rendered/cpu/trace.yaml")  # as `git show` has it
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from trace_tools.comparing.difference import Side
from trace_tools.errors import TraceFileError, UsageError
from trace_tools.file_format.trace_file import load

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
            shown = _git_show(argument, file.fileno())
        if shown:
            raise UsageError(f"{argument}: no such file, and git shows none at a revision: {shown}")
        try:
            loaded = load(copy)
        except TraceFileError as error:
            raise UsageError(str(error).replace(str(copy), argument)) from None
    return Side(argument, loaded.trace, loaded.notes)


def _git_show(what: str, out: int) -> str | None:
    """Write a file as a revision has it; return what git says when it can't."""
    command = ["git", "show", "--no-textconv", "--end-of-options", what]  # a name that begins with a dash is no option
    try:
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, timeout=120, check=False)
    except FileNotFoundError:
        return "git is not installed"
    except (subprocess.TimeoutExpired, ValueError, OSError) as error:
        return str(error).splitlines()[0]
    if done.returncode == 0:
        return None
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return said[0].removeprefix("fatal: ") if said else f"git exited with {done.returncode}"
