from __future__ import annotations

from trace_tools.live.status import Board, Status


def test_a_listener_hears_of_each_change_and_of_nothing_else() -> None:
    heard: list[Status] = []
    board = Board(heard.append)
    board.post(doing="Tracing")
    board.post(doing="Tracing")
    board.new_edition(doing="", problems=("lecture.py:3: wrong",))
    assert heard == [Status(doing="Tracing"), Status(edition=1, problems=("lecture.py:3: wrong",))]
    assert board.notice == heard[-1]
