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
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from trace_tools.errors import TraceToolsError, UsageError
from trace_tools.machines import machine as machines
from trace_tools.trace.identities import ProcessId
from trace_tools.trace.model import Machine
from trace_tools.tracing import failures
from trace_tools.tracing.isolation import private_folder
from trace_tools.tracing.isolation.output_capture import give_back
from trace_tools.tracing.job import LOADED_TORCH, Job
from trace_tools.tracing.plan import Plan
from trace_tools.tracing.processes import Running, Spawner, environment
from trace_tools.tracing.progress import Progress
from trace_tools.tracing.survey import DESCRIBE

OUTPUT_BYTES = 1 << 20  # most bytes kept of a process's standard error, from its end
STALLED_S = 10.0  # after this time without a new line or step, the stall is reported every second

GRACE_S = 5.0  # time for a process to end after Ctrl-C
SURVEY = "survey"
CHILD, SURVEYING = "trace_tools.tracing.worker", "trace_tools.tracing.survey"


class StoppedError(TraceToolsError):
    """`Tracer.stop` was called; no trace was written."""


class ProcessRunner:
    """Runs the processes of a plan. The tracer sets the device."""

    def __init__(self, plan: Plan, starter: Spawner, progress: Callable[[Progress], None]) -> None:
        self.plan, self.starter, self.progress = plan, starter, progress
        self.device = "cpu"
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
        if returned > 0 and not (folder / f"{slug}.journal").exists():
            with contextlib.suppress(OSError):  # it ended before it could keep its own traceback
                shutil.copyfile(folder / f"{slug}.out", folder / f"{slug}{failures.ENDING}")
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

    def survey(self, folder: Path, how: str) -> Machine:
        """Describe or measure the machine in a process of its own. Raises UsageError if that fails."""
        self.progress(Progress(DESCRIBE if how == DESCRIBE else SURVEY))
        stored, printed = folder / "machine.json", folder / "machine.out"
        arguments = [str(stored), self.plan.options.device or "", how]
        with printed.open("wb") as output:
            process = self.starter.start(SURVEYING, arguments, output.fileno(), None, environment())
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
        reading, writing = os.pipe()
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
        )
        path.write_text(json.dumps(asdict(job)), encoding="utf-8")
        with (folder / f"{slug}.out").open("wb") as output, os.fdopen(reading, "rb") as progress:
            variables = environment(stored=folder / "machine.json", device=self.plan.visible(self.device))
            process = self.starter.start(CHILD, [str(path)], output.fileno(), writing, variables)
            os.close(writing)
            watched = Watched(Progress(name, "start"), progress.fileno(), output.fileno())
            try:
                return self._wait(process, watched)
            except BaseException:
                process.kill()
                raise
            finally:
                private_folder.remove(root)

    def _wait(self, process: Running, watched: Watched) -> int:
        deadline, interrupts = None, 0
        while True:
            try:
                self._listen(watched)
                if (status := process.ended()) is not None:
                    return status
                over = deadline is not None and time.monotonic() > deadline
                if self.stopped.is_set() or over:
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
            if message.section != watched.last.section:
                self.progress(Progress(message.process, message.section))
            watched.last, watched.received = message, time.monotonic()
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

    def bound_output(self) -> None:
        """Keep only the end of the process's standard error, because a warning in a loop could fill the disk."""
        size = os.fstat(self.output).st_size
        if size - self.given_back > 2 * OUTPUT_BYTES:
            give_back(self.output, self.given_back, size - OUTPUT_BYTES)
            self.given_back = size - OUTPUT_BYTES
