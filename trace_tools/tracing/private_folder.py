"""Where a lecture runs: a private copy of its folder, at a place where paths lead on as they do from the real one.

Below a root of its own, the lecture's path is there again. Its folder is a copy, dotfiles included, so that what a run
writes there is gone with it; each folder above is a folder with links to all else that the real one has, so that
`../data/x` is found, and written, as plain Python would.

    place = make(Path("/home/ann/course/lecture.py"), root, shared=[out])
    place.lecture         # root/home/ann/course/lecture.py; root/home/ann/data is a link to /home/ann/data
    place.changed()       # files that were too large for a copy, and that the run has written
    place.left_out        # {Path("/home"): 20}: so many entries of a folder above have no link
    leave(place)          # the copy goes; the links above it serve the next run, where they still are as they were
    remove(root)

Links to the real thing are what is shared (the folder of the pages), version control, virtual environments, other
file systems, and what goes beyond the bounds. Relative links stay as they are, and lead to the copy.
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
from trace_tools.statements import read_text

FILE_BYTES = 64 << 20  # of one file that is copied
ALL_BYTES = 256 << 20  # of all of them
ENTRIES = 5000  # of the copy
LINKS = 4000  # of the folders above it, together, from the nearest on; one takes 0.5 ms on some systems
SHARED = frozenset({".git", ".hg", ".svn", ".jj"})
PATH_BYTES = 3800  # the longest path that the copy of a lecture may have; Linux takes 4,096
VIEW, ELSEWHERE = "view-", "trace-tools-view-"  # how roots are named: in the run's folder, or in the temporary one


@dataclass
class PrivateFolder:
    """One private copy: of what size it is, and what in it is not a copy."""

    root: Path
    lecture: Path  # in it
    folder: Path  # in it: the copy that the lecture lies in
    bytes: int = 0
    entries: int = 0
    left_out: dict[Path, int] = field(default_factory=dict)  # of a folder above, entries to which there is no link
    linked: dict[Path, tuple[int, int] | None] = field(default_factory=dict)  # real files, and what they were

    def changed(self) -> list[str]:
        """Name the real files that were changed while the lecture had links to them."""
        return [str(path) for path, before in self.linked.items() if _size_and_time(path) != before]


def root_for(run: Path, lecture: Path, number: int) -> Path:
    """Return where process `number` of those running at once has its copy: the same from run to run.

    It lies in the run's folder, or in the temporary one where links or paths of that length can't be made.
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
    """Make the private copy for a lecture (a real path, without links) below `root`; `text` is what runs.

    Copied is its folder, or `folder`, one above that: the one in which its package lies.
    """
    real = folder or lecture.parent
    place = PrivateFolder(root, inside(root, lecture), inside(root, real))
    links, entries = LINKS, {}
    for child, ancestor in itertools.pairwise([real, *real.parents]):
        beside = [entry for entry in _entries(ancestor) if entry.name != child.name]
        if len(beside) > links:
            beside.sort(key=lambda entry: entry.name not in text)  # what the lecture names, first
            place.left_out[ancestor] = len(beside) - links
        entries[ancestor] = beside[:links]
        links -= len(entries[ancestor])
    below = [*reversed(real.parents), real]
    _as_folder(root, exist_ok=root != place.folder)
    for ancestor, child in itertools.pairwise(below):
        _link(entries[ancestor], inside(root, ancestor), child.name)
        _as_folder(inside(root, child), exist_ok=child != real)
    _copy(real, place, {*map(os.path.realpath, (*shared, root.parent))})
    if _text(place.lecture) != text:  # it was edited, or removed, since it was read
        place.lecture.parent.mkdir(parents=True, exist_ok=True)
        place.lecture.unlink(missing_ok=True)
        place.lecture.write_text(text, encoding="utf-8", newline="")
    return place


def leave(place: PrivateFolder) -> None:
    """Remove the copy of the lecture's folder, but not the links above it."""
    remove(place.folder)


def inside(root: Path, path: Path) -> Path:
    """Return where an absolute path is below a root."""
    return root / path.relative_to(path.anchor)


def remove(root: Path) -> None:
    """Remove a folder, also one that may not be written; links are removed, never what they lead to."""
    shutil.rmtree(root, ignore_errors=True)
    if root.exists():  # folders that may not be written
        for folder, _, _ in os.walk(root):
            with suppress(OSError):
                os.chmod(folder, stat.S_IRWXU)
        shutil.rmtree(root, ignore_errors=True)


def sweep(run: Path) -> None:
    """Remove what processes that were killed have left: below a run's folder, and those of dead tracers elsewhere."""
    for root in run.glob(f"{VIEW}*"):
        remove(root)
    for root in Path(os.path.realpath(tempfile.gettempdir())).glob(f"{ELSEWHERE}*"):
        owner = root.name.removeprefix(ELSEWHERE).partition("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            remove(root)


def _as_folder(path: Path, *, exist_ok: bool) -> None:
    """Make a folder, an empty one unless one may be there; whatever a run has put in its place goes."""
    if not exist_ok or path.is_symlink() or not path.is_dir() or not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        _remove_entry(path)
        path.mkdir(parents=True)


def _link(entries: Sequence[os.DirEntry[str]], folder: Path, but: str) -> None:
    """Have links to these entries in a folder, and nothing else but the entry `but`."""
    wanted = {entry.name: entry.path for entry in entries}
    for there in _entries(folder):
        if there.is_symlink() and os.readlink(there.path) == wanted.get(there.name):
            del wanted[there.name]
        elif there.name != but:
            _remove_entry(Path(there.path))
    for name, path in wanted.items():
        with suppress(OSError):
            os.symlink(path, folder / name)


def _remove_entry(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        remove(path)
    else:
        path.unlink(missing_ok=True)


def _copy(real: Path, place: PrivateFolder, shared: set[str]) -> None:
    """Copy a folder, what is nearest to the lecture first, as far as the bounds go; link the rest."""
    device = real.stat().st_dev if real.exists() else 0
    waiting = deque([real])
    folders = []
    while waiting:
        folder = waiting.popleft()
        private = inside(place.root, folder)
        entries = _entries(folder)
        fits = place.entries + len(entries) <= ENTRIES and os.access(folder, os.R_OK, effective_ids=True)
        if folder != real and not fits:  # where a folder may not be listed, a file in it may yet be read
            private.rmdir()
            os.symlink(folder, private)
            continue
        folders.append(folder)
        for entry in entries:
            place.entries += 1
            copy = private / entry.name
            with suppress(OSError):  # an entry that is gone meanwhile
                if entry.is_symlink():
                    os.symlink(os.readlink(entry.path), copy)
                elif entry.is_dir():
                    if _is_shared(entry, shared, device):
                        os.symlink(entry.path, copy)
                    else:
                        copy.mkdir()
                        waiting.append(Path(entry.path))
                elif not (place.entries <= ENTRIES and _copied(entry, copy, place)):
                    place.linked[Path(entry.path)] = _size_and_time(Path(entry.path))
                    os.symlink(entry.path, copy)
    for folder in reversed(folders):
        with suppress(OSError):
            shutil.copystat(folder, inside(place.root, folder))


def _is_shared(entry: os.DirEntry[str], shared: set[str], device: int) -> bool:
    return (
        entry.name in SHARED
        or os.path.realpath(entry.path) in shared
        or os.path.exists(os.path.join(entry.path, "pyvenv.cfg"))
        or entry.stat().st_dev != device
    )


def _copied(entry: os.DirEntry[str], copy: Path, place: PrivateFolder) -> bool:
    """Copy a regular file that is within the bounds, blocks shared where the file system can; else return False."""
    status = entry.stat()
    if not stat.S_ISREG(status.st_mode) or status.st_size > min(FILE_BYTES, ALL_BYTES - place.bytes):
        return False
    try:
        with open(entry.path, "rb", buffering=0) as source, open(copy, "xb", buffering=0) as target:
            left = status.st_size
            try:
                while left > 0 and (done := os.copy_file_range(source.fileno(), target.fileno(), left)):
                    left -= done
            except OSError:  # not between these two file systems
                left = status.st_size
            if left:
                source.seek(0)
                target.truncate(0)
                target.seek(0)
                shutil.copyfileobj(source, target)
        shutil.copystat(entry.path, copy)
    except OSError:  # it may not be read, or there is no room
        copy.unlink(missing_ok=True)
        return False
    place.bytes += status.st_size
    return True


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _text(path: Path) -> str | None:
    try:
        return read_text(path)
    except LectureError:
        return None


def _size_and_time(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns
