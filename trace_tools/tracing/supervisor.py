"""Trace a lecture: run one fresh process per pass, the first of which also counts, then merge their journals.

    traced = Tracer(Path("lecture.py"), Path("rendered"), TraceOptions(passes=5)).run()
    traced.path                   # rendered/cpu/trace.yaml, or rendered/cpu/partial/trace.yaml
    traced.trace.run.ended        # "complete", or how it ended

Journals are kept in OUT/.run-…, see `run_folder`.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from trace_tools.errors import FailedError, NothingRecordedError, TraceToolsError, UsageError, in_words
from trace_tools.machines import machine as machines
from trace_tools.source.imports import versions as versions_of
from trace_tools.source.statements import main_of
from trace_tools.trace.model import MAIN, Machine, Run, Trace
from trace_tools.trace.structure import to_plain
from trace_tools.tracing import failures, included, ranks
from trace_tools.tracing.job import WRITTEN
from trace_tools.tracing.options import DEFAULTS, TraceOptions
from trace_tools.tracing.plan import plan_of
from trace_tools.tracing.processes import FORKS, ForkServer, NotStartedError, Spawner, environment
from trace_tools.tracing.progress import Progress
from trace_tools.tracing.run_folder import (
    Stays,
    Traced,
    chosen_folder,
    dispose,
    merge_folder,
    remove,
    run_folder,
    set_aside,
)
from trace_tools.tracing.runner import SURVEY, ProcessRunner, StoppedError
from trace_tools.tracing.survey import DESCRIBE, MEASURE
from trace_tools.util.git import commit_of


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
        like: Trace | None = None,
    ) -> None:
        """`like` is a recent trace of this machine, which is not measured then."""
        self.plan, self.out, self.like = plan_of(lecture, options), out, like
        self._own = None
        self.name, self.stay = "", list[Stays]()  # the trace's folder in `out`, see `chosen_folder`
        torch, draft = self.plan.torch, self.plan.options.draft
        if FORKS and (not torch or (draft and server is None)):
            with contextlib.suppress(OSError):  # `run` will meet the same error and report it
                self._own = server = ForkServer(environment(), torch=torch)
        self.runner = ProcessRunner(self.plan, server or Spawner(), progress)

    def stop(self) -> None:
        """Kill the processes and drop their records; `run`, in another thread, raises StoppedError."""
        self.runner.stopped.set()

    def run(self) -> Traced:
        """Trace the lecture, and write the recorded steps however its processes ended.

        Raises UsageError if a file can't be written, a process can't be started, or the records make no valid trace.
        Raises FailedError if the tools themselves failed, StoppedError after `stop`, and KeyboardInterrupt if Ctrl-C
        came before the first step or a second time. Journals are kept, and the error names their folder; an earlier
        trace stays unchanged.
        """
        plan, runner, out, folder = self.plan, self.runner, self.out, None
        try:
            with self._own or contextlib.nullcontext(), run_folder(out) as folder:
                try:
                    seconds = self._processes(folder)
                except NotStartedError as error:
                    (folder / f"start{failures.ENDING}").write_text(error.output, encoding="utf-8")
                    kept = set_aside(folder, error)
                    raise FailedError(f"{error}; the traceback and its journals are kept in {kept.folder}") from None
                if runner.stopped.is_set():
                    remove(folder)
                    raise StoppedError(f"{plan.lecture.name}: stopped")
                try:
                    traced = merge_folder(folder, out)
                except (UsageError, OSError, MemoryError, KeyboardInterrupt):
                    raise
                except NothingRecordedError as error:
                    if not failures.tracebacks(folder):
                        raise
                    kept = set_aside(folder, error)
                    raise FailedError(
                        f"{kept.why}; the traceback and its journals are kept in {kept.folder}"
                    ) from error
                except BaseException as error:  # this version should be able to merge its own records
                    kept = set_aside(folder, error)
                    if isinstance(error, TraceToolsError):
                        raise UsageError(f"{kept.why}; its journals are kept in {kept.folder}") from error
                    raise FailedError(
                        f"trace-tools failed: {kept.why}; the traceback and its journals are kept in {kept.folder}"
                    ) from error
                with contextlib.suppress(FileNotFoundError):  # no run ended by itself
                    written = json.loads((folder / WRITTEN).read_text(encoding="utf-8"))
                    traced = replace(traced, written=written)
                traced = replace(traced, failed=dispose(folder))
        except (NothingRecordedError, UsageError, OSError, MemoryError, KeyboardInterrupt) as error:
            is_kept = folder is not None and folder.exists()
            none_recorded = isinstance(error, NothingRecordedError)
            if isinstance(error, KeyboardInterrupt) or (runner.interrupts and none_recorded):
                advice = f"`trace-tools recover {out}` writes the trace of the steps so far"
                raise KeyboardInterrupt(f"interrupted; {advice if is_kept else 'no step was recorded'}") from None
            if none_recorded:
                raise NothingRecordedError(f"{plan.lecture}: {error}") from None
            advice = f"; once this is corrected, `trace-tools recover {out}` writes the trace" if is_kept else ""
            where = f"{out}: " if isinstance(error, OSError) and not error.filename else ""
            raise UsageError(f"{where}{in_words(error)}{advice}") from error
        return replace(traced, seconds=seconds, stay=[*self.stay, *traced.stay])

    def prepare(self, folder: Path) -> None:
        """Measure the machine, and write the options into a run's folder."""
        plan, runner = self.plan, self.runner
        (folder / "lecture.py").write_text(plan.source.text, encoding="utf-8", newline="")
        included.store(plan.modules, folder)
        machine = self._survey(folder)
        runner.device, options = machine.device, plan.options
        if options.keep_going is None:  # a GPU's errors are rarely the lecture's, and its time is dear
            # a rank that goes on alone would send what the others take for the data of another section
            options = replace(options, keep_going=machine.device != "cpu" and ranks.rank() is None)
            self.plan = runner.plan = replace(plan, options=options)
        run = Run(
            lecture=plan.name,
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            complete=False,
            main=None if (main := main_of(plan.source)) == MAIN else main,
            commit=commit_of(plan.lecture),
            **options.recorded(),
        )
        more = {"name": self.name, "force": options.force}
        (folder / "run.json").write_text(json.dumps({**to_plain(run), **more}), encoding="utf-8")

    def _processes(self, folder: Path) -> list[tuple[str, float]]:
        """Run all processes; again with torch, without the records of the first ones, if an import has loaded it."""
        runner = self.runner
        began = time.monotonic()
        self.prepare(folder)
        seconds = [(SURVEY, time.monotonic() - began), *runner.run_all(self.plan.passes, folder)]
        if not runner.torch_was_loaded(folder) or runner.interrupts or runner.stopped.is_set():
            return seconds
        for path in folder.iterdir():
            if path.is_file() and path.name != "lock":
                path.unlink()
        self.plan = runner.plan = replace(self.plan, torch=True)
        self.like, runner.starter = None, Spawner()
        return [*seconds, *self._processes(folder)]

    def _survey(self, folder: Path) -> Machine:
        """Measure the machine in a process of its own, which leaves no warm caches for the passes."""
        plan, like, options = self.plan, self.like, self.plan.options
        if like is not None:
            machine = like.machine
            (folder / "versions.json").write_text(json.dumps(like.versions), encoding="utf-8")
        elif plan.torch:
            described = options.draft or not ranks.measures_peaks()
            machine = self.runner.survey(folder, DESCRIBE if described else MEASURE)
        else:
            machine, installed = machines.without_torch(versions_of(plan.uses))
            (folder / "versions.json").write_text(json.dumps(installed), encoding="utf-8")
        self.name, self.stay = chosen_folder(self.out, machine, plan.name, options)
        (folder / "machine.json").write_text(machines.to_json(machine), encoding="utf-8")
        return machine
