"""Run a lecture under probes in one process of a trace, cold and then warm, and write its journal.

    python -m trace_tools.tracing.worker job.json

The parent writes the job and reads the journal. The process also writes a `Progress` to the descriptor `progress`: at
the start of a run, for each function that `main` calls, and each second. In the journal, the records of a run are
between a `RunStart` and a `RunEnd`.
"""

from __future__ import annotations

import ast
import atexit
import builtins
import contextlib
import contextvars
import gc
import importlib
import json
import linecache
import os
import re
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib.machinery import SourceFileLoader
from importlib.util import spec_from_file_location
from os import fstat, getppid, write  # imported now, because a lecture may replace them in `os`
from pathlib import Path
from sys import _current_frames, _getframe
from time import monotonic, perf_counter_ns  # imported now, because runs with perturbed clocks replace them
from typing import TYPE_CHECKING, Any, Literal, NoReturn
from urllib.parse import unquote

from trace_tools.describing.redact import MARGIN, Redactor
from trace_tools.describing.safe_repr import class_name
from trace_tools.describing.threads import unsignalled
from trace_tools.lecture import vocabulary
from trace_tools.machines import accelerators, host
from trace_tools.machines.devices import visible
from trace_tools.metering import measurement
from trace_tools.metering.measurement import NOTHING_COUNTED, Measurement, Witness, witnessed
from trace_tools.metering.threads import OtherThreads, in_words
from trace_tools.source.directives import parse_directives
from trace_tools.source.statements import parse_source
from trace_tools.trace.identities import (
    CLOCKS_DOWN,
    CLOCKS_UP,
    COLD,
    COMPLETE,
    METERING,
    OTHER_SEEDS,
    PERTURBED,
    WARM,
    Ending,
    ProcessId,
    RunId,
)
from trace_tools.trace.model import NOT_METERED, Image, Narrative, Video
from trace_tools.trace.structure import to_plain
from trace_tools.tracing import failures, included
from trace_tools.tracing.inspect_all import inspect_all
from trace_tools.tracing.instrument import Instrumented, instrument
from trace_tools.tracing.isolation.ending import WAIT_S, limited, processes_of_session, wait_for_others
from trace_tools.tracing.isolation.flush_on_exit import written_before
from trace_tools.tracing.isolation.output_capture import OutputFile, printing
from trace_tools.tracing.isolation.plain_events import plain_events
from trace_tools.tracing.isolation.plain_signals import plain_signals
from trace_tools.tracing.isolation.private_folder import LINKS, inside, leave, make
from trace_tools.tracing.isolation.process_settings import working_directory
from trace_tools.tracing.isolation.process_state import Leftovers, seed_everything, seed_what_comes
from trace_tools.tracing.isolation.spawned import adopted_in_spawned, saying_what_is_untraced
from trace_tools.tracing.journal import FAILED, Journal, ProcessNote, RunEnd, RunStart, rank_folder
from trace_tools.tracing.options import TraceOptions
from trace_tools.tracing.progress import Progress
from trace_tools.tracing.rank_barrier import meet, meeting_at
from trace_tools.tracing.recorder.claims import TimedClaims
from trace_tools.tracing.recorder.frames import exit_status, exits_well
from trace_tools.tracing.recorder.output import shortened
from trace_tools.tracing.recorder.recorder import Recorder, hooks, shown
from trace_tools.tracing.recorder.recording import Instruments, Settings
from trace_tools.tracing.recorder.retention import BOUNDS, TEXT

if TYPE_CHECKING:
    from trace_tools.metering.meters import Meter
    from trace_tools.tracing.edtrace_hook import Adoption

_ENDS = 16 * BOUNDS["stdout"].of_step  # characters at each end of a long print that are searched for secrets
WRITING_S = 0.2  # wait of an abrupt end for the thread that writes the journal, which may be the caller
FETCHED = "fetched"  # folder in the run's folder: network answers, fetched once for all processes
LOADED_TORCH = "loaded-torch"  # file in the run's folder: torch was loaded unexpectedly
A_DRAFT = "a draft: one run"
HOSTS_CLOCK = (
    "HostClock: the device's clock leaves out what the host did between two kernels: `measure` took the host's, which "
    "waited for the device"
)
A_COUNTED_DRAFT = f"{A_DRAFT}, which was counted as it ran: small operators take longer so"
EXCEPT_TIMED = "; nothing was counted in functions that read a clock"
MAIN_MODULE, SPAWNING_MODULE = "__main__", "__mp_main__"
SIGN_S = 1.0  # interval of reports to the parent


_DISTRIBUTED = os.path.join("torch", "distributed", "distributed_c10d.py")


@dataclass(frozen=True, slots=True)
class Job:
    """The task of one process."""

    name: str  # "pass 1", METERING, PERTURBED
    lecture: str  # absolute path
    root: str  # private copy of the lecture's folder, where it runs
    text: str  # source as the parent read it
    journal: str
    options: TraceOptions  # `vocabularies` are all that the lecture may use
    device: str  # device type: "cpu", "cuda"
    torch: bool  # whether the lecture needs torch; else it is not loaded
    counts: bool  # whether the first run is metered
    clock_readers: list[int]  # functions that measure time: that run is not metered in them
    skipped: list[str]  # functions that `main` must not call
    progress: int  # file descriptor
    parent: int  # process id
    spawns: bool  # whether an import of the lecture may start processes
    roots: list[str]  # private copy of each rank, if there are several; torchrun sets the rank
    rank: int | None  # rank of this process, once it is known
    rank_progress: str  # path of the pipe for the progress of ranks, because torchrun passes no descriptors

    @property
    def path(self) -> str:
        """The path of the lecture in its private copy, where it runs."""
        return str(inside(Path(self.root), Path(self.lecture)))

    @property
    def folder(self) -> Path:
        """The folder of the lecture, or the folder that contains its outermost package."""
        package = self.options.package
        above = package.count(".") + 1 if package else 0
        return Path(self.lecture).parents[above]

    @property
    def run_folder(self) -> Path:
        """The folder of the run, which contains the folders of ranks."""
        return Path(self.journal).parents[1 if self.roots else 0]

    def of_rank(self, rank: int) -> Job:
        """Return the job of one rank, with its own journal, private copy, progress pipe and parent."""
        journal = rank_folder(Path(self.journal).parent, rank) / Path(self.journal).name
        progress = os.open(self.rank_progress, os.O_WRONLY)
        root = self.roots[rank]
        return replace(self, journal=str(journal), root=root, rank=rank, progress=progress, parent=getppid())

    @property
    def metering(self) -> bool:
        return self.name == METERING

    @property
    def runs(self) -> tuple[str, ...]:
        """The names of this process's runs, in order."""
        if self.name == PERTURBED:
            return CLOCKS_UP, CLOCKS_DOWN, *([OTHER_SEEDS] if self.device != "cpu" else [])
        return (COLD,) if self.metering or self.options.draft else (COLD, WARM)


def main(job_path: str) -> int:
    """Run the job; return 0 if every run was complete, EX_IOERR if the journal could not be written, else 1.

    After a failure of the tools, return EX_SOFTWARE and keep the traceback next to the journal.
    """
    plain, this_process = json.loads(Path(job_path).read_text(encoding="utf-8")), os.getpid()
    job = Job(**{**plain, "options": TraceOptions.from_plain(plain["options"])})
    if job.roots:
        job = job.of_rank(int(os.environ["RANK"]))
    try:
        return _run_job(job)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        sys.excepthook(*sys.exc_info())
        if os.getpid() == this_process and failures.is_ours(error):
            failures.keep(Path(job.journal), error)
        return os.EX_SOFTWARE


def _run_job(job: Job) -> int:
    source, options = parse_source(job.text, job.lecture), job.options
    directives = [*parse_directives(source), *(inspect_all(source) if options.inspect_all else ())]
    skipped = frozenset(job.skipped)
    program = instrument(source, directives, skipped, keep_going=options.keep_going, main=options.main)
    modules = included.stored(job.run_folder)
    programs = included.instrumented([source, *(module.source for module in modules)])
    if modules:
        sys.meta_path.insert(0, included.Loading(modules, programs))
    program = included.together([program, *programs])
    # Compiled again for each run, because dynamo caches by code object, together with the globals of the old module.
    codes = {run: compile(program.tree, job.path, "exec", dont_inherit=True) for run in job.runs}
    # large syntax trees would slow the lecture's garbage collection
    program = replace(program, tree=ast.Module([], []))
    del source, directives
    linecache.cache[job.path] = (len(job.text), None, job.text.splitlines(keepends=True), job.path)
    journal = Journal(Path(job.journal))
    os.set_blocking(job.progress, False)
    try:
        process = _Process(job, program, codes, journal, frozenset(module.name for module in modules))
        os.register_at_fork(after_in_child=process.forget)
        ending = process.run()
    except BaseException:
        journal.close(complete=False)
        raise

    def end(left: list[str]) -> int:
        """Close the journal; return the exit status. The parent kills whatever still runs in this session."""
        if left:
            process.note("notes", [f"still running when it had ended: {', '.join(left)}"])
        journal.close(complete=ending == COMPLETE)
        return os.EX_IOERR if journal.trouble else 0 if ending == COMPLETE else 1

    with limited(lambda left: os._exit(end(left))):  # else a process that exit functions wait for could block this one
        process.context.run(atexit._run_exitfuncs)
    return end(processes_of_session())


class _Process:
    def __init__(
        self,
        job: Job,
        program: Instrumented,
        codes: dict[str, types.CodeType],
        journal: Journal,
        included: frozenset[str],
    ) -> None:
        self.is_compiling: Callable[[], bool] = bool
        self.records_graph: Callable[[], bool] = bool
        if job.torch:
            with unsignalled():  # torch's threads must not handle the lecture's signals
                import torch  # before the lecture, so that seeds and settings are equal in each run

                from trace_tools.describing import tensors  # noqa: F401  (else the first @inspect would wait for it,
                from trace_tools.metering import meters  # noqa: F401  and the first `count` for this)
                from trace_tools.metering.graph_recording import records_graph

            self.records_graph = records_graph
            self.is_compiling = torch.compiler.is_dynamo_compiling
            if (gpu := accelerators.accelerator(job.device)) is not None:
                gpu.watch_captures()
        self.job = job
        self.program = program
        self.included = included
        self.codes = codes
        self.journal = journal
        self.redact = Redactor.of_this_machine(private=job.root)
        self.output = OutputFile(Path(job.journal).with_suffix(".stdout"), self.redact)
        self.recorder: Recorder | None = None
        self.forked = False  # whether this is the child of a fork
        self.timed_claims: TimedClaims | None = None
        if job.name in (METERING, PERTURBED):
            self.timed_claims = TimedClaims(Path(job.journal).parent, job.options.passes)
        self.context = contextvars.Context()  # context of the last run
        self.peak_device_bytes = 0
        self.visible = visible()  # a lecture that changes it renumbers its devices
        self.port: int | None = None  # meeting port of the ranks in this run; None: torchrun's own store
        self.place = ""  # last section reported to the parent
        self.listener = os.fstat(job.progress).st_ino
        self.adoption: Adoption | None = None
        if job.options.vocabularies:
            from trace_tools.tracing.edtrace_hook import Adoption

            self.adoption = Adoption(job.options.vocabularies, kept=job.run_folder / FETCHED)
            sys.meta_path.insert(0, self.adoption)

    def run(self) -> Ending:
        """Run the lecture as often as the job requires, each time from the same state; return how it ended."""
        from trace_tools.machines.machine import conditions

        self.note("notes", conditions())
        began = host.cpu_time()
        folder = inside(Path(self.job.root), self.job.folder)
        sys.argv[:] = [self.job.path]
        if not sys.flags.safe_path:  # the first entry is the folder where the tracer was started
            del sys.path[0]
        sys.path.insert(0, str(folder))
        seed_what_comes(self.job.options.seed)
        before = Leftovers.read(folder)
        self.note("notes", before.unread)
        first, *others = self.job.runs
        ending = self._run(first)
        self._note_peaks()
        for name in others if ending == COMPLETE else ():
            held = self._held_on_gpu()  # like the value after the next run, this includes the module's tensors
            left = before.restore()
            self.note("restored", left.restored)
            stuck = f"left behind: {'; '.join(left.stuck)}" if left.stuck else None
            if self.job.roots:
                run = str(RunId(ProcessId.parse(self.job.name), name))
                stuck, self.port = meet(run, self.job.rank or 0, len(self.job.roots), stuck)
            if stuck:  # a run from another state would not be the warm run of the first
                self.note("why_no_warm", stuck)
                break
            again = self._run(name)
            self._note_peaks()
            if (kept := self._held_on_gpu() - held) > 0:
                self.note(
                    "notes", [f"{kept:,} bytes more were allocated on the GPU after the {name} run than before it"]
                )
            if again != COMPLETE:  # the earlier runs are usable, and the trace gives the reason
                self.note("why_no_warm", str(again))
                ending = again if again.detail == "KeyboardInterrupt" else COMPLETE
                break
        if self.job.options.draft and not self.job.metering:
            excepted = EXCEPT_TIMED if self.job.clock_readers else ""
            self.note("why_no_warm", A_COUNTED_DRAFT + excepted if self.job.counts else A_DRAFT)
        self.note("notes", conditions())
        if (cores := host.other_cores(began, host.cpu_time())) is not None:
            self.note("other_cores", cores)
        self.note("done", str(ending))
        if "torch" in sys.modules and not self.job.torch:
            (self.job.run_folder / LOADED_TORCH).touch()
        return ending

    def _run(self, name: str) -> Ending:
        from trace_tools.describing.values import Describer

        self.journal.write([(RunStart, name)])
        self._progress(name)
        seed_everything(self.job.options.seed)
        gpu = accelerators.accelerator(self.job.device)
        settings = Settings(
            limit=self.job.options.limit,
            failing_claims_raise=not self.job.options.keep_going,
            timed_claims=self.timed_claims,
            opaque=frozenset({measurement.measure.__code__, measurement.count.__code__}),
            describe_values=not self.job.metering,
            included=self.included,
            unmetered=frozenset(self.job.clock_readers) if self.job.counts and not self.job.metering else frozenset(),
        )
        meter = None
        if self.job.counts:
            from trace_tools.metering.meters import Meter

            meter = Meter(device=gpu.type if gpu else None, apart=bool(self.job.roots), compiling=True)
        describer = Describer(redact=self.redact)
        instruments = Instruments(describer, gpu, meter, self._progress, self.output, self.records_graph)
        recorder = self.recorder = Recorder(self.program, self.journal, instruments, settings)
        module = self._module(recorder)
        ending = COMPLETE
        with contextlib.ExitStack() as stack:
            if self.job.roots:
                stack.enter_context(meeting_at(self.port))
            stack.enter_context(self._private_folder())
            self._observe(name, recorder, meter, stack)
            stack.enter_context(_listening(recorder, self.redact, self.job.folder))
            if self.job.spawns or "multiprocessing.process" in sys.modules:
                stack.enter_context(saying_what_is_untraced(recorder))
                if self.adoption is not None:
                    stack.enter_context(adopted_in_spawned(Path(self.job.journal).with_suffix(".spawned.py")))
            stack.enter_context(recorder.watching(self._alive(recorder)))
            stack.enter_context(plain_events(self.job.path, _Process._run.__code__))
            if self.adoption is not None:
                stack.enter_context(self.adoption.run(self.job.folder, self.job.root, recorder))
            stack.enter_context(plain_signals(self.job.path, _Process._run.__code__))
            stack.enter_context(written_before(partial(self._write, recorder)))
            self.output.connect()
            ended_by: BaseException | None = None
            started = perf_counter_ns()
            try:
                # An empty context as in a new process, without variables of the tools or of the run before.
                here = self.context = contextvars.Context()
                if self.job.options.package:
                    here.run(importlib.import_module, self.job.options.package)
                here.run(exec, self.codes.pop(name), vars(module))
                shown(vars(module))
                here.run(vars(module)[self.job.options.main])
            except BaseException as error:
                if failures.is_of_probes(error) and not self.forked:
                    raise
                ended_by = error
                if self.job.roots and not self.forked:  # the trace gives the reason of the rank that failed first
                    Path(self.job.journal).with_suffix(FAILED).touch()
            ns = perf_counter_ns() - started
            if self.forked:
                _end_as_plain(ended_by)
            try:
                left = wait_for_others(self._progress)
            except KeyboardInterrupt as error:
                left, ended_by = [], ended_by or error
            except BaseException:  # from a signal handler: Python has no caller to raise it in
                left = []
            if left:
                self.note("notes", [f"still running {WAIT_S:g} s after the {name} run: {', '.join(left)}"])
            recorder.output.finish(recorder.last)
            recorder.namespace = {}  # later calls belong to no run, and the module's objects can be freed
            if ended_by is not None and not exits_well(ended_by):
                ending = Ending("raised", class_name(type(ended_by)), _line_in(ended_by, self.job.path))
            elif recorder.clock.device_failed:  # device code has not run since, and would not in a warm run
                ending = Ending.parse(recorder.clock.device_failed)
        if recorder.clock.floor_s is not None:
            self.note("floor_ns", max(1, round(1e9 * recorder.clock.floor_s)))
        refused = list(recorder.retention.refused.items())
        self.journal.write([*recorder.claims.evaluations.rows(), (RunEnd, str(ending), ns, refused)])
        return ending

    def _held_on_gpu(self) -> int:
        """Return the bytes that live tensors hold on the GPU at the end of a run, after a garbage collection."""
        gpu = accelerators.in_use()
        if gpu is None or not gpu.can_wait():
            return 0
        gc.collect()
        return gpu.allocated_bytes()

    def _note_peaks(self) -> None:
        """Note the peak RAM of this process, and its peak on the device since the lecture last reset it."""
        if (ram_bytes := host.peak_bytes()) is not None:
            self.note("peak_ram_bytes", ram_bytes)
        gpu = accelerators.in_use()
        if gpu is not None:
            self.peak_device_bytes = max(self.peak_device_bytes, gpu.peak_reserved_bytes())
            self.note("peak_device_bytes", self.peak_device_bytes)
            if self.job.roots and visible() == self.visible and (index := gpu.busiest()) is not None:
                self.note("device_index", index)

    def _write(self, recorder: Recorder) -> None:
        """Write the journal during the lecture, outside its measured time; do nothing in a forked child."""
        if not self.forked:
            with recorder.clock.excluded():
                recorder.writer.flush(wait_s=WRITING_S)

    def _module(self, recorder: Recorder) -> types.ModuleType:
        """Return the lecture's module, `__main__`, with the names that Python gives to a script.

        For a module inside a package, the names are the ones that `python -m` sets.
        """
        path, package = self.job.path, self.job.options.package
        loader = SourceFileLoader(f"{package}.{Path(path).stem}" if package else MAIN_MODULE, path)
        spec = spec_from_file_location(loader.name, path, loader=loader) if package else None
        module = types.ModuleType(MAIN_MODULE)
        names = vars(module)
        names.update(__package__=package or None, __loader__=loader, __spec__=spec)
        if sys.version_info < (3, 14):
            names.update(__annotations__={})
        names.update(__builtins__=builtins, __file__=path, __cached__=spec.cached if spec else None)
        sys.modules[MAIN_MODULE] = module
        if "multiprocessing" in sys.modules:  # on import it registers the main module under this name
            sys.modules[SPAWNING_MODULE] = module
        # The hooks are built-in names, so that `globals()` holds only the lecture's names.
        vars(builtins).update(hooks(recorder, self.is_compiling))
        recorder.namespace = names
        return module

    @contextlib.contextmanager
    def _private_folder(self) -> Iterator[None]:
        """Work in a new private copy of the lecture's folder, and remove it at the end."""
        run, root, before = self.job.run_folder, Path(self.job.root), os.getcwd()
        place = make(Path(self.job.lecture), self.job.text, root, shared=[run, run.parent], folder=self.job.folder)
        importlib.invalidate_caches()  # import caches check a folder by its modification time
        folder = str(place.folder)
        os.chdir(folder)
        try:
            yield
        finally:
            if working_directory() == folder:
                os.chdir(before)  # if the lecture changed it, `Leftovers` must find that
            changed = [
                f"{self.redact(name)} is too large to copy, and the run changed the original"
                for name in place.changed()
            ]
            left_out = [
                f"{count:,} entries of {self.redact(str(above))} were not there: at most {LINKS:,} are linked"
                for above, count in place.left_out.items()
            ]
            self.note("notes", changed + left_out)
            leave(place)

    def _observe(self, name: str, recorder: Recorder, meter: Meter | None, stack: contextlib.ExitStack) -> None:
        """Meter a run, or perturb its clocks or seeds, until the stack unwinds; observe its `measure` and `count`."""
        from trace_tools.tracing.perturbed_clocks import perturb_clocks, perturb_seeds

        if name in (CLOCKS_UP, CLOCKS_DOWN):
            folder = Path(self.job.journal).parent
            stack.enter_context(perturb_clocks(self.job.options.seed, inverted=name == CLOCKS_DOWN, folder=folder))
        elif name == OTHER_SEEDS:
            stack.enter_context(perturb_seeds())
            seed_everything(self.job.options.seed)
        else:
            if meter is not None:
                stack.enter_context(meter)
            stack.enter_context(witnessed(_MeasureWitness(recorder, meter, single=self.job.metering)))

    def forget(self) -> None:
        """Stop recording in the child of a fork: the journal belongs to its parent."""
        self.forked = True
        self.journal.forget()
        if self.recorder is not None:
            self.recorder.forget()

    def note(self, field: str, content: Any) -> None:
        self.journal.write([(ProcessNote, field, content)])

    def _progress(self, place: str) -> None:
        if place == self.place or self.forked:
            return
        self.place = place
        self._send(Progress(self.job.name, place))

    def _send(self, message: Progress) -> None:
        with contextlib.suppress(OSError):  # the parent has stopped reading, or is stopped
            if fstat(self.job.progress).st_ino == self.listener:  # else the lecture closed the pipe
                write(self.job.progress, message.to_json())

    def _alive(self, recorder: Recorder) -> Callable[[], None]:
        """Return the function that the watching thread calls.

        It ends this process if the parent has ended, reports the lecture's position each second, and registers for
        dynamo's compilations once dynamo is loaded.
        """
        listening_to_dynamo = False
        seen: tuple[int | None, Any] = (None, None)  # line, number of opened steps
        since = sent = monotonic()

        def alive() -> None:
            nonlocal listening_to_dynamo, seen, since, sent
            now = monotonic()
            if now - sent >= SIGN_S:
                sent = now
                here = (_line_now(self.job.path), recorder.sequence.__self__.__reduce__()[1])  # type: ignore[attr-defined]
                if here != seen:
                    seen, since = here, now
                waits_in = _waiting_in() if self.job.roots else None
                stalled_s = round(now - since)
                self._send(Progress(self.job.name, self.place, seen[0], stalled_s, self.job.rank, waits_in))
            if getppid() != self.job.parent:
                recorder.writer.flush()
                os._exit(1)
            handler = getattr(sys.modules.get("torch._dynamo.callback"), "callback_handler", None)
            if handler is not None and not listening_to_dynamo:
                listening_to_dynamo = True
                handler.register_start_callback(lambda *_: recorder.mark("compiled"))

        return alive


class _MeasureWitness(Witness):
    """Marks the steps that run `measure` or `count`, and records each measurement.

    A timed run records its seconds. A metered run also records the counts of one call of the function, between two
    readings of the meter. The parent combines both, so a rate refers to one call. The time and operators of the step
    itself cover hundreds of calls, which its mark states.
    """

    def __init__(self, recorder: Recorder, meter: Meter | None, *, single: bool) -> None:
        self.recorder = recorder
        self.meter = meter
        self.single = single
        self.under_way: list[_Measuring] = []  # a measured function may measure

    def began(self, word: Literal["measure", "count"]) -> None:
        self.recorder.mark("harness")
        if self.meter and word == "measure":
            self.under_way.append(_Measuring(self.meter))

    def called_once(self) -> None:
        if self.meter:
            self.under_way[-1].first_call_ended()

    def repeating(self) -> None:
        if self.meter:
            self.under_way[-1].stop()

    def measured(self, measurement: Measurement) -> Measurement:
        counts = self.under_way[-1].counts() if self.meter else {}
        self.recorder.emit("measured", {"seconds": measurement.seconds, **counts})
        if not self.meter and measurement.device == "cpu" and accelerators.in_use() is not None:
            self.recorder.emit("warnings", HOSTS_CLOCK)
        return measurement

    def ended(self) -> None:
        if self.meter:
            self.under_way.pop().end()


class _Measuring:
    """A call of `measure` in a metered run: only the first call of each of its functions is counted."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.before = meter.reading()
        self.others = OtherThreads()
        self.stopped = False
        self.counted: list[dict[str, Any]] = []  # counts of each first call, as fields of `model.Measured`

    def first_call_ended(self) -> None:
        """Read the meter at the end of a first call; the next function's first call may follow."""
        self.others.end()
        now = self.meter.reading()
        self.counted.append(self._counts((now - self.before).plain()))
        self.before, self.others = now, OtherThreads()

    def stop(self) -> None:
        """Switch the meter off until the measurement ends."""
        self.others.end()
        self.stopped = self.meter.stop()

    def end(self) -> None:
        """Resume counting."""
        self.others.end()
        if self.stopped:
            self.meter.go_on()

    def counts(self) -> dict[str, Any]:
        """Return the counts of the next function's first call."""
        return self.counted.pop(0)

    def _counts(self, counted: dict[str, Any]) -> dict[str, Any]:
        if self.meter.stopped:  # in a function that reads a clock
            return {"why": NOT_METERED}
        if not counted["operators"]:
            worked = self.others.worked()
            return {"why": in_words(worked) if worked else NOTHING_COUNTED}
        figures = ("flops", "bytes_read", "bytes_written", "dtype", "operators", "work", "why")
        more = ("collectives", "uncounted", "meta_flops")
        return {name: counted[name] for name in figures} | {name: counted[name] for name in more if counted[name]}


@contextlib.contextmanager
def _listening(recorder: Recorder, redact: Callable[[str], str], real: Path | None = None) -> Iterator[None]:
    """Record narrative calls, printed text, warnings, and the frame that started each thread.

    `real` is the lecture's folder if the lecture runs in a copy of it.
    """
    start = threading.Thread.start

    def recorded_start(self: threading.Thread) -> None:
        recorder.ownership.starts(self, _getframe(1))
        start(self)

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        said = f"{category.__name__}: {message}"[: TEXT + MARGIN]
        recorder.emit("warnings", redact(said)[:TEXT])

    def hear(told: Narrative) -> None:
        path = told.url if isinstance(told, Image) else ""  # or a video
        made = real is not None and os.path.isfile(path) and not os.path.exists(os.path.join(real, path))
        if isinstance(told, Image) and not isinstance(told, Video) and made:
            try:
                told = replace(told, url=vocabulary.as_data(path))
            except (OSError, ValueError) as error:
                recorder.emit("warnings", redact(f"NotShown: image: {error}"))
        elif path and not _is_there(path, real):
            recorder.emit("warnings", redact(f"NotShown: {told.kind}: {path!r} is not there, in the lecture's folder"))
        told = replace(told, filled=recorder.take_filled())
        recorder.emit("narrative", _redacted(to_plain(shortened(told)), redact))

    show_before = warnings.showwarning
    warnings.showwarning = show
    threading.Thread.start = recorded_start  # type: ignore[method-assign]
    try:
        with (
            printing(lambda text: recorder.printed(_ends_redacted(text, redact))),
            vocabulary.listening(hear, recorder.clock.excluded),
        ):
            yield
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]
        warnings.showwarning = show_before


def _ends_redacted(text: str, redact: Callable[[str], str]) -> str:
    """Redact the parts of a text that may be kept.

    Of a very long text only the ends are redacted; the middle is replaced by as many dots, so that its length is
    counted.
    """
    if len(text) <= 2 * _ENDS:
        return redact(text)
    first, last = redact(text[:_ENDS])[:-MARGIN], redact(text[-_ENDS:])[MARGIN:]  # a cut could halve a secret
    return first + "." * (len(text) - 2 * _ENDS + 2 * MARGIN) + last


def _is_there(path: str, real: Path | None) -> bool:
    """Return whether an image or video is an address, or a file in the lecture's folder or where it runs."""
    if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]+:", path):  # an address
        return True
    names = {path, unquote(path)}
    return any(os.path.isfile(os.path.join(folder, name)) for folder in ("", real or "") for name in names)


def _redacted(plain: Any, redact: Callable[[str], str]) -> Any:
    if isinstance(plain, str):
        return plain if plain.startswith("data:image/") else redact(plain)  # encoded data has no words to redact
    if isinstance(plain, list | tuple):
        return [_redacted(item, redact) for item in plain]
    if isinstance(plain, dict):
        return {key: _redacted(value, redact) for key, value in plain.items()}
    return plain


def _end_as_plain(error: BaseException | None) -> NoReturn:
    """End this process as Python ends a script, in the child of a fork that returned from the lecture."""
    if isinstance(error, SystemExit):
        status = exit_status(error)
        if not isinstance(error.code, int | None):
            sys.stderr.write(f"{error.code}\n")
    else:
        status = int(error is not None)
    if status and error is not None and not isinstance(error, SystemExit):
        sys.excepthook(type(error), error, error.__traceback__)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(status)


def _line_now(path: str) -> int | None:
    """Return the line of the lecture where the main thread is."""
    frame = _current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and frame.f_code.co_filename != path:
        frame = frame.f_back
    return frame.f_lineno if frame is not None else None


def _waiting_in() -> str | None:
    """Return the torch.distributed function that the main thread called, while it is in one; else None."""
    frame = _current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and not frame.f_code.co_filename.endswith(_DISTRIBUTED):
        frame = frame.f_back
    while frame is not None and frame.f_back is not None and frame.f_back.f_code.co_filename.endswith(_DISTRIBUTED):
        frame = frame.f_back
    return frame.f_code.co_name if frame is not None else None


def _line_in(error: BaseException, path: str) -> int | None:
    """Return the last line of the lecture in the traceback, or None."""
    entry, line = error.__traceback__, None
    while entry is not None:
        if entry.tb_frame.f_code.co_filename == path:
            line = entry.tb_lineno
        entry = entry.tb_next
    return line


if __name__ == "__main__":  # the lecture takes this name, so no code of the tools may have it
    from trace_tools.tracing import worker

    ended_with = worker.main(sys.argv[1])
    sys.stderr.flush()
    os._exit(ended_with)  # threads that the lecture left don't keep the process
