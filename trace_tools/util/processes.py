"""Run independent calls in as many processes as there are cores.

    in_processes([lambda: pages(cpu), lambda: pages(gpu)])      [{…}, {…}]

Processes are forked, so they share what their parent has read and only results are sent. The calls run in this process
if forking is unsafe (no `fork`, other threads) or would not help.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from trace_tools.errors import UsageError

T = TypeVar("T")
_calls: Sequence[Callable[[], object]] = ()  # of the parent, where its processes find them


def in_processes(calls: Sequence[Callable[[], T]], processes: int | None = None) -> list[T]:
    """Return the results of the calls, in order; an exception of a call is raised in this process."""
    global _calls
    most = min(len(calls), cores() if processes is None else processes)
    alone = threading.active_count() == 1 and "fork" in multiprocessing.get_all_start_methods()
    if most < 2 or not alone:
        return [call() for call in calls]
    from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor

    _calls = calls
    try:
        with ProcessPoolExecutor(most, multiprocessing.get_context("fork")) as pool:
            return list(pool.map(_call, range(len(calls))))  # type: ignore[arg-type]
    except BrokenProcessPool:
        why = "a process that rendered pages ended without a result; it may have run out of memory"
        raise UsageError(why) from None
    finally:
        _calls = ()


def cores() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _call(number: int) -> object:
    return _calls[number]()
