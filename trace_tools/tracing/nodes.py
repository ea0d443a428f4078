"""Several nodes trace one lecture: node 0 leads; the others run their ranks as it says and send home what these write.

    nodes = placed(2, node=1, endpoint="head:29500")     or, under Slurm's srun, placed()
    with Leading(nodes, …) as others:                    on node 0
        machines = others.gather(folder, facts, timeout_s)   once all have come, of the same lecture and request
        others.begin("pass 1", port)                     all begin; the files of their ranks come into `folder`
        process = OnAllNodes(own, others)                what has ended when it has on all nodes
    with Following(nodes, …) as leader:                  on each of the others
        for name, port in leader.orders(): …             until there are no more

The ranks themselves meet through torchrun, whose words `nodes` and `endpoint` are; beside that, each node has one
connection to node 0. It trusts the network as torchrun does, but nothing that comes by it is run: each node has the
lecture itself, and node 0 compares their digests. A line of JSON is a message, and a file follows its line.
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
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any, Self

from trace_tools.errors import UsageError
from trace_tools.formats import one_line
from trace_tools.tracing.journal import rank_folder
from trace_tools.tracing.processes import Running

LINE_BYTES = 1 << 16  # of a message
FILE_BYTES = 1 << 30  # of a file: a journal is bounded far below that
FILES = 1000  # of a node, in one process's run
PIECE_BYTES = 1 << 20
SIGN_BYTES = 2048  # of a sign of life; a pipe takes that whole
HELLO_S = 20.0  # for one who has connected to say who it is
LOOK_S = 0.2
KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 6}
PORTS = (20_000, 10_000)  # the first, and how many, of those that jobs of Slurm's take
LECTURE, TEXT = "lecture", "another text of the lecture than node 0"
LOST = "lost with its node"  # how a rank ended whose node no longer answers

_ENDPOINT = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:\[\]]+)):(\d{1,5})")
_FILE = re.compile(r"[a-z0-9-]+(\.[a-z]+)+")  # as journals and what lies beside them are called


@dataclass(frozen=True, slots=True)
class Nodes:
    """How many nodes there are, which one this is, and where node 0 listens."""

    count: int
    node: int
    host: str
    port: int

    def ranks_of(self, node: int, ranks: int) -> range:
        """Return which of all ranks run on a node, as torchrun counts them."""
        each = ranks // self.count
        return range(node * each, (node + 1) * each)


class LeaderError(UsageError):
    """Node 0 has refused, or is no more: it says why, or whoever ended it knows."""


def placed(
    count: int | None = None,
    node: int | None = None,
    endpoint: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Nodes | None:
    """Return where this process stands among several nodes, or None for one; a step of Slurm's tells what is not given.

    Raises UsageError where that is not enough, or no such place.
    """
    in_step = "SLURM_STEP_ID" in environ and environ.get("SLURM_STEP_NUM_NODES") == environ.get("SLURM_STEP_NUM_TASKS")
    if count is None and in_step and node is None and endpoint is None:
        count = int(environ["SLURM_STEP_NUM_NODES"])
    if count is None and (node is not None or endpoint is not None):
        raise UsageError("--node-rank, --rdzv-endpoint: expected --nodes with them")
    if count is None or count == 1:
        return None
    if count < 1:
        raise UsageError(f"--nodes {count}: expected 1 or more")
    if in_step:
        node = int(environ["SLURM_NODEID"]) if node is None else node
        endpoint = endpoint or _slurms_endpoint(environ)
    if node is None or endpoint is None:
        raise UsageError(
            f"--nodes {count}: expected --node-rank and --rdzv-endpoint HOST:PORT, as torchrun has them; "
            "Slurm's srun, with one task a node, tells them by itself"
        )
    if not 0 <= node < count:
        raise UsageError(f"--node-rank {node}: expected 0 to {count - 1}")
    found = _ENDPOINT.fullmatch(endpoint)
    if found is None or not 0 < int(found[3]) < 1 << 16:
        raise UsageError(f"--rdzv-endpoint {endpoint}: expected HOST:PORT, where node 0 can listen")
    return Nodes(count, node, found[1] or found[2], int(found[3]))


def _slurms_endpoint(environ: Mapping[str, str]) -> str:
    """Return where the first node of a step listens: the address by which Slurm knows it, and a port of the step's."""
    try:
        names = _scontrol("show", "hostnames", environ["SLURM_STEP_NODELIST"])
        shown = _scontrol("-o", "show", "node", names.split()[0])
        address = re.search(r"\bNodeAddr=(\S+)", shown)
        number = int(environ["SLURM_JOB_ID"]) * 16 + int(environ["SLURM_STEP_ID"])
    except (KeyError, IndexError, ValueError, OSError, subprocess.SubprocessError) as error:
        raise UsageError(f"Slurm does not tell its first node ({error}): give --rdzv-endpoint HOST:PORT") from None
    first, ports = PORTS
    host = address[1] if address else names.split()[0]
    return f"{f'[{host}]' if ':' in host else host}:{first + number % ports}"


def _scontrol(*words: str) -> str:
    return subprocess.run(["scontrol", *words], capture_output=True, text=True, check=True, timeout=30).stdout


class _Link:
    """A connection, by which lines of JSON and files go both ways."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(None)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, seconds in KEEPALIVE.items():  # a node that is gone without a word is noticed
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), seconds)
        self._connection = connection
        self._reading = connection.makefile("rb")
        self._lock = threading.Lock()

    def say(self, **what: Any) -> None:
        """Send a message. Raises OSError where nobody listens any more."""
        with self._lock:
            self._connection.sendall(json.dumps(what).encode() + b"\n")

    def hear(self) -> dict[str, Any] | None:
        """Return the next message, or None when the other end has hung up. Raises ValueError for what is none."""
        line = self._reading.readline(LINE_BYTES)
        if not line:
            return None
        said = json.loads(line)
        if not isinstance(said, dict) or not line.endswith(b"\n"):
            raise ValueError("no message")
        return said

    def send_file(self, path: Path, **what: Any) -> None:
        """Send a message, and a file with it, with the time at which it was last written."""
        with path.open("rb") as file, self._lock:
            stat = os.fstat(file.fileno())
            said = {**what, "bytes": stat.st_size, "written_ns": stat.st_mtime_ns}
            self._connection.sendall(json.dumps(said).encode() + b"\n")
            left = stat.st_size
            while left:
                if not (piece := file.read(min(left, PIECE_BYTES))):
                    raise OSError(f"{path.name} became shorter")
                self._connection.sendall(piece)
                left -= len(piece)

    def take_file(self, said: Mapping[str, Any], path: Path) -> None:
        """Write the file that follows a message. Raises ValueError where it is too large, or not all of it comes."""
        size, written = said["bytes"], said["written_ns"]
        if not (isinstance(size, int) and 0 <= size <= FILE_BYTES and isinstance(written, int)):
            raise ValueError("no file")
        with path.open("wb") as file:
            while size:
                if not (piece := self._reading.read(min(size, PIECE_BYTES))):
                    raise ValueError("half a file")
                file.write(piece)
                size -= len(piece)
        os.utime(path, ns=(written, written))  # which rank failed first, their files tell

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._reading.close()
            self._connection.close()


# --- node 0 -------------------------------------------------------------------------------------------------------


class Leading:
    """Node 0's side: it listens from the beginning. `stopped` ends waiting for the others.

    Raises UsageError where it can't listen there.
    """

    def __init__(self, nodes: Nodes, ranks: int, stopped: Callable[[], bool]) -> None:
        self._nodes, self._ranks, self._stopped = nodes, ranks, stopped
        self._links: dict[int, _Link] = {}
        self._listening: list[threading.Thread] = []
        self._ended: dict[int, int] = {}  # of the process that runs, how it ended on which node
        self._lost: set[int] = set()
        self._name, self._folder = "", Path()
        self._telling: FileIO | None = None  # the pipe by which node 0's own ranks tell how far they are
        self._killed = False
        self.how = "it was ended there"  # how all of it ended, for the others to know
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
        self._tell_all(end=self.how)
        for link in self._links.values():
            link.close()
        for thread in self._listening:
            thread.join()

    def gather(self, folder: Path, facts: Mapping[str, Any], timeout_s: float) -> list[str]:
        """Wait until all others have come; return the machines they are, in order. What they send comes into `folder`.

        Raises UsageError when they don't, or when one of the `facts` is another there.
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
                    f"{which} did not come to {where} within {timeout_s:g} s; start the same command there"
                )
            with contextlib.suppress(TimeoutError):
                connection, _ = self._server.accept()
                self._welcome(connection, missing, facts, machines)
        for node, link in self._links.items():
            thread = threading.Thread(target=self._hear, args=(node, link), daemon=True)
            thread.start()
            self._listening.append(thread)
        return [machines[node] for node in sorted(machines)]

    def _welcome(
        self, connection: socket.socket, missing: Sequence[int], facts: Mapping[str, Any], machines: dict[int, str]
    ) -> None:
        """Take in one who has connected; whoever is no node of a trace is sent away, and not spoken of."""
        link = _Link(connection)
        connection.settimeout(HELLO_S)
        try:
            said = link.hear() or {}
            node, found, machine = said["node"], said["facts"], said["machine"]
            if not isinstance(node, int) or not isinstance(found, dict) or not isinstance(machine, str):
                raise ValueError("no node")
            if node not in missing:
                expected = " or ".join(map(str, missing))
                link.say(refused=f"--node-rank {node}: expected {expected}, which still has to come")
                link.close()
                return
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            link.close()
            return
        connection.settimeout(None)
        for name, ours in facts.items():
            if (theirs := found.get(name)) != ours:
                both = f"{name} {one_line(str(theirs), 80)}, node 0 has {one_line(str(ours), 80)}"
                self.how = f"node {node} has {TEXT if name == LECTURE else both}"
                with contextlib.suppress(OSError):
                    link.say(refused=self.how)
                link.close()
                raise UsageError(self.how)
        self._links[node] = link
        machines[node] = one_line(machine, 200)

    def tell(self, machine: str, versions: str, device: str) -> None:
        """Tell the others as what machine they run."""
        self._tell_all(machine=machine, versions=versions, device=device)

    def begin(self, name: str, port: int, telling: Path) -> None:
        """Have the others begin a process whose torchrun meets at a port; what they tell goes into a pipe."""
        self._ended = dict.fromkeys(self._lost, 1)
        self._name, self._killed = name, False
        self._telling = FileIO(os.open(telling, os.O_WRONLY | os.O_NONBLOCK), "wb")
        self._tell_all(begin=name, port=port)

    def ended(self) -> list[int | None]:
        """Return how the process ended on each of the others, None where it has not."""
        return [self._ended.get(node) for node in self._links]

    def done(self) -> None:
        """Listen no more to what they tell: the process has ended on all nodes."""
        if self._telling is not None:
            self._telling.close()

    def interrupt(self) -> None:
        """Have Ctrl-C sent to the process of each."""
        self._tell_all(interrupt=True)

    def kill(self) -> None:
        """Have the process of each killed. They are to begin no other."""
        if not self._killed:
            self._killed = True
            self._tell_all(kill=True)

    def _tell_all(self, **what: Any) -> None:
        for link in self._links.values():
            with contextlib.suppress(OSError):  # who hears no more is known to be lost
                link.say(**what)

    def _hear(self, node: int, link: _Link) -> None:
        own = self._nodes.ranks_of(node, self._ranks)
        files = 0
        try:
            while (said := link.hear()) is not None:
                if "at" in said:
                    self._pass_on(said["at"], own)
                elif "file" in said:
                    files += 1
                    link.take_file(said, self._place(said, node, own, files))
                elif "ended" in said:
                    files = 0
                    self._ended[node] = 0 if said["ended"] == 0 else 1
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            pass  # what it says is nothing that a node says: it is as good as lost
        link.close()
        self._lost.add(node)
        if self._name and node not in self._ended:
            for rank in own:
                status = rank_folder(self._folder, rank) / f"{self._name.replace(' ', '-')}.status"
                with contextlib.suppress(OSError):
                    status.write_text(LOST, encoding="utf-8")
        self._ended[node] = self._ended.get(node, 1)

    def _pass_on(self, sign: Any, own: range) -> None:
        """Hand a rank's sign of life to who listens to those of this node."""
        kinds = (str, str | None, int | None, int, int, str | None)
        plain = isinstance(sign, list) and len(sign) in (2, 6) and all(map(isinstance, sign, kinds))
        line = json.dumps(sign).encode() + b"\n"
        if self._telling and plain and len(line) <= SIGN_BYTES and (len(sign) == 2 or sign[4] in own):
            with contextlib.suppress(OSError, ValueError):  # it is full, or closed
                self._telling.write(line)

    def _place(self, said: Mapping[str, Any], node: int, own: range, files: int) -> Path:
        """Return where a file of a node goes. Raises ValueError where it is none that a node has to send."""
        name, rank = said["file"], said["rank"]
        if not isinstance(name, str) or not _FILE.fullmatch(name) or len(name) > 100 or files > FILES:
            raise ValueError("no file of ours")
        if rank is None and name.endswith(".out"):  # what torchrun said there
            return self._folder / f"{name.removesuffix('.out')}-node-{node}.out"
        if rank not in own:
            raise ValueError("no rank of that node")
        return rank_folder(self._folder, rank) / name


class OnAllNodes(Running):
    """One process of a trace on all nodes: where it fails on one, it is ended on the others, as torchrun does."""

    def __init__(self, own: Running, others: Leading) -> None:
        self._own, self._others = own, others
        self.pid = own.pid

    def ended(self) -> int | None:
        statuses = [self._own.ended(), *self._others.ended()]
        failed = next((status for status in statuses if status), 0)
        if None not in statuses:
            return failed
        if failed:
            self.kill()
        return None

    def interrupt(self) -> None:
        self._own.interrupt()
        self._others.interrupt()

    def kill(self) -> None:
        self._own.kill()
        self._others.kill()


# --- the others ---------------------------------------------------------------------------------------------------


class Following:
    """The side of another node. `interrupt` and `kill` are called, in a thread, when node 0 says so, or is no more.

    Raises LeaderError where node 0 can't be found within `timeout_s`, or refuses.
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
        self.how: str | None = None  # how it ended, as node 0 says
        self._link = _Link(_connected(nodes, timeout_s))
        try:
            self._link.say(node=nodes.node, facts=facts, machine=machine)
            said = self._link.hear()
        except (OSError, ValueError):
            said = None
        if said is None or "machine" not in said:
            self._link.close()
            why = None if said is None else said.get("refused", said.get("end"))
            raise LeaderError(f"node 0: {one_line(str(why), 500)}" if why else "node 0 has hung up")
        self.machine, self.versions, self.device = (str(said[name]) for name in ("machine", "versions", "device"))
        self._listening = threading.Thread(target=self._hear, daemon=True)
        self._listening.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._link.close()
        self._listening.join()

    def orders(self) -> Iterator[tuple[str, int]]:
        """Yield each process that node 0 has begun, and the port at which its torchrun meets."""
        while (order := self._orders.get()) is not None:
            yield order

    def relay(self, sign: Sequence[Any]) -> None:
        """Pass on what a rank tells of itself."""
        with contextlib.suppress(OSError):
            self._link.say(at=sign)

    def hand_in(self, folder: Path, ranks: range, output: Path, status: int) -> None:
        """Send what the ranks of this node wrote, and the output of torchrun, and say how it ended."""
        with contextlib.suppress(OSError):
            for rank in ranks:
                for path in sorted(rank_folder(folder, rank).iterdir()):
                    if path.is_file() and _FILE.fullmatch(path.name):
                        self._link.send_file(path, file=path.name, rank=rank)
            self._link.send_file(output, file=output.name, rank=None)
            self._link.say(ended=status)

    def _hear(self) -> None:
        try:
            while (said := self._link.hear()) is not None:
                if "begin" in said:
                    self._orders.put((str(said["begin"]), int(said["port"])))
                elif "interrupt" in said:
                    self._interrupt()
                elif "kill" in said:
                    self._kill()
                elif "end" in said:
                    self.how = one_line(str(said["end"]), 500)
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            pass
        if self.how is None:
            self._kill()
        self._orders.put(None)


def _connected(nodes: Nodes, timeout_s: float) -> socket.socket:
    """Connect to node 0, which may begin later than the others."""
    ends = time.monotonic() + timeout_s
    while True:
        try:
            return socket.create_connection((nodes.host, nodes.port), timeout=HELLO_S)
        except OSError as error:
            if time.monotonic() > ends:
                where = f"{nodes.host}:{nodes.port}"
                why = error.strerror or str(error)
                raise LeaderError(f"node 0 can't be reached at {where} within {timeout_s:g} s: {why}") from None
        time.sleep(LOOK_S)
