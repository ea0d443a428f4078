"""A fault while pages are made is shown, and the next save makes them."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.pages.lectures import LECTURE, lecture
from trace_tools.live import session as session_module
from trace_tools.live.session import Session, Status
from trace_tools.trace.file import write
from trace_tools.tracing.options import TraceOptions


def test_after_a_fault_the_next_save_makes_the_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(LECTURE)
    (tmp_path / "out/cpu").mkdir(parents=True)
    write(lecture().trace(), tmp_path / "out/cpu/trace.yaml")
    shown: list[Status] = []
    posted = threading.Semaphore(0)
    faults: list[Exception] = [ZeroDivisionError("in a template")]

    def show(status: Status) -> None:
        shown.append(status)
        posted.release()

    def render(*of: Path) -> None:
        assert of == (tmp_path / "out", path)
        if faults:
            raise faults.pop()

    def watch(*_: object, **__: object) -> Any:
        assert posted.acquire(timeout=10)
        yield {(1, str(path))}
        assert posted.acquire(timeout=10)
        raise KeyboardInterrupt

    monkeypatch.setattr(session_module, "render_folder", render)
    monkeypatch.setattr(session_module.watchfiles, "watch", watch)
    session = Session(path, tmp_path / "out", TraceOptions(draft=True), show)
    with pytest.raises(KeyboardInterrupt):
        session.watch()
    session.close()
    assert not session._worker.is_alive()
    problems = [(status.edition, status.problems) for status in shown]
    assert problems == [(0, ("ZeroDivisionError: in a template",)), (1, ())]


def test_a_run_is_stopped_only_by_changed_code(tmp_path: Path) -> None:
    session = Session(tmp_path / "lecture.py", tmp_path, TraceOptions(draft=True), print)
    stopped: list[str] = []
    tracer: Any = SimpleNamespace(job=SimpleNamespace(text=LECTURE), stop=lambda: stopped.append(saved))
    session._tracer = tracer
    for saved, text in (("lecture.py", LECTURE), ("a.py", ""), ("a.svg", ""), ("lecture.py", LECTURE + "x = 1\n")):
        (tmp_path / saved).write_text(text)
        session.saved([tmp_path / saved])
    assert stopped == ["a.py", "lecture.py"]
