"""A fault while pages are made is shown, and the next save makes them."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.pages.lectures import LECTURE, lecture
from trace_tools.live import session as session_module
from trace_tools.live.session import Session, Status
from trace_tools.tracing.options import TraceOptions


def test_after_a_fault_the_next_save_makes_the_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(LECTURE)
    shown: list[Status] = []
    posted = threading.Semaphore(0)
    faults: list[Exception] = [ZeroDivisionError("in a template")]

    def show(status: Status) -> None:
        shown.append(status)
        posted.release()

    def render(*_: object) -> None:
        if faults:
            raise faults.pop()

    def watch(*_: object, **__: object) -> Any:
        assert posted.acquire(timeout=10)
        yield {(1, str(path))}
        assert posted.acquire(timeout=10)
        raise KeyboardInterrupt

    monkeypatch.setattr(session_module, "render_folder", render)
    monkeypatch.setattr(session_module.watchfiles, "watch", watch)
    monkeypatch.setattr(Session, "_earlier_trace", lambda self: lecture().trace())
    session = Session(path, tmp_path / "out", TraceOptions(draft=True), show)
    with pytest.raises(KeyboardInterrupt):
        session.watch()
    session.close()
    problems = [(status.edition, status.problems) for status in shown]
    assert problems == [(0, ("ZeroDivisionError: in a template",)), (1, ())]
