"""git, asked from outside: what a revision holds, and what a working tree is.

git("rev-parse", "HEAD", folder=Path("."))        b"7c8399b…\\n"
show("HEAD~1:rendered/cpu/trace.yaml", file)      what `git show` prints, into an open file
commit_of(Path("lecture.py"))                     "7c8399b + uncommitted changes"
with checked_out("HEAD~1:lecture.py") as path:
    path                                          # /tmp/…/lecture.py, beside everything that the revision holds
"""

from __future__ import annotations

import os
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from trace_tools.errors import UsageError

LONGEST_S = 120.0  # that git may take


class GitError(UsageError):
    """git can't be run, or says no: its message is git's own first line."""


def git(*arguments: str, folder: Path | None = None, to: BinaryIO | None = None, longest_s: float = LONGEST_S) -> bytes:
    """Run git in a folder (default: here) and return what it prints, or write that to an open file.

    Only looks where it is asked to look: `status` would refresh the index. Raises `GitError`.
    """
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    output = subprocess.PIPE if to is None else to.fileno()
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            timeout=longest_s,
            check=False,
        )
    except FileNotFoundError:
        raise GitError("git is not installed") from None
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise GitError(str(error).splitlines()[0]) from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines() or [f"git exited with {done.returncode}"]
        raise GitError(said[0].removeprefix("fatal: "))
    return done.stdout or b""


def show(argument: str, to: BinaryIO) -> None:
    """Write a file as a revision has it, named as `git show` takes it: the path of `REV:path` counts from the top of
    the repository, or, with `./`, from here. Raises `UsageError` when git has no such file there.
    """
    with _named(argument):
        git("show", "--no-textconv", "--end-of-options", argument, to=to)  # a name may begin with a dash


@contextmanager
def checked_out(argument: str) -> Iterator[Path]:
    """Yield the path of a lecture; one at a revision lies in a folder that goes again, and git knows nothing of it.

    `REV:path` is read as in `show`. Raises `UsageError` when git has no such file there.
    """
    if ":" not in argument or Path(argument).exists():
        yield Path(argument)
        return
    revision, _, name = argument.partition(":")
    with tempfile.TemporaryDirectory(prefix="bench-revision-") as folder:
        archive, tree = Path(folder, "tree.tar"), Path(folder, "tree")
        with _named(argument):
            top = Path(os.fsdecode(git("rev-parse", "--show-toplevel")).rstrip("\n"))
            inside = Path(os.path.relpath(Path(name).resolve(), top) if name.startswith(("./", "../")) else name)
            git("cat-file", "-e", "--end-of-options", f"{revision}:{inside.as_posix()}", folder=top)
            git("archive", f"--output={archive}", "--end-of-options", revision, folder=top)
        with tarfile.open(archive) as packed:
            packed.extractall(tree, filter="data")
        archive.unlink()
        yield tree / inside


def commit_of(path: Path) -> str | None:
    """Name the commit that a file or folder is at: "abc1234", or "abc1234 + uncommitted changes".

    None outside a repository, before its first commit, and without git. Traces under `rendered/` are no
    change to what ran, and neither are untracked files other than `path` itself.
    """
    path = path.resolve()
    folder = path if path.is_dir() else path.parent
    commit = _said(folder, "rev-parse", "--short=7", "HEAD")
    if not commit:
        return None
    changed = _said(folder, "status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)rendered")
    untracked = "" if path.is_dir() else _said(folder, "ls-files", "--others", "--", path.name)
    return f"{commit} + uncommitted changes" if changed or untracked else commit


def _said(folder: Path, *arguments: str) -> str:
    """Give git's answer without the newline at its end, empty when it has none."""
    try:
        return git(*arguments, folder=folder, longest_s=10).decode(errors="replace").strip()
    except GitError:
        return ""


@contextmanager
def _named(argument: str) -> Iterator[None]:
    try:
        yield
    except GitError as error:
        raise UsageError(f"{argument}: no such file, and git shows none at a revision: {error}") from None
