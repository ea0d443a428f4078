"""Ranks that begin a run together: one that can't keeps all from it, and all take the same port."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from trace_tools.tracing.rank_barrier import AGENTS, HOST, PORT, meet_ranks, meeting_at

torch = pytest.importorskip("torch")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> torch.distributed.TCPStore:
    """What torchrun has for its ranks."""
    held = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    monkeypatch.setenv(HOST, "127.0.0.1")
    monkeypatch.setenv(PORT, str(held.port))
    return held


def met(run: str, *stuck: str | None) -> list[tuple[str | None, int]]:
    with ThreadPoolExecutor(len(stuck)) as pool:
        return list(pool.map(lambda rank: meet_ranks(run, rank, len(stuck), stuck[rank]), range(len(stuck))))


def test_all_take_the_same_port(store: torch.distributed.TCPStore) -> None:
    found = met("pass 1, warm", None, None, None)
    assert [why for why, _ in found] == [None] * 3
    assert len({port for _, port in found}) == 1


def test_one_that_cannot_keeps_all_from_it(store: torch.distributed.TCPStore) -> None:
    assert [why for why, _ in met("warm", None, "left behind: x")] == ["rank 1: left behind: x", "left behind: x"]
    assert [why for why, _ in met("clocks inverted", None, None)] == [None, None]  # another run is another meeting


def test_the_environment_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PORT, "1")
    monkeypatch.setenv(AGENTS, "True")
    with meeting_at(None):
        assert (os.environ[PORT], os.environ[AGENTS]) == ("1", "True")
    with meeting_at(29_555):
        assert (os.environ[PORT], os.environ[AGENTS]) == ("29555", "False")
    assert (os.environ[PORT], os.environ[AGENTS]) == ("1", "True")
