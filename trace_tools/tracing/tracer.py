"""A lecture → a trace: one fresh process per pass, one more for the meters, and what they wrote, merged.

    traced = Tracer(Request(lecture=Path("lecture.py"), out=Path("rendered"))).run()
    traced.path                   # rendered/cpu/trace.yaml, or rendered/cpu/partial/trace.yaml
    traced.trace.run.ended        # "complete", or how it ended

Journals lie in OUT/.run-…, see `run_folder`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import select
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
from trace_tools.directives import parse_directives
from trace_tools.errors import LectureError, NothingRecordedError, TraceToolsError, UsageError, in_words
from trace_tools.file_format.structure import to_plain
from trace_tools.file_format.validation import MOST_RANKS
from trace_tools.files import why_not_inside
from trace_tools.git import commit_of
from trace_tools.imports import imported, is_installed, mentions, modules
from trace_tools.imports import versions as versions_of
from trace_tools.machines import devices, surveys
from trace_tools.machines import machine as machines
from trace_tools.mistakes import refuse_relative_imports, refuse_uncompilable, refuse_without_main
from trace_tools.schema import Machine, Run, Trace
from trace_tools.statements import ParsedSource, rank_counts, read_source, sections
from trace_tools.tracing import included, private_folder
from trace_tools.tracing.child import LOADED_TORCH, Job
from trace_tools.tracing.journal import rank_folder
from trace_tools.tracing.merge import STOPPED, WAITED
from trace_tools.tracing.nodes import LECTURE, Following, LeaderError, Leading, Nodes, OnAllNodes
from trace_tools.tracing.processes import FORKS, TORCHRUN, ForkServer, Running, Spawner, environment
from trace_tools.tracing.run_folder import Traced, merge_folder, refuse_other_lecture, remove, run_folder, set_aside
from trace_tools.tracing.runs import METERING, SHAKEN
from trace_tools.tracing.standard_output import give_back
from trace_tools.tracing.survey import DESCRIBE, MEASURE, RECALL
from trace_tools.vocabularies import BORROWED, detected

# Told (process, place, how long nothing has changed): ("pass 1", "napkin_math", "line 42 for 30 s"), mostly with "".
Progress = Callable[[str, str, str], None]

OUTPUT_BYTES = 1 << 20  # of what a process writes to its standard error, the end, that stay
STALLED_S = 10.0  # without a new line nor a new step; from then on it is told, every second

GRACE_S = 5.0  # what a process has to end after Ctrl-C
SPAWNING = ("multiprocessing", "concurrent")  # what starts processes; torch loads the first of them itself
# What a lecture names that would see its operators being counted: they are slower, and compiled ones run as they are.
CLOCKS = frozenset({"time", "timeit", "datetime", "benchmark", "profile", "profiler", "measure", "perf_counter"})
CLOCKS |= {"Timer", "Event", "compile"}
SURVEY = "survey"
CHILD, SURVEYING = "trace_tools.tracing.child", "trace_tools.tracing.survey"
THREADS = "OMP_NUM_THREADS"
HEARD = "heard"  # the pipe, in a run's folder, by which ranks tell their progress
STOPPED_WITH = f"{STOPPED} with the ranks that had failed"  # how a rank ended that torchrun ended
STUCK = "did nothing new"  # of a rank that no longer got on, unlike those that waited for it
SURVEYS = 3  # of a CPU, whose roof no datasheet gives


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be traced, and how."""

    lecture: Path
    out: Path = Path("rendered")
    device: str | None = None  # "cpu", "cuda", "cuda:N"; None for the best there is
    passes: int = 3
    seed: int = 0
    limit: int = 100
    only: str | None = None
    keep_going: bool = False
    inspect_all: bool = False
    name: str | None = None
    force: bool = False
    like: Trace | None = None  # of this machine, made a moment ago: it is not measured again
    vocabularies: tuple[str, ...] = ()  # of other tools, besides those that its imports tell of
    module: str | None = None  # "package.module": the lecture is that, and runs from where the package lies
    draft: bool = False  # one run, for a look at the pages: no time is worth much, and the machine is not measured
    include: tuple[str, ...] = ()  # modules beside the lecture, by path or name, that are traced with it
    ranks: int | None = None  # so many processes a pass, under torchrun
    timeout_s: float = 600.0  # after which ranks that no longer get on are ended, and nodes that do not come given up
    nodes: Nodes | None = None  # on so many machines, of which this is one
    survey: bool = False  # measure the machine, even if it was measured earlier and nothing of it has changed


class StoppedError(TraceToolsError):
    """`Tracer.stop` was called: nothing was written."""


class Tracer:
    """Runs the processes of one trace. Raises LectureError and UsageError before anything has run.

    A draft's are forked from `server`, or from one of its own, which begins to import torch at once; those of a lecture
    without torch are forked as well, since Python's start and the tools' would be most of what they do.
    """

    def __init__(
        self,
        request: Request,
        progress: Progress = lambda process, place, stalled: None,
        server: ForkServer | None = None,
    ) -> None:
        self.source = check_lecture(request.lecture, in_package=request.module is not None)
        self.package = (request.module or "").rpartition(".")[0]
        self.folder = request.lecture.resolve().parents[len(self.package.split(".")) if self.package else 0]
        self.name = request.lecture.resolve().relative_to(self.folder).as_posix()  # of the lecture, in its folder
        self.uses = imported(self.source, self.folder)
        imports = modules(self.source, self.folder)
        self.spawns = any(name.partition(".")[0] in SPAWNING for name in imports)
        found = detected(imports)
        self.vocabularies = [name for name in BORROWED if name in (*request.vocabularies, *found)]
        # Where it is not installed, what the lecture does without it is the lecture's to say.
        self.torch = ("torch" in self.uses and is_installed("torch")) or request.device not in (None, "cpu")
        self.request = request = replace(request, passes=1) if request.draft else request
        self.progress = progress
        self.shows_meters = mentions(self.source, self.folder, CLOCKS)
        self.skipped = skipped(self.source, request.only)
        self.modules = included.found(request.include, request.lecture) if request.include else []
        if request.device is not None:
            devices.checked(request.device)
        if request.ranks is not None and not self.torch:
            name = request.lecture.name
            raise UsageError(
                f"--ranks {request.ranks}: {name} uses no torch, and ranks are processes of torch.distributed"
            )
        refuse_request(self.source, request)
        self._interrupts = 0  # how often Ctrl-C was pressed
        self._device = "cpu"
        self._longest_s = 60.0  # that any process may be expected to take
        self._stopped = threading.Event()
        self._others: Leading | None = None  # the nodes that node 0 leads
        self._leader: Following | None = None  # or node 0, of another one
        self._port = 0  # where torchrun meets, of several nodes
        self._own = None
        if FORKS and request.ranks is None and (not self.torch or (request.draft and server is None)):
            with contextlib.suppress(OSError):  # which `run` will meet again, and tell of
                self._own = server = ForkServer(environment(), torch=self.torch)
        self._starter = server or Spawner()

    def stop(self) -> None:
        """Kill the processes at once and drop what they recorded: `run`, in another thread, raises StoppedError."""
        self._stopped.set()

    def run(self) -> Traced:
        """Trace the lecture; whatever happens to its processes, what they recorded is written.

        Raises UsageError where a file can't be written, a process can't be started, or what was recorded makes no
        trace, and KeyboardInterrupt for one that came when there was nothing to write yet, or already again. The
        journals are kept, and the error says where; an earlier trace stays as it was.
        """
        out, folder = self.request.out, None
        try:
            with self._own or contextlib.nullcontext(), self._leading(), run_folder(out) as folder:
                seconds = self._processes(folder)
                if self._stopped.is_set():
                    remove(folder)
                    raise StoppedError(f"{self.request.lecture.name}: stopped")
                try:
                    traced = merge_folder(folder, out)
                except (NothingRecordedError, UsageError, OSError, MemoryError):
                    raise
                except Exception as error:  # what this version recorded it should have been able to merge
                    kept = set_aside(folder, error)
                    raise UsageError(f"{kept.why}; its journals are kept in {kept.folder}") from error
                remove(folder)
                if self._others is not None:
                    self._others.how = traced.trace.run.ended
        except (NothingRecordedError, UsageError, OSError, MemoryError, KeyboardInterrupt) as error:
            left = folder is not None and folder.exists()
            if isinstance(error, KeyboardInterrupt) or (self.interrupted and isinstance(error, NothingRecordedError)):
                what = f"`recover {out}` makes the trace of what was recorded" if left else "nothing was recorded"
                raise KeyboardInterrupt(f"interrupted; {what}") from None
            if isinstance(error, NothingRecordedError):
                raise
            what = f"; `recover {out}` makes the trace of what was recorded once that is mended" if left else ""
            where = f"{out}: " if isinstance(error, OSError) and not error.filename else ""
            raise UsageError(f"{where}{in_words(error)}{what}") from error
        return replace(traced, seconds=seconds)

    def follow(self) -> str:
        """Run the ranks of a node other than the first, as that one says; return how all of it ended.

        The trace is made there. Raises LeaderError where node 0 refuses, or is no more, and UsageError as `run` does.
        """
        nodes = self.request.nodes
        assert nodes is not None
        folder = Path(tempfile.mkdtemp(prefix="trace-node-"))
        try:
            machine = self._surveyed(folder, 1, DESCRIBE)
            facts, timeout_s = self._facts(folder), self.request.timeout_s
            with Following(nodes, facts, machine.name, timeout_s, self._interrupted, self.stop) as self._leader:
                (folder / "lecture.py").write_text(self.source.text, encoding="utf-8", newline="")
                included.store(self.modules, folder)
                (folder / "machine.json").write_text(self._leader.machine, encoding="utf-8")
                (folder / "versions.json").write_text(self._leader.versions, encoding="utf-8")
                self._device = self._leader.device
                for name, port in self._leader.orders():
                    self._port = port
                    status, _ = self.process(name, folder)
                    output = folder / f"{name.replace(' ', '-')}.out"
                    self._leader.hand_in(folder, self._own_ranks, output, status)
            if self._leader.how is None:
                raise LeaderError("node 0 is no more: what its own ranks recorded lies there")
            return self._leader.how
        finally:
            private_folder.remove(folder)

    def _interrupted(self) -> None:
        self._interrupts += 1

    def _leading(self) -> contextlib.AbstractContextManager[object]:
        """Return what listens for other nodes, where there are any."""
        nodes = self.request.nodes
        if nodes is None:
            return contextlib.nullcontext()
        self._others = Leading(nodes, self.request.ranks or 0, self._stopped.is_set)
        return self._others

    def _facts(self, folder: Path) -> dict[str, Any]:
        """Return what all nodes must have in common, by the names by which it is said that they don't."""
        request = self.request
        included_texts = "".join(f"\0{module.name}\0{module.source.text}" for module in self.modules)
        asked = ("ranks", "passes", "seed", "limit", "only", "keep_going", "inspect_all", "draft", "module")
        return {
            LECTURE: hashlib.sha256((self.source.text + included_texts).encode()).hexdigest(),
            "trace-tools": __version__,
            **{f"--{name.replace('_', '-')}": getattr(request, name) for name in asked},
            "--nodes": request.nodes.count if request.nodes else 1,
            "--vocabulary": self.vocabularies,
            **dict(json.loads((folder / "versions.json").read_text(encoding="utf-8"))),
        }

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self._interrupts > 0

    def prepare(self, folder: Path) -> None:
        """Measure the machine, and write what is asked for into a run's folder."""
        (folder / "lecture.py").write_text(self.source.text, encoding="utf-8", newline="")
        included.store(self.modules, folder)
        request = self.request
        machine = self._survey(folder)
        self._device = machine.device
        nodes = None
        if self._others is not None:
            self.progress(SURVEY, "other nodes", "")
            nodes = [machine.name, *self._others.gather(folder, self._facts(folder), request.timeout_s)]
            texts = [(folder / name).read_text(encoding="utf-8") for name in ("machine.json", "versions.json")]
            self._others.tell(texts[0], texts[1], self._device)
        run = Run(
            lecture=self.name,
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            seed=request.seed,
            passes=request.passes,
            limit=request.limit,
            complete=False,
            only=request.only,
            commit=commit_of(request.lecture),
            keep_going=request.keep_going,
            inspect_all=request.inspect_all,
            ranks=request.ranks,
            nodes=nodes,
        )
        more = {"name": request.name, "beside": self._beside(), "metered": self._metered(), "force": request.force}
        (folder / "run.json").write_text(json.dumps({**to_plain(run), **more}), encoding="utf-8")

    def process(self, name: str, folder: Path) -> tuple[int, float]:
        """Run one process ("pass 1", METERING, SHAKEN) in a prepared folder; return its status and its time (s).

        What wrong clocks make of a lecture may take for ever: the shaken process has a limit.
        """
        started = time.monotonic()
        limit_s = 4 * self._longest_s if name == SHAKEN else None
        slug = name.replace(" ", "-")
        returned = self._child(name, folder, limit_s)
        (folder / f"{slug}.status").write_text(str(returned), encoding="utf-8")
        for rank in self._own_ranks:
            status = rank_folder(folder, rank) / f"{slug}.status"
            if not status.exists():  # else torchrun saw it fail
                status.write_text(STOPPED_WITH if returned else "0", encoding="utf-8")
        self._longest_s = max(self._longest_s, time.monotonic() - started)
        return returned, time.monotonic() - started

    @property
    def _own_ranks(self) -> range:
        """The ranks that run on this machine."""
        nodes, ranks = self.request.nodes, self.request.ranks or 0
        return range(ranks) if nodes is None else nodes.ranks_of(nodes.node, ranks)

    @property
    def _sees(self) -> str:
        """The device that a run's processes see: the card that was asked for, if it was one of several."""
        asked = self.request.device
        return asked if asked is not None and devices.kind(asked) == self._device else self._device

    @property
    def _together(self) -> bool:
        """Whether all processes run at once: on a GPU they would share its memory, which the lecture may count on."""
        return self.request.draft and self._device == "cpu" and self.request.ranks is None

    def _processes(self, folder: Path) -> list[tuple[str, float]]:
        self.prepare(folder)
        names = [*(f"pass {n}" for n in range(1, self.request.passes + 1)), *self._beside()]
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
        except KeyboardInterrupt:  # between two processes; `_wait` sees to the one that runs
            self._interrupts += 1
        return seconds

    def _came_with_torch(self, folder: Path) -> bool:
        """Return whether something that the lecture imports has loaded torch, which none of its own lines names."""
        return not self.torch and (folder / LOADED_TORCH).exists()

    def _with_torch(self, folder: Path) -> list[tuple[str, float]]:
        """Begin again with torch, with nothing of what was recorded without it."""
        for path in folder.iterdir():
            if path.is_file() and path.name != "lock":
                path.unlink()
        self.torch, self.request, self._starter = True, replace(self.request, like=None), Spawner()
        return self._processes(folder)

    def _beside(self) -> list[str]:
        """Return the processes besides the passes; for a draft, what only comparisons need is left out."""
        metering = [METERING] if self._metered() == METERING else []
        return [*metering, *([] if self.request.draft else [SHAKEN])]

    def _metered(self) -> str | None:
        """Return the process that is metered: without torch none. A draft's one run is, unless that would be seen."""
        if not self.torch:
            return None
        return "pass 1" if self.request.draft and not self.shows_meters else METERING

    def _at_once(self, names: Sequence[str], folder: Path) -> list[tuple[str, float]]:
        with ThreadPoolExecutor(len(names)) as pool:
            running = [(name, pool.submit(self.process, name, folder)) for name in names]
            while True:
                try:
                    return [(name, ended.result()[1]) for name, ended in running]
                except KeyboardInterrupt:  # `_wait` passes it on
                    self._interrupts += 1
                except BaseException:  # the pool waits for its threads, and they for their processes
                    self.stop()
                    raise

    def _survey(self, folder: Path) -> Machine:
        """Measure the machine in processes of their own, which leave no warm caches to the passes.

        A CPU's roof is the best of a few: the lecture, the head of the trace and every figure have the same.
        """
        like = self.request.like
        if like is not None:
            machine = like.machine
            (folder / "versions.json").write_text(json.dumps(like.versions), encoding="utf-8")
        elif self.torch:
            machine = self._surveyed(folder, 1, DESCRIBE if self.request.draft else RECALL)
        else:
            machine, found = machines.without_torch(versions_of(self.uses))
            (folder / "versions.json").write_text(json.dumps(found), encoding="utf-8")
        slug = machines.slug(self.request.name) if self.request.name else machine.slug
        if not self.request.force:
            refuse_other_lecture(self.request.out / slug / "trace.yaml", self.name)
        measured = any(peak.measured for peak in machine.peaks) and not surveys.are_recalled(machine)
        if like is None and self.torch and measured and machines.STORED not in os.environ:
            if machine.device == "cpu":
                again = range(2, min(self.request.passes, SURVEYS) + 1)
                machine = machines.with_best_peaks([machine, *(self._surveyed(folder, n, MEASURE) for n in again)])
            surveys.remember(machine, [*map(tuple, json.loads((folder / "versions.json").read_text(encoding="utf-8")))])
        (folder / "machine.json").write_text(machines.to_json(machine), encoding="utf-8")
        return machine

    def _surveyed(self, folder: Path, number: int, how: str) -> Machine:
        self.progress(SURVEY, "this machine", "")
        stored, said = folder / f"machine-{number}.json", folder / f"machine-{number}.out"
        arguments = [str(stored), self.request.device or "", MEASURE if self.request.survey else how]
        with said.open("wb") as output:
            process = self._starter.start(SURVEYING, arguments, output.fileno(), None, self._environment())
            try:
                while (status := process.ended()) is None:
                    if self._stopped.wait(0.01):
                        raise StoppedError(f"{self.request.lecture.name}: stopped")
            finally:
                process.kill()
        if status != 0:
            lines = said.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            line = lines[-1] if lines else f"this machine can't be measured: status {status}"
            raise UsageError(line.removeprefix("error: "))
        return machines.from_json(stored.read_text(encoding="utf-8"))

    def _child(self, name: str, folder: Path, limit_s: float | None) -> int:
        """Run one process to its end, or for so long; return its status, negative for a signal."""
        ranks = self.request.ranks
        listening, telling = os.pipe() if ranks is None else _named_pipe(folder / HEARD)
        slug = name.replace(" ", "-")
        request, path = self.request, folder / f"{slug}.json"
        lecture = request.lecture.resolve()
        side_by_side = self._together and name != METERING
        root = private_folder.root_for(folder, lecture, int(name.removeprefix("pass ")) if side_by_side else 0)
        job = Job(
            name=name,
            lecture=str(lecture),
            root=str(root),
            text=self.source.text,
            journal=str(folder / f"{slug}.journal"),
            device=self._device,
            torch=self.torch,
            draft=request.draft,
            counts=name == self._metered(),
            passes=request.passes,
            seed=request.seed,
            limit=request.limit,
            skipped=self.skipped,
            keep_going=request.keep_going,
            inspect_all=request.inspect_all,
            progress=telling,
            parent=self._starter.pid,
            vocabularies=self.vocabularies,
            spawns=self.spawns,
            package=self.package,
            roots=[str(private_folder.root_for(folder, lecture, rank)) for rank in range(ranks or 0)],
            rank=None,
            heard=str(folder / HEARD),
        )
        for rank in range(ranks or 0):
            rank_folder(folder, rank).mkdir(exist_ok=True)
        path.write_text(json.dumps(asdict(job)), encoding="utf-8")
        with (folder / f"{slug}.out").open("wb") as output, os.fdopen(listening, "rb") as progress:
            given = self._environment(stored=folder / "machine.json", device=self._sees)
            module, arguments = CHILD, [str(path)]
            if ranks is not None:
                module, arguments = TORCHRUN, [str(path), str(len(self._own_ranks)), *self._meeting()]
            if self._others is not None:
                self._others.begin(name, self._port, folder / HEARD)
            process = self._starter.start(module, arguments, output.fileno(), telling, given)
            if self._others is not None:
                process = OnAllNodes(process, self._others)
            os.close(telling)
            sign = _Sign(name, progress.fileno(), output.fileno())
            try:
                return self._wait(process, sign, limit_s)
            except BaseException:
                process.kill()
                raise
            finally:
                if self._others is not None:
                    self._others.done()
                self._tell_stuck(folder, slug, sign)
                for copy in map(Path, job.roots or [job.root]):
                    if copy.parent != folder.resolve():
                        private_folder.remove(copy)

    def _meeting(self) -> list[str]:
        """Return where torchrun meets those of other nodes: at a port that is free on node 0, which chooses it."""
        nodes = self.request.nodes
        if nodes is None:
            return []
        if self._others is not None:
            with socket.socket() as probe:
                probe.bind(("", 0))
                self._port = probe.getsockname()[1]
        return [str(nodes.count), str(nodes.node), nodes.host, str(self._port)]

    def _environment(self, stored: Path | None = None, device: str | None = None) -> dict[str, str]:
        """Return the environment of a process: of several ranks, each has one thread, as torchrun has it."""
        threads = {THREADS: "1"} if (self.request.ranks or 1) > 1 else {}
        return threads | environment(stored, device)

    def _tell_stuck(self, folder: Path, slug: str, sign: _Sign) -> None:
        """Write of each rank, where all had to be ended, in what it waited for the others, or that it did not."""
        for rank in range(self.request.ranks or 0) if sign.stuck else ():
            _, waiting = sign.ranks.get(rank, (0.0, None))
            told = f"{WAITED} in {waiting}" if waiting else STUCK
            status = rank_folder(folder, rank) / f"{slug}.status"
            status.write_text(f"{told} for {self.request.timeout_s:g} s, ended", encoding="utf-8")

    def _wait(self, process: Running, sign: _Sign, limit_s: float | None) -> int:
        deadline, interrupts = None, 0
        ends = time.monotonic() + limit_s if limit_s is not None else None
        while True:
            try:
                self._listen(sign)
                if (status := process.ended()) is not None:
                    return status
                over = any(at is not None and time.monotonic() > at for at in (ends, deadline))
                sign.stuck = sign.stuck or (self._leader is None and sign.stalled_s > self.request.timeout_s)
                if self._stopped.is_set() or over or sign.stuck:
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

    def _listen(self, sign: _Sign) -> None:
        """Hear what a process tells of itself for a moment, and pass it on; say where it is if nothing changes."""
        ready, _, _ = select.select([sign.progress], [], [], 0.05)
        sign.bound_output()
        lines = os.read(sign.progress, 65536) if ready else b""
        if ready and not lines:
            time.sleep(0.005)  # the other end is closed: the process is about to end
        for line in lines.splitlines():
            with contextlib.suppress(ValueError):
                said = json.loads(line)
                if self._leader is not None:
                    self._leader.relay(said)
                place, *where = said[1:]
                if place != sign.place:
                    self.progress(sign.name, place, "")
                sign.place, sign.heard = place, time.monotonic()
                sign.line, sign.since_s, *rank = where or (None, 0)
                if rank:
                    sign.ranks[rank[0]] = (time.monotonic() - sign.since_s, rank[1])
        # A process that is silent, too, is in one long call of C, which lets nothing else run in it.
        stalled_s = round(sign.since_s + time.monotonic() - sign.heard)
        if stalled_s >= STALLED_S and stalled_s != sign.told_s:
            sign.told_s = stalled_s
            where_it_is = f"line {sign.line} for " if sign.line else "nothing new for "
            self.progress(sign.name, sign.place, f"{where_it_is}{stalled_s} s")


@dataclass
class _Sign:
    """The last sign of life of a process."""

    name: str
    progress: int  # the descriptor it comes by
    output: int  # that of the file which is its standard error
    place: str = "start"
    line: int | None = None
    since_s: float = 0.0  # for so long it had been there
    heard: float = field(default_factory=time.monotonic)
    told_s: int = 0  # what was told of it last
    given_back: int = 0  # bytes of its output that take no room any more
    ranks: dict[int, tuple[float, str | None]] = field(default_factory=dict)  # since when where they are, waiting in
    stuck: bool = False  # no rank got on any more

    @property
    def stalled_s(self) -> float:
        """For how long none of several ranks has got on that is in the lecture; 0 before, and of one process."""
        return time.monotonic() - max(since for since, _ in self.ranks.values()) if self.ranks else 0.0

    def bound_output(self) -> None:
        """Keep the end of what the process wrote to its standard error: a warning in a loop fills a disk."""
        size = os.fstat(self.output).st_size
        if size - self.given_back > 2 * OUTPUT_BYTES:
            give_back(self.output, self.given_back, size - OUTPUT_BYTES)
            self.given_back = size - OUTPUT_BYTES


def _named_pipe(path: Path) -> tuple[int, int]:
    """Make a pipe that other processes open by its name; return both its ends, for reading and for writing."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    listening = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    return listening, os.open(path, os.O_WRONLY)


def check_lecture(path: Path, *, in_package: bool = False) -> ParsedSource:
    """Read and check a lecture; raises LectureError where it is no lecture."""
    source = read_source(path)
    name = path.name.encode("utf-8", "backslashreplace").decode()  # as a file can hold it
    if (why := why_not_inside(name)) is not None:  # it stands in the trace, and pages look for it beside them
        raise LectureError(path, None, f"can't be a lecture's name: {why}")
    refuse_uncompilable(source)
    parse_directives(source)
    refuse_without_main(source)
    if not in_package:
        refuse_relative_imports(source)
    return source


def refuse_request(source: ParsedSource, request: Request) -> None:
    """Raise UsageError at what no machine could do with a lecture: no such section, or it can't be on so many ranks."""
    skipped(source, request.only)
    if request.passes < 1 or request.limit < 2:
        raise UsageError(f"passes: {request.passes}, limit: {request.limit}; expected at least 1 and 2")
    ranks, nodes = request.ranks, request.nodes
    if ranks is None:
        if nodes is not None:
            raise UsageError(f"--nodes {nodes.count}: expected --ranks with it, how many there are on all of them")
        return
    if not 1 <= ranks <= MOST_RANKS:
        raise UsageError(f"--ranks {ranks}: expected 1 to {MOST_RANKS:,}")
    if request.timeout_s <= 0:
        raise UsageError(f"--timeout {request.timeout_s:g}: expected seconds above 0")
    if nodes is not None and ranks % nodes.count:
        raise UsageError(f"--ranks {ranks}: expected as many on each of {nodes.count} nodes")
    possible = rank_counts(source)
    if possible and ranks not in possible:
        counts = " or ".join(filter(None, (", ".join(map(str, possible[:-1])), str(possible[-1]))))
        raise UsageError(f"--ranks {ranks}: {request.lecture.name} runs on {counts} ranks, says its RANKS")


def skipped(source: ParsedSource, only: str | None) -> list[str]:
    """Return the functions that `main` is not to call, so that only one section runs."""
    names = sections(source)
    if only is None:
        return []
    if only not in names:
        calls = ", ".join(f"`{name}`" for name in names) or "none"
        raise UsageError(f"--only {only}: main calls no such function of the lecture; it calls {calls}")
    return [name for name in names if name != only]
