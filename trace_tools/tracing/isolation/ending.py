"""End a run as Python ends a program: wait for the lecture's threads and processes, flush the journal.

    running = wait_for_others(report)  # after each run: ["thread worker 1", "process Process-1 (12)"] still run
    with flush_on_exit(flush): …  # in it, `os._exit(3)` and `os.execv(…)` first call `flush`

Python waits without limit. A run waits `WAIT_S`, so that the work of these threads and processes belongs to it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from sys import _current_frames
from time import monotonic, sleep
from typing import Any

from trace_tools.util.interpreter import replaced

WAIT_S = 60.0
REPORT_S = 1.0  # after this time, a message names the threads and processes being waited for
# of `ProcessPoolExecutor`, and of loky's (joblib, scikit-learn), whose idle workers wait 300 s for work
MANAGER = "_ExecutorManagerThread"


def wait_for_others(report: Callable[[str], None]) -> list[str]:
    """Wait for threads and processes as Python does at exit; return the names of those still running after `WAIT_S`."""
    started, reported = monotonic(), False
    while (running := still_running()) and monotonic() - started < WAIT_S:
        if monotonic() - started > REPORT_S and not reported:
            reported = True
            report(f"waits for {', '.join(running)}")
        sleep(0.01)
    return running


def still_running() -> list[str]:
    """Return the names of the threads and processes that Python would wait for, except idle workers of pools."""
    threads = [
        thread for thread in threading.enumerate() if not thread.daemon and thread is not threading.main_thread()
    ]
    names = [f"thread {thread.name}" for thread in threads if not _is_idle(thread)]
    pools = [getattr(thread, "processes", None) or {} for thread in threads if type(thread).__name__ == MANAGER]
    pooled = {id(worker) for pool in pools for worker in pool.values()}
    if (processes := sys.modules.get("multiprocessing.process")) is not None:
        children = [child for child in processes.active_children() if not child.daemon and id(child) not in pooled]
        names += [f"process {child.name} ({child.pid})" for child in children]
    return sorted(names)


def _is_idle(thread: threading.Thread) -> bool:
    """Return whether a thread of a pool is waiting for work."""
    if type(thread).__name__ == MANAGER:
        return not getattr(thread, "pending_work_items", None)
    frame, pools = _current_frames().get(thread.ident or 0), sys.modules.get("concurrent.futures.thread")
    return frame is not None and pools is not None and frame.f_code is pools._worker.__code__


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
