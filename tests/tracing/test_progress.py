"""Progress messages of processes."""

from __future__ import annotations

import pytest

from trace_tools.tracing.progress import Progress


@pytest.mark.parametrize(
    ("message", "where"),
    [
        (Progress("survey"), ""),
        (Progress("pass 1", "matmul", 42), "matmul"),
        (Progress("pass 1", "matmul", 42, 30), "matmul, line 42 for 30 s"),
        (Progress("pass 1", "start", None, 11), "start, nothing new for 11 s"),
    ],
)
def test_messages_are_encoded_and_decoded_without_loss(message: Progress, where: str) -> None:
    assert message.where == where
    assert message.to_json().count(b"\n") == 1 and Progress.read(message.to_json()) == message


WRONG = [b"", b"{", b"[1]", b'{"section": "a"}', b'{"process": 1}', b'{"process": "a", "line": "2"}', b"[" * 100_000, 3]


@pytest.mark.parametrize("content", WRONG, ids=lambda content: repr(content)[:20])
def test_invalid_messages_are_read_as_none(content: object) -> None:
    assert Progress.read(content) is None
