"""A clock that only the lecture advances, and a function that traces with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tracing.probed import Clock, Trace, tracing


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock.replacing(monkeypatch)


@pytest.fixture
def trace(tmp_path: Path, clock: Clock) -> Trace:
    return tracing(tmp_path, clock)
