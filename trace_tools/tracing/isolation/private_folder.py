"""Run a lecture in a copy next to its folder, so that the files of a run disappear with the copy.

course/lecture.py runs as .course-trace-4711/lecture.py: `../data/x` is found and written as in plain Python. Links
replace copies of large files and of shared folders (the pages, version control, virtual environments). If the folder
above is not writable, the copy is in the temporary folder, where `..` is another folder.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

FILE_BYTES = 64 << 20  # largest copied file
ALL_BYTES = 256 << 20  # most bytes of all copied files
ENTRIES = 5000  # most entries of the copy
SHARED = frozenset({".git", ".hg", ".svn", ".jj"})


def path_for(folder: Path) -> Path:
    """Return the path of the copy for this tracer, which is the same in each run."""
    above = folder.parent if os.access(folder.parent, os.W_OK) else Path(tempfile.gettempdir())
    return above / f".{folder.name}-trace-{os.getpid()}"


def make(folder: Path, copy: Path, shared: Sequence[Path] = ()) -> list[Path]:
    """Copy a folder; return the real files that were linked because they are too large, or too many.

    Files of an earlier run are removed, but not the folder, which is the working directory of pools that still run.
    """
    _sweep(copy)
    linked: list[Path] = []
    entries, left = 0, ALL_BYTES
    for above, folders, files in os.walk(folder):
        target = copy / Path(above).relative_to(folder)
        target.mkdir(exist_ok=True)
        entries += len(folders) + len(files)
        for name in [name for name in folders if _is_shared(Path(above, name), shared) or entries > ENTRIES]:
            folders.remove(name)
            os.symlink(Path(above, name), target / name)
        for name in files:
            real = Path(above, name)
            with suppress(OSError):  # it has disappeared meanwhile
                size = real.lstat().st_size
                if real.is_symlink():
                    os.symlink(os.readlink(real), target / name)
                elif real.is_file() and size <= min(FILE_BYTES, left) and entries <= ENTRIES:
                    shutil.copy2(real, target / name)
                    left -= size
                else:
                    linked.append(real)
                    os.symlink(real, target / name)
    return linked


def written(folder: Path, copy: Path) -> Iterator[str]:
    """Yield the files in a copy that are new or differ from the original in size or time, without Python's bytecode."""
    for above, folders, files in os.walk(copy):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for path in (Path(above, name) for name in files):
            with suppress(OSError):  # it has disappeared meanwhile
                found, original = path.lstat(), folder / path.relative_to(copy)
                before = original.lstat() if original.exists() else None
                same = before is not None and (found.st_size, found.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
                if stat.S_ISREG(found.st_mode) and not same:
                    yield str(path.relative_to(copy))


def remove(folder: Path) -> None:
    """Remove a folder, even a write-protected one; links are removed, but never their targets."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        for above, _, _ in os.walk(folder):
            with suppress(OSError):
                os.chmod(above, stat.S_IRWXU)
        shutil.rmtree(folder, ignore_errors=True)


def _is_shared(path: Path, shared: Sequence[Path]) -> bool:
    of_the_tools = path.name.startswith(".") and "-trace-" in path.name  # another tracer's copy
    return path.is_symlink() or path.name in SHARED or of_the_tools or path in shared or (path / "pyvenv.cfg").exists()


def _sweep(copy: Path) -> None:
    """Remove the copies of dead tracers next to a copy, and the content of the copy."""
    name, pid = copy.name.rsplit("-", 1)
    for other in copy.parent.glob(f"{name}-*"):
        owner = other.name.rsplit("-", 1)[1]
        if owner.isdigit() and owner != pid and _has_ended(int(owner)):
            remove(other)
    if copy.exists():
        os.chmod(copy, stat.S_IRWXU)
        for path in copy.iterdir():
            if path.is_dir() and not path.is_symlink():
                remove(path)
            else:
                path.unlink()


def _has_ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:  # or it is another user's
        return isinstance(error, ProcessLookupError)
    return False
