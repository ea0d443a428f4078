from __future__ import annotations

import signal
import threading
from _thread import get_ident

from trace_tools.tracing.journal import start_apart


def test_threads_of_the_tools_block_signals() -> None:
    masks: list[tuple[int, set[int]]] = []
    done = threading.Event()

    def record_mask() -> None:
        masks.append((get_ident(), set(signal.pthread_sigmask(signal.SIG_BLOCK, []))))
        done.set()

    before, count = signal.pthread_sigmask(signal.SIG_BLOCK, []), threading.active_count()
    start_apart(record_mask)
    assert done.wait(10)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before and threading.active_count() == count
    assert masks[0][0] != get_ident() and {signal.SIGINT, signal.SIGALRM, signal.SIGUSR2} <= masks[0][1]
    assert signal.SIGSEGV not in masks[0][1], "faults are reported at once"
