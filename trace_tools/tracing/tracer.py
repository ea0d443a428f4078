"""Trace a lecture: describe the machine, run one fresh process per pass (the first also counts), then merge.

    traced = Tracer(Path("lecture.py"), Path("rendered"), TraceOptions(passes=5)).run()
    traced.path                   # rendered/<machine>/trace.yaml, or rendered/<machine>/partial/trace.yaml
    traced.trace.run.ended        # "complete", or how it ended

This process checks the lecture, owns the run's folder (OUT/.run-…, see `run_folder`), starts the others, and merges
their records. It never imports torch and never runs the lecture.
"""

from __future__ import annotations

import json
import os
import platform
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from trace_tools.errors import LectureError, NothingRecordedError, TraceToolsError, UsageError
from trace_tools.machines import devices
from trace_tools.machines import machine as machines
from trace_tools.machines.devices import checked
from trace_tools.source.directives import parse_directives
from trace_tools.source.imports import imported, needs_torch
from trace_tools.source.imports import versions as versions_of
from trace_tools.source.lint import refuse_what_cannot_run
from trace_tools.source.statements import ParsedSource, main_of, read_source, sections
from trace_tools.trace.model import MODULE, Machine, why_no_folder
from trace_tools.trace.records import ProcessId
from trace_tools.tracing import failures, ranks
from trace_tools.tracing.isolation import private_folder
from trace_tools.tracing.job import Job
from trace_tools.tracing.options import DEFAULTS, TraceOptions
from trace_tools.tracing.process import SURVEY, WORKER, Process, started_early
from trace_tools.tracing.progress import Progress
from trace_tools.tracing.run_folder import Stays, Traced, chosen_folder, merged, remove, run_folder
from trace_tools.util.git import commit_of


class StoppedError(TraceToolsError):
    """`Tracer.stop` was called; no trace was written."""


class Tracer:
    """Traces a lecture once. Raises LectureError and UsageError before any process starts."""

    def __init__(
        self,
        lecture: Path,
        out: Path = Path("rendered"),
        options: TraceOptions = DEFAULTS,
        show: Callable[[Progress], None] = lambda progress: None,
        early: Process | None = None,
    ) -> None:
        """`early` is the process of a draft, if it was started already; the tracer ends it."""
        self.job, self.source = planned(lecture, options)
        self.lecture, self.out, self.show, self.early = lecture, out, show, early
        self._stopped = threading.Event()
        self._interrupted = False

    def stop(self) -> None:
        """Kill the processes and drop their records; `run`, in another thread, raises StoppedError."""
        self._stopped.set()

    def run(self) -> Traced:
        """Trace the lecture, and write the recorded steps however its processes ended.

        Raises UsageError if a file can't be written or a process can't be started, KeptError if the records make no
        valid trace or the tools failed, StoppedError after `stop`, and KeyboardInterrupt if Ctrl-C came before the
        first step or while the trace was made. An earlier trace then stays unchanged.
        """
        if self.early is None:
            self.early = started_early(self.lecture, self.job.options)
        with self.early or nullcontext(), run_folder(self.out) as folder:
            began = time.monotonic()
            stay = self.prepare(folder)
            seconds = [("survey", time.monotonic() - began)]
            try:
                for process in self.job.passes:
                    began = time.monotonic()
                    complete = self._run_pass(process, folder)
                    seconds.append((str(process), time.monotonic() - began))
                    if not complete:
                        break
            except KeyboardInterrupt:  # between two processes
                self._interrupted = True
            self._drop_if_stopped(folder)
            try:
                traced = merged(folder, self.out)
            except NothingRecordedError as error:
                if self._interrupted:
                    raise KeyboardInterrupt from None
                raise NothingRecordedError(f"{self.lecture}: {error}") from None
        return replace(traced, seconds=seconds, stay=[*stay, *traced.stay])

    def prepare(self, folder: Path) -> list[Stays]:
        """Describe the machine, and write the job into the run's folder; return the traces that will stay."""
        if self.job.torch:
            machine = self._survey(folder)
        else:
            used = imported(self.source, self.job.folder)
            machine, versions = machines.computer(), [("python", platform.python_version()), *versions_of(used)]
            (folder / "versions.json").write_text(json.dumps(versions), encoding="utf-8")
        options = self.job.options
        slug, stay = chosen_folder(self.out, machine, self.job.name, options)
        (folder / "machine.json").write_text(machines.to_json(replace(machine, slug=slug)), encoding="utf-8")
        if options.keep_going is None:  # a GPU's errors are rarely the lecture's, and its time is dear
            # a rank that goes on alone would send what the others take for the data of another section
            options = replace(options, keep_going=machine.device != "cpu" and ranks.rank() is None)
        self.job = replace(
            self.job,
            options=options,
            device=machine.device,
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            commit=commit_of(Path(self.job.lecture)),
            root=str(private_folder.path_for(self.job.folder)),
            parent=os.getpid(),
        )
        self.job.write(folder)
        return stay

    def _survey(self, folder: Path) -> Machine:
        """Describe the machine in a process, and measure its peaks, which no draft waits for.

        That takes seconds of full load, so it is another process than the passes, which it neither warms nor fills with
        its memory. Raises UsageError if it fails.
        """
        measures = not self.job.options.draft and ranks.measures_peaks()
        path, how = folder / "machine.json", "measure" if measures else "describe"
        arguments = [str(path), self.job.options.device or "", how]
        self.show(Progress("survey" if measures else "describe"))
        with nullcontext(self.early) if self.early is not None else Process(SURVEY, *arguments) as process:
            if process is self.early:
                process.request("survey", *arguments)
            status = process.follow(lambda *_: None, self._stopped)
        self._drop_if_stopped(folder)
        if process.interrupted:
            raise KeyboardInterrupt
        if status != 0:
            lines = process.output.decode(errors="replace").strip().splitlines()
            line = lines[-1] if lines else f"this machine can't be measured: status {status}"
            advice = (
                f"; {devices.INSTALL}" if line.startswith(("ModuleNotFoundError", "ImportError", "OSError")) else ""
            )
            raise UsageError(line.removeprefix("error: ") + advice)
        return machines.from_json(path.read_text(encoding="utf-8"))

    def _run_pass(self, name: ProcessId, folder: Path) -> bool:
        """Run the lecture in a new process, and keep its status and the end of its output; return if all is well."""

        def show(section: str, line: int | None = None, stalled_s: int = 0) -> None:
            self.show(Progress(str(name), section, line, stalled_s))

        show("start")
        arguments = [str(folder), name.file_stem]
        try:
            with self.early if self.early is not None else Process(WORKER, *arguments) as process:
                if process is self.early:
                    process.request("run", *arguments)
                status = process.follow(show, self._stopped)
        finally:
            private_folder.remove(Path(self.job.root))
        (folder / f"{name.file_stem}.out").write_bytes(process.output)
        (folder / f"{name.file_stem}.status").write_text(str(status), encoding="utf-8")
        if status > 0 and not (folder / f"{name.file_stem}.journal").exists():
            # it ended before it could keep its own traceback
            (folder / f"{name.file_stem}{failures.ENDING}").write_bytes(process.output)
        self._interrupted = process.interrupted
        return status == 0 and not process.interrupted and not self._stopped.is_set()

    def _drop_if_stopped(self, folder: Path) -> None:
        if self._stopped.is_set():
            remove(folder)
            raise StoppedError(f"{self.job.name}: stopped")


# --- before any process starts --------------------------------------------------------------------


def planned(lecture: Path, options: TraceOptions = DEFAULTS) -> tuple[Job, ParsedSource]:
    """Return the job of a lecture's trace, without what only its machine decides, and the lecture's parsed source.

    Raises LectureError or UsageError for an invalid lecture or option.
    """
    source = check_lecture(lecture)
    refuse_options(options)
    if options.device is not None:
        checked(options.device)
    options = replace(options, passes=1 if options.draft else options.passes)
    job = Job(str(lecture.resolve()), source.text, options)
    torch = options.device not in (None, "cpu") or needs_torch(imported(source, job.folder))
    return replace(job, torch=torch, skipped=skipped(source, options)), source


def check_lecture(path: Path) -> ParsedSource:
    """Read and check a lecture. Raises LectureError if it is not a valid lecture."""
    source = read_source(path)
    refuse_what_cannot_run(source)
    parse_directives(source)
    if main_of(source) == MODULE and not source.cells:
        raise LectureError(path, None, "has no statements; expected a script, or a function `main` that calls sections")
    return source


def refuse_options(options: TraceOptions) -> None:
    """Raise UsageError if the options fail with any lecture."""
    if options.name is not None and (problem := why_no_folder(options.name)):
        raise UsageError(f"--name {options.name}: {problem}")
    if options.passes < 1 or options.limit < 2:
        expected = "expected at least 1 pass and a limit of at least 2"
        raise UsageError(f"passes: {options.passes}, limit: {options.limit}; {expected}")


def skipped(source: ParsedSource, options: TraceOptions) -> tuple[str, ...]:
    """Return the functions that the main function must skip so that only one section runs.

    Raises UsageError if that section does not exist.
    """
    names, only = sections(source), options.only
    if only is not None and main_of(source) == MODULE:
        raise UsageError(f"--only {only}: the cells of a script share variables; expected a lecture with `main`")
    if only is not None and only not in names:
        calls = ", ".join(f"`{name}`" for name in names) or "none"
        raise UsageError(f"--only {only}: no such section; {main_of(source)} calls {calls}")
    return tuple(name for name in names if only not in (None, name))
