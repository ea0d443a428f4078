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
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from trace_tools.errors import UsageError

T = TypeVar("T")


def in_processes(calls: Sequence[Callable[[], T]], processes: int | None = None) -> list[T]:
    """Return the results of the calls, in order; an exception of a call is raised in this process."""
    most = min(len(calls), cores() if processes is None else processes)
    alone = threading.active_count() == 1 and "fork" in multiprocessing.get_all_start_methods()
    if most < 2 or not alone:
        return [call() for call in calls]
    context = multiprocessing.get_context("fork")
    waiting = list(enumerate(calls))[::-1]
    running: dict[Connection, tuple[int, Any]] = {}
    results: dict[int, T] = {}
    try:
        while waiting or running:
            while waiting and len(running) < most:
                number, call = waiting.pop()
                receiving, sending = context.Pipe(duplex=False)
                process = context.Process(target=_send, args=(call, sending))
                process.start()
                sending.close()
                running[receiving] = number, process
            for ready in wait(list(running)):
                assert isinstance(ready, Connection)
                number, process = running.pop(ready)
                try:
                    results[number], error = ready.recv()
                except EOFError:
                    why = "a process that rendered pages ended without a result; it may have run out of memory"
                    raise UsageError(why) from None
                if error is not None:
                    raise error
                process.join()
    finally:
        for _, process in running.values():
            process.terminate()
            process.join()
    return [results[number] for number in range(len(calls))]


def cores() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _send(call: Callable[[], object], to: Connection) -> None:
    try:
        to.send((call(), None))
    except BaseException as error:  # raised again by the parent
        to.send((None, error))
