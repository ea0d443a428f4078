"""End a process as plain Python does, without losing records: wait for threads and processes of the lecture, flush the
journal.

    running = wait_for_others(report)  # after each run: ["thread worker 1", "process Process-1 (12)"] still run
    with limited(on_timeout): atexit…  # at the end of the process, because its own waits have no limit

At exit, Python waits without limit for non-daemon threads and for processes started with `multiprocessing`. A run
waits `WAIT_S`, so that the work of these threads and processes belongs to it. Idle workers of pools that were never
shut down would wait forever for new work, so the run does not wait for them.

    with flush_on_exit(flush): ...    # in it, `os._exit(3)` and `os.execv(…)` first call `flush`

Otherwise the last 20 ms would be lost, and a short lecture may begin and end within that time.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from sys import _current_frames
from time import monotonic, sleep
from typing import Any

from trace_tools.describing.threads import start_apart
from trace_tools.util.interpreter import replaced

WAIT_S = 60.0
REPORT_S = 1.0  # after this time, a message names the threads and processes being waited for

# Helper processes of libraries, which end with this process.
_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver", "compile_worker")


def wait_for_others(report: Callable[[str], None]) -> list[str]:
    """Wait for threads and processes as Python does at exit; return the names of those still running after `WAIT_S`."""
    started = monotonic()
    reported = False
    while running := _running():
        waited = monotonic() - started
        if waited > WAIT_S:
            return sorted(running)
        if waited > REPORT_S and not reported:
            reported = True
            report(f"waits for {', '.join(sorted(running))}")
        next(iter(running.values()))(0.05)
    return []


@contextlib.contextmanager
def limited(on_timeout: Callable[[list[str]], None]) -> Iterator[None]:
    """Call `on_timeout`, in another thread, with the names of the running processes, if the block takes longer than
    `WAIT_S`.
    """
    over = _thread.allocate_lock()
    over.acquire()

    def watch() -> None:
        if not over.acquire(timeout=WAIT_S):
            on_timeout(processes_of_session())

    start_apart(watch)
    try:
        yield
    finally:
        over.release()


def processes_of_session() -> list[str]:
    """Return the other processes of the session that this process leads, such as "sleep (12)", if the system lists
    them.
    """
    names = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):  # the process has ended meanwhile
            name, _, fields = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")
            state, _, _, session = fields.split()[:4]
            words = (folder / "cmdline").read_bytes().decode(errors="replace")
            other = int(session) == os.getpid() != int(folder.name) and state not in "ZX"
            if other and not any(helper in words for helper in _HELPERS):
                names.append(f"{name.partition('(')[2]} ({folder.name})")
    return sorted(names)


def _running() -> dict[str, Callable[[float], Any]]:
    """Return the threads and processes that Python would wait for at exit: name → function that waits for some
    seconds.
    """
    workers = _pool(sys.modules.get("concurrent.futures.thread"), "_threads_queues")
    managers = _pool(sys.modules.get("concurrent.futures.process"), "_threads_wakeups")
    not_waited_for = {id(thread) for thread in (*workers, *managers, threading.main_thread())}
    pooled = {id(process) for manager in managers for process in (getattr(manager, "processes", None) or {}).values()}
    running: dict[str, Callable[[float], Any]] = {}
    for thread in threading.enumerate():
        if not thread.daemon and id(thread) not in not_waited_for:
            running[f"thread {thread.name}"] = thread.join
    running |= {f"thread {worker.name}": sleep for worker in workers if _is_at_work(worker)}
    children = sys.modules.get("multiprocessing.process")
    for process in children.active_children() if children is not None else ():
        if not process.daemon and id(process) not in pooled:
            running[f"process {process.name} ({process.pid})"] = process.join
    return running


def _is_at_work(worker: threading.Thread) -> bool:
    """Return whether a pool's thread is working rather than waiting for work.

    An ended thread is excluded first, because another thread may have its number.
    """
    frame = _current_frames().get(worker.ident or 0) if worker.is_alive() else None
    return frame is not None and frame.f_code is not sys.modules["concurrent.futures.thread"]._worker.__code__


def _pool(module: Any, table: str) -> list[Any]:
    """Return the threads that one kind of pool has registered to be joined when Python exits."""
    return list(getattr(module, table, ()))


@contextmanager
def flush_on_exit(flush: Callable[[], None]) -> Iterator[None]:
    """Call `flush` before each `os._exit` and `os.exec*` inside the `with` block."""

    def flushing(function: Callable[..., Any]) -> Callable[..., Any]:
        def flush_first(*arguments: Any, **named: Any) -> Any:
            flush()
            return function(*arguments, **named)

        return flush_first

    with ExitStack() as stack:
        for name in ("_exit", "execv", "execve"):  # all other `exec*` call these
            stack.enter_context(replaced(os, name, flushing(getattr(os, name))))
        yield
