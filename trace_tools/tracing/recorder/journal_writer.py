"""Write the records of one run to its journal during the run."""

from __future__ import annotations

import threading
from time import perf_counter

from trace_tools.tracing.journal import Journal
from trace_tools.tracing.recorder.retention import Records

FLUSH_S = 0.02  # a step that ended this long ago is in the journal


class JournalWriter:
    """The writer of one run's records; any thread may call it."""

    def __init__(self, journal: Journal, pending: Records) -> None:
        self.journal = journal
        self.pending = pending  # the records that are not yet written
        self.due = 0.0  # when a probe should flush
        self.flushing = threading.Lock()  # held by the thread that writes
        self.over = False  # the run has ended: later records, such as a dying generator's, belong to no run

    def flush(self, *, wait_s: float = 0) -> None:
        """Write the records; if another thread is writing, wait for it at most `wait_s` (-1: without limit)."""
        if not self.flushing.acquire(timeout=wait_s):
            return
        try:
            if not self.over:
                self.due = perf_counter() + FLUSH_S
                batch = self.pending[:]
                del self.pending[: len(batch)]  # same list object, because frames hold it
                self.journal.write(batch)
        finally:
            self.flushing.release()

    def finish(self) -> None:
        """Write the last records of the run."""
        self.flush(wait_s=-1)
        with self.flushing:
            self.over = True

    def forget(self) -> None:
        """Discard the records, in the child of a fork."""
        self.journal.forget()
        self.flushing = threading.Lock()  # the old lock may be held by a thread of the parent
