"""Start threads of the tools next to a lecture's threads, with signals blocked.

The system delivers a signal to any thread that does not block it: one that a lecture blocks and waits for would reach a
thread of ours, and end the lecture.
"""

from __future__ import annotations

import _thread
import signal
from collections.abc import Callable

# Except the signals of a thread's own faults, which `faulthandler` reports at once.
SIGNALS = signal.valid_signals() - {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}


class unsignalled:  # a context manager
    """Block signals in the block, and in the threads that start in it, which inherit the mask.

    Not a generator: another thread may get a signal, whose handler then raises between the generator's `yield` and the
    block. Signals stayed blocked while the error lived, and the lecture waited forever for its next alarm.
    """

    def __enter__(self) -> None:
        self._before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # in it, a handler may raise
        except BaseException:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._before)
            raise

    def __exit__(self, *_: object) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)


def start_apart(function: Callable[[], object]) -> None:
    """Call a function in a new thread, which Python's own list of threads lacks."""
    with unsignalled():
        _thread.start_new_thread(function, ())
