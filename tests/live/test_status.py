"""The status board."""

from __future__ import annotations

from trace_tools.live.status import Status, StatusBoard


def test_listeners_are_notified_of_changes_only() -> None:
    received: list[Status] = []
    statuses = StatusBoard(received.append)
    statuses.post(doing="Tracing")
    statuses.post(doing="Tracing")
    statuses.new_edition(doing="", problems=("lecture.py:3: wrong",))
    assert received == [Status(doing="Tracing"), Status(edition=1, problems=("lecture.py:3: wrong",))]
    assert statuses.latest == received[-1]
