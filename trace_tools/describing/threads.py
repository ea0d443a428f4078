"""Threads of the tools beside a lecture's: no signal comes to them.

The system hands a signal to any thread that does not block it, so a lecture that blocks one to wait for it would be
ended by it in a thread that it knows nothing of.
"""

from __future__ import annotations

import _thread
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# But for those of a thread's own faults, of which a report is made as they come.
SIGNALS = signal.valid_signals() - {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}


@contextmanager
def unsignalled() -> Iterator[None]:
    """Let no signal come to the threads that begin in the `with` block: a new thread blocks what its maker does."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start_apart(function: Callable[..., Any], *arguments: Any) -> int:
    """Call a function in a new thread, which Python's own list of threads lacks; return its number.

    Raises RuntimeError when there can be no more threads.
    """
    with unsignalled():
        return _thread.start_new_thread(function, arguments)
