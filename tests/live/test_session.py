from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.lectures import LECTURE, write_lecture
from trace_tools.errors import UsageError
from trace_tools.live import session as session_module
from trace_tools.live.session import Retracer, temporary_files
from trace_tools.live.status import StatusBoard
from trace_tools.source.statements import parse_source
from trace_tools.tracing.options import TraceOptions
from trace_tools.tracing.runner import StoppedError

pytest.importorskip("watchfiles")
from trace_tools.live.session import Session


class Serving:
    def __init__(self, folder: Path) -> None:
        self.lecture = write_lecture(folder)
        self.statuses = StatusBoard()
        self.session = Session(
            self.lecture, folder / ".serve", self.statuses, TraceOptions(device="cpu"), folder / "temporary"
        )

    def save(self, old: str, new: str) -> None:
        self.lecture.write_text(LECTURE.replace(old, new))
        self.session.saved([self.lecture])

    def page(self, name: str) -> str:
        return (self.session.site.page(f"cpu/{name}.html") or b"").decode()


@pytest.fixture
def traced_alone(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Requested traces, which do not run: the name of a section, or None for the whole lecture."""
    requests: list[str | None] = []

    class FakeTracer:
        def __init__(self, lecture: Path, out: Path, options: TraceOptions, *_: object) -> None:
            self.options = options
            self.source: Any = parse_source(lecture.read_text(), lecture.name)
            requests.append(options.only)

        def run(self) -> None:
            raise StoppedError

        def stop(self) -> None: ...

    monkeypatch.setattr(session_module, "Tracer", FakeTracer)
    return requests


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    (tmp_path / "temporary").mkdir()
    serving = Serving(tmp_path)
    serving.session.begin()
    yield serving
    serving.session.stop()


def test_an_earlier_trace_of_the_same_code_is_served(serving: Serving, traced_alone: list[str | None]) -> None:
    assert "Paragraph 3 says something." in serving.page("00-first") and traced_alone == []
    assert serving.session.files == {serving.lecture.resolve()}


def test_changed_prose_is_rendered_without_a_new_trace(serving: Serving, traced_alone: list[str | None]) -> None:
    edition = serving.statuses.latest.edition
    serving.save("Paragraph 3 says something.", "Paragraph 3 says more.")
    assert "Paragraph 3 says more." in serving.page("00-first") and traced_alone == []
    assert serving.statuses.latest.edition > edition


@pytest.mark.parametrize(
    ("old", "new", "alone"), [("y = x + 1", "y = x + 2", "first"), ("main():\n", "main():\n    print(1)\n", None)]
)
def test_changed_code_is_traced_again(
    serving: Serving, traced_alone: list[str | None], old: str, new: str, alone: str | None
) -> None:
    serving.save(old, new)
    assert traced_alone == [alone]
    assert "Paragraph 3 says something." in serving.page("00-first")  # the last pages stay


def test_invalid_python_is_reported_and_the_last_pages_stay(serving: Serving, traced_alone: list[str | None]) -> None:
    serving.save("y = x + 1", "y = x +")
    [problem] = serving.statuses.latest.problems
    assert problem.startswith("lecture.py:") and "not valid Python" in problem
    assert "Paragraph 3 says something." in serving.page("00-first") and traced_alone == []
    serving.save("", "")
    assert serving.statuses.latest.problems == ()


def test_saves_are_noticed(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Path] = []

    def watched(*folders: Path, **options: object) -> Iterator[set[tuple[int, str]]]:
        assert serving.lecture.resolve().parent in folders
        yield {(1, str(serving.lecture))}
        raise KeyboardInterrupt

    monkeypatch.setattr(session_module.watchfiles, "watch", watched)
    monkeypatch.setattr(serving.session, "saved", seen.extend)
    with pytest.raises(KeyboardInterrupt):
        serving.session.watch()
    assert seen == [serving.lecture]


# --- running traces -------------------------------------------------------------------------------


class FakeTracer:
    """A tracer that works until it is stopped, or raises at once."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error
        self._stopped = threading.Event()

    def run(self) -> Any:
        if self._error is None:
            assert self._stopped.wait(10)
        raise self._error or StoppedError

    def stop(self) -> None:
        self._stopped.set()


def test_a_new_tracer_stops_the_previous_one(tmp_path: Path) -> None:
    outcomes: list[tuple[object, object]] = []
    reported = threading.Event()
    error = UsageError("no such device")
    retracer = Retracer(lambda tracer, outcome: (outcomes.append((tracer, outcome)), reported.set())[0], tmp_path)
    first: Any = FakeTracer()
    second: Any = FakeTracer(error)
    retracer.start(first)
    assert retracer.tracer is first
    (tmp_path / "left").mkdir()
    (tmp_path / "left.txt").write_text("by a process that was killed")
    retracer.start(second)
    assert reported.wait(10)
    assert outcomes == [(second, error)] and retracer.tracer is None
    assert list(tmp_path.iterdir()) == []


def test_a_stopped_tracer_reports_nothing(tmp_path: Path) -> None:
    outcomes: list[object] = []
    retracer = Retracer(lambda tracer, outcome: outcomes.append(outcome), tmp_path)
    tracer: Any = FakeTracer()
    retracer.start(tracer)
    retracer.stop(wait_s=10)
    assert outcomes == [] and retracer.tracer is None


def test_temporary_files_are_removed_with_their_folder() -> None:
    before = dict(os.environ)
    with temporary_files() as folder:
        assert os.environ["TMPDIR"] == str(folder) and folder.is_dir()
        (folder / "something").write_text("")
    assert not folder.exists() and dict(os.environ) == before
