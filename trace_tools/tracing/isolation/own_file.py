"""Keep a file writable even if the lecture closes descriptors that it does not own.

    file = OwnFile(folder / "pass-1.journal")
    os.closerange(3, 4096)       # as a daemon does
    os.write(file.descriptor(), b"…")

The descriptor has a high number, so that the lecture's own files get the same numbers as in plain Python, and a closed
number is hardly ever reused. Before each use, the object checks that the number still refers to this file. If it does
not, the object opens the file again by its path and leaves the file that now has the number alone.
"""

from __future__ import annotations

import fcntl
import os
import resource
from contextlib import suppress
from os import close, fstat  # bound now: a lecture may replace these in `os`
from os import open as open_file
from pathlib import Path

HIGH = 1000  # number that a lecture reaches only with that many open files
ROOM = 8  # distance below the system's limit, if that is lower


class OwnFile:
    """An open file that is reopened by its path if necessary. Raises OSError if it cannot be opened."""

    def __init__(self, path: Path, flags: int = os.O_WRONLY | os.O_APPEND) -> None:
        self.path = path.absolute()  # absolute: the lecture may change the working directory
        self._flags = flags
        self._open(flags | os.O_CREAT)

    def _open(self, flags: int) -> None:
        self._number = out_of_the_way(open_file(self.path, flags, 0o600))
        self._identity = _identity(self._number)

    @property
    def is_open(self) -> bool:
        """Return whether the number still refers to this file."""
        try:
            return _identity(self._number) == self._identity
        except OSError:
            return False

    def descriptor(self) -> int:
        """Return a descriptor of this file, and never of another file."""
        if not self.is_open:
            self._open(self._flags)
        return self._number

    def close(self) -> None:
        """Close the file, unless its number now refers to another file."""
        if self.is_open:
            close(self._number)


def out_of_the_way(descriptor: int) -> int:
    """Move a descriptor to a high number, if one is free; return the number."""
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
