"""One process of a trace: runs the lecture under probes, cold and then warm, into its journal.

    python -m trace_tools.tracing.child job.json

The parent writes the job and reads the journal. What comes out besides: lines of JSON on the
descriptor `progress`, one when a run starts and one for each function that `main` calls.
In the journal each run's records stand between a `RunStart` and a `RunEnd`.
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
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from os import fstat, getppid, write  # now: a lecture may put others in `os`
from pathlib import Path
from sys import _current_frames, _getframe
from time import monotonic, perf_counter_ns  # likewise, as shaken runs do
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from trace_tools import accelerators, narrative
from trace_tools.describing.redact import MARGIN, Redactor
from trace_tools.describing.safe_repr import class_name
from trace_tools.describing.threads import unsignalled
from trace_tools.directives import parse_directives
from trace_tools.file_format.structure import to_plain
from trace_tools.machines import host
from trace_tools.metering import measurement
from trace_tools.metering.measurement import NOTHING_COUNTED, Measurement, Witness, witnessed
from trace_tools.statements import parse_source
from trace_tools.tracing import included
from trace_tools.tracing.bounds import BOUNDS, TEXT, shortened
from trace_tools.tracing.claims import TimedClaims
from trace_tools.tracing.ending import WAIT_S, limited, processes_of_session, wait_for_others
from trace_tools.tracing.inspect_all import inspect_all
from trace_tools.tracing.instrument import Instrumented, instrument
from trace_tools.tracing.journal import FAILED, Journal, ProcessNote, RunEnd, RunStart, rank_folder
from trace_tools.tracing.leftovers import Leftovers, seed_everything, seed_what_comes
from trace_tools.tracing.meeting import meet, meeting_at
from trace_tools.tracing.plain_events import plain_events
from trace_tools.tracing.plain_signals import plain_signals
from trace_tools.tracing.private_folder import LINKS, inside, leave, make
from trace_tools.tracing.process_settings import working_directory
from trace_tools.tracing.recorder import Instruments, Recorder, Settings, exit_status, exits_well, hooks, shown
from trace_tools.tracing.runs import CLOCKS_DOWN, CLOCKS_UP, COLD, COMPLETE, METERING, OTHER_SEEDS, SHAKEN, WARM
from trace_tools.tracing.spawned import saying_what_is_untraced
from trace_tools.tracing.standard_output import OutputFile, printing
from trace_tools.tracing.sudden_ends import written_before

if TYPE_CHECKING:
    from trace_tools.metering.meters import Meter, Totals
    from trace_tools.tracing.adopted import Adoption

_ENDS = 16 * BOUNDS["stdout"].of_step  # characters of what is printed at once that are searched for secrets
WRITING_S = 0.2  # for so long what ends the process at once waits for who writes the journal: it may be its caller
FETCHED = "fetched"  # a folder in the run's: what was asked of others on the network, once for all processes
LOADED_TORCH = "loaded-torch"  # a file in the run's folder: torch came by the way, where nobody had expected it
A_DRAFT = "a draft: one run"
A_COUNTED_DRAFT = f"{A_DRAFT}, which was counted as it ran: small operators take longer so"
SIGN_S = 1.0  # after so long the parent is told again where the lecture is


_DISTRIBUTED = os.path.join("torch", "distributed", "distributed_c10d.py")

_as_json = json.JSONEncoder().encode  # a lecture may put another function in the place of `json.dumps`


@dataclass(frozen=True, slots=True)
class Job:
    """What one process is to do."""

    name: str  # "pass 1", METERING, SHAKEN
    lecture: str  # absolute path
    root: str  # of its private copy, which is where it runs
    text: str  # the source, as the parent read it
    journal: str
    device: str  # its type: "cpu", "cuda"
    torch: bool  # whether the lecture needs it: else it is not loaded
    draft: bool  # one run is enough
    counts: bool  # whether its first run is metered
    passes: int
    seed: int
    limit: int
    skipped: list[str]  # functions that `main` is not to call
    keep_going: bool
    inspect_all: bool
    progress: int  # file descriptor
    parent: int  # process id
    vocabularies: list[str]  # of other tools, in whose words the lecture may be written
    spawns: bool  # whether something that it imports may start processes
    package: str  # that it is a module of, "" for none
    roots: list[str]  # of the copies of each rank, where there are several: torchrun says which one this is
    rank: int | None  # of several, once that is known
    heard: str  # the path of a pipe by which ranks tell their progress, whose descriptors torchrun passes none of

    @property
    def path(self) -> str:
        """The path of the lecture as it runs, in its private copy."""
        return str(inside(Path(self.root), Path(self.lecture)))

    @property
    def folder(self) -> Path:
        """The folder of the lecture, or of the outermost package that it is in."""
        above = self.package.count(".") + 1 if self.package else 0
        return Path(self.lecture).parents[above]

    @property
    def run_folder(self) -> Path:
        """The folder of the run, in which the ranks have theirs."""
        return Path(self.journal).parents[1 if self.roots else 0]

    def of_rank(self, rank: int) -> Job:
        """Return the job of one rank: its journal, its copy of the lecture's folder, its parent."""
        journal = rank_folder(Path(self.journal).parent, rank) / Path(self.journal).name
        telling = os.open(self.heard, os.O_WRONLY)
        root = self.roots[rank]
        return replace(self, journal=str(journal), root=root, rank=rank, progress=telling, parent=getppid())

    @property
    def metering(self) -> bool:
        return self.name == METERING

    @property
    def runs(self) -> tuple[str, ...]:
        """The names of the runs in this process, in order."""
        if self.name == SHAKEN:
            return CLOCKS_UP, CLOCKS_DOWN, *([OTHER_SEEDS] if self.device != "cpu" else [])
        return (COLD,) if self.metering or self.draft else (COLD, WARM)


def main(job_path: str) -> int:
    """Run the job; return 0 when every run of it was complete, EX_IOERR when the journal could not be written."""
    job = Job(**json.loads(Path(job_path).read_text(encoding="utf-8")))
    if job.roots:
        job = job.of_rank(int(os.environ["RANK"]))
    source = parse_source(job.text, job.lecture)
    directives = [*parse_directives(source), *(inspect_all(source) if job.inspect_all else ())]
    program = instrument(source, directives, frozenset(job.skipped), keep_going=job.keep_going)
    modules = included.stored(job.run_folder)
    programs = included.instrumented([source, *(module.source for module in modules)])
    if modules:
        sys.meta_path.insert(0, included.Loading(modules, programs))
    program = included.together([program, *programs])
    # Compiled anew for each run: dynamo keeps what it made of a code object, with the old module's globals.
    codes = {run: compile(program.tree, job.path, "exec", dont_inherit=True) for run in job.runs}
    program = replace(program, tree=ast.Module([], []))  # a large lecture's trees would slow its garbage collection
    del source, directives
    linecache.cache[job.path] = (len(job.text), None, job.text.splitlines(keepends=True), job.path)
    journal = Journal(Path(job.journal))
    os.set_blocking(job.progress, False)
    process = _Process(job, program, codes, journal, frozenset(module.name for module in modules))
    os.register_at_fork(after_in_child=process.forget)
    status = process.run()

    def end(left: list[str]) -> int:
        """Close the journal; return the status to end with. The parent kills whatever runs on in this session."""
        if left:
            process.note("notes", [f"still running when it had ended: {', '.join(left)}"])
        journal.close(complete=status == COMPLETE)
        return os.EX_IOERR if journal.trouble else 0 if status == COMPLETE else 1

    with limited(lambda left: os._exit(end(left))):  # else a process that it waits for would keep it
        atexit._run_exitfuncs()
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
        if job.torch:
            with unsignalled():  # its threads are none of the lecture's
                import torch  # before the lecture does, so that seeds and settings are the same in each run

                from trace_tools.describing import tensors  # noqa: F401  (else the first @inspect would wait for it,
                from trace_tools.metering import meters  # noqa: F401  and the first `count` for this)

            self.is_compiling = torch.compiler.is_compiling
        self.job = job
        self.program = program
        self.included = included
        self.codes = codes
        self.journal = journal
        self.redact = Redactor.of_this_machine(private=job.root)
        self.output = OutputFile(Path(job.journal).with_suffix(".stdout"), self.redact)
        self.recorder: Recorder | None = None
        self.forked = False  # this is the child of a fork
        self.timed_claims: TimedClaims | None = None
        if job.name in (METERING, SHAKEN):
            self.timed_claims = TimedClaims(Path(job.journal).parent, job.passes)
        self.module_name: str | None = None
        self.peak_device_bytes = 0
        self.port: int | None = None  # where the ranks meet in this run; None for torchrun's own store
        self.place: str | None = None  # the last one told to the parent
        self.listener = os.fstat(job.progress).st_ino
        self.adoption: Adoption | None = None
        if job.vocabularies:
            from trace_tools.tracing.adopted import Adoption

            self.adoption = Adoption(job.vocabularies, kept=job.run_folder / FETCHED)
            sys.meta_path.insert(0, self.adoption)

    def run(self) -> str:
        """Run the lecture as often as the job says, each time from the same state; return how that ended."""
        from trace_tools.machines.machine import conditions

        self.note("notes", conditions())
        folder = inside(Path(self.job.root), self.job.folder)
        sys.argv[:] = [self.job.path]
        if not sys.flags.safe_path:  # the folder where the tracer was started
            del sys.path[0]
        sys.path.insert(0, str(folder))
        seed_what_comes(self.job.seed)
        before = Leftovers.read(folder)
        self.note("notes", before.unread)
        first, *others = self.job.runs
        status = self._run(first)
        self._note_peaks()
        for name in others if status == COMPLETE else ():
            held = self._held_on_gpu()  # as after that run, with what the module itself holds
            left = before.restore()
            self.note("restored", left.restored)
            stuck = f"left behind: {'; '.join(left.stuck)}" if left.stuck else None
            if self.job.roots:
                stuck, self.port = meet(f"{self.job.name}, {name}", self.job.rank or 0, len(self.job.roots), stuck)
            if stuck:  # a run that begins otherwise than the first would not be its warm one
                self.note("why_no_warm", stuck)
                break
            again = self._run(name)
            self._note_peaks()
            if (kept := self._held_on_gpu() - held) > 0:
                self.note(
                    "notes", [f"{kept:,} bytes more were allocated on the GPU after the {name} run than before it"]
                )
            if again != COMPLETE:  # the runs before serve, and the trace says why
                self.note("why_no_warm", again)
                status = again if again.startswith("KeyboardInterrupt") else COMPLETE
                break
        if self.job.draft and not self.job.metering:
            self.note("why_no_warm", A_COUNTED_DRAFT if self.job.counts else A_DRAFT)
        self.note("notes", conditions())
        self.note("done", status)
        if "torch" in sys.modules and not self.job.torch:
            (self.job.run_folder / LOADED_TORCH).touch()
        return status

    def _run(self, name: str) -> str:
        from trace_tools.describing.values import Describer

        self.journal.write([(RunStart, name)])
        self._progress(name)
        seed_everything(self.job.seed)
        gpu = accelerators.accelerator(self.job.device)
        settings = Settings(
            limit=self.job.limit,
            failing_claims_raise=not self.job.keep_going,
            timed_claims=self.timed_claims,
            opaque=frozenset({measurement.measure.__code__, measurement.count.__code__}),
            describe_values=not self.job.metering,
            included=self.included,
        )
        meter = None
        if self.job.counts:
            from trace_tools.metering.meters import Meter

            meter = Meter(device=gpu.type if gpu else None, apart=bool(self.job.roots))
        instruments = Instruments(Describer(redact=self.redact), gpu, meter, self._progress, self.output)
        recorder = self.recorder = Recorder(self.program, self.journal, instruments, settings)
        module = self._module(recorder)
        status = COMPLETE
        with contextlib.ExitStack() as stack:
            if self.job.roots:
                stack.enter_context(meeting_at(self.port))
            stack.enter_context(self._private_folder())
            self._observe(name, recorder, meter, stack)
            stack.enter_context(_listening(recorder, self.redact))
            if self.job.spawns or "multiprocessing.process" in sys.modules:
                stack.enter_context(saying_what_is_untraced(recorder))
            stack.enter_context(recorder.watching(self._alive(recorder)))
            stack.enter_context(plain_events(self.job.path, _Process._run.__code__))
            if self.adoption is not None:
                stack.enter_context(self.adoption.run(self.job.folder, self.job.root))
            stack.enter_context(plain_signals(self.job.path, _Process._run.__code__))
            stack.enter_context(written_before(partial(self._write, recorder)))
            self.output.connect()
            ended_by: BaseException | None = None
            started = perf_counter_ns()
            try:
                here = contextvars.copy_context()  # the context variables that the lecture sets go with it
                if self.job.package:
                    vars(here.run(importlib.import_module, self.job.package))[Path(self.job.path).stem] = module
                here.run(exec, self.codes.pop(name), vars(module))
                shown(vars(module))
                here.run(module.main)
            except BaseException as error:
                ended_by = error
                if self.job.roots and not self.forked:  # of several ranks that fail, the first one tells why
                    Path(self.job.journal).with_suffix(FAILED).touch()
            ns = perf_counter_ns() - started
            if self.forked:
                _end_as_plain(ended_by)
            try:
                left = wait_for_others(self._progress)
            except KeyboardInterrupt as error:
                left, ended_by = [], ended_by or error
            except BaseException:  # of a signal's handler: Python has nobody to raise it to
                left = []
            if left:
                self.note("notes", [f"still running {WAIT_S:g} s after the {name} run: {', '.join(left)}"])
            recorder.finish()
            recorder.namespace = {}  # what calls from now on is of no run; and the module's objects can go
            if ended_by is not None and not exits_well(ended_by):
                status = f"{class_name(type(ended_by))} at line {_line_in(ended_by, self.job.path)}"
        self.journal.write([*recorder.evaluations.rows(), (RunEnd, status, ns, list(recorder.refused.items()))])
        return status

    def _held_on_gpu(self) -> int:
        """Return what tensors hold of the GPU's allocator at the end of a run: what nobody refers to is not held."""
        gpu = accelerators.in_use()
        if gpu is None or not gpu.can_wait():
            return 0
        gc.collect()
        return gpu.allocated_bytes()

    def _note_peaks(self) -> None:
        """Note the most memory that this process has held: on a device, since the lecture last reset its peaks."""
        if (ram_bytes := host.peak_bytes()) is not None:
            self.note("peak_ram_bytes", ram_bytes)
        gpu = accelerators.in_use()
        if gpu is not None:
            self.peak_device_bytes = max(self.peak_device_bytes, gpu.peak_reserved_bytes())
            self.note("peak_device_bytes", self.peak_device_bytes)

    def _write(self, recorder: Recorder) -> None:
        """Write the journal while the lecture is at work, which takes it no time; a forked child has none."""
        if not self.forked:
            with recorder.apart():
                recorder.flush(wait_s=WRITING_S)

    def _module(self, recorder: Recorder) -> types.ModuleType:
        """Return the module the lecture runs in: registered, not `__main__`, on the search path."""
        path = Path(self.job.path)
        name = f"{path.stem}_lecture" if path.stem in {*sys.stdlib_module_names, *sys.modules} else path.stem
        name = f"{self.job.package}.{path.stem}" if self.job.package else name
        name = self.module_name = self.module_name or name
        module = types.ModuleType(name)
        sys.modules[name] = module
        # Among the built-in names, so that `globals()` is the lecture's own.
        vars(builtins).update(hooks(recorder, self.is_compiling))
        recorder.namespace = vars(module)
        module.__file__ = str(path)
        module.__package__ = self.job.package or None
        return module

    @contextlib.contextmanager
    def _private_folder(self) -> Iterator[None]:
        """Work in a new private copy of the lecture's folder, and remove it at the end."""
        run, root, before = self.job.run_folder, Path(self.job.root), os.getcwd()
        place = make(Path(self.job.lecture), self.job.text, root, shared=[run, run.parent], folder=self.job.folder)
        importlib.invalidate_caches()  # they know a folder by its time
        folder = str(place.folder)
        os.chdir(folder)
        try:
            yield
        finally:
            if working_directory() == folder:
                os.chdir(before)  # else it stays for `Leftovers` to find
            changed = [
                f"{self.redact(name)} is too large for a copy: the run changed the file itself"
                for name in place.changed()
            ]
            left_out = [
                f"{count:,} entries of {self.redact(str(above))} were not there: at most {LINKS:,} are linked"
                for above, count in place.left_out.items()
            ]
            self.note("notes", changed + left_out)
            leave(place)

    def _observe(self, name: str, recorder: Recorder, meter: Meter | None, stack: contextlib.ExitStack) -> None:
        """Meter or shake a run until the stack unwinds, and see what `measure` and `count` do in it."""
        from trace_tools.tracing.shaken import shaken_clocks, shaken_devices

        if name in (CLOCKS_UP, CLOCKS_DOWN):
            folder = Path(self.job.journal).parent
            stack.enter_context(shaken_clocks(self.job.seed, inverted=name == CLOCKS_DOWN, folder=folder))
        elif name == OTHER_SEEDS:
            stack.enter_context(shaken_devices())
            seed_everything(self.job.seed)
        else:
            if meter is not None:
                stack.enter_context(meter)
            stack.enter_context(witnessed(_MeasureWitness(recorder, meter)))

    def forget(self) -> None:
        """Record nothing more: in the child of a fork, the journal is its parent's."""
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
        self._tell([self.job.name, place])

    def _tell(self, sign: list[Any]) -> None:
        with contextlib.suppress(OSError):  # a parent that no longer listens, or has stopped
            if fstat(self.job.progress).st_ino == self.listener:  # else the lecture has closed it
                write(self.job.progress, _as_json(sign).encode() + b"\n")

    def _alive(self, recorder: Recorder) -> Callable[[], None]:
        """Return what the watching thread does: end with the parent, tell it each second where the lecture is, and
        listen to dynamo once it is there."""
        listening_to_dynamo = False
        seen: tuple[int | None, Any] = (None, None)  # the line, and how many steps were opened
        since = told = monotonic()

        def alive() -> None:
            nonlocal listening_to_dynamo, seen, since, told
            now = monotonic()
            if now - told >= SIGN_S:
                told = now
                here = (_line_now(self.job.path), recorder.sequence.__self__.__reduce__()[1])  # type: ignore[attr-defined]
                if here != seen:
                    seen, since = here, now
                rank = [self.job.rank, _waiting_in()] if self.job.roots else []
                self._tell([self.job.name, self.place, seen[0], round(now - since), *rank])
            if getppid() != self.job.parent:
                recorder.flush()
                os._exit(1)
            handler = getattr(sys.modules.get("torch._dynamo.callback"), "callback_handler", None)
            if handler is not None and not listening_to_dynamo:
                listening_to_dynamo = True
                handler.register_start_callback(lambda *_: recorder.mark("compiled"))

        return alive


class _MeasureWitness(Witness):
    """Marks the steps in which `measure` or `count` run, and records each measurement.

    In a timed run that is its seconds, in a metered one what one call of its function did, too, between two readings of
    the meter: the parent puts both together, and so a rate is that of one call. The time and the operators of the
    step itself are those of hundreds of calls; its mark says so.
    """

    def __init__(self, recorder: Recorder, meter: Meter | None) -> None:
        self.recorder = recorder
        self.meter = meter
        self.single = meter is not None
        self.before: list[Totals] = []  # of the measurements under way: a measured function may measure

    def began(self, word: Literal["measure", "count"]) -> None:
        self.recorder.mark("harness")
        if self.meter and word == "measure":
            self.before.append(self.meter.reading())

    def measured(self, measurement: Measurement) -> Measurement:
        one_call: dict[str, Any] = {"seconds": measurement.seconds}
        if self.meter:
            counted = (self.meter.reading() - self.before.pop()).plain()
            figures = ("flops", "bytes_read", "bytes_written", "dtype", "operators", "collectives", "work", "why")
            counts = {name: counted[name] for name in figures if name != "collectives" or counted[name] != []}
            one_call |= counts if counted["operators"] else {"why": NOTHING_COUNTED}
        self.recorder.emit("measured", one_call)
        return measurement


@contextlib.contextmanager
def _listening(recorder: Recorder, redact: Callable[[str], str]) -> Iterator[None]:
    """Record narrative calls, what is printed, warnings, and which thread was started by which frame."""
    start = threading.Thread.start

    def recorded_start(self: threading.Thread) -> None:
        owner = recorder.owner(_getframe(1))
        if owner is not None:
            recorder.starts(self, owner)
        start(self)

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        said = f"{category.__name__}: {message}"[: TEXT + MARGIN]
        recorder.emit("warnings", redact(said)[:TEXT])

    show_before = warnings.showwarning
    warnings.showwarning = show
    threading.Thread.start = recorded_start  # type: ignore[method-assign]
    try:
        with (
            printing(lambda text: recorder.printed(_ends_redacted(text, redact))),
            narrative.listening(
                lambda told: recorder.emit("narrative", _redacted(to_plain(shortened(told)), redact)), recorder.apart
            ),
        ):
            yield
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]
        warnings.showwarning = show_before


def _ends_redacted(text: str, redact: Callable[[str], str]) -> str:
    """Redact what may be kept of a text: of a very long one only far less than its ends; the rest is counted."""
    if len(text) <= 2 * _ENDS:
        return redact(text)
    first, last = redact(text[:_ENDS])[:-MARGIN], redact(text[-_ENDS:])[MARGIN:]  # a cut could halve a secret
    return first + "." * (len(text) - 2 * _ENDS + 2 * MARGIN) + last


def _redacted(plain: Any, redact: Callable[[str], str]) -> Any:
    if isinstance(plain, str):
        return plain if plain.startswith("data:image/") else redact(plain)  # its letters say nothing
    if isinstance(plain, list):
        return [_redacted(item, redact) for item in plain]
    if isinstance(plain, dict):
        return {key: _redacted(value, redact) for key, value in plain.items()}
    return plain


def _end_as_plain(error: BaseException | None) -> NoReturn:
    """End this process as Python ends a script: in the child of a fork, which returned from the lecture."""
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
    """Return the function of torch.distributed that the main thread has called last, as long as it is in one."""
    frame = _current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and not frame.f_code.co_filename.endswith(_DISTRIBUTED):
        frame = frame.f_back
    while frame is not None and frame.f_back is not None and frame.f_back.f_code.co_filename.endswith(_DISTRIBUTED):
        frame = frame.f_back
    return frame.f_code.co_name if frame is not None else None


def _line_in(error: BaseException, path: str) -> int | None:
    """Return the line of the lecture that the traceback ends at, or nearest to."""
    entry, line = error.__traceback__, None
    while entry is not None:
        if entry.tb_frame.f_code.co_filename == path:
            line = entry.tb_lineno
        entry = entry.tb_next
    return line


if __name__ == "__main__":
    ended_with = main(sys.argv[1])
    sys.stderr.flush()
    os._exit(ended_with)  # threads that the lecture left behind don't keep the process
elif __name__ == "__mp_main__":  # a child of `multiprocessing`, which begins anew
    from trace_tools.tracing.adopted import adopt_in_spawned

    adopt_in_spawned()
