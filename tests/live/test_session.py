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
    """What was asked to be traced: a section, or None for everything; nothing is."""
    asked: list[str | None] = []

    class Pretended:
        def __init__(self, lecture: Path, out: Path, options: TraceOptions, *_: object) -> None:
            self.options = options
            self.source: Any = parse_source(lecture.read_text(), lecture.name)
            asked.append(options.only)

        def run(self) -> None:
            raise StoppedError

        def stop(self) -> None: ...

    monkeypatch.setattr(session_module, "Tracer", Pretended)
    return asked


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    (tmp_path / "temporary").mkdir()
    serving = Serving(tmp_path)
    serving.session.begin()
    yield serving
    serving.session.stop()


def test_the_earlier_trace_serves_as_long_as_its_code_is_that_of_the_lecture(
    serving: Serving, traced_alone: list[str | None]
) -> None:
    assert "Paragraph 3 says something." in serving.page("00-first") and traced_alone == []
    assert serving.session.files == {serving.lecture.resolve()}


def test_changed_prose_only_needs_the_pages_again(serving: Serving, traced_alone: list[str | None]) -> None:
    edition = serving.statuses.latest.edition
    serving.save("Paragraph 3 says something.", "Paragraph 3 says more.")
    assert "Paragraph 3 says more." in serving.page("00-first") and traced_alone == []
    assert serving.statuses.latest.edition > edition


@pytest.mark.parametrize(
    ("old", "new", "alone"), [("y = x + 1", "y = x + 2", "first"), ("main():\n", "main():\n    print(1)\n", None)]
)
def test_changed_code_is_traced_again_its_section_first(
    serving: Serving, traced_alone: list[str | None], old: str, new: str, alone: str | None
) -> None:
    serving.save(old, new)
    assert traced_alone == [alone]
    assert "Paragraph 3 says something." in serving.page("00-first")  # the last pages stay


def test_what_can_not_be_run_is_said_and_the_last_pages_stay(serving: Serving, traced_alone: list[str | None]) -> None:
    serving.save("y = x + 1", "y = x +")
    [problem] = serving.statuses.latest.problems
    assert problem.startswith("lecture.py:") and "not valid Python" in problem
    assert "Paragraph 3 says something." in serving.page("00-first") and traced_alone == []
    serving.save("", "")
    assert serving.statuses.latest.problems == ()


def test_each_save_is_noticed(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
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


class Pretended:
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


def test_a_new_tracer_ends_the_one_before_and_only_its_outcome_is_told(tmp_path: Path) -> None:
    told: list[tuple[object, object]] = []
    over = threading.Event()
    error = UsageError("no such device")
    retracer = Retracer(lambda tracer, outcome: (told.append((tracer, outcome)), over.set())[0], tmp_path)
    first: Any = Pretended()
    second: Any = Pretended(error)
    retracer.start(first)
    assert retracer.tracer is first
    (tmp_path / "left").mkdir()
    (tmp_path / "left.txt").write_text("by a process that was killed")
    retracer.start(second)
    assert over.wait(10)
    assert told == [(second, error)] and retracer.tracer is None
    assert list(tmp_path.iterdir()) == []


def test_one_that_is_stopped_tells_nothing(tmp_path: Path) -> None:
    told: list[object] = []
    retracer = Retracer(lambda tracer, outcome: told.append(outcome), tmp_path)
    tracer: Any = Pretended()
    retracer.start(tracer)
    retracer.stop(wait_s=10)
    assert told == [] and retracer.tracer is None


def test_temporary_files_go_with_their_folder() -> None:
    before = dict(os.environ)
    with temporary_files() as folder:
        assert os.environ["TMPDIR"] == str(folder) and folder.is_dir()
        (folder / "something").write_text("")
    assert not folder.exists() and dict(os.environ) == before
