"""Warnings of a step that starts processes which are not traced."""

from __future__ import annotations

import multiprocessing
from types import SimpleNamespace
from typing import Any

import pytest

from trace_tools.tracing.isolation.spawned import saying_what_is_untraced


class FakeRecorder:
    """Replaces a recorder that is at one step, and collects the emitted records."""

    def __init__(self) -> None:
        self.recorded_owner = lambda python_frame: SimpleNamespace(seq=7)
        self.emitted: list[tuple[str, str]] = []

    def emit(self, field: str, content: str) -> None:
        self.emitted.append((field, content))


def do_nothing() -> None:
    """Serve as the target of a process."""


@pytest.mark.parametrize(("method", "times"), [("spawn", 1), ("forkserver", 1), ("fork", 0)])
def test_untraced_processes_are_reported_once_per_step(method: str, times: int) -> None:
    recorder = FakeRecorder()
    context: Any = multiprocessing.get_context(method)
    start = multiprocessing.process.BaseProcess.start
    with saying_what_is_untraced(recorder):  # type: ignore[arg-type]
        for _ in range(2):
            process = context.Process(target=do_nothing)
            process.start()
            process.join()
    assert multiprocessing.process.BaseProcess.start is start
    assert len(recorder.emitted) == times
    if times:
        assert recorder.emitted[0][0] == "warnings" and f"({method})" in recorder.emitted[0][1]
