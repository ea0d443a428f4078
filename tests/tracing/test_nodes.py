"""Nodes that trace together: their options, their messages, and how invalid messages are handled."""

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


def test_one_node_needs_no_position() -> None:
    assert placed(environ={}) is None and placed(1, environ={}) is None
    alone = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_NUM_TASKS": "1"}
    assert placed(environ=alone) is None


def test_options_are_those_of_torchrun() -> None:
    assert placed(2, 1, "head:29500", {}) == Nodes(2, 1, "head", 29500)
    assert placed(2, 0, "[::1]:29500", {}) == Nodes(2, 0, "::1", 29500)
    assert [Nodes(3, 0, "a", 1).ranks_of(node, 6) for node in range(3)] == [range(2), range(2, 4), range(4, 6)]


def test_slurm_tasks_on_one_node_are_no_nodes() -> None:
    shared = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_NUM_TASKS": "4"}
    assert placed(environ=shared) is None


@pytest.mark.parametrize(
    ("options", "message"),
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
def test_invalid_node_options_are_reported(options: tuple[Any, Any, Any], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        placed(*options, {})
    assert str(raised.value) == message


def test_a_missing_first_node_in_slurm_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    step = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NUM_TASKS": "2", "SLURM_NODEID": "1"}
    with pytest.raises(UsageError, match=r"Slurm does not name its first node .*--rdzv-endpoint HOST:PORT"):
        placed(environ={**step, "SLURM_STEP_NODELIST": "n[1-2]", "SLURM_JOB_ID": "7"})


# --- messages -------------------------------------------------------------------------------------------------------


class FakeProcess(Running):
    """A process of this node. A test sets its `status` to end it."""

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


class TwoNodes:
    """Two nodes with two ranks each, both on this machine."""

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
        self.leader = Leading(self.position(0), 4, lambda: False)

    def position(self, node: int) -> Nodes:
        return Nodes(2, node, "127.0.0.1", self.port)

    def follow(self, node: int = 1, facts: dict[str, Any] | None = None, timeout_s: float = 10) -> Following:
        interrupt, kill = (lambda: self.calls.append("interrupt")), (lambda: self.calls.append("kill"))
        return Following(self.position(node), facts or FACTS, "A machine", timeout_s, interrupt, kill)

    def connected(self) -> Following:
        """Connect node 1 to node 0, and return node 1's side."""
        with ThreadPoolExecutor(1) as pool:
            following = pool.submit(self.follow)
            assert self.leader.gather(self.folder, FACTS, 10) == ["A machine"]
            self.leader.send_machine("cpu", {"machine.json": "B"})
            return following.result()

    def open_socket(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def received(self) -> bytes:
        time.sleep(0.2)
        try:
            return os.read(self.listening, 1 << 16)
        except BlockingIOError:
            return b""


@pytest.fixture
def two_nodes(tmp_path: Path) -> Iterator[TwoNodes]:
    nodes = TwoNodes(tmp_path)
    yield nodes
    nodes.leader.__exit__()
    os.close(nodes.listening)


def wait_until(condition: Any) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_process_runs_on_all_nodes(two_nodes: TwoNodes, tmp_path: Path) -> None:
    """Node 1 starts the process on order, and sends progress and files of its ranks to node 0."""
    folder_of_node_1 = tmp_path / "there"
    for rank in (2, 3):
        rank_folder(folder_of_node_1, rank).mkdir(parents=True)
        (rank_folder(folder_of_node_1, rank) / "pass-1.journal").write_bytes(b"x" * rank)
        (rank_folder(folder_of_node_1, rank) / "pass-1.meet").write_bytes(b"")
        os.utime(rank_folder(folder_of_node_1, rank) / "pass-1.journal", ns=(5, 1_000_000_000 + rank))
    (folder_of_node_1 / "pass-1.out").write_text("torchrun says")
    with two_nodes.connected() as following:
        assert (following.device, following.files) == ("cpu", {"machine.json": "B"})
        two_nodes.leader.begin("pass 1", 4321, two_nodes.pipe)
        local = FakeProcess()
        process = OnAllNodes(local, two_nodes.leader)
        assert next(following.orders()) == ("pass 1", 4321)
        message = Progress("pass 1", "sums", 3, rank=2)
        following.relay(message)
        assert Progress.read(two_nodes.received()) == message
        local.status = 0
        assert process.ended() is None
        following.hand_in(folder_of_node_1, range(2, 4), folder_of_node_1 / "pass-1.out", 0)
        wait_until(lambda: process.ended() == 0)
        two_nodes.leader.done()
        for rank in (2, 3):
            journal = rank_folder(tmp_path, rank) / "pass-1.journal"
            assert journal.read_bytes() == b"x" * rank and journal.stat().st_mtime_ns == 1_000_000_000 + rank
        assert (tmp_path / "pass-1-node-1.out").read_text() == "torchrun says"
        two_nodes.leader.how = "complete"
        two_nodes.leader.__exit__()
        assert [*following.orders()] == [] and following.how == "complete" and two_nodes.calls == []


def test_a_failing_node_ends_the_others(two_nodes: TwoNodes, tmp_path: Path) -> None:
    (tmp_path / "pass-1.out").touch()
    with two_nodes.connected() as following:
        two_nodes.leader.begin("pass 1", 1, two_nodes.pipe)
        local = FakeProcess()
        process = OnAllNodes(local, two_nodes.leader)
        following.hand_in(tmp_path, range(0), tmp_path / "pass-1.out", 1)
        wait_until(lambda: process.ended() is not None)
        assert local.killed and process.ended() in (-9, 1)
        wait_until(lambda: two_nodes.calls == ["kill"])


def test_ctrl_c_interrupts_all_nodes(two_nodes: TwoNodes) -> None:
    with two_nodes.connected():
        two_nodes.leader.begin("pass 1", 1, two_nodes.pipe)
        local = FakeProcess()
        OnAllNodes(local, two_nodes.leader).interrupt()
        wait_until(lambda: two_nodes.calls == ["interrupt"])
        assert local.interrupted


def test_the_ranks_of_a_lost_node_are_marked(two_nodes: TwoNodes, tmp_path: Path) -> None:
    """The ranks of the other node are killed."""
    following = two_nodes.connected()
    two_nodes.leader.begin("pass 1", 1, two_nodes.pipe)
    local = FakeProcess()
    process = OnAllNodes(local, two_nodes.leader)
    following.__exit__()
    wait_until(lambda: process.ended() is not None)
    assert local.killed
    for rank, status in {2: LOST, 3: LOST}.items():
        assert (rank_folder(tmp_path, rank) / "pass-1.status").read_text() == status
    assert not (rank_folder(tmp_path, 0) / "pass-1.status").exists()


def test_losing_node_0_ends_the_other_nodes(two_nodes: TwoNodes) -> None:
    """Node 1 kills its process. It gets no more orders and does not know how the trace ended."""
    with two_nodes.connected() as following:
        for link in two_nodes.leader._links.values():
            link.close()
        assert [*following.orders()] == []
        assert following.how is None and two_nodes.calls == ["kill"]


def test_a_node_that_does_not_connect_is_reported(two_nodes: TwoNodes) -> None:
    with pytest.raises(UsageError) as raised:
        two_nodes.leader.gather(two_nodes.folder, FACTS, 0.1)
    endpoint = f"127.0.0.1:{two_nodes.port}"
    assert str(raised.value) == f"node 1 did not connect to {endpoint} within 0.1 s; start the same command there"


def test_an_unreachable_node_0_is_reported(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        position = Nodes(2, 1, "127.0.0.1", port)
        with pytest.raises(LeaderError) as raised:
            Following(position, FACTS, "", 0.1, lambda: None, lambda: None)
    assert str(raised.value) == f"node 0 can't be reached at 127.0.0.1:{port} within 0.1 s: Connection refused"


def test_a_port_in_use_is_reported(two_nodes: TwoNodes) -> None:
    with pytest.raises(UsageError, match="node 0 can't listen there: Address already in use"):
        Leading(two_nodes.position(0), 4, lambda: False)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"lecture": "b" * 64}, "node 1 has a different text of the lecture than node 0"),
        ({"--passes": 3}, "node 1 has --passes 3, node 0 has 1"),
        ({"torch": "2.6.0"}, "node 1 has torch 2.6.0, node 0 has 2.13.0"),
    ],
)
def test_a_node_with_other_lecture_or_options_is_refused(
    two_nodes: TwoNodes, facts: dict[str, Any], message: str
) -> None:
    """Both nodes report the same difference."""
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(two_nodes.follow, 1, FACTS | facts)
        with pytest.raises(UsageError) as raised:
            two_nodes.leader.gather(two_nodes.folder, FACTS, 10)
        with pytest.raises(LeaderError) as refused:
            following.result()
    assert str(raised.value) == message and str(refused.value) == f"node 0: {message}"


@pytest.mark.slow
def test_invalid_connections_are_refused(two_nodes: TwoNodes) -> None:
    """Invalid messages and a wrong node number do not prevent node 1 from connecting."""
    messages = [
        b"GET / HTTP/1.1\r\n\r\n",
        b"{}\n",
        b"[1]\n",
        b'{"node": "x", "facts": 1, "machine": 2}\n',
        b"\xff\n",
        b"x" * 10**6,
    ]
    with ThreadPoolExecutor(2) as pool:
        gathered = pool.submit(two_nodes.leader.gather, two_nodes.folder, FACTS, 20)
        for message in messages:
            with two_nodes.open_socket() as stranger:
                stranger.sendall(message)
        with pytest.raises(LeaderError, match="--node-rank 7: expected 1 "):
            two_nodes.follow(node=7)
        following = pool.submit(two_nodes.follow)
        assert gathered.result() == ["A machine"]
        two_nodes.leader.send_machine("cpu", {})
        following.result().__exit__()


@pytest.mark.parametrize(
    "message",
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
def test_invalid_file_messages_end_the_node(two_nodes: TwoNodes, tmp_path: Path, message: dict[str, Any]) -> None:
    """Node 1 counts as failed. No file is created except its ranks' statuses and rank 2's journal."""
    following = two_nodes.connected()
    two_nodes.leader.begin("pass 1", 1, two_nodes.pipe)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    following._link.send(**message)
    wait_until(lambda: two_nodes.leader.ended() == [1])
    expected = {rank_folder(tmp_path, rank) / "pass-1.status" for rank in (2, 3)}
    expected |= {rank_folder(tmp_path, 2) / "pass-1.journal"}
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path not in expected}
    assert after == before
    assert not (tmp_path.parent / "evil").exists()
    following.__exit__()


def test_invalid_progress_messages_are_not_forwarded(two_nodes: TwoNodes) -> None:
    with two_nodes.connected() as following:
        two_nodes.leader.begin("pass 1", 1, two_nodes.pipe)
        wrong: Any = Progress("pass 1", "a", 1, rank="2")  # type: ignore[arg-type]
        for message in (Progress("pass 1", "a", 1, rank=0), wrong, Progress("a", "b" * 5000)):
            following.relay(message)
        for plain in (["x"], 3, {"process": "x", "rank": 2, "line": []}):
            following._link.send(at=plain)
        assert two_nodes.received() == b""
        following.relay(Progress("pass 1", "cold"))
        assert Progress.read(two_nodes.received()) == Progress("pass 1", "cold")
