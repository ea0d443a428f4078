"""Threads of the tools beside a lecture's: no signal comes to them.

The system hands a signal to any thread that does not block it, so a lecture that blocks one to wait for it would be
ended by it in a thread that it knows nothing of.
"""

from __future__ import annotations

import _thread
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
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
    """Call a function in a new thread, which Python's own list of threads lacks; return its number once it runs.

    Until then it has the number of the thread that made it in Python 3.11, and what is thrown at the one may come to
    the other. Raises RuntimeError when there can be no more threads.
    """
    begun = _thread.allocate_lock()
    begun.acquire()

    def run() -> None:
        begun.release()
        function(*arguments)

    with unsignalled():
        number = _thread.start_new_thread(run, ())
    begun.acquire()
    return number


def began_apart(frame: FrameType) -> bool:
    """Tell whether the stack of a thread began in `start_apart`: what runs there is no thread of the lecture's."""
    while frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename == __file__
