"""Write the records of one run to its journal during the run: the certain ones, and the others to the tail."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from time import perf_counter
from typing import Protocol

from trace_tools.tracing.journal import Journal, Refused, Row
from trace_tools.tracing.recorder.output import Output
from trace_tools.tracing.recorder.retention import Records

FLUSH_S = 0.02  # a step that ended this long ago is in the journal


class TailSource(Protocol):
    """A running call."""

    def tail_rows(self, *, anew: bool) -> Iterator[Row]: ...


class JournalWriter:
    """The writer of one run's records; any thread may call it."""

    def __init__(
        self, journal: Journal, pending: Records, calls: Mapping[int, TailSource], output: Output, refused: Counter[int]
    ) -> None:
        self.journal = journal
        self.pending = pending  # the certain records that are not yet written
        self.calls = calls
        self.output = output
        self.refused = refused  # calls beyond the limit, by function
        self.refused_written = 0  # number of refused calls in the tail
        self.due = 0.0  # when a probe should flush
        self.flushing = threading.Lock()  # held by the thread that writes
        self.over = False  # the run has ended: later records, such as a dying generator's, belong to no run

    def start(self) -> None:
        """Begin with an empty tail, because the calls of the previous run had the same numbers."""
        self.journal.restart_tail(())

    def flush(self, *, wait_s: float = 0) -> None:
        """Write the certain records to the journal, and the others to its tail.

        If another thread is writing, wait for it at most `wait_s` (-1: without limit), then leave the writing to it.
        """
        if not self.flushing.acquire(timeout=wait_s):
            return
        try:
            if self.over:
                return
            self.due = perf_counter() + FLUSH_S
            batch = self.pending[:]
            del self.pending[: len(batch)]  # same list object, because frames hold it
            self.journal.write(batch)
            if self.journal.write_tail(self._tail_rows(anew=False)):
                self.journal.restart_tail(self._tail_rows(anew=True))
        finally:
            self.flushing.release()

    def _tail_rows(self, *, anew: bool) -> Iterator[Row]:
        """Yield the records that have been added to the tail since the previous call, or all if `anew`."""
        for call in list(self.calls.values()):
            yield from call.tail_rows(anew=anew)
        for emission in list(self.output.unsettled.values()):
            yield from emission.tail_rows(anew=anew)
        refused = self.refused.total()
        if refused != (0 if anew else self.refused_written):
            self.refused_written = refused
            yield (Refused, list(self.refused.items()))

    def finish(self) -> None:
        """Write the last records of the run."""
        self.flush(wait_s=-1)
        with self.flushing:
            self.over = True

    def forget(self) -> None:
        """Discard the records, in the child of a fork."""
        self.journal.forget()
        self.flushing = threading.Lock()  # the old lock may be held by a thread of the parent
