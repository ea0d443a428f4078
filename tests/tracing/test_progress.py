"""Progress messages of processes."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace

import pytest

from trace_tools.tracing import progress
from trace_tools.tracing.progress import Progress, ProgressSender


@pytest.mark.parametrize(
    ("message", "where"),
    [
        (Progress("survey"), ""),
        (Progress("pass 1", "matmul", 42), "matmul"),
        (Progress("pass 1", "matmul", 42, 30), "matmul, line 42 for 30 s"),
        (Progress("pass 1", "start", None, 11), "start, nothing new for 11 s"),
    ],
)
def test_a_message_in_words(message: Progress, where: str) -> None:
    assert message.where == where


def test_a_stalled_process_reports_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each section is sent once, and each second the line, if for ten seconds there was no other one and no step."""
    read_end, write_end = os.pipe()
    now, counter, lines = [0.0], iter(range(100)), {4: 7, 25: 8, 26: 7}
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    position = SimpleNamespace(sequence=SimpleNamespace(__self__=counter), line=lambda path: lines.get(int(now[0]), 8))
    position.sequence.__self__ = SimpleNamespace(__reduce__=lambda: (iter, (0,)))
    sender = ProgressSender(write_end)
    report = sender.reporting(position, "lecture.py")  # type: ignore[arg-type]
    for section in ("cold", "train", "train"):
        sender.enter(section)
    for now[0] in (1.0, 1.5, 4.0, 5.0, 14.0, 15.0, 16.0, 25.0, 26.0, 30.0):
        report()
    sender.forget()
    sender.enter("in the child of a fork")
    os.close(write_end)
    with os.fdopen(read_end) as messages:
        assert [json.loads(line) for line in messages] == [
            ["cold"], ["train"], ["train", 8, 10], ["train", 8, 11], ["train", 8, 20],
        ]  # fmt: skip
