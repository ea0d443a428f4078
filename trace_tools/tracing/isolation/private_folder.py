"""Run a lecture in a private copy of its folder, in which paths resolve as in the real folder.

The lecture's path exists again below a private root. Its folder is a copy, including dotfiles, so that files written by
a run disappear with the copy. Each folder above it contains links to all other entries of the real folder, so that
`../data/x` is found and written as in plain Python.

    private = make(Path("/home/ann/course/lecture.py"), root, shared=[out])
    private.lecture       # root/home/ann/course/lecture.py; root/home/ann/data is a link to /home/ann/data
    private.changed()     # files that were too large to copy and that the run has written
    private.left_out      # {Path("/home"): 20}: number of entries of a folder above without a link
    leave(private)        # removes the copy; the next run reuses links above it that are still valid
    remove(root)

Links replace copies for shared folders (the folder of the pages), version control, virtual environments, other file
systems, and content beyond the bounds. Relative links are copied unchanged and resolve inside the copy.
"""

from __future__ import annotations

import itertools
import os
import shutil
import stat
import tempfile
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from trace_tools.errors import LectureError
from trace_tools.source.statements import read_text

FILE_BYTES = 64 << 20  # largest copied file
ALL_BYTES = 256 << 20  # most bytes of all copied files
ENTRIES = 5000  # most entries of the copy
LINKS = 4000  # most links in all folders above the copy, nearest first; a link takes 0.5 ms on some systems
SHARED = frozenset({".git", ".hg", ".svn", ".jj"})
PATH_BYTES = 3800  # longest path of a lecture's copy; the limit of Linux is 4,096
VIEW, ELSEWHERE = "view-", "trace-tools-view-"  # prefixes of roots: in the run's folder, or in the temporary folder


@dataclass
class PrivateFolder:
    """One private copy: its paths and size, and the entries that were linked or left out."""

    root: Path
    lecture: Path  # path of the lecture in the copy
    folder: Path  # copy of the lecture's folder (or of its package's parent)
    bytes: int = 0
    entries: int = 0
    left_out: dict[Path, int] = field(default_factory=dict)  # folder above → number of entries without a link
    linked: dict[Path, tuple[int, int] | None] = field(default_factory=dict)  # real files → size and time when linked

    def changed(self) -> list[str]:
        """Return the real files that were changed while the lecture had links to them."""
        return [str(path) for path, before in self.linked.items() if _size_and_time(path) != before]


def root_for(run: Path, lecture: Path, number: int) -> Path:
    """Return the root of the copy for parallel process `number`, which is the same in each run.

    The root is in the run's folder, or in the temporary folder if links or paths of that length cannot be made.
    """
    root = Path(os.path.realpath(run), f"{VIEW}{number:03}")
    probe = root.with_name("probe")
    try:
        probe.symlink_to("nowhere")
        probe.unlink()
        fits = len(os.fsencode(root)) + len(os.fsencode(lecture)) < PATH_BYTES
    except OSError:
        fits = False
    if fits:
        return root
    temporary = os.path.realpath(tempfile.gettempdir())
    return Path(temporary, f"{ELSEWHERE}{os.getpid()}-{run.name.lstrip('.')}-{number:03}")


def make(
    lecture: Path, text: str, root: Path, shared: Sequence[Path] = (), folder: Path | None = None
) -> PrivateFolder:
    """Make the private copy for a lecture (a real path, without links) below `root`; `text` is the source that runs.

    The copied folder is the lecture's, or `folder`, a folder above it that contains its package.
    """
    real = folder or lecture.parent
    private = PrivateFolder(root, inside(root, lecture), inside(root, real))
    links, entries = LINKS, {}
    for child, ancestor in itertools.pairwise([real, *real.parents]):
        siblings = [entry for entry in _entries(ancestor) if entry.name != child.name]
        if len(siblings) > links:
            siblings.sort(key=lambda entry: entry.name not in text)  # entries named in the lecture first
            private.left_out[ancestor] = len(siblings) - links
        entries[ancestor] = siblings[:links]
        links -= len(entries[ancestor])
    from_the_top = [*reversed(real.parents), real]
    _as_folder(root, exist_ok=root != private.folder)
    for ancestor, child in itertools.pairwise(from_the_top):
        folder_of_links = inside(root, ancestor)
        missing = {entry.name: entry.path for entry in entries[ancestor]}
        for entry in _entries(folder_of_links):
            if entry.is_symlink() and os.readlink(entry.path) == missing.get(entry.name):
                del missing[entry.name]
            elif entry.name != child.name:
                _remove_entry(Path(entry.path))
        for name, path in missing.items():
            with suppress(OSError):
                os.symlink(path, folder_of_links / name)
        _as_folder(inside(root, child), exist_ok=child != real)
    _copy(real, private, {*map(os.path.realpath, (*shared, root.parent))})
    try:
        is_unchanged = read_text(private.lecture) == text
    except LectureError:
        is_unchanged = False
    if not is_unchanged:  # edited or removed since it was read
        private.lecture.parent.mkdir(parents=True, exist_ok=True)
        private.lecture.unlink(missing_ok=True)
        private.lecture.write_text(text, encoding="utf-8", newline="")
    return private


def leave(private: PrivateFolder) -> None:
    """Remove the copy of the lecture's folder, but not the links above it."""
    remove(private.folder)


def inside(root: Path, path: Path) -> Path:
    """Return the path below a root that corresponds to an absolute path."""
    return root / path.relative_to(path.anchor)


def remove(root: Path) -> None:
    """Remove a folder, even a write-protected one; links are removed, but never their targets."""
    shutil.rmtree(root, ignore_errors=True)
    if root.exists():  # write-protected folders
        for folder, _, _ in os.walk(root):
            with suppress(OSError):
                os.chmod(folder, stat.S_IRWXU)
        shutil.rmtree(root, ignore_errors=True)


def sweep(run: Path) -> None:
    """Remove leftovers of killed processes: below a run's folder, and in the temporary folder those of dead tracers."""
    for root in run.glob(f"{VIEW}*"):
        remove(root)
    for root in Path(os.path.realpath(tempfile.gettempdir())).glob(f"{ELSEWHERE}*"):
        owner = root.name.removeprefix(ELSEWHERE).partition("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            remove(root)


def _as_folder(path: Path, *, exist_ok: bool) -> None:
    """Make a folder, which must be new unless `exist_ok`; remove anything else that a run has left at this path."""
    if not exist_ok or path.is_symlink() or not path.is_dir() or not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        _remove_entry(path)
        path.mkdir(parents=True)


def _remove_entry(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        remove(path)
    else:
        path.unlink(missing_ok=True)


def _copy(real: Path, private: PrivateFolder, shared: set[str]) -> None:
    """Copy a folder within the bounds, entries nearest to its top first; link the rest."""
    device = real.stat().st_dev if real.exists() else 0
    waiting = deque([real])
    folders = []
    while waiting:
        folder = waiting.popleft()
        target = inside(private.root, folder)
        entries = _entries(folder)
        fits = private.entries + len(entries) <= ENTRIES and os.access(folder, os.R_OK, effective_ids=True)
        if folder != real and not fits:  # a file may be readable in a folder that is not
            target.rmdir()
            os.symlink(folder, target)
            continue
        folders.append(folder)
        for entry in entries:
            private.entries += 1
            copy = target / entry.name
            with suppress(OSError):  # the entry has disappeared meanwhile
                if entry.is_symlink():
                    os.symlink(os.readlink(entry.path), copy)
                elif entry.is_dir():
                    if _is_shared(entry, shared, device):
                        os.symlink(entry.path, copy)
                    else:
                        copy.mkdir()
                        waiting.append(Path(entry.path))
                elif not (private.entries <= ENTRIES and _copied(entry, copy, private)):
                    private.linked[Path(entry.path)] = _size_and_time(Path(entry.path))
                    os.symlink(entry.path, copy)
    for folder in reversed(folders):
        with suppress(OSError):
            shutil.copystat(folder, inside(private.root, folder))


def _is_shared(entry: os.DirEntry[str], shared: set[str], device: int) -> bool:
    return (
        entry.name in SHARED
        or os.path.realpath(entry.path) in shared
        or os.path.exists(os.path.join(entry.path, "pyvenv.cfg"))
        or entry.stat().st_dev != device
    )


def _copied(entry: os.DirEntry[str], copy: Path, private: PrivateFolder) -> bool:
    """Copy a regular file within the bounds, sharing blocks if the file system supports it; else return False."""
    status = entry.stat()
    if not stat.S_ISREG(status.st_mode) or status.st_size > min(FILE_BYTES, ALL_BYTES - private.bytes):
        return False
    try:
        with open(entry.path, "rb", buffering=0) as source, open(copy, "xb", buffering=0) as target:
            remaining = status.st_size
            try:
                while remaining > 0 and (n := os.copy_file_range(source.fileno(), target.fileno(), remaining)):
                    remaining -= n
            except OSError:  # unsupported between these two file systems
                remaining = status.st_size
            if remaining:
                source.seek(0)
                target.truncate(0)
                target.seek(0)
                shutil.copyfileobj(source, target)
        shutil.copystat(entry.path, copy)
    except OSError:  # unreadable file or full disk
        copy.unlink(missing_ok=True)
        return False
    private.bytes += status.st_size
    return True


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _size_and_time(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns
