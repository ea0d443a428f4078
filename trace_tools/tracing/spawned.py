"""Processes that a lecture starts and that begin anew: what happens in them is not recorded, and the step says so.

    with saying_what_is_untraced(recorder):
        multiprocessing.get_context("spawn").Process(target=work).start()     # a warning of the step that is open

What is forked is another matter: it prints to where its parent does, and its parent goes on being traced.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from sys import _getframe
from typing import Any

from trace_tools.tracing.recorder import DroppedFrame, Recorder

UNTRACED = (
    "NotTraced: processes that begin anew ({method}) were started here; what happens in them is not on this page, "
    "but for what they print"
)


@contextlib.contextmanager
def saying_what_is_untraced(recorder: Recorder) -> Iterator[None]:
    """Warn at a step that starts processes in which the lecture's modules are imported anew, once each."""
    from multiprocessing import process as processes  # where a lecture may start some: not every one does

    start = processes.BaseProcess.start
    told: set[int] = set()

    def recorded_start(self: Any) -> None:
        method = getattr(self, "_start_method", None)
        owner = recorder.owner(_getframe(1)) if method in ("spawn", "forkserver") else None
        while isinstance(owner, DroppedFrame):
            owner = owner.parent
        if owner is not None and owner.seq not in told:
            told.add(owner.seq)
            recorder.emit("warnings", UNTRACED.format(method=method))
        start(self)

    processes.BaseProcess.start = recorded_start  # type: ignore[method-assign]
    try:
        yield
    finally:
        processes.BaseProcess.start = start  # type: ignore[method-assign]
