"""Nodes that trace together: who is where, what they say to one another, and what is made of rubbish."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from trace_tools.errors import UsageError
from trace_tools.tracing.journal import rank_folder
from trace_tools.tracing.nodes import LOST, Following, LeaderError, Leading, Nodes, OnAllNodes, placed
from trace_tools.tracing.processes import Running
from trace_tools.tracing.progress import Progress

FACTS = {"lecture": "a" * 64, "--passes": 1, "torch": "2.13.0"}


def test_one_node_is_none() -> None:
    assert placed(environ={}) is None and placed(1, environ={}) is None
    alone = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_NUM_TASKS": "1"}
    assert placed(environ=alone) is None


def test_a_place_as_torchrun_is_told_it() -> None:
    assert placed(2, 1, "head:29500", {}) == Nodes(2, 1, "head", 29500)
    assert placed(2, 0, "[::1]:29500", {}) == Nodes(2, 0, "::1", 29500)
    assert [Nodes(3, 0, "a", 1).ranks_of(node, 6) for node in range(3)] == [range(2), range(2, 4), range(4, 6)]


def test_tasks_that_share_a_node_are_no_nodes() -> None:
    """A step of Slurm's with several tasks on one node is not taken for one with a task a node."""
    shared = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_NUM_TASKS": "4"}
    assert placed(environ=shared) is None


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ((2, None, None), "--nodes 2: expected --node-rank and --rdzv-endpoint HOST:PORT as well, as for torchrun "
         "(srun with one task per node sets both)"),
        ((None, 1, None), "--node-rank, --rdzv-endpoint: expected --nodes as well"),
        ((0, None, None), "--nodes 0: expected 1 or more"),
        ((2, 2, "head:1"), "--node-rank 2: expected 0 to 1"),
        ((2, 0, "head"), "--rdzv-endpoint head: expected HOST:PORT, where node 0 can listen"),
        ((2, 0, "head:70000"), "--rdzv-endpoint head:70000: expected HOST:PORT, where node 0 can listen"),
    ],
)  # fmt: skip
def test_no_place(asked: tuple[Any, Any, Any], says: str) -> None:
    with pytest.raises(UsageError) as raised:
        placed(*asked, {})
    assert str(raised.value) == says


def test_a_place_that_slurm_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    step = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NUM_TASKS": "2", "SLURM_NODEID": "1"}
    with pytest.raises(UsageError, match=r"Slurm does not name its first node .*--rdzv-endpoint HOST:PORT"):
        placed(environ={**step, "SLURM_STEP_NODELIST": "n[1-2]", "SLURM_JOB_ID": "7"})


# --- what they say --------------------------------------------------------------------------------------------------


class Own(Running):
    """A process of this node, which ends when it is told."""

    pid = 0

    def __init__(self) -> None:
        self.status: int | None = None
        self.killed = self.interrupted = False

    def ended(self) -> int | None:
        return self.status

    def interrupt(self) -> None:
        self.interrupted = True

    def kill(self) -> None:
        self.killed, self.status = True, -9


class Both:
    """Node 0 and node 1 of two, of two ranks each, on this machine."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.folder = folder
        self.calls: list[str] = []
        for rank in range(4):
            rank_folder(folder, rank).mkdir()
        self.pipe = folder / "heard"
        os.mkfifo(self.pipe)
        self.listening = os.open(self.pipe, os.O_RDONLY | os.O_NONBLOCK)
        self.leader = Leading(self.place(0), 4, lambda: False)

    def place(self, node: int) -> Nodes:
        return Nodes(2, node, "127.0.0.1", self.port)

    def follow(self, node: int = 1, facts: dict[str, Any] | None = None, timeout_s: float = 10) -> Following:
        interrupt, kill = (lambda: self.calls.append("interrupt")), (lambda: self.calls.append("kill"))
        return Following(self.place(node), facts or FACTS, "A machine", timeout_s, interrupt, kill)

    def met(self) -> Following:
        """Return node 1 once node 0 has taken it in."""
        with ThreadPoolExecutor(1) as pool:
            following = pool.submit(self.follow)
            assert self.leader.gather(self.folder, FACTS, 10) == ["A machine"]
            self.leader.send_machine("cpu", {"machine.json": "B"})
            return following.result()

    def raw(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def heard(self) -> bytes:
        time.sleep(0.2)
        try:
            return os.read(self.listening, 1 << 16)
        except BlockingIOError:
            return b""


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Both]:
    made = Both(tmp_path)
    yield made
    made.leader.__exit__()
    os.close(made.listening)


def until(condition: Any) -> None:
    ends = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_a_process_on_both(both: Both, tmp_path: Path) -> None:
    """Node 1 begins when node 0 does; what its ranks tell and write comes to node 0, files with their times."""
    there = tmp_path / "there"
    for rank in (2, 3):
        rank_folder(there, rank).mkdir(parents=True)
        (rank_folder(there, rank) / "pass-1.journal").write_bytes(b"x" * rank)
        (rank_folder(there, rank) / "pass-1.meet").write_bytes(b"")
        os.utime(rank_folder(there, rank) / "pass-1.journal", ns=(5, 1_000_000_000 + rank))
    (there / "pass-1.out").write_text("torchrun says")
    with both.met() as following:
        assert (following.device, following.files) == ("cpu", {"machine.json": "B"})
        both.leader.begin("pass 1", 4321, both.pipe)
        own = Own()
        process = OnAllNodes(own, both.leader)
        assert next(following.orders()) == ("pass 1", 4321)
        message = Progress("pass 1", "sums", 3, rank=2)
        following.relay(message)
        assert Progress.read(both.heard()) == message
        own.status = 0
        assert process.ended() is None
        following.hand_in(there, range(2, 4), there / "pass-1.out", 0)
        until(lambda: process.ended() == 0)
        both.leader.done()
        for rank in (2, 3):
            came = rank_folder(tmp_path, rank) / "pass-1.journal"
            assert came.read_bytes() == b"x" * rank and came.stat().st_mtime_ns == 1_000_000_000 + rank
        assert (tmp_path / "pass-1-node-1.out").read_text() == "torchrun says"
        both.leader.how = "complete"
        both.leader.__exit__()
        assert [*following.orders()] == [] and following.how == "complete" and both.calls == []


def test_a_node_that_fails_ends_the_others(both: Both, tmp_path: Path) -> None:
    (tmp_path / "pass-1.out").touch()
    with both.met() as following:
        both.leader.begin("pass 1", 1, both.pipe)
        own = Own()
        process = OnAllNodes(own, both.leader)
        following.hand_in(tmp_path, range(0), tmp_path / "pass-1.out", 1)
        until(lambda: process.ended() is not None)
        assert own.killed and process.ended() in (-9, 1)
        until(lambda: both.calls == ["kill"])


def test_ctrl_c_goes_to_all(both: Both) -> None:
    with both.met():
        both.leader.begin("pass 1", 1, both.pipe)
        own = Own()
        OnAllNodes(own, both.leader).interrupt()
        until(lambda: both.calls == ["interrupt"])
        assert own.interrupted


def test_a_node_that_is_gone(both: Both, tmp_path: Path) -> None:
    """Its ranks are lost with it; the others' are ended."""
    following = both.met()
    both.leader.begin("pass 1", 1, both.pipe)
    own = Own()
    process = OnAllNodes(own, both.leader)
    following.__exit__()
    until(lambda: process.ended() is not None)
    assert own.killed
    for rank, said in {2: LOST, 3: LOST}.items():
        assert (rank_folder(tmp_path, rank) / "pass-1.status").read_text() == said
    assert not (rank_folder(tmp_path, 0) / "pass-1.status").exists()


def test_node_0_is_gone(both: Both) -> None:
    """What runs on another node is killed; it has no more orders, and nobody has said how it ended."""
    with both.met() as following:
        for link in both.leader._links.values():
            link.close()
        assert [*following.orders()] == []
        assert following.how is None and both.calls == ["kill"]


def test_nobody_comes(both: Both) -> None:
    with pytest.raises(UsageError) as raised:
        both.leader.gather(both.folder, FACTS, 0.1)
    where = f"127.0.0.1:{both.port}"
    assert str(raised.value) == f"node 1 did not connect to {where} within 0.1 s; start the same command there"


def test_no_node_0(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        place = Nodes(2, 1, "127.0.0.1", port)
        with pytest.raises(LeaderError) as raised:
            Following(place, FACTS, "", 0.1, lambda: None, lambda: None)
    assert str(raised.value) == f"node 0 can't be reached at 127.0.0.1:{port} within 0.1 s: Connection refused"


def test_a_place_that_is_taken(both: Both) -> None:
    with pytest.raises(UsageError, match="node 0 can't listen there: Address already in use"):
        Leading(both.place(0), 4, lambda: False)


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"lecture": "b" * 64}, "node 1 has a different text of the lecture than node 0"),
        ({"--passes": 3}, "node 1 has --passes 3, node 0 has 1"),
        ({"torch": "2.6.0"}, "node 1 has torch 2.6.0, node 0 has 2.13.0"),
    ],
)
def test_another_lecture_or_request(both: Both, facts: dict[str, Any], says: str) -> None:
    """Both say the same, and nothing has run."""
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(both.follow, 1, FACTS | facts)
        with pytest.raises(UsageError) as raised:
            both.leader.gather(both.folder, FACTS, 10)
        with pytest.raises(LeaderError) as refused:
            following.result()
    assert str(raised.value) == says and str(refused.value) == f"node 0: {says}"


def test_whoever_else_connects_is_sent_away(both: Both) -> None:
    """Rubbish, silence, and a second node 1 keep nobody from coming."""
    rubbish = [
        b"GET / HTTP/1.1\r\n\r\n",
        b"{}\n",
        b"[1]\n",
        b'{"node": "x", "facts": 1, "machine": 2}\n',
        b"\xff\n",
        b"x" * 10**6,
    ]
    with ThreadPoolExecutor(2) as pool:
        gathered = pool.submit(both.leader.gather, both.folder, FACTS, 20)
        for said in rubbish:
            with both.raw() as stranger:
                stranger.sendall(said)
        with pytest.raises(LeaderError, match="--node-rank 7: expected 1 "):
            both.follow(node=7)
        following = pool.submit(both.follow)
        assert gathered.result() == ["A machine"]
        both.leader.send_machine("cpu", {})
        following.result().__exit__()


@pytest.mark.parametrize(
    "said",
    [
        {"file": "../../evil", "rank": 2, "bytes": 1, "written_ns": 0},
        {"file": "pass-1.journal", "rank": 0, "bytes": 1, "written_ns": 0},
        {"file": "pass-1.journal", "rank": 2, "bytes": 1 << 40, "written_ns": 0},
        {"file": "pass-1.journal", "rank": 2, "bytes": -1, "written_ns": 0},
        {"file": "run.json", "rank": None, "bytes": 1, "written_ns": 0},
        {"file": "pass-1.journal", "rank": [2], "bytes": 1, "written_ns": 0},
        {"file": 3, "rank": 2},
    ],
)
def test_what_no_node_sends(both: Both, tmp_path: Path, said: dict[str, Any]) -> None:
    """It is as good as lost, and nothing of it is written."""
    following = both.met()
    both.leader.begin("pass 1", 1, both.pipe)
    before = {path: path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()}
    following._link.send(**said)
    until(lambda: both.leader.ended() == [1])
    lost = [rank_folder(tmp_path, rank) / "pass-1.status" for rank in (2, 3)]
    after = {path: path.stat().st_size for path in tmp_path.rglob("*") if path.is_file() and path not in lost}
    assert after.keys() - {rank_folder(tmp_path, 2) / "pass-1.journal"} == before.keys()
    assert not (tmp_path.parent / "evil").exists()
    following.__exit__()


def test_signs_of_nobody_are_not_passed_on(both: Both) -> None:
    with both.met() as following:
        both.leader.begin("pass 1", 1, both.pipe)
        wrong: Any = Progress("pass 1", "a", 1, rank="2")  # type: ignore[arg-type]
        for message in (Progress("pass 1", "a", 1, rank=0), wrong, Progress("a", "b" * 5000)):
            following.relay(message)
        for plain in (["x"], 3, {"process": "x", "rank": 2, "line": []}):
            following._link.send(at=plain)
        assert both.heard() == b""
        following.relay(Progress("pass 1", "cold"))
        assert Progress.read(both.heard()) == Progress("pass 1", "cold")
