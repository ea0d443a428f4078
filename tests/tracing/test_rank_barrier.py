"""Ranks start a run together and take the same port; if one rank cannot start, none does."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from trace_tools.tracing.rank_barrier import AGENTS, HOST, PORT, meet_ranks, meeting_at

torch = pytest.importorskip("torch")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> torch.distributed.TCPStore:
    """Return a store as torchrun has for its ranks."""
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    monkeypatch.setenv(HOST, "127.0.0.1")
    monkeypatch.setenv(PORT, str(store.port))
    return store


def meet_all(run: str, *stuck: str | None) -> list[tuple[str | None, int]]:
    with ThreadPoolExecutor(len(stuck)) as pool:
        return list(pool.map(lambda rank: meet_ranks(run, rank, len(stuck), stuck[rank]), range(len(stuck))))


def test_all_ranks_take_the_same_port(store: torch.distributed.TCPStore) -> None:
    meetings = meet_all("pass 1, warm", None, None, None)
    assert [why for why, _ in meetings] == [None] * 3
    assert len({port for _, port in meetings}) == 1


def test_one_rank_that_cannot_start_stops_all(store: torch.distributed.TCPStore) -> None:
    assert [why for why, _ in meet_all("warm", None, "left behind: x")] == ["rank 1: left behind: x", "left behind: x"]
    assert [why for why, _ in meet_all("clocks inverted", None, None)] == [None, None]  # each run has its own meeting


def test_environment_of_the_meeting_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PORT, "1")
    monkeypatch.setenv(AGENTS, "True")
    with meeting_at(None):
        assert (os.environ[PORT], os.environ[AGENTS]) == ("1", "True")
    with meeting_at(29_555):
        assert (os.environ[PORT], os.environ[AGENTS]) == ("29555", "False")
    assert (os.environ[PORT], os.environ[AGENTS]) == ("1", "True")
