"""What a page that is being read has to know: whether to load itself again, what is being done, what is wrong.

    board = Board(print)
    board.post(doing="Tracing: pass 1, matmul")
    board.post(doing="", edition=board.notice.edition + 1)      the pages are others now

Posted by the threads that trace and watch, read by the server: a notice is never changed, only replaced.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Status:
    """The state of things, in words for the reader."""

    edition: int = 0  # of the pages
    doing: str = ""  # "" when there is nothing to wait for
    problems: tuple[str, ...] = ()  # with the line of the lecture, as far as there is one
    link: str = ""  # the page that shows them in their place


class Board:
    """Holds the latest notice, and tells a listener of each."""

    def __init__(self, listener: Callable[[Status], None] = lambda notice: None) -> None:
        self.notice = Status()
        self.closed = False
        self._listener = listener
        self._lock = threading.Lock()

    def post(self, **changes: Any) -> None:
        """Change some of the notice."""
        with self._lock:
            fresh = replace(self.notice, **changes)
            if fresh == self.notice:
                return
            self.notice = fresh
            self._listener(fresh)

    def new_edition(self, **changes: Any) -> None:
        """Say that pages may have changed."""
        self.post(edition=self.notice.edition + 1, **changes)

    def close(self) -> None:
        """Let those who wait for notices go."""
        self.closed = True
