"""A fault while pages are made is shown, and the next save makes them."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trace_tools.live import session as session_module
from trace_tools.live.session import Session, Status
from trace_tools.tracing.options import TraceOptions


def test_after_a_fault_the_next_save_makes_the_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lecture = tmp_path / "lecture.py"
    lecture.write_text("def main(): pass\n")
    shown: list[Status] = []
    posted = threading.Semaphore(0)

    def show(status: Status) -> None:
        shown.append(status)
        posted.release()

    faults: list[Exception] = [ZeroDivisionError("in a template")]

    def render(*_: object) -> None:
        if faults:
            raise faults.pop()

    def watch(*_: object, **__: object) -> Any:
        assert posted.acquire(timeout=10)
        yield {(1, str(lecture))}
        assert posted.acquire(timeout=10)
        raise KeyboardInterrupt

    monkeypatch.setattr(session_module, "render_folder", render)
    monkeypatch.setattr(session_module, "problems", lambda trace: [])
    trace = SimpleNamespace(sources=[SimpleNamespace(text="")])
    monkeypatch.setattr(Session, "_traced", lambda self: trace)
    monkeypatch.setattr(Session, "_has_code_of", lambda self, text: True)
    monkeypatch.setattr(session_module.watchfiles, "watch", watch)
    session = Session(lecture, tmp_path / "out", TraceOptions(draft=True), show)
    with pytest.raises(KeyboardInterrupt):
        session.watch()
    session.close()
    assert [(status.edition, status.problems) for status in shown] == [
        (0, ("ZeroDivisionError: in a template",)),
        (1, ()),
    ]
