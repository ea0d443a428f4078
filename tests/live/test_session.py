"""Reactions to saves, with simulated tracers; and the thread that runs one tracer at a time."""

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
    """A session for a lecture with an earlier trace."""

    def __init__(self, folder: Path) -> None:
        self.lecture = write_lecture(folder)
        self.statuses = StatusBoard()
        self.session = Session(
            self.lecture, folder / ".serve", self.statuses, TraceOptions(device="cpu"), folder / "temporary"
        )

    def save(self, old: str, new: str) -> None:
        """Save the original lecture with one change, and call `saved` of the session."""
        self.lecture.write_text(LECTURE.replace(old, new))
        self.session.saved([self.lecture])

    def page(self, name: str) -> str:
        return (self.session.site.page(f"cpu/{name}.html") or b"").decode()


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Replace the tracer; return the list of requested traces: a section's name, or None for the whole lecture."""
    requests: list[str | None] = []

    class StoppedTracer:
        def __init__(self, lecture: Path, out: Path, options: TraceOptions, *_: object) -> None:
            self.options = options
            self.source: Any = parse_source(lecture.read_text(), lecture.name)
            requests.append(options.only)

        def run(self) -> None:
            raise StoppedError

        def stop(self) -> None: ...

    monkeypatch.setattr(session_module, "Tracer", StoppedTracer)
    return requests


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    (tmp_path / "temporary").mkdir()
    serving = Serving(tmp_path)
    serving.session.begin()
    yield serving
    serving.session.stop()


def test_an_earlier_trace_of_the_same_code_is_served(serving: Serving, requests: list[str | None]) -> None:
    assert "Paragraph 3 says something." in serving.page("00-first") and requests == []
    assert serving.session.files == {serving.lecture.resolve()}


def test_changed_prose_is_rendered_without_a_new_trace(serving: Serving, requests: list[str | None]) -> None:
    edition = serving.statuses.latest.edition
    serving.save("Paragraph 3 says something.", "Paragraph 3 says more.")
    assert "Paragraph 3 says more." in serving.page("00-first") and requests == []
    assert serving.statuses.latest.edition > edition


@pytest.mark.parametrize(
    ("old", "new", "section"), [("y = x + 1", "y = x + 2", "first"), ("main():\n", "main():\n    print(1)\n", None)]
)
def test_changed_code_is_traced_again(
    serving: Serving, requests: list[str | None], old: str, new: str, section: str | None
) -> None:
    serving.save(old, new)
    assert requests == [section]
    assert "Paragraph 3 says something." in serving.page("00-first")  # the last pages remain


def test_invalid_python_is_reported_and_the_last_pages_remain(serving: Serving, requests: list[str | None]) -> None:
    serving.save("y = x + 1", "y = x +")
    [problem] = serving.statuses.latest.problems
    assert problem.startswith("lecture.py:") and "not valid Python" in problem
    assert "Paragraph 3 says something." in serving.page("00-first") and requests == []
    serving.save("", "")
    assert serving.statuses.latest.problems == ()


def test_the_folder_is_watched_and_the_session_receives_saved_files(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[Path] = []

    def watch(*folders: Path, **options: object) -> Iterator[set[tuple[int, str]]]:
        assert serving.lecture.resolve().parent in folders
        yield {(1, str(serving.lecture))}
        raise KeyboardInterrupt

    monkeypatch.setattr(session_module.watchfiles, "watch", watch)
    monkeypatch.setattr(serving.session, "saved", saved.extend)
    with pytest.raises(KeyboardInterrupt):
        serving.session.watch()
    assert saved == [serving.lecture]


# --- running traces -------------------------------------------------------------------------------


class FakeTracer:
    """A tracer that runs until it is stopped, or raises an error immediately."""

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
    """Temporary files of the stopped tracer are removed."""
    outcomes: list[tuple[object, object]] = []
    reported = threading.Event()
    error = UsageError("no such device")

    def ended(tracer: object, outcome: object) -> None:
        outcomes.append((tracer, outcome))
        reported.set()

    retracer = Retracer(ended, tmp_path)
    first: Any = FakeTracer()
    second: Any = FakeTracer(error)
    retracer.start(first)
    assert retracer.tracer is first
    (tmp_path / "remaining").mkdir()
    (tmp_path / "remaining.txt").write_text("of a killed process")
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


def test_temporary_folder_is_removed_and_the_environment_restored() -> None:
    before = dict(os.environ)
    with temporary_files() as folder:
        assert os.environ["TMPDIR"] == str(folder) and folder.is_dir()
        (folder / "file").write_text("")
    assert not folder.exists() and dict(os.environ) == before
