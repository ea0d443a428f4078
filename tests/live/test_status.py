from __future__ import annotations

from trace_tools.live.status import Status, StatusBoard


def test_a_listener_hears_of_each_change_and_of_nothing_else() -> None:
    heard: list[Status] = []
    statuses = StatusBoard(heard.append)
    statuses.post(doing="Tracing")
    statuses.post(doing="Tracing")
    statuses.new_edition(doing="", problems=("lecture.py:3: wrong",))
    assert heard == [Status(doing="Tracing"), Status(edition=1, problems=("lecture.py:3: wrong",))]
    assert statuses.latest == heard[-1]
