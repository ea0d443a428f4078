"""A file that this process writes in a lecture's company, which may close descriptors that are not its own.

    file = OwnFile(folder / "pass-1.journal")
    os.closerange(3, 4096)       # as a daemon does
    os.write(file.descriptor(), b"…")

Its number is a high one, so that the lecture's own files have the numbers that they have plainly, and one that was
closed is hardly ever another file's. Before each use it is asked whether it still is this file; where it is not, the
file is opened again by its path, and whatever has the number now is left alone.
"""

from __future__ import annotations

import fcntl
import os
import resource
from contextlib import suppress
from os import close, fstat  # now: a lecture may put others in `os`
from os import open as open_file
from pathlib import Path

HIGH = 1000  # a number that a lecture comes to when it has as many files open
ROOM = 8  # numbers below the limit, where that is lower


class OwnFile:
    """An open file, found again by its path; raises OSError where that can't be opened."""

    def __init__(self, path: Path, flags: int = os.O_WRONLY | os.O_APPEND) -> None:
        self.path = path.absolute()  # the lecture may go to another folder
        self._flags = flags
        self._open(flags | os.O_CREAT)

    def _open(self, flags: int) -> None:
        self._number = out_of_the_way(open_file(self.path, flags, 0o600))
        self._identity = _identity(self._number)

    @property
    def is_open(self) -> bool:
        """Whether the number still is this file's."""
        try:
            return _identity(self._number) == self._identity
        except OSError:
            return False

    def descriptor(self) -> int:
        """Return a descriptor of this file, and of no other."""
        if not self.is_open:
            self._open(self._flags)
        return self._number

    def close(self) -> None:
        """Close it, unless the number is another file's by now."""
        if self.is_open:
            close(self._number)


def out_of_the_way(descriptor: int) -> int:
    """Move a descriptor to a high number, if there is room; return the number."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    high = HIGH if soft == resource.RLIM_INFINITY or soft > HIGH + ROOM else soft - ROOM
    if high <= descriptor:
        return descriptor
    with suppress(OSError):
        moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, high)
        close(descriptor)
        return moved
    return descriptor


def _identity(descriptor: int) -> tuple[int, int]:
    status = fstat(descriptor)
    return status.st_dev, status.st_ino
