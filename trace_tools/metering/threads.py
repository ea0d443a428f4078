"""Detect work in other threads, because a meter sees only its own thread.

    with OtherThreads() as others:
        pool.submit(f).result()
    others.worked()  # ["ThreadPoolExecutor-0_0"]

A thread that Python started before has worked if it used processor time, which Linux counts for each thread; a thread
started meanwhile counts as working. On other systems, only threads started meanwhile are known.
"""

from __future__ import annotations

import sys
import threading
from types import FrameType, TracebackType
from typing import Any

SHARE = 0.05  # share of this thread's own time; less is only waiting and waking up
NAMED = 3


class OtherThreads:
    """Watches the threads of Python's `threading`, from the creation of this object until `end`."""

    def __init__(self) -> None:
        self._started: list[str] = []
        self._worked: dict[str, int] = {}
        self._profile = threading.getprofile()
        threading.setprofile(self._begins)
        self._before, self._own, self._took = _processor_ns(), _own_ns(), 0

    def __enter__(self) -> OtherThreads:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """Stop watching; threads that have worked until now count."""
        self._took = _own_ns() - self._own
        threading.setprofile(self._profile)
        for thread, spent_ns in _processor_ns().items():
            if thread in self._before and spent_ns > self._before[thread]:
                self._worked[thread.name] = spent_ns - self._before[thread]

    def worked(self, *, much: bool = False) -> list[str]:
        """Return the names of the threads that worked; with `much`, leave out those that existed before and used less
        than 5% of this thread's time.
        """
        return [*self._started, *(name for name, ns in self._worked.items() if not much or ns >= SHARE * self._took)]

    def _begins(self, frame: FrameType, event: str, argument: Any) -> None:
        """Note the new thread in which `threading` first calls this, and hand it to the previous watcher of threads."""
        sys.setprofile(self._profile)
        self._started.append(threading.current_thread().name)


def in_words(threads: list[str]) -> str:
    """Return a message that other threads worked, and how to include them in an incomplete count."""
    names = ", ".join(repr(name) for name in threads[:NAMED]) + (" and others" if len(threads) > NAMED else "")
    return f"work ran in another thread ({names}), and only the calling thread is counted: count in that thread"


def _own_ns() -> int:
    return _spent_ns(threading.get_native_id()) or 0


def _processor_ns() -> dict[threading.Thread, int]:
    """Return the processor time of each other thread, without threads that only C++ started."""
    current = threading.current_thread()
    threads = [t for t in threading.enumerate() if t is not current and not isinstance(t, threading._DummyThread)]
    spent = {thread: _spent_ns(thread.native_id) for thread in threads}
    return {thread: ns for thread, ns in spent.items() if ns is not None}


def _spent_ns(native_id: int | None) -> int | None:
    try:
        with open(f"/proc/self/task/{native_id}/schedstat", "rb") as schedstat:
            return int(schedstat.read().split()[0])
    except (OSError, ValueError, IndexError):  # not Linux, or the thread has just ended
        return None
