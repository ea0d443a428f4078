from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

from trace_tools.errors import UsageError
from trace_tools.live.scheduler import Retracer, temporary_files
from trace_tools.tracing.supervisor import StoppedError


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
