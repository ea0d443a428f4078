from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.lectures import LECTURE, write_lecture
from trace_tools.live import session as session_module
from trace_tools.live.status import Board
from trace_tools.source.statements import parse_source
from trace_tools.tracing.options import TraceOptions
from trace_tools.tracing.supervisor import StoppedError

pytest.importorskip("watchfiles")
from trace_tools.live.session import Session


class Serving:
    def __init__(self, folder: Path) -> None:
        self.lecture = write_lecture(folder)
        self.board = Board()
        self.session = Session(
            self.lecture, folder / ".serve", self.board, TraceOptions(device="cpu"), folder / "temporary"
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
    edition = serving.board.notice.edition
    serving.save("Paragraph 3 says something.", "Paragraph 3 says more.")
    assert "Paragraph 3 says more." in serving.page("00-first") and traced_alone == []
    assert serving.board.notice.edition > edition


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
    [problem] = serving.board.notice.problems
    assert problem.startswith("lecture.py:") and "not valid Python" in problem
    assert "Paragraph 3 says something." in serving.page("00-first") and traced_alone == []
    serving.save("", "")
    assert serving.board.notice.problems == ()


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
