"""Threads of the tools block signals."""

from __future__ import annotations

import _thread
import signal
import threading
import time
from _thread import get_ident
from collections.abc import Callable
from typing import Any

import pytest

from trace_tools.describing.threads import start_apart


def test_threads_of_the_tools_block_signals() -> None:
    masks: list[tuple[int, set[int]]] = []
    done = threading.Event()

    def record_mask(_: str) -> None:
        masks.append((get_ident(), set(signal.pthread_sigmask(signal.SIG_BLOCK, []))))
        done.set()

    before, count = signal.pthread_sigmask(signal.SIG_BLOCK, []), threading.active_count()
    ident = start_apart(record_mask, "word")
    assert done.wait(10)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before and threading.active_count() == count
    assert masks[0][0] == ident and {signal.SIGINT, signal.SIGALRM, signal.SIGUSR2} <= masks[0][1]
    assert signal.SIGSEGV not in masks[0][1], "faults are reported at once"


def test_start_apart_returns_once_the_thread_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it runs, Python 3.11 confuses it with its creator: an exception for one could reach the other."""
    started: list[int] = []
    start = _thread.start_new_thread

    def start_late(function: Callable[..., Any], arguments: tuple[Any, ...]) -> int:
        def late() -> None:
            time.sleep(0.05)
            started.append(get_ident())
            function(*arguments)

        return start(late, ())

    monkeypatch.setattr(_thread, "start_new_thread", start_late)
    assert [start_apart(lambda: None)] == started
