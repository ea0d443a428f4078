"""Independent calls → their results, in as many processes as there are cores.

    in_processes([lambda: pages(cpu), lambda: pages(gpu)])      [{…}, {…}]

A forked process has everything its parent had read, so nothing but results is sent. Where processes can't be
forked safely (no `fork` on this system, other threads are running) or there is nothing to gain, the calls run here.
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
    """Return what each call returns, in order; what one raises is raised here."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    most = min(len(calls), cores if processes is None else processes)
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
                here, there = context.Pipe(duplex=False)
                process = context.Process(target=_send, args=(call, there))
                process.start()
                there.close()
                running[here] = number, process
            for ready in wait(list(running)):
                assert isinstance(ready, Connection)
                number, process = running.pop(ready)
                try:
                    results[number], error = ready.recv()
                except EOFError:
                    told = "a process that rendered pages ended without a result; was it killed for its memory?"
                    raise UsageError(told) from None
                if error is not None:
                    raise error
                process.join()
    finally:
        for _, process in running.values():
            process.terminate()
            process.join()
    return [results[number] for number in range(len(calls))]


def _send(call: Callable[[], object], to: Connection) -> None:
    try:
        to.send((call(), None))
    except BaseException as error:  # whatever it was, it is raised again where the result is awaited
        to.send((None, error))
