"""Start threads of the tools next to a lecture's threads, with signals blocked.

The system delivers a signal to any thread that does not block it. So a signal that a lecture blocks and waits for could
reach a thread that the lecture does not know, and end the lecture.
"""

from __future__ import annotations

import _thread
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

# Except the signals of a thread's own faults, which are reported at once.
SIGNALS = signal.valid_signals() - {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}


@contextmanager
def unsignalled() -> Iterator[None]:
    """Block signals in the threads that start in the `with` block, because a new thread inherits its creator's mask."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # in it, a handler may raise
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start_apart(function: Callable[..., Any], *arguments: Any) -> int:
    """Call a function in a new thread, which Python's own list of threads lacks; return its id once it runs.

    Before it runs, in Python 3.11, the new thread has its creator's id, and an exception thrown at one of the two
    threads may reach the other. Raises RuntimeError if no more threads can be started.
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
    """Return whether a thread's stack began in `start_apart`, so that it is not a thread of the lecture."""
    while frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename == __file__
