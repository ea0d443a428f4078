"""Trace a lecture: run one fresh process per pass and one with meters, then merge their journals.

    traced = Tracer(Path("lecture.py"), Path("rendered"), TraceOptions(passes=5)).run()
    traced.path                   # rendered/cpu/trace.yaml, or rendered/cpu/partial/trace.yaml
    traced.trace.run.ended        # "complete", or how it ended

A third kind of process runs the lecture with perturbed clocks. Journals are kept in OUT/.run-…, see `run_folder`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import select
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trace_tools import __version__
from trace_tools.errors import FailedError, LectureError, NothingRecordedError, TraceToolsError, UsageError, in_words
from trace_tools.machines import devices
from trace_tools.machines import machine as machines
from trace_tools.source.directives import parse_directives
from trace_tools.source.imports import imported, is_installed, mentions, modules
from trace_tools.source.imports import versions as versions_of
from trace_tools.source.lint import (
    refuse_failing_calls,
    refuse_relative_imports,
    refuse_uncompilable,
    refuse_without_main,
)
from trace_tools.source.statements import ParsedSource, rank_counts, read_source, sections
from trace_tools.source.vocabularies import BORROWED, detected, used
from trace_tools.trace.identities import METERING, PASS, PERTURBED, Ending, ProcessId
from trace_tools.trace.model import MAIN, Machine, Run, Trace
from trace_tools.trace.structure import to_plain
from trace_tools.trace.validation import MOST_RANKS
from trace_tools.tracing import failures, included
from trace_tools.tracing.clock_readers import clock_readers
from trace_tools.tracing.isolation import private_folder
from trace_tools.tracing.isolation.output_capture import give_back
from trace_tools.tracing.journal import rank_folder
from trace_tools.tracing.merge.merging import program_of
from trace_tools.tracing.nodes import LECTURE, Following, LeaderError, Leading, Nodes, OnAllNodes
from trace_tools.tracing.options import DEFAULTS, NODE, OPTIONS, TraceOptions, flag_of
from trace_tools.tracing.processes import FORKS, TORCHRUN, ForkServer, NotStartedError, Running, Spawner, environment
from trace_tools.tracing.progress import Progress
from trace_tools.tracing.run_folder import (
    Traced,
    dispose,
    merge_folder,
    refuse_other_lecture,
    remove,
    run_folder,
    set_aside,
)
from trace_tools.tracing.survey import DESCRIBE, MEASURE, RECALL
from trace_tools.tracing.worker import LOADED_TORCH, Job
from trace_tools.util.files import why_not_inside
from trace_tools.util.git import commit_of

OUTPUT_BYTES = 1 << 20  # most bytes kept of a process's standard error, from its end
STALLED_S = 10.0  # without a new line or step; from then on the stall is reported every second

GRACE_S = 5.0  # time for a process to end after Ctrl-C
SPAWNING = ("multiprocessing", "concurrent")  # modules that start processes; torch imports the first one itself
SURVEY = "survey"
MACHINE_FILES = ("machine.json", "versions.json", machines.FREE_FILE)  # in a run's folder, for its processes
CHILD, SURVEYING = "trace_tools.tracing.worker", "trace_tools.tracing.survey"
THREADS = "OMP_NUM_THREADS"
RANK_PROGRESS = "progress"  # named pipe in a run's folder, for the progress of ranks
STOPPED_WITH = Ending("stopped", "with the ranks that had failed")  # of a rank that torchrun stopped
SURVEYS = 3  # measurements of a CPU, because no datasheet gives its roof


class StoppedError(TraceToolsError):
    """`Tracer.stop` was called; no trace was written."""


class Tracer:
    """Runs the processes of one trace. Raises LectureError and UsageError before any process starts.

    Processes of a draft are forked from `server`, or from a server of the tracer's own, which imports torch at once.
    Processes of a lecture without torch are forked as well, because starting Python and importing the tools would take
    most of their time.
    """

    def __init__(
        self,
        lecture: Path,
        out: Path = Path("rendered"),
        options: TraceOptions = DEFAULTS,
        progress: Callable[[Progress], None] = lambda message: None,
        server: ForkServer | None = None,
        *,
        nodes: Nodes | None = None,
        like: Trace | None = None,
    ) -> None:
        """Take the position among several `nodes`, and a recent trace of this machine, which is not measured then."""
        self.lecture, self.out, self.nodes, self.like = lecture, out, nodes, like
        self.source = check_lecture(lecture, in_package=options.module is not None, main=options.main)
        self.folder = lecture.resolve().parents[len(options.package.split(".")) if options.package else 0]
        self.name = lecture.resolve().relative_to(self.folder).as_posix()  # path of the lecture in its folder
        self.uses = imported(self.source, self.folder)
        imports = modules(self.source, self.folder)
        self.spawns = any(name.partition(".")[0] in SPAWNING for name in imports)
        found = {*options.vocabularies, *detected(imports), *used(self.source)}
        vocabularies = tuple(name for name in BORROWED if name in found)
        options = replace(options, vocabularies=vocabularies, passes=1 if options.draft else options.passes)
        self.options = options
        # If torch is not installed, the lecture itself decides how to continue.
        self.torch = ("torch" in self.uses and is_installed("torch")) or options.device not in (None, "cpu")
        self.progress = progress
        # A process group binds a port, so two runs at once would conflict. Lectures that check whether they are traced
        # do so in order to start no process group.
        asks = mentions(self.source, self.folder, {"gettrace"})
        self.binds_a_port = not asks and mentions(self.source, self.folder, {"init_process_group"})
        self.skipped = skipped(self.source, options)
        self.modules = included.found(options.include, lecture) if options.include else []
        # Functions where the only run of a draft counts no operators; None if a second process must count.
        self.clock_readers: frozenset[int] | None = frozenset()
        if options.draft and self.torch:
            sources = [self.source, *(module.source for module in self.modules)]
            self.clock_readers = clock_readers(sources, self.folder, options.main)
        if options.device is not None:
            devices.checked(options.device)
        if options.ranks is not None and not self.torch:
            raise UsageError(f"--ranks {options.ranks}: {lecture.name} does not import torch, which ranks need")
        refuse_options(self.source, options, nodes)
        self._interrupts = 0  # number of times that Ctrl-C was pressed
        self._device = "cpu"
        self._longest_s = 60.0  # longest time of a process so far, at least a minute
        self._stopped = threading.Event()
        self._others: Leading | None = None  # the other nodes, if this is node 0
        self._leader: Following | None = None  # node 0, if this is another node
        self._port = 0  # torchrun's meeting port for several nodes
        self._own = None
        if FORKS and options.ranks is None and (not self.torch or (options.draft and server is None)):
            with contextlib.suppress(OSError):  # `run` will meet the same error and report it
                self._own = server = ForkServer(environment(), torch=self.torch)
        self._starter = server or Spawner()

    def stop(self) -> None:
        """Kill the processes and drop their records; `run`, in another thread, raises StoppedError."""
        self._stopped.set()

    def run(self) -> Traced:
        """Trace the lecture, and write the recorded steps however its processes ended.

        Raises UsageError if a file can't be written, a process can't be started, or the records make no valid trace.
        Raises FailedError if the tools themselves failed, StoppedError after `stop`, and KeyboardInterrupt if Ctrl-C
        came before the first step or a second time. Journals are kept, and the error names their folder; an earlier
        trace stays unchanged.
        """
        out, folder = self.out, None
        try:
            with self._own or contextlib.nullcontext(), self._leading(), run_folder(out) as folder:
                if self.options.draft:  # meanwhile the server imports torch
                    program_of((self.source.text, *(module.source.text for module in self.modules)))
                try:
                    seconds = self._processes(folder)
                except NotStartedError as error:
                    (folder / f"start{failures.ENDING}").write_text(error.output, encoding="utf-8")
                    kept = set_aside(folder, error)
                    raise FailedError(f"{error}; the traceback and its journals are kept in {kept.folder}") from None
                if self._stopped.is_set():
                    remove(folder)
                    raise StoppedError(f"{self.lecture.name}: stopped")
                try:
                    traced = merge_folder(folder, out)
                except (UsageError, OSError, KeyboardInterrupt):
                    raise
                except NothingRecordedError as error:
                    if not failures.tracebacks(folder):
                        raise
                    kept = set_aside(folder, error)
                    raise FailedError(
                        f"{kept.why}; the traceback and its journals are kept in {kept.folder}"
                    ) from error
                except MemoryError as error:  # the journals stay, so that `recover` finds them
                    failures.keep(folder / "merging", error)
                    raise
                except BaseException as error:  # this version should be able to merge its own records
                    kept = set_aside(folder, error)
                    if isinstance(error, TraceToolsError):
                        raise UsageError(f"{kept.why}; its journals are kept in {kept.folder}") from error
                    raise FailedError(
                        f"trace-tools failed: {kept.why}; the traceback and its journals are kept in {kept.folder}"
                    ) from error
                traced = replace(traced, failed=dispose(folder))
                if self._others is not None:
                    self._others.how = traced.trace.run.ended
        except (NothingRecordedError, UsageError, OSError, MemoryError, KeyboardInterrupt) as error:
            left = folder is not None and folder.exists()
            if isinstance(error, KeyboardInterrupt) or (self.interrupted and isinstance(error, NothingRecordedError)):
                what = (
                    f"`trace-tools recover {out}` writes the trace of the steps so far"
                    if left
                    else "no step was recorded"
                )
                raise KeyboardInterrupt(f"interrupted; {what}") from None
            if isinstance(error, NothingRecordedError):
                raise
            what = f"; once this is corrected, `trace-tools recover {out}` writes the trace" if left else ""
            where = f"{out}: " if isinstance(error, OSError) and not error.filename else ""
            if isinstance(error, MemoryError) and folder is not None and (found := failures.tracebacks(folder)):
                where = f"trace-tools failed while it made the trace (traceback: {found[-1]}): "
            raise UsageError(f"{where}{in_words(error)}{what}") from error
        return replace(traced, seconds=seconds)

    def follow(self) -> str:
        """Run the ranks of this node as node 0 directs; return how the whole run ended.

        Node 0 makes the trace. Raises LeaderError if node 0 refuses or has ended, and UsageError as `run` does.
        """
        nodes = self.nodes
        assert nodes is not None
        folder = Path(tempfile.mkdtemp(prefix="trace-node-"))
        try:
            machine = self._surveyed(folder, 1, DESCRIBE)
            facts, timeout_s = self._facts(folder), self.options.timeout_s
            with Following(nodes, facts, machine.name, timeout_s, self._interrupted, self.stop) as self._leader:
                (folder / "lecture.py").write_text(self.source.text, encoding="utf-8", newline="")
                included.store(self.modules, folder)
                for name in MACHINE_FILES:
                    (folder / name).write_text(str(self._leader.files.get(name, "")), encoding="utf-8")
                self._device = self._leader.device
                for name, port in self._leader.orders():
                    self._port = port
                    status, _ = self.process(name, folder)
                    output = folder / f"{ProcessId.parse(name).file_stem}.out"
                    self._leader.hand_in(folder, self._own_ranks, output, status)
            if self._leader.how is None:
                raise LeaderError("node 0 has ended; the steps of its own ranks are on that machine")
            return self._leader.how
        finally:
            private_folder.remove(folder)

    def _interrupted(self) -> None:
        self._interrupts += 1

    def _leading(self) -> contextlib.AbstractContextManager[object]:
        """Return the listener for other nodes, or an empty context without nodes."""
        nodes = self.nodes
        if nodes is None:
            return contextlib.nullcontext()
        self._others = Leading(nodes, self.options.ranks or 0, self._stopped.is_set)
        return self._others

    def _facts(self, folder: Path) -> dict[str, Any]:
        """Return the values that must be equal on all nodes, by the names used in the error message."""
        included_texts = "".join(f"\0{module.name}\0{module.source.text}" for module in self.modules)
        plain = json.loads(json.dumps(asdict(self.options)))  # node 0 gets those of other nodes as JSON
        return {
            LECTURE: hashlib.sha256((self.source.text + included_texts).encode()).hexdigest(),
            "trace-tools": __version__,
            **{flag_of(name): plain[name] for name, option in OPTIONS.items() if NODE not in option.scope},
            "--nodes": self.nodes.count if self.nodes else 1,
            **dict(json.loads((folder / "versions.json").read_text(encoding="utf-8"))),
        }

    @property
    def interrupted(self) -> bool:
        """Return whether Ctrl-C was pressed."""
        return self._interrupts > 0

    def prepare(self, folder: Path) -> None:
        """Measure the machine, and write the options into a run's folder."""
        (folder / "lecture.py").write_text(self.source.text, encoding="utf-8", newline="")
        included.store(self.modules, folder)
        machine = self._survey(folder)
        self._device = machine.device
        nodes = None
        if self._others is not None:
            self.progress(Progress(SURVEY, "other nodes"))
            nodes = [machine.name, *self._others.gather(folder, self._facts(folder), self.options.timeout_s)]
            paths = [folder / name for name in MACHINE_FILES if (folder / name).exists()]
            self._others.send_machine(self._device, {path.name: path.read_text(encoding="utf-8") for path in paths})
        run = Run(
            lecture=self.name,
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            complete=False,
            commit=commit_of(self.lecture),
            nodes=nodes,
            **self.options.recorded(),
        )
        asked = {"name": self.options.name, "force": self.options.force}
        more = {**asked, "beside": self._beside(), "metered": self._metered()}
        (folder / "run.json").write_text(json.dumps({**to_plain(run), **more}), encoding="utf-8")

    def process(self, name: str, folder: Path) -> tuple[int, float]:
        """Run one process ("pass 1", METERING, PERTURBED) in a prepared folder; return its status and its time (s).

        A lecture with perturbed clocks may never end, so their process has a time limit.
        """
        started = time.monotonic()
        limit_s = 4 * self._longest_s if name == PERTURBED else None
        slug = ProcessId.parse(name).file_stem
        returned = self._child(name, folder, limit_s)
        (folder / f"{slug}.status").write_text(str(returned), encoding="utf-8")
        if returned > 0 and self.options.ranks is None and not (folder / f"{slug}.journal").exists():
            with contextlib.suppress(OSError):  # it ended before it could keep its own traceback
                shutil.copyfile(folder / f"{slug}.out", folder / f"{slug}{failures.ENDING}")
        for rank in self._own_ranks:
            status = rank_folder(folder, rank) / f"{slug}.status"
            if not status.exists():  # else torchrun recorded its failure
                status.write_text(str(STOPPED_WITH) if returned else "0", encoding="utf-8")
        self._longest_s = max(self._longest_s, time.monotonic() - started)
        return returned, time.monotonic() - started

    @property
    def _own_ranks(self) -> range:
        """The ranks that run on this machine."""
        nodes, ranks = self.nodes, self.options.ranks or 0
        return range(ranks) if nodes is None else nodes.ranks_of(nodes.node, ranks)

    @property
    def _sees(self) -> str:
        """The device that the processes of a run see: the requested card on a machine with several."""
        asked = self.options.device
        return asked if asked is not None and devices.kind(asked) == self._device else self._device

    @property
    def _together(self) -> bool:
        """Return whether all processes run at once.

        On a GPU they would share its memory, which the lecture may rely on. Processes of a lecture that starts a
        process group would share its port.
        """
        may = self.options.draft and not self.binds_a_port
        return may and self._device == "cpu" and self.options.ranks is None

    def _processes(self, folder: Path) -> list[tuple[str, float]]:
        self.prepare(folder)
        names = [*(str(ProcessId(PASS, n)) for n in range(1, self.options.passes + 1)), *self._beside()]
        seconds = self._at_once(names, folder) if self._together else self._in_turn(names, folder)
        if self._came_with_torch(folder) and not self.interrupted and not self._stopped.is_set():
            return [*seconds, *self._with_torch(folder)]
        return seconds

    def _in_turn(self, names: Sequence[str], folder: Path) -> list[tuple[str, float]]:
        seconds = []
        try:
            for name in names:
                returned, taken = self.process(name, folder)
                seconds.append((name, taken))
                if returned != 0 or self.interrupted or self._stopped.is_set() or self._came_with_torch(folder):
                    break
        except KeyboardInterrupt:  # between two processes; `_wait` handles it during one
            self._interrupts += 1
        return seconds

    def _came_with_torch(self, folder: Path) -> bool:
        """Return whether an import of the lecture loaded torch although no line of the lecture names it."""
        return not self.torch and (folder / LOADED_TORCH).exists()

    def _with_torch(self, folder: Path) -> list[tuple[str, float]]:
        """Start again with torch, and discard all records made without it."""
        for path in folder.iterdir():
            if path.is_file() and path.name != "lock":
                path.unlink()
        self.torch, self.like, self._starter = True, None, Spawner()
        return self._processes(folder)

    def _beside(self) -> list[str]:
        """Return the processes in addition to the passes. Drafts run with real clocks only."""
        metering = [METERING] if self._metered() == METERING else []
        return [*metering, *([] if self.options.draft else [PERTURBED])]

    def _metered(self) -> str | None:
        """Return the process that is metered, or None without torch.

        For a draft it is the only run, unless `main` or the module itself reads a clock or the lecture compiles.
        """
        if not self.torch:
            return None
        return str(ProcessId(PASS, 1)) if self.options.draft and self.clock_readers is not None else METERING

    def _at_once(self, names: Sequence[str], folder: Path) -> list[tuple[str, float]]:
        with ThreadPoolExecutor(len(names)) as pool:
            running = [(name, pool.submit(self.process, name, folder)) for name in names]
            while True:
                try:
                    return [(name, ended.result()[1]) for name, ended in running]
                except KeyboardInterrupt:  # `_wait` forwards it
                    self._interrupts += 1
                except BaseException:  # the pool waits for its threads, which wait for their processes
                    self.stop()
                    raise

    def _survey(self, folder: Path) -> Machine:
        """Measure the machine in separate processes, which leave no warm caches for the passes.

        The roof of a CPU is the best of several measurements: the lecture, the head of the trace and every figure use
        the same one.
        """
        like = self.like
        if like is not None:
            machine = like.machine
            (folder / "versions.json").write_text(json.dumps(like.versions), encoding="utf-8")
        elif self.torch:
            machine = self._surveyed(folder, 1, DESCRIBE if self.options.draft else RECALL)
        else:
            machine, found = machines.without_torch(versions_of(self.uses))
            (folder / "versions.json").write_text(json.dumps(found), encoding="utf-8")
        slug = machines.slug(self.options.name) if self.options.name else machine.slug
        if not self.options.force:
            refuse_other_lecture(self.out / slug / "trace.yaml", self.name)
        measured = any(peak.measured for peak in machine.peaks) and not machines.are_recalled(machine)
        if like is None and self.torch and measured and machines.STORED not in os.environ:
            if machine.device == "cpu":
                again = range(2, min(self.options.passes, SURVEYS) + 1)
                machine = machines.with_best_peaks([machine, *(self._surveyed(folder, n, MEASURE) for n in again)])
            machines.remember(
                machine, [*map(tuple, json.loads((folder / "versions.json").read_text(encoding="utf-8")))]
            )
        (folder / "machine.json").write_text(machines.to_json(machine), encoding="utf-8")
        return machine

    def _surveyed(self, folder: Path, number: int, how: str) -> Machine:
        self.progress(Progress(DESCRIBE if how == DESCRIBE and not self.options.survey else SURVEY))
        stored, printed = folder / f"machine-{number}.json", folder / f"machine-{number}.out"
        arguments = [str(stored), self.options.device or "", MEASURE if self.options.survey else how]
        with printed.open("wb") as output:
            process = self._starter.start(SURVEYING, arguments, output.fileno(), None, self._environment())
            try:
                while (status := process.ended()) is None:
                    if self._stopped.wait(0.01):
                        raise StoppedError(f"{self.lecture.name}: stopped")
            finally:
                process.kill()
        if status != 0:
            lines = printed.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            line = lines[-1] if lines else f"this machine can't be measured: status {status}"
            raise UsageError(line.removeprefix("error: "))
        return machines.from_json(stored.read_text(encoding="utf-8"))

    def _child(self, name: str, folder: Path, limit_s: float | None) -> int:
        """Run one process to its end, at most `limit_s` seconds; return its status, negative for a signal."""
        ranks = self.options.ranks
        reading, writing = os.pipe() if ranks is None else _named_pipe(folder / RANK_PROGRESS)
        slug = ProcessId.parse(name).file_stem
        path, lecture = folder / f"{slug}.json", self.lecture.resolve()
        side_by_side = self._together and name != METERING
        root = private_folder.root_for(folder, lecture, ProcessId.parse(name).pass_ or 0 if side_by_side else 0)
        job = Job(
            name=name,
            lecture=str(lecture),
            root=str(root),
            text=self.source.text,
            journal=str(folder / f"{slug}.journal"),
            options=self.options,
            device=self._device,
            torch=self.torch,
            counts=name == self._metered(),
            clock_readers=sorted(self.clock_readers or ()),
            skipped=self.skipped,
            progress=writing,
            parent=self._starter.pid,
            spawns=self.spawns,
            roots=[str(private_folder.root_for(folder, lecture, rank)) for rank in range(ranks or 0)],
            rank=None,
            rank_progress=str(folder / RANK_PROGRESS),
        )
        for rank in range(ranks or 0):
            rank_folder(folder, rank).mkdir(exist_ok=True)
        path.write_text(json.dumps(asdict(job)), encoding="utf-8")
        with (folder / f"{slug}.out").open("wb") as output, os.fdopen(reading, "rb") as progress:
            given = self._environment(stored=folder / "machine.json", device=self._sees)
            module, arguments = CHILD, [str(path)]
            if ranks is not None:
                module, arguments = TORCHRUN, [str(path), str(len(self._own_ranks)), *self._meeting()]
            if self._others is not None:
                self._others.begin(name, self._port, folder / RANK_PROGRESS)
            process = self._starter.start(module, arguments, output.fileno(), writing, given)
            if self._others is not None:
                process = OnAllNodes(process, self._others)
            os.close(writing)
            watched = _Watched(Progress(name, "start"), progress.fileno(), output.fileno())
            try:
                return self._wait(process, watched, limit_s)
            except BaseException:
                process.kill()
                raise
            finally:
                if self._others is not None:
                    self._others.done()
                self._write_stuck(folder, slug, watched)
                for copy in map(Path, job.roots or [job.root]):
                    if copy.parent != folder.resolve():
                        private_folder.remove(copy)

    def _meeting(self) -> list[str]:
        """Return torchrun's arguments for several nodes, with a port that is free on node 0, which chooses it."""
        nodes = self.nodes
        if nodes is None:
            return []
        if self._others is not None:
            with socket.socket() as probe:
                probe.bind(("", 0))
                self._port = probe.getsockname()[1]
        return [str(nodes.count), str(nodes.node), nodes.host, str(self._port)]

    def _environment(self, stored: Path | None = None, device: str | None = None) -> dict[str, str]:
        """Return the environment of a process; each of several ranks gets one thread, as under torchrun."""
        threads = {THREADS: "1"} if (self.options.ranks or 1) > 1 else {}
        return threads | environment(stored, device)

    def _write_stuck(self, folder: Path, slug: str, watched: _Watched) -> None:
        """Write the ending of each stuck rank, with the function that waited for the others if one did."""
        for rank in range(self.options.ranks or 0) if watched.stuck else ():
            _, waiting = watched.ranks.get(rank, (0.0, None))
            how = f"for {self.options.timeout_s:g} s, ended"
            ending = Ending("waited", f"in {waiting} {how}") if waiting else Ending("failed", f"did nothing new {how}")
            status = rank_folder(folder, rank) / f"{slug}.status"
            status.write_text(str(ending), encoding="utf-8")

    def _wait(self, process: Running, watched: _Watched, limit_s: float | None) -> int:
        deadline, interrupts = None, 0
        ends = time.monotonic() + limit_s if limit_s is not None else None
        while True:
            try:
                self._listen(watched)
                if (status := process.ended()) is not None:
                    return status
                over = any(at is not None and time.monotonic() > at for at in (ends, deadline))
                watched.stuck = watched.stuck or (self._leader is None and watched.stalled_s > self.options.timeout_s)
                if self._stopped.is_set() or over or watched.stuck:
                    process.kill()
            except KeyboardInterrupt:
                self._interrupts += 1
            if self._interrupts > interrupts:
                interrupts = self._interrupts
                if deadline is None:
                    process.interrupt()
                else:
                    process.kill()
                deadline = time.monotonic() + GRACE_S

    def _listen(self, watched: _Watched) -> None:
        """Receive a process's progress for a moment and forward it; report its position if it is stalled."""
        ready, _, _ = select.select([watched.progress], [], [], 0.05)
        watched.bound_output()
        lines = os.read(watched.progress, 65536) if ready else b""
        if ready and not lines:
            time.sleep(0.005)  # the process closed its end and is about to exit
        for line in lines.splitlines():
            if (message := Progress.read(line)) is None:
                continue
            if self._leader is not None:
                self._leader.relay(message)
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
class _Watched:
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


def check_lecture(path: Path, *, in_package: bool = False, main: str = MAIN) -> ParsedSource:
    """Read and check a lecture. Raises LectureError if it is not a valid lecture."""
    source = read_source(path)
    name = path.name.encode("utf-8", "backslashreplace").decode()  # in a form that a file can hold
    if (why := why_not_inside(name)) is not None:  # the trace stores it, and pages look for that file
        raise LectureError(path, None, f"can't be a lecture's name: {why}")
    refuse_uncompilable(source)
    parse_directives(source)
    refuse_without_main(source, main)
    refuse_failing_calls(source)
    if not in_package:
        refuse_relative_imports(source)
    return source


def refuse_options(source: ParsedSource, options: TraceOptions, nodes: Nodes | None = None) -> None:
    """Raise UsageError if the options fail on any machine: an unknown section, or an impossible number of ranks."""
    skipped(source, options)
    if options.passes < 1 or options.limit < 2:
        raise UsageError(f"passes: {options.passes}, limit: {options.limit}; expected at least 1 and 2")
    ranks = options.ranks
    if ranks is None:
        if nodes is not None:
            raise UsageError(f"--nodes {nodes.count}: expected --ranks as well (the total over all nodes)")
        return
    if not 1 <= ranks <= MOST_RANKS:
        raise UsageError(f"--ranks {ranks}: expected 1 to {MOST_RANKS:,}")
    if options.device is not None and ":" in options.device and ranks > 1:
        kind = options.device.partition(":")[0]
        raise UsageError(f"--ranks {ranks}: --device {options.device} gives all ranks one GPU; use --device {kind}")
    if options.timeout_s <= 0:
        raise UsageError(f"--timeout {options.timeout_s:g}: expected seconds above 0")
    if nodes is not None and ranks % nodes.count:
        raise UsageError(f"--ranks {ranks}: expected a multiple of {nodes.count} nodes")
    possible = rank_counts(source)
    if possible and ranks not in possible:
        counts = " or ".join(filter(None, (", ".join(map(str, possible[:-1])), str(possible[-1]))))
        raise UsageError(f"--ranks {ranks}: RANKS in {Path(source.path).name} allows {counts}")


def skipped(source: ParsedSource, options: TraceOptions) -> list[str]:
    """Return the functions that `main` must skip so that only one section runs.

    Raises UsageError if that section does not exist.
    """
    names, only = sections(source, options.main), options.only
    if only is None:
        return []
    if only not in names:
        calls = ", ".join(f"`{name}`" for name in names) or "none"
        raise UsageError(f"--only {only}: no such section; {options.main} calls {calls}")
    return [name for name in names if name != only]
