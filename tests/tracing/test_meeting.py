"""Ranks that begin a run together: one that can't keeps all from it, and all take the same port."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from trace_tools.tracing.journal import rank_folder
from trace_tools.tracing.meeting import AGENTS, PORT, meet, meeting_at


def met(folder: Path, *stuck: str | None) -> list[tuple[str | None, int]]:
    def one(rank: int) -> tuple[str | None, int]:
        rank_folder(folder, rank).mkdir()
        return meet(rank_folder(folder, rank) / "pass-1.journal", len(stuck), "clocks inverted", stuck[rank])

    with ThreadPoolExecutor(len(stuck)) as pool:
        return list(pool.map(one, range(len(stuck))))


def test_all_take_the_same_port(tmp_path: Path) -> None:
    found = met(tmp_path, None, None, None)
    assert [why for why, _ in found] == [None] * 3
    assert len({port for _, port in found}) == 1


def test_one_that_cannot_keeps_all_from_it(tmp_path: Path) -> None:
    assert [why for why, _ in met(tmp_path, None, "left behind: x")] == ["rank 1: left behind: x", "left behind: x"]


def test_the_environment_is_put_back(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv(PORT, "1")
    monkeypatch.setenv(AGENTS, "True")
    with meeting_at(None):
        assert (os.environ[PORT], os.environ[AGENTS]) == ("1", "True")
    with meeting_at(29_555):
        assert (os.environ[PORT], os.environ[AGENTS]) == ("29555", "False")
    assert (os.environ[PORT], os.environ[AGENTS]) == ("1", "True")
