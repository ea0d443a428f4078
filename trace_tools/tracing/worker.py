"""Run a lecture under probes in one process of a trace, cold, warm and maybe counted, and write its journal.

    python -m trace_tools.tracing.worker RUN pass-1

The tracer writes the job into the folder RUN and reads the journal there, with the records of a run between a
`RunStart` and a `RunEnd`. On standard output, which then becomes the lecture's, it receives messages on the progress.
Without arguments (see `process`), this imports torch and then obeys the requests on standard input, one a line:
["survey", …] describes the machine, and ["run", "RUN", "pass-1"] is the last.
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
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib.machinery import SourceFileLoader
from importlib.util import spec_from_file_location
from os import getppid  # imported now, because a lecture may replace them in `os`
from pathlib import Path
from time import perf_counter_ns  # imported now, because a lecture may replace it in `time`
from typing import TYPE_CHECKING, Any, NoReturn

from trace_tools.describing.guarded_repr import class_name
from trace_tools.describing.redact import Redactor
from trace_tools.edtrace.words import adopt_words
from trace_tools.machines import accelerators, devices, host
from trace_tools.machines.machine import STORED
from trace_tools.metering import measurement
from trace_tools.source.directives import parse_directives
from trace_tools.source.statements import ParsedSource, parse_source, uncalled_main
from trace_tools.trace.records import COLD, COMPLETE, COUNTED, RECORDING, WARM, Ending, ProcessId
from trace_tools.tracing import failures, survey
from trace_tools.tracing.instrument import Instrumented, inspect_all, instrument
from trace_tools.tracing.isolation.ending import WAIT_S, flush_on_exit, still_running, wait_for_others
from trace_tools.tracing.isolation.output_capture import OutputFile, out_of_the_way
from trace_tools.tracing.isolation.private_folder import make, written
from trace_tools.tracing.isolation.restore import State, seed_everything, working_directory
from trace_tools.tracing.job import WRITTEN, Job
from trace_tools.tracing.journal import Journal, Note, RunEnd, RunStart, unsignalled
from trace_tools.tracing.listening import MeasureWitness, listening
from trace_tools.tracing.progress import ProgressSender
from trace_tools.tracing.ranks import meeting, rank
from trace_tools.tracing.recorder.recorder import Recorder, exit_status, exits_well, hooks, shown
from trace_tools.util import formats
from trace_tools.util.interpreter import replaced

if TYPE_CHECKING:
    from trace_tools.metering.meters import Meter

WRITING_S = 0.2  # wait of an abrupt end for the thread that writes the journal, which may be the caller
A_DRAFT = "a draft: one run"


def main(*arguments: str) -> int:
    """Run a pass; return 0 if every run was complete, EX_IOERR if the journal could not be written, else 1.

    After a failure of the tools, return EX_SOFTWARE and keep the traceback next to the journal.
    """
    progress, this_process = out_of_the_way(os.dup(1)), os.getpid()
    os.dup2(2, 1)
    if not arguments:
        load_torch()
    while not arguments:
        match json.loads(sys.stdin.readline() or "null"):
            case ["survey", *of_survey]:
                if (child := os.fork()) == 0:  # else what it allocates on a GPU would be among the lecture's memory
                    os._exit(survey.main(*of_survey))
                status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                os.write(progress, json.dumps({"status": status}).encode() + b"\n")
            case ["run", *of_run]:
                arguments = tuple(of_run)
                nothing = os.open(os.devnull, os.O_RDONLY)
                os.dup2(nothing, 0)
                os.close(nothing)
            case _:  # the tracer no longer needs this process
                return 0
    folder, name = Path(arguments[0]), ProcessId.parse(arguments[1])
    try:
        return _Pass(Job.read(folder), folder, name, ProgressSender(progress)).run()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        sys.excepthook(*sys.exc_info())
        if os.getpid() == this_process and failures.is_ours(error):
            failures.keep(folder / name.file_stem, error)
        return os.EX_SOFTWARE


def load_torch() -> None:
    """Import torch, and what describes and counts tensors: else the first `@inspect` and `count` would wait for it."""
    with unsignalled():  # torch's threads must not handle the lecture's signals
        importlib.import_module("torch")
        for module in ("describing.tensors", "describing.torch_modes", "metering.meters"):
            importlib.import_module(f"trace_tools.{module}")


class _Pass:
    """The runs of the lecture in this process, and their common state."""

    def __init__(self, job: Job, folder: Path, name: ProcessId, progress: ProgressSender) -> None:
        self.job, self.folder, self.name, self.progress = job, folder, name, progress
        # For the lecture and its processes: the measured machine, the driver's name of the GPU, and no other GPU.
        os.environ[STORED] = str(folder / "machine.json")
        with contextlib.suppress(FileNotFoundError):  # no GPU was looked for
            os.environ[host.IDENTITY] = (folder / host.IDENTITY_FILE).read_text(encoding="utf-8")
        os.environ.update(devices.environment(job.options.device or job.device))
        self.is_compiling: Callable[[], bool] = lambda: False  # not `bool`: dill sends built-in types by their names
        self.records_graph: Callable[[], bool] = bool
        if job.torch:
            load_torch()  # before the lecture, so that seeds and settings are equal in each run
            from trace_tools.metering.compiling import records_graph

            self.records_graph = records_graph
            self.is_compiling = sys.modules["torch"].compiler.is_dynamo_compiling
        if job.torch or "numpy" in job.text:  # before the lecture, so that its generator is seeded
            # with what describes arrays: importlib drops what a signal's handler raises in an import
            with contextlib.suppress(ImportError):
                importlib.import_module("trace_tools.describing.arrays")
        self.runs = [COLD] if job.options.draft else [COLD, WARM]
        self.runs += [COUNTED] if job.torch and not job.options.draft and name == job.passes[0] else []
        source = parse_source(job.text, job.lecture)
        self.main = uncalled_main(source)  # the function to call after the module, if the file does not call it
        self.program = self._instrumented(source)
        # Compiled for each run, because dynamo caches by code object, together with the globals of the old module.
        self.codes = {run: compile(self.program.tree, job.path, "exec", dont_inherit=True) for run in self.runs}
        # large syntax trees would slow the lecture's garbage collection
        self.program = replace(self.program, tree=ast.Module([], []))
        linecache.cache[job.path] = (len(job.text), None, job.text.splitlines(keepends=True), job.path)
        self.redact = Redactor.of_this_machine(private=(job.root, str(job.folder)))
        self.output = OutputFile(folder / f"{name.file_stem}.stdout", self.redact)
        self.journal = Journal(folder / f"{name.file_stem}.journal")
        self.recorder: Recorder | None = None
        self.forked = False  # whether this is the child of a fork
        self.raised: set[int] = set()  # claims that have raised an error in a run of this process
        self.context = contextvars.Context()  # context of the last run
        self.peak_device_bytes = 0  # since the lecture last reset it
        os.register_at_fork(after_in_child=self.forget)
        adopt_words(job.root)

    def _instrumented(self, source: ParsedSource) -> Instrumented:
        """Insert the probes into the lecture."""
        options = self.job.options
        directives = [*parse_directives(source), *(inspect_all(source) if options.inspect_all else ())]
        skipped = frozenset(self.job.skipped)
        return instrument(source, directives, skipped, keep_going=bool(options.keep_going))

    def run(self) -> int:
        """Run the lecture and its exit functions; return this process's status."""
        try:
            ending = self._run_all()
        except BaseException:
            self.journal.close()
            raise

        def end(running: list[str]) -> int:
            """Close the journal; return the exit status. The parent kills whatever still runs in this session."""
            if running:
                self.note("notes", [f"still running after the lecture had ended: {', '.join(running)}"])
            self.journal.close()
            return os.EX_IOERR if self.journal.failed else 0 if ending == COMPLETE else 1

        # Without a limit, a process that exit functions wait for could block this one.
        limit = threading.Timer(WAIT_S, lambda: os._exit(end(still_running())))
        limit.daemon = True
        limit.start()
        threading._shutdown()  # type: ignore[attr-defined]  # ends pools, or exit functions wait for their workers
        self.context.run(atexit._run_exitfuncs)
        limit.cancel()
        return end([])

    def _run_all(self) -> Ending:
        """Run the lecture as often as the job requires, each time from the same state; return how it ended."""
        self.note("notes", host.notes(self.job.device))
        began = host.cpu_time()
        folder = Path(self.job.root)
        sys.argv[:] = [self.job.path]
        sys.path.insert(0, str(folder))
        before = State.read(folder)
        ending = self._run(COLD)
        for name in self.runs[1:] if ending == COMPLETE else ():
            held_bytes = _held_on_gpu()  # as after the next run, with the module's tensors
            restored, left = before.restore()
            self.note("restored", restored)
            if left:  # a run from another state would not be the warm run of the first
                self.note("why_no_warm", f"left behind: {'; '.join(left)}")
                break
            again = self._run(name)
            if (kept := _held_on_gpu() - held_bytes) > 0:
                self.note(
                    "notes", [f"{kept:,} bytes more were allocated on the GPU after the {name} run than before it"]
                )
            if again != COMPLETE and name == COUNTED:
                self.note("notes", [f"counting ended early: {again}"])
            elif again != COMPLETE:  # the earlier runs are usable, and the trace gives the reason
                self.note("why_no_warm", str(again))
                ending = again if again.detail == "KeyboardInterrupt" else COMPLETE
                break
        if self.job.options.draft:
            self.note("why_no_warm", A_DRAFT)
        self.note("notes", host.notes(self.job.device))
        # the other ranks of this machine are other sessions, and no load
        if rank() is None and (cores := host.other_cores(began, host.cpu_time())) is not None:
            self.note("other_cores", cores)
        if "torch" in sys.modules and not self.job.torch:  # by a package that does not say that it requires torch
            self.note("notes", ["no peaks, FLOPs or bytes: an import loaded torch; add `import torch` to the lecture"])
        self.note("done", str(ending))
        return ending

    def _run(self, name: str) -> Ending:
        """Run the lecture once."""
        self.journal.write([RunStart(name)])
        self.progress.enter(name)
        seed_everything(self.job.options.seed)
        recorder, meter = self._new_recorder(counted=name == COUNTED)
        self.recorder = recorder
        module = _new_main_module(self.job.path, self.job.options.package)
        # The hooks are built-in names, so that `globals()` holds only the lecture's names.
        vars(builtins).update(hooks(recorder, self.is_compiling))
        recorder.namespace = vars(module)
        ending = COMPLETE
        with (
            meeting(self.name, self.runs.index(name)),  # the ranks of this run, and of no other
            self._private_folder(),  # left after all that may still write: exit functions, threads
            meter or contextlib.nullcontext(),  # counts operators, also those in `measure` and `count`
            replaced(measurement, "witness", MeasureWitness(recorder, meter)),
            listening(recorder, self.redact, self.job.folder),  # prints, warnings, narrative, started threads
            recorder.watching(self._alive(recorder)),  # a thread writes the journal, and reports where the lecture is
            flush_on_exit(partial(self._write, recorder)),  # innermost: `os._exit` in the lecture writes all the above
        ):
            self.output.connect()
            ended_by: BaseException | None = None
            started = perf_counter_ns()
            try:
                # An empty context as in a new process, without variables of the tools or of the run before.
                context = self.context = contextvars.Context()
                if self.job.options.package:
                    context.run(importlib.import_module, self.job.options.package)
                context.run(exec, self.codes.pop(name), vars(module))
                if self.main is not None:
                    shown(vars(module))
                    context.run(vars(module)[self.main])
            except BaseException as error:
                if failures.is_of_probes(error) and not self.forked:
                    raise
                ended_by = error
            ns = perf_counter_ns() - started
            if isinstance(ended_by, KeyboardInterrupt):
                share = formats.percent(recorder.clock.lost * 1e9 / ns)
                self.note("notes", [f"{RECORDING} {share} of the {formats.duration(ns)} before Ctrl-C"])
            if self.forked:
                _end_as_plain(ended_by)
            hook = sys.excepthook
            if ended_by is not None and hook is not sys.__excepthook__ and not isinstance(ended_by, SystemExit):
                with contextlib.suppress(BaseException):  # Python, too, goes on
                    hook(type(ended_by), ended_by, ended_by.__traceback__)
            try:
                running = wait_for_others(self.progress.enter)
            except KeyboardInterrupt as error:
                running, ended_by = [], ended_by or error
            except BaseException:  # from a signal handler: Python has no caller to raise it in
                running = []
            if running:
                self.note("notes", [f"still running {WAIT_S:g} s after the {name} run: {', '.join(running)}"])
            recorder.finish_output()
            recorder.namespace = {}  # later calls belong to no run, and the module's objects can be freed
            if ended_by is not None and not exits_well(ended_by):
                ending = Ending("raised", class_name(type(ended_by)), _line_in(ended_by, self.job.path))
            elif recorder.clock.device_failed:  # device code has not run since, and would not in a warm run
                ending = Ending.parse(recorder.clock.device_failed)
        if recorder.clock.floor_s is not None:
            self.note("floor_ns", max(1, round(1e9 * recorder.clock.floor_s)))
        self.journal.write([RunEnd(str(ending), ns, [*recorder.limits.refused.items()])])
        if (ram_bytes := host.peak_bytes()) is not None:
            self.note("peak_ram_bytes", ram_bytes)
        if (gpu := accelerators.in_use()) is not None:
            self.peak_device_bytes = max(self.peak_device_bytes, gpu.peak_reserved_bytes())
            self.note("peak_device_bytes", self.peak_device_bytes)
        return ending

    def _new_recorder(self, *, counted: bool) -> tuple[Recorder, Meter | None]:
        from trace_tools.describing.values import Describer

        gpu = accelerators.accelerator(self.job.device)
        meter = None
        if counted:
            from trace_tools.metering.meters import Meter

            meter = Meter(device=gpu.type if gpu else None, compiling=True)
        recorder = Recorder(
            self.program,
            self.journal,
            Describer(redact=self.redact),
            gpu,
            meter,
            section=self.progress.enter,
            output=self.output,
            records_graph=self.records_graph,
            limit=self.job.options.limit,
            # The counted run is slow, so claims about time may fail in it. There only those raise that did before.
            failing_claims_raise=not (self.job.options.keep_going or counted),
            raised=self.raised,
        )
        return recorder, meter

    def _write(self, recorder: Recorder) -> None:
        """Write the journal during the lecture, outside its measured time, unless this is a forked child."""
        if not self.forked:
            with recorder.clock.excluded():
                recorder.write_open(WRITING_S)

    @contextlib.contextmanager
    def _private_folder(self) -> Iterator[None]:
        """Work in the private copy of the lecture's folder, as new; the tracer removes it."""
        run, copy, before = self.folder, Path(self.job.root), os.getcwd()
        stamps = {path: path.stat() for path in make(self.job.folder, copy, shared=[run, run.parent])}
        Path(self.job.path).write_text(self.job.text, encoding="utf-8", newline="")  # it may have been edited
        importlib.invalidate_caches()  # import caches check a folder by its modification time
        os.chdir(copy)
        try:
            yield
        finally:
            if working_directory() == str(copy):
                os.chdir(before)  # if the lecture changed it, `State` must find that
            for path, stamp in stamps.items():
                if not path.exists() or path.stat().st_mtime_ns != stamp.st_mtime_ns:
                    shown = self.redact(str(path))
                    self.note("notes", [f"{shown} is too large to copy, and the run changed the original"])
            names = set(written(self.job.folder, copy)) - {str(Path(self.job.path).relative_to(copy))}
            (run / WRITTEN).write_text(json.dumps(sorted(names)), encoding="utf-8")

    def forget(self) -> None:
        """Stop recording in the child of a fork, because the journal belongs to its parent."""
        self.forked = True
        self.progress.forget()
        self.journal.forget()
        if self.recorder is not None:
            self.recorder.forget()

    def note(self, field: str, content: Any) -> None:
        self.journal.write([Note(field, content)])

    def _alive(self, recorder: Recorder) -> Callable[[], None]:
        """Return the function that the watching thread calls.

        It reports the lecture's position, ends this process if the parent has ended, and registers for dynamo's
        compilations once dynamo is loaded.
        """
        report = self.progress.reporting(recorder, self.job.path)
        listening_to_dynamo = False

        def alive() -> None:
            nonlocal listening_to_dynamo
            report()
            if getppid() != self.job.parent:
                recorder.flush()
                os._exit(1)
            handler = getattr(sys.modules.get("torch._dynamo.callback"), "callback_handler", None)
            if handler is not None and not listening_to_dynamo:
                listening_to_dynamo = True
                handler.register_start_callback(lambda *_: recorder.mark("compiled"))

        return alive


def _held_on_gpu() -> int:
    """Return the bytes that live tensors hold on the GPU, after a garbage collection."""
    gpu = accelerators.in_use()
    if gpu is None or not gpu.can_wait():
        return 0
    gc.collect()
    return gpu.allocated_bytes()


def _new_main_module(path: str, package: str) -> types.ModuleType:
    """Register and return the lecture's module, `__main__`, with the names that Python gives to a script.

    For a module inside a package, the names are the ones that `python -m` sets.
    """
    loader = SourceFileLoader(f"{package}.{Path(path).stem}" if package else "__main__", path)
    spec = spec_from_file_location(loader.name, path, loader=loader) if package else None
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    vars(module).update(__package__=package or None, __loader__=loader, __spec__=spec)
    if sys.version_info < (3, 14):
        vars(module).update(__annotations__={})
    vars(module).update(__builtins__=builtins, __file__=path, __cached__=spec.cached if spec else None)
    if "multiprocessing" in sys.modules:  # on import it registers the main module under this name
        sys.modules["__mp_main__"] = module
    return module


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


def _line_in(error: BaseException, path: str) -> int | None:
    """Return the last line of the lecture in the traceback, if any."""
    entry, line = error.__traceback__, None
    while entry is not None:
        if entry.tb_frame.f_code.co_filename == path:
            line = entry.tb_lineno
        entry = entry.tb_next
    return line


if __name__ == "__main__":  # the lecture takes this name, so no code of the tools may have it
    from trace_tools.tracing import worker

    ended_with = worker.main(*sys.argv[1:])
    sys.stderr.flush()
    os._exit(ended_with)  # threads that the lecture left don't keep the process
