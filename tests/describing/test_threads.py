"""Threads of the tools: no signal comes to them."""

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


def test_all_signals_are_blocked_there_and_here_as_before() -> None:
    found: list[tuple[int, set[int]]] = []
    done = threading.Event()

    def look(_: str) -> None:
        found.append((get_ident(), set(signal.pthread_sigmask(signal.SIG_BLOCK, []))))
        done.set()

    before, listed = signal.pthread_sigmask(signal.SIG_BLOCK, []), threading.active_count()
    ident = start_apart(look, "word")
    assert done.wait(10)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before and threading.active_count() == listed
    assert found[0][0] == ident and {signal.SIGINT, signal.SIGALRM, signal.SIGUSR2} <= found[0][1]
    assert signal.SIGSEGV not in found[0][1], "a fault is reported as it comes"


def test_it_runs_once_its_number_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise Python 3.11 takes it for the thread that made it, and throws at it what is meant for that one."""
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
