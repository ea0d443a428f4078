r"""Run git: the content of a revision, and the state of a working tree.

git("rev-parse", "HEAD", folder=Path("."))        b"7c8399b…\n"
show("HEAD~1:rendered/cpu/trace.yaml")            b"schema: 1\n…"
commit_of(Path("lecture.py"))                     "7c8399b + uncommitted changes"
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from trace_tools.errors import UsageError


def git(*arguments: str, folder: Path | None = None) -> bytes:
    """Run git in a folder (default: the current one) and return its output.

    Raises `UsageError` with the first line of git's own message if it cannot be run, or fails.
    """
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}  # else `status` would refresh the index
    command, null = ["git", *arguments], subprocess.DEVNULL
    try:
        done = subprocess.run(command, cwd=folder, env=environment, stdin=null, capture_output=True, timeout=120)
    except FileNotFoundError:
        raise UsageError("git is not installed") from None
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise UsageError(str(error).splitlines()[0]) from None
    if done.returncode != 0:
        stderr = done.stderr.decode(errors="replace").strip().splitlines() or [f"git exited with {done.returncode}"]
        raise UsageError(stderr[0].removeprefix("fatal: "))
    return done.stdout


def show(argument: str) -> bytes:
    """Return the file `REV:path`, or `REV:./path` from the current folder. Raises `UsageError` if git has none."""
    try:
        return git("show", "--no-textconv", "--end-of-options", argument)  # a name may begin with a dash
    except UsageError as error:
        raise UsageError(f"{argument}: neither a file nor REV:path in git: {error}") from None


def commit_of(path: Path) -> str | None:
    """Name the commit of a file or folder: "abc1234", or "abc1234 + uncommitted changes".

    None outside a repository, before its first commit, and without git. Traces under `rendered/`, and untracked files
    other than `path`, do not count as changes.
    """
    path = path.resolve()
    folder = path if path.is_dir() else path.parent
    commit = _output(folder, "rev-parse", "--short=7", "HEAD")
    if not commit:
        return None
    changed = _output(folder, "status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)rendered")
    untracked = "" if path.is_dir() else _output(folder, "ls-files", "--others", "--", path.name)
    return f"{commit} + uncommitted changes" if changed or untracked else commit


def is_committed(path: Path) -> bool:
    """Return whether git tracks a file; False outside a repository and without git."""
    return bool(_output(path.parent, "ls-files", "--", path.name))


def _output(folder: Path, *arguments: str) -> str:
    """Return git's output without the final newline, or "" if git fails."""
    try:
        return git(*arguments, folder=folder).decode(errors="replace").strip()
    except UsageError:
        return ""
