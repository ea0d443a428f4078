"""What a step says that starts processes; whole lectures that do are in test_adopted."""

from __future__ import annotations

import multiprocessing
from types import SimpleNamespace
from typing import Any

import pytest

from trace_tools.tracing.isolation.spawned import saying_what_is_untraced


class Recorded:
    """A recorder at one step, which hears what is emitted."""

    def __init__(self) -> None:
        self.ownership = SimpleNamespace(recorded_owner=lambda python_frame: SimpleNamespace(seq=7))
        self.heard: list[tuple[str, str]] = []

    def emit(self, field: str, content: str) -> None:
        self.heard.append((field, content))


def nothing() -> None:
    """Be what a process does."""


@pytest.mark.parametrize(("method", "times"), [("spawn", 1), ("forkserver", 1), ("fork", 0)])
def test_a_step_says_once_that_what_begins_anew_is_untraced(method: str, times: int) -> None:
    recorder = Recorded()
    context: Any = multiprocessing.get_context(method)
    start = multiprocessing.process.BaseProcess.start
    with saying_what_is_untraced(recorder):  # type: ignore[arg-type]
        for _ in range(2):
            process = context.Process(target=nothing)
            process.start()
            process.join()
    assert multiprocessing.process.BaseProcess.start is start
    assert len(recorder.heard) == times
    if times:
        assert recorder.heard[0][0] == "warnings" and f"({method})" in recorder.heard[0][1]
