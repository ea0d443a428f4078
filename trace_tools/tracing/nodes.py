"""Trace one lecture on several nodes: node 0 directs the others, which run their ranks and send back the files.

    nodes = placed(2, node=1, endpoint="head:29500")     or, under Slurm's srun, placed()
    with Leading(nodes, …) as others:                    on node 0
        machines = others.gather(folder, facts, timeout_s)   returns when all are connected, with equal lecture, options
        others.begin("pass 1", port)                     starts it on all; the files of their ranks arrive in `folder`
        process = OnAllNodes(own, others)                ends when it has ended on all nodes
    with Following(nodes, …) as leader:                  on each of the others
        for name, port in leader.orders(): …             one for each process

The ranks meet through torchrun, which defines the terms `nodes` and `endpoint`. In addition, each node has one
connection to node 0. This connection trusts the network as torchrun does, but no received data is executed: each node
has its own copy of the lecture, and node 0 compares their digests. A message is a line of JSON, and a file follows its
line.

`torch.distributed.TCPStore` can't do this (torch 2.13). It does not report a client that was killed. It listens on all
interfaces and refuses no client. While it connects, Ctrl-C has no effect until its timeout, which it exceeds (17 s
instead of 8). A failed call prints C++ frames. The parent process would have to import torch (218 MB).
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from io import FileIO
from pathlib import Path
from typing import Any, Self

from trace_tools.errors import UsageError
from trace_tools.trace.identities import ProcessId
from trace_tools.tracing.journal import rank_folder
from trace_tools.tracing.processes import Running
from trace_tools.tracing.progress import Progress
from trace_tools.util.formats import one_line

LINE_BYTES = 1 << 16  # most bytes of a message
FILE_BYTES = 1 << 30  # most bytes of a file; journals are far smaller
FILES = 1000  # most files of a node for one process
PIECE_BYTES = 1 << 20
PROGRESS_BYTES = 2048  # most bytes of a progress message; a pipe writes so few atomically
HELLO_S = 20.0  # limit for a new connection to identify itself
LOOK_S = 0.2
KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 6}
PORTS = (20_000, 10_000)  # first port and number of ports for Slurm jobs
LECTURE, TEXT = "lecture", "a different text of the lecture than node 0"
LOST = "lost with its node"  # status of a rank if its node no longer answers

_ENDPOINT = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:\[\]]+)):(\d{1,5})")
_FILE = re.compile(r"[a-z0-9-]+(\.[a-z]+)+")  # name of a journal or a file next to one


@dataclass(frozen=True, slots=True)
class Nodes:
    """The number of nodes, the index of this node, and the address of node 0."""

    count: int
    node: int
    host: str
    port: int

    def ranks_of(self, node: int, ranks: int) -> range:
        """Return the ranks that run on a node, as torchrun numbers them."""
        each = ranks // self.count
        return range(node * each, (node + 1) * each)


class LeaderError(UsageError):
    """Node 0 refused or has ended; the message gives its reason if it sent one."""


def placed(
    count: int | None = None,
    node: int | None = None,
    endpoint: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Nodes | None:
    """Return this process's position among several nodes, or None for one node.

    Missing arguments are taken from a Slurm step. Raises UsageError if arguments are missing or out of range.
    """
    in_step = "SLURM_STEP_ID" in environ and environ.get("SLURM_STEP_NUM_NODES") == environ.get("SLURM_STEP_NUM_TASKS")
    if count is None and in_step and node is None and endpoint is None:
        count = int(environ["SLURM_STEP_NUM_NODES"])
    if count is None and (node is not None or endpoint is not None):
        raise UsageError("--node-rank, --rdzv-endpoint: expected --nodes as well")
    if count is None or count == 1:
        return None
    if count < 1:
        raise UsageError(f"--nodes {count}: expected 1 or more")
    if in_step:
        node = int(environ["SLURM_NODEID"]) if node is None else node
        endpoint = endpoint or _slurms_endpoint(environ)
    if node is None or endpoint is None:
        raise UsageError(
            f"--nodes {count}: expected --node-rank and --rdzv-endpoint HOST:PORT as well, as for torchrun "
            "(srun with one task per node sets both)"
        )
    if not 0 <= node < count:
        raise UsageError(f"--node-rank {node}: expected 0 to {count - 1}")
    match = _ENDPOINT.fullmatch(endpoint)
    if match is None or not 0 < int(match[3]) < 1 << 16:
        raise UsageError(f"--rdzv-endpoint {endpoint}: expected HOST:PORT, where node 0 can listen")
    return Nodes(count, node, match[1] or match[2], int(match[3]))


def _slurms_endpoint(environ: Mapping[str, str]) -> str:
    """Return the endpoint on the first node of a step: its address in Slurm, and a port chosen from the step's number.

    Raises UsageError if Slurm gives no node.
    """
    try:
        names = _scontrol("show", "hostnames", environ["SLURM_STEP_NODELIST"])
        shown = _scontrol("-o", "show", "node", names.split()[0])
        address = re.search(r"\bNodeAddr=(\S+)", shown)
        number = int(environ["SLURM_JOB_ID"]) * 16 + int(environ["SLURM_STEP_ID"])
    except (KeyError, IndexError, ValueError, OSError, subprocess.SubprocessError) as error:
        raise UsageError(f"Slurm does not name its first node ({error}); add --rdzv-endpoint HOST:PORT") from None
    first, ports = PORTS
    host = address[1] if address else names.split()[0]
    return f"{f'[{host}]' if ':' in host else host}:{first + number % ports}"


def _scontrol(*words: str) -> str:
    return subprocess.run(["scontrol", *words], capture_output=True, text=True, check=True, timeout=30).stdout


class _Link:
    """A connection that carries lines of JSON and files both ways."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(None)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, seconds in KEEPALIVE.items():  # detects a node that vanished without closing
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), seconds)
        self._connection = connection
        self._reading = connection.makefile("rb")
        self._lock = threading.Lock()

    def send(self, **message: Any) -> None:
        """Send a message. Raises OSError if the other end no longer listens."""
        with self._lock:
            self._connection.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> dict[str, Any] | None:
        """Return the next message, None if the connection is closed. Raises ValueError for an invalid message."""
        line = self._reading.readline(LINE_BYTES)
        if not line:
            return None
        message = json.loads(line)
        if not isinstance(message, dict) or not line.endswith(b"\n"):
            raise ValueError("no message")
        return message

    def send_file(self, path: Path, **fields: Any) -> None:
        """Send a message followed by a file, with the file's modification time."""
        with path.open("rb") as file, self._lock:
            stat = os.fstat(file.fileno())
            message = {**fields, "bytes": stat.st_size, "written_ns": stat.st_mtime_ns}
            self._connection.sendall(json.dumps(message).encode() + b"\n")
            remaining = stat.st_size
            while remaining:
                if not (piece := file.read(min(remaining, PIECE_BYTES))):
                    raise OSError(f"{path.name} became shorter")
                self._connection.sendall(piece)
                remaining -= len(piece)

    def receive_file(self, message: Mapping[str, Any], path: Path) -> None:
        """Write the file that follows a message. Raises ValueError if it is too large or incomplete."""
        size, written = message["bytes"], message["written_ns"]
        if not (isinstance(size, int) and 0 <= size <= FILE_BYTES and isinstance(written, int)):
            raise ValueError("no file")
        with path.open("wb") as file:
            while size:
                if not (piece := self._reading.read(min(size, PIECE_BYTES))):
                    raise ValueError("half a file")
                file.write(piece)
                size -= len(piece)
        os.utime(path, ns=(written, written))  # modification times show which rank failed first

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._reading.close()
            self._connection.close()


# --- node 0 -------------------------------------------------------------------------------------------------------


class Leading:
    """Node 0's side, which listens from the start. When `stopped` returns True, it stops waiting for the others.

    Raises UsageError if it can't listen at the endpoint.
    """

    def __init__(self, nodes: Nodes, ranks: int, stopped: Callable[[], bool]) -> None:
        self._nodes, self._ranks, self._stopped = nodes, ranks, stopped
        self._links: dict[int, _Link] = {}
        self._listening: list[threading.Thread] = []
        self._ended: dict[int, int] = {}  # node → status of the current process there
        self._lost: set[int] = set()
        self._name, self._folder = "", Path()
        self._progress: FileIO | None = None  # progress pipe of node 0's own ranks
        self._killed = False
        self.how = "the run was stopped"  # how the whole run ended, for the other nodes
        family = socket.AF_INET6 if ":" in nodes.host else socket.AF_INET
        try:
            self._server = socket.create_server((nodes.host, nodes.port), family=family, backlog=nodes.count)
        except OSError as error:
            where = f"--rdzv-endpoint {nodes.host}:{nodes.port}"
            raise UsageError(f"{where}: node 0 can't listen there: {error.strerror or error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()
        self._send_all(end=self.how)
        for link in self._links.values():
            link.close()
        for thread in self._listening:
            thread.join()

    def gather(self, folder: Path, facts: Mapping[str, Any], timeout_s: float) -> list[str]:
        """Wait until all other nodes are connected; return their machines, in order.

        Their files will arrive in `folder`. Raises UsageError if a node does not connect in time, or differs in one of
        the `facts`.
        """
        self._folder = folder
        machines: dict[int, str] = {}
        ends = time.monotonic() + timeout_s
        self._server.settimeout(LOOK_S)
        while missing := [node for node in range(1, self._nodes.count) if node not in self._links]:
            if time.monotonic() > ends or self._stopped():
                which = f"node{'s' * (len(missing) > 1)} {', '.join(map(str, missing))}"
                where = f"{self._nodes.host}:{self._nodes.port}"
                raise UsageError(
                    f"{which} did not connect to {where} within {timeout_s:g} s; start the same command there"
                )
            with contextlib.suppress(TimeoutError):
                connection, _ = self._server.accept()
                self._welcome(connection, missing, facts, machines)
        for node, link in self._links.items():
            thread = threading.Thread(target=self._receive, args=(node, link), daemon=True)
            thread.start()
            self._listening.append(thread)
        return [machines[node] for node in sorted(machines)]

    def _welcome(
        self, connection: socket.socket, missing: Sequence[int], facts: Mapping[str, Any], machines: dict[int, str]
    ) -> None:
        """Accept a connection from a missing node; close any other connection, without raising an error.

        Raises UsageError if the node differs in one of the `facts`.
        """
        link = _Link(connection)
        connection.settimeout(HELLO_S)
        try:
            message = link.receive() or {}
            node, its_facts, machine = message["node"], message["facts"], message["machine"]
            if not isinstance(node, int) or not isinstance(its_facts, dict) or not isinstance(machine, str):
                raise ValueError("no node")
            if node not in missing:
                expected = " or ".join(map(str, missing))
                link.send(refused=f"--node-rank {node}: expected {expected} (not connected yet)")
                link.close()
                return
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            link.close()
            return
        connection.settimeout(None)
        for name, ours in facts.items():
            if (theirs := its_facts.get(name)) != ours:
                both = f"{name} {one_line(str(theirs), 80)}, node 0 has {one_line(str(ours), 80)}"
                self.how = f"node {node} has {TEXT if name == LECTURE else both}"
                with contextlib.suppress(OSError):
                    link.send(refused=self.how)
                link.close()
                raise UsageError(self.how)
        self._links[node] = link
        machines[node] = one_line(machine, 200)

    def send_machine(self, device: str, files: Mapping[str, str]) -> None:
        """Send the others the device type, and the files on the machine that they are to report as theirs."""
        self._send_all(device=device, files=files)

    def begin(self, name: str, port: int, pipe: Path) -> None:
        """Start a process on the others, with torchrun meeting at `port`; `pipe` takes their progress."""
        self._ended = dict.fromkeys(self._lost, 1)
        self._name, self._killed = name, False
        self._progress = FileIO(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK), "wb")
        self._send_all(begin=name, port=port)

    def ended(self) -> list[int | None]:
        """Return the process's status on each of the others, None while it runs."""
        return [self._ended.get(node) for node in self._links]

    def done(self) -> None:
        """Close the progress pipe after the process ended on all nodes."""
        if self._progress is not None:
            self._progress.close()

    def interrupt(self) -> None:
        """Send Ctrl-C to the process on each node."""
        self._send_all(interrupt=True)

    def kill(self) -> None:
        """Kill the process on each node. No other process is started on them afterwards."""
        if not self._killed:
            self._killed = True
            self._send_all(kill=True)

    def _send_all(self, **message: Any) -> None:
        for link in self._links.values():
            with contextlib.suppress(OSError):  # a closed connection is noticed elsewhere
                link.send(**message)

    def _receive(self, node: int, link: _Link) -> None:
        own = self._nodes.ranks_of(node, self._ranks)
        files = 0
        try:
            while (message := link.receive()) is not None:
                if "at" in message:
                    self._pass_on(Progress.read(message["at"]), own)
                elif "file" in message:
                    files += 1
                    link.receive_file(message, self._path_for(message, node, own, files))
                elif "ended" in message:
                    files = 0
                    self._ended[node] = 0 if message["ended"] == 0 else 1
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            pass  # an invalid message: treat the node as lost
        link.close()
        self._lost.add(node)
        if self._name and node not in self._ended:
            for rank in own:
                status = rank_folder(self._folder, rank) / f"{ProcessId.parse(self._name).file_stem}.status"
                with contextlib.suppress(OSError):
                    status.write_text(LOST, encoding="utf-8")
        self._ended[node] = self._ended.get(node, 1)

    def _pass_on(self, message: Progress | None, own: range) -> None:
        """Forward a rank's progress message to the pipe of node 0's ranks, if it is valid."""
        if self._progress and message is not None and (message.rank is None or message.rank in own):
            line = message.to_json()
            with contextlib.suppress(OSError, ValueError):  # the pipe is full or closed
                if len(line) <= PROGRESS_BYTES:
                    self._progress.write(line)

    def _path_for(self, message: Mapping[str, Any], node: int, own: range, files: int) -> Path:
        """Return the path for a file from a node. Raises ValueError if the node may not send it."""
        name, rank = message["file"], message["rank"]
        if not isinstance(name, str) or not _FILE.fullmatch(name) or len(name) > 100 or files > FILES:
            raise ValueError("an unknown file")
        if rank is None and name.endswith(".out"):  # output of its torchrun
            return self._folder / f"{name.removesuffix('.out')}-node-{node}.out"
        if rank not in own:
            raise ValueError("no rank of that node")
        return rank_folder(self._folder, rank) / name


class OnAllNodes(Running):
    """One process of a trace on all nodes. If it fails on one, it is killed on all, as torchrun does with ranks."""

    def __init__(self, own: Running, leading: Leading) -> None:
        self._own, self._leading = own, leading
        self.pid = own.pid

    def ended(self) -> int | None:
        statuses = [self._own.ended(), *self._leading.ended()]
        failed = next((status for status in statuses if status), 0)
        if None not in statuses:
            return failed
        if failed:
            self.kill()
        return None

    def interrupt(self) -> None:
        self._own.interrupt()
        self._leading.interrupt()

    def kill(self) -> None:
        self._own.kill()
        self._leading.kill()


# --- the others ---------------------------------------------------------------------------------------------------


class Following:
    """The side of another node.

    `interrupt` and `kill` are called in a thread when node 0 requests them; `kill` also if node 0 is lost. Raises
    LeaderError if node 0 can't be reached within `timeout_s`, or refuses.
    """

    def __init__(
        self,
        nodes: Nodes,
        facts: Mapping[str, Any],
        machine: str,
        timeout_s: float,
        interrupt: Callable[[], None],
        kill: Callable[[], None],
    ) -> None:
        self._interrupt, self._kill = interrupt, kill
        self._orders: queue.SimpleQueue[tuple[str, int] | None] = queue.SimpleQueue()
        self.how: str | None = None  # how the whole run ended, from node 0
        ends = time.monotonic() + timeout_s
        while True:  # node 0 may start later than the others
            try:
                connection = socket.create_connection((nodes.host, nodes.port), timeout=HELLO_S)
                break
            except OSError as error:
                if time.monotonic() > ends:
                    where = f"{nodes.host}:{nodes.port}"
                    why = error.strerror or str(error)
                    raise LeaderError(f"node 0 can't be reached at {where} within {timeout_s:g} s: {why}") from None
            time.sleep(LOOK_S)
        self._link = _Link(connection)
        try:
            self._link.send(node=nodes.node, facts=facts, machine=machine)
            message = self._link.receive()
        except (OSError, ValueError):
            message = None
        if message is None or "files" not in message:
            self._link.close()
            reason = None if message is None else message.get("refused", message.get("end"))
            raise LeaderError(f"node 0: {one_line(str(reason), 500)}" if reason else "node 0 closed the connection")
        self.device, self.files = str(message["device"]), dict(message["files"])
        self._listening = threading.Thread(target=self._receive, daemon=True)
        self._listening.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._link.close()
        self._listening.join()

    def orders(self) -> Iterator[tuple[str, int]]:
        """Yield the name of each process that node 0 starts, and the port for its torchrun."""
        while (order := self._orders.get()) is not None:
            yield order

    def relay(self, message: Progress) -> None:
        """Forward a rank's progress message to node 0."""
        with contextlib.suppress(OSError):
            self._link.send(at=asdict(message))

    def hand_in(self, folder: Path, ranks: range, output: Path, status: int) -> None:
        """Send the files of this node's ranks, the output of torchrun, and its status."""
        with contextlib.suppress(OSError):
            for rank in ranks:
                for path in sorted(rank_folder(folder, rank).iterdir()):
                    if path.is_file() and _FILE.fullmatch(path.name):
                        self._link.send_file(path, file=path.name, rank=rank)
            self._link.send_file(output, file=output.name, rank=None)
            self._link.send(ended=status)

    def _receive(self) -> None:
        try:
            while (message := self._link.receive()) is not None:
                if "begin" in message:
                    self._orders.put((str(message["begin"]), int(message["port"])))
                elif "interrupt" in message:
                    self._interrupt()
                elif "kill" in message:
                    self._kill()
                elif "end" in message:
                    self.how = one_line(str(message["end"]), 500)
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            pass
        if self.how is None:
            self._kill()
        self._orders.put(None)
