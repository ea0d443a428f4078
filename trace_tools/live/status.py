"""Represent the status that open pages receive: whether to reload, the running trace, and problems.

    statuses = StatusBoard(print)
    statuses.post(doing="Tracing: pass 1, matmul")
    statuses.post(doing="", edition=statuses.latest.edition + 1)      the pages have changed

The threads that trace and watch post it, and the server reads it. A status is replaced, never changed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Status:
    """The current status, in words for the reader."""

    edition: int = 0  # number of this version of the pages
    doing: str = ""  # "" while no trace runs
    problems: tuple[str, ...] = ()  # each with the line of the lecture, if known
    link: str = ""  # the page that shows them


class StatusBoard:
    """Holds the latest status and passes each new one to a listener."""

    def __init__(self, listener: Callable[[Status], None] = lambda status: None) -> None:
        self.latest = Status()
        self.closed = False
        self._listener = listener
        self._lock = threading.Lock()

    def post(self, **changes: Any) -> None:
        """Change some fields of the status."""
        with self._lock:
            changed = replace(self.latest, **changes)
            if changed == self.latest:
                return
            self.latest = changed
            self._listener(changed)

    def new_edition(self, **changes: Any) -> None:
        """Announce that pages may have changed."""
        self.post(edition=self.latest.edition + 1, **changes)

    def close(self) -> None:
        """Release everyone who waits for a status."""
        self.closed = True
