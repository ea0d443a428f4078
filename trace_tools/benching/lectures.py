"""What a person calls a lecture → its file: a path, or REV:path as git has it, with its neighbours.

with checked_out("HEAD~1:lecture.py") as path:
    path                  # /tmp/…/lecture.py, beside everything that the revision holds
"""

from __future__ import annotations

import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trace_tools.errors import UsageError

LONGEST_S = 120.0  # that git may take


@contextmanager
def checked_out(argument: str) -> Iterator[Path]:
    """Yield the path of a lecture; one at a revision lies in a folder that goes again, and git knows nothing of it.

    The path of `REV:path` counts from the top of the repository, or, with `./`, from here, as in `git show`.
    Raises `UsageError` when git has no such file there.
    """
    if ":" not in argument or Path(argument).exists():
        yield Path(argument)
        return
    revision, _, name = argument.partition(":")
    top = Path(_git(argument, "rev-parse", "--show-toplevel").decode().rstrip("\n"))
    inside = (Path.cwd() / name).resolve().relative_to(top) if name.startswith(("./", "../")) else Path(name)
    _git(argument, "cat-file", "-e", "--end-of-options", f"{revision}:{inside.as_posix()}", folder=top)
    with tempfile.TemporaryDirectory(prefix="bench-revision-") as folder:
        archive = Path(folder, "tree.tar")
        _git(argument, "archive", f"--output={archive}", "--end-of-options", revision, folder=top)
        tree = Path(folder, "tree")
        with tarfile.open(archive) as packed:
            packed.extractall(tree, filter="data")
        archive.unlink()
        yield tree / inside


def _git(argument: str, *command: str, folder: Path | None = None) -> bytes:
    try:
        done = subprocess.run(
            ["git", *command], cwd=folder, capture_output=True, timeout=LONGEST_S, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        why = "git is not installed" if isinstance(error, FileNotFoundError) else str(error).splitlines()[0]
        raise UsageError(f"{argument}: no such file, and git shows none at a revision: {why}") from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines() or [f"git exited with {done.returncode}"]
        why = said[0].removeprefix("fatal: ")
        raise UsageError(f"{argument}: no such file, and git shows none at a revision: {why}")
    return done.stdout
