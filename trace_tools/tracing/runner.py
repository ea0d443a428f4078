"""Run the processes of a trace: start each, listen to its progress, and end it if it is stuck.

    runner = ProcessRunner(plan, Spawner(), progress)
    runner.run("pass 1", folder)          # (0, 41.5): its status and its time (s)
    runner.run_all(plan.passes, folder)   # [("pass 1", 41.5), …]: in turn, or at once

A first Ctrl-C interrupts a running process, and a second one kills it; `stop` kills it at once.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from trace_tools.errors import TraceToolsError, UsageError
from trace_tools.machines import machine as machines
from trace_tools.trace.identities import Ending, ProcessId
from trace_tools.trace.model import Machine
from trace_tools.tracing import failures
from trace_tools.tracing.isolation import private_folder
from trace_tools.tracing.isolation.output_capture import give_back
from trace_tools.tracing.job import LOADED_TORCH, Job
from trace_tools.tracing.journal import rank_folder
from trace_tools.tracing.nodes import Following, Leading, OnAllNodes
from trace_tools.tracing.plan import Plan
from trace_tools.tracing.processes import TORCHRUN, Running, Spawner, environment
from trace_tools.tracing.progress import Progress
from trace_tools.tracing.survey import DESCRIBE, MEASURE

OUTPUT_BYTES = 1 << 20  # most bytes kept of a process's standard error, from its end
STALLED_S = 10.0  # after this time without a new line or step, the stall is reported every second

GRACE_S = 5.0  # time for a process to end after Ctrl-C
SURVEY = "survey"
CHILD, SURVEYING = "trace_tools.tracing.worker", "trace_tools.tracing.survey"
THREADS = "OMP_NUM_THREADS"
RANK_PROGRESS = "progress"  # named pipe in a run's folder, for the progress of ranks
STOPPED_WITH = Ending("stopped", "because other ranks had failed")  # of a rank that torchrun stopped


class StoppedError(TraceToolsError):
    """`Tracer.stop` was called; no trace was written."""


class ProcessRunner:
    """Runs the processes of a plan. The tracer sets the device, and its connections to other nodes."""

    def __init__(self, plan: Plan, starter: Spawner, progress: Callable[[Progress], None]) -> None:
        self.plan, self.starter, self.progress = plan, starter, progress
        self.device = "cpu"
        self.leading: Leading | None = None  # the other nodes, if this is node 0
        self.following: Following | None = None  # node 0, if this is another node
        self.port = 0  # torchrun's meeting port for several nodes
        self.interrupts = 0  # number of times that Ctrl-C was pressed
        self.stopped = threading.Event()

    def interrupt(self) -> None:
        """Count a Ctrl-C; the running process gets it."""
        self.interrupts += 1

    def run(self, name: str, folder: Path) -> tuple[int, float]:
        """Run one process ("pass 1") in a prepared folder; return its status and its time (s)."""
        started = time.monotonic()
        slug = ProcessId.parse(name).file_stem
        returned = self._child(name, folder)
        (folder / f"{slug}.status").write_text(str(returned), encoding="utf-8")
        if returned > 0 and self.plan.options.ranks is None and not (folder / f"{slug}.journal").exists():
            with contextlib.suppress(OSError):  # it ended before it could keep its own traceback
                shutil.copyfile(folder / f"{slug}.out", folder / f"{slug}{failures.ENDING}")
        for rank in self.plan.own_ranks:
            status = rank_folder(folder, rank) / f"{slug}.status"
            if not status.exists():  # else torchrun recorded its failure
                status.write_text(str(STOPPED_WITH) if returned else "0", encoding="utf-8")
        return returned, time.monotonic() - started

    def run_all(self, names: Sequence[str], folder: Path) -> list[tuple[str, float]]:
        """Run processes in turn until one fails; return the name and time (s) of each that ran."""
        seconds = []
        try:
            for name in names:
                returned, duration_s = self.run(name, folder)
                seconds.append((name, duration_s))
                if returned != 0 or self.interrupts or self.stopped.is_set() or self.torch_was_loaded(folder):
                    break
        except KeyboardInterrupt:  # between two processes; `_wait` handles it during one
            self.interrupts += 1
        return seconds

    def torch_was_loaded(self, folder: Path) -> bool:
        """Return whether an import of the lecture loaded torch although no line of the lecture names it."""
        return not self.plan.torch and (folder / LOADED_TORCH).exists()

    def survey(self, folder: Path, number: int, how: str) -> Machine:
        """Describe or measure the machine in a process of its own. Raises UsageError if that fails."""
        self.progress(Progress(DESCRIBE if how == DESCRIBE and not self.plan.options.survey else SURVEY))
        stored, printed = folder / f"machine-{number}.json", folder / f"machine-{number}.out"
        arguments = [str(stored), self.plan.options.device or "", MEASURE if self.plan.options.survey else how]
        with printed.open("wb") as output:
            process = self.starter.start(SURVEYING, arguments, output.fileno(), None, self._environment())
            try:
                while (status := process.ended()) is None:
                    if self.stopped.wait(0.01):
                        raise StoppedError(f"{self.plan.lecture.name}: stopped")
            finally:
                process.kill()
        if status != 0:
            lines = printed.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            line = lines[-1] if lines else f"this machine can't be measured: status {status}"
            raise UsageError(line.removeprefix("error: "))
        return machines.from_json(stored.read_text(encoding="utf-8"))

    def _child(self, name: str, folder: Path) -> int:
        """Run one process to its end; return its status, negative for a signal."""
        ranks = self.plan.options.ranks
        reading, writing = os.pipe() if ranks is None else _named_pipe(folder / RANK_PROGRESS)
        slug = ProcessId.parse(name).file_stem
        path, lecture = folder / f"{slug}.json", self.plan.lecture.resolve()
        root = private_folder.path_for(self.plan.folder, 0)
        job = Job(
            name=name,
            lecture=str(lecture),
            root=str(root),
            text=self.plan.source.text,
            journal=str(folder / f"{slug}.journal"),
            options=self.plan.options,
            device=self.device,
            torch=self.plan.torch,
            counts=self.plan.torch and name == self.plan.passes[0],
            skipped=self.plan.skipped,
            progress=writing,
            parent=self.starter.pid,
            spawns=self.plan.spawns,
            roots=[str(private_folder.path_for(self.plan.folder, rank)) for rank in range(ranks or 0)],
            rank=None,
            rank_progress=str(folder / RANK_PROGRESS),
        )
        for rank in range(ranks or 0):
            rank_folder(folder, rank).mkdir(exist_ok=True)
        path.write_text(json.dumps(asdict(job)), encoding="utf-8")
        with (folder / f"{slug}.out").open("wb") as output, os.fdopen(reading, "rb") as progress:
            variables = self._environment(stored=folder / "machine.json", device=self.plan.visible(self.device))
            module, arguments = CHILD, [str(path)]
            if ranks is not None:
                module, arguments = TORCHRUN, [str(path), str(len(self.plan.own_ranks)), *self._meeting()]
            if self.leading is not None:
                self.leading.begin(name, self.port, folder / RANK_PROGRESS)
            process = self.starter.start(module, arguments, output.fileno(), writing, variables)
            if self.leading is not None:
                process = OnAllNodes(process, self.leading)
            os.close(writing)
            watched = Watched(Progress(name, "start"), progress.fileno(), output.fileno())
            try:
                return self._wait(process, watched)
            except BaseException:
                process.kill()
                raise
            finally:
                if self.leading is not None:
                    self.leading.done()
                self._write_stuck(folder, slug, watched)
                for copy in map(Path, job.roots or [job.root]):
                    private_folder.remove(copy)

    def _meeting(self) -> list[str]:
        """Return torchrun's arguments for several nodes, with a port that is free on node 0, which chooses it."""
        nodes = self.plan.nodes
        if nodes is None:
            return []
        if self.leading is not None:
            with socket.socket() as probe:
                probe.bind(("", 0))
                self.port = probe.getsockname()[1]
        return [str(nodes.count), str(nodes.node), nodes.host, str(self.port)]

    def _environment(self, stored: Path | None = None, device: str | None = None) -> dict[str, str]:
        """Return the environment of a process; each of several ranks gets one thread, as under torchrun."""
        threads = {THREADS: "1"} if (self.plan.options.ranks or 1) > 1 else {}
        return threads | environment(stored, device)

    def _write_stuck(self, folder: Path, slug: str, watched: Watched) -> None:
        """Write the ending of each stuck rank, with the function that waited for the others if one did."""
        for rank in range(self.plan.options.ranks or 0) if watched.stuck else ():
            _, waiting = watched.ranks.get(rank, (0.0, None))
            how = f"for {self.plan.options.timeout_s:g} s and was stopped"
            ending = Ending("waited", f"in {waiting} {how}") if waiting else Ending("failed", f"made no progress {how}")
            status = rank_folder(folder, rank) / f"{slug}.status"
            status.write_text(str(ending), encoding="utf-8")

    def _wait(self, process: Running, watched: Watched) -> int:
        deadline, interrupts = None, 0
        while True:
            try:
                self._listen(watched)
                if (status := process.ended()) is not None:
                    return status
                over = deadline is not None and time.monotonic() > deadline
                if self.following is None and watched.stalled_s > self.plan.options.timeout_s:
                    watched.stuck = True
                if self.stopped.is_set() or over or watched.stuck:
                    process.kill()
            except KeyboardInterrupt:
                self.interrupts += 1
            if self.interrupts > interrupts:
                interrupts = self.interrupts
                if deadline is None:
                    process.interrupt()
                else:
                    process.kill()
                deadline = time.monotonic() + GRACE_S

    def _listen(self, watched: Watched) -> None:
        """Receive a process's progress for a moment and forward it; report its position if it is stalled."""
        ready, _, _ = select.select([watched.progress], [], [], 0.05)
        watched.bound_output()
        lines = os.read(watched.progress, 65536) if ready else b""
        if ready and not lines:
            time.sleep(0.005)  # the process closed its end and is about to exit
        for line in lines.splitlines():
            if (message := Progress.read(line)) is None:
                continue
            if self.following is not None:
                self.following.relay(message)
            if message.section != watched.last.section:
                self.progress(Progress(message.process, message.section))
            watched.last, watched.received = message, time.monotonic()
            if message.rank is not None:
                watched.ranks[message.rank] = (watched.received - message.stalled_s, message.waits_in)
        # A silent process is inside one long C call, which lets no other thread run.
        stalled_s = round(watched.last.stalled_s + time.monotonic() - watched.received)
        if stalled_s >= STALLED_S and stalled_s != watched.reported_s:
            watched.reported_s = stalled_s
            self.progress(replace(watched.last, stalled_s=stalled_s))


@dataclass
class Watched:
    """The last progress message of a process."""

    last: Progress
    progress: int  # descriptor of the progress pipe
    output: int  # descriptor of the file with its standard error
    received: float = field(default_factory=time.monotonic)  # time of the last message
    reported_s: int = 0  # stall reported last
    given_back: int = 0  # bytes of output already released on the disk
    # rank → time of its last progress, function it waits in
    ranks: dict[int, tuple[float, str | None]] = field(default_factory=dict)
    stuck: bool = False  # no rank made progress any more

    @property
    def stalled_s(self) -> float:
        """Seconds since any rank in the lecture made progress; 0 before the first message, and without ranks."""
        return time.monotonic() - max(since for since, _ in self.ranks.values()) if self.ranks else 0.0

    def bound_output(self) -> None:
        """Keep only the end of the process's standard error, because a warning in a loop could fill the disk."""
        size = os.fstat(self.output).st_size
        if size - self.given_back > 2 * OUTPUT_BYTES:
            give_back(self.output, self.given_back, size - OUTPUT_BYTES)
            self.given_back = size - OUTPUT_BYTES


def _named_pipe(path: Path) -> tuple[int, int]:
    """Make a pipe that other processes open by name; return its read end and its write end."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    return reading, os.open(path, os.O_WRONLY)
