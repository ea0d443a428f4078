"""A clock that only the lecture advances, and a function that traces with it."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.tracing.probed import Clock, Probed, Trace


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock.replacing(monkeypatch)


@pytest.fixture
def trace(tmp_path: Path, clock: Clock) -> Trace:
    """Return a function that runs a source's `main` with probes; only `work(ns)` in the source takes time."""
    journals = (tmp_path / f"{n}.journal" for n in itertools.count())

    def traced(text: str, **settings: Any) -> Probed:
        names = {"work": clock.work, **settings.pop("given", {})}
        return Probed(text, "lecture.py", next(journals), given=names, **settings).main()

    return traced
