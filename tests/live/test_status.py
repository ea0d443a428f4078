from __future__ import annotations

from trace_tools.live.status import Status, StatusBoard


def test_listeners_are_notified_of_changes_only() -> None:
    notices: list[Status] = []
    statuses = StatusBoard(notices.append)
    statuses.post(doing="Tracing")
    statuses.post(doing="Tracing")
    statuses.new_edition(doing="", problems=("lecture.py:3: wrong",))
    assert notices == [Status(doing="Tracing"), Status(edition=1, problems=("lecture.py:3: wrong",))]
    assert statuses.latest == notices[-1]
