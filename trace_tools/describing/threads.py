"""Threads of the tools beside a lecture's: no signal comes to them.

The system hands a signal to any thread that does not block it, so a lecture that blocks one to wait for it would be
ended by it in a thread that it knows nothing of.
"""

from __future__ import annotations

import _thread
import signal
from collections.abc import Callable
from typing import Any

# But for those of a thread's own faults, of which a report is made as they come.
SIGNALS = signal.valid_signals() - {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}


def start_apart(function: Callable[..., Any], *arguments: Any) -> int:
    """Call a function in a new thread, which Python's own list of threads lacks; return its number.

    Raises RuntimeError when there can be no more threads.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # a new thread has its maker's
    try:
        return _thread.start_new_thread(function, arguments)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
