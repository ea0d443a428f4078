"""React to each save: read the lecture, update its pages, and trace again if needed.

    session = Session(Path("lecture.py"), Path(".serve"), statuses, TraceOptions(device="cpu"), temporary)
    session.begin()                 use an earlier trace if the lecture's code has not changed since
    session.watch()                 wait for saves, until Ctrl-C
    session.site                    the current pages

    retracer = Retracer(ended, temporary)
    retracer.start(Tracer(lecture, out, options, progress))     `ended(tracer, outcome)` is called when it is done

A retracer runs traces in a thread, one at a time: a new trace stops the previous one. The processes keep their
temporary files in the folder `temporary`, so that no files remain after a kill.

Changed prose only needs new pages. After changed code in one section, that section is traced alone, then the whole
lecture; after other changes, the whole lecture. Meanwhile, and after errors, the last pages remain.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import watchfiles

from trace_tools.analysis.outcome import activity, problems
from trace_tools.errors import TraceToolsError
from trace_tools.live.edits import Dependencies, dependencies_of, section_to_trace
from trace_tools.live.pages import PARTIAL, ServedTrace, Site, serve_trace
from trace_tools.live.status import StatusBoard
from trace_tools.machines import devices
from trace_tools.presentation import page_shell
from trace_tools.source.imports import imported, is_installed
from trace_tools.source.statements import ParsedSource, read_text
from trace_tools.source.versions import parsed_once, shown_source
from trace_tools.trace.model import MAIN, SourceFile, Step, Trace
from trace_tools.trace.trace_file import load
from trace_tools.tracing.options import TraceOptions
from trace_tools.tracing.processes import FORKS, ForkServer, environment
from trace_tools.tracing.progress import Progress
from trace_tools.tracing.run_folder import Traced
from trace_tools.tracing.runner import StoppedError
from trace_tools.tracing.supervisor import Tracer

ASSET_FOLDERS = (page_shell.HERE / "templates", page_shell.HERE / "static")


@dataclass(frozen=True, slots=True)
class LectureVersion:
    """The state after the last save: the lecture's text, the files that it uses, and the content of its modules."""

    text: str = ""
    dependencies: Dependencies = field(default_factory=Dependencies)
    modules: Mapping[Path, bytes] = field(default_factory=dict)

    def has_code_of(self, source: SourceFile) -> bool:
        """Return whether only prose has changed since this source ran."""
        return shown_source(source, self.text).stale is None

    def is_shown_by(self, served: ServedTrace | None) -> bool:
        """Return whether a trace shows the current code, of the lecture and of its modules."""
        return served is not None and self.has_code_of(served.trace.sources[0]) and self.modules == served.modules


class Session:
    """Holds the current pages and decides how to react to a save."""

    def __init__(
        self,
        lecture: Path,
        out: Path,
        statuses: StatusBoard,
        options: TraceOptions,
        temporary: Path,
    ) -> None:
        self._lecture = lecture
        self._folder = lecture.resolve().parent
        self._out = out
        self._statuses = statuses
        self._options = replace(options, force=True, draft=True)
        self._retracer = Retracer(self._ended, temporary)
        self._lock = threading.RLock()
        self._version = LectureVersion()
        self._traced_version = LectureVersion()  # of the last started trace
        self._lecture_trace: ServedTrace | None = None
        self._section_trace: ServedTrace | None = None
        self._failed_trace: ServedTrace | None = None
        self.site = Site(self._folder)

    @property
    def files(self) -> frozenset[Path]:
        """The files, besides templates, to watch for saves."""
        return frozenset(
            [self._lecture.resolve(), *self._version.dependencies.modules, *self._version.dependencies.images]
        )

    def watch(self) -> None:
        """React to saves until KeyboardInterrupt.

        Folders are watched instead of files, because editors may save by renaming a new file over the old one.
        """

        def folders() -> frozenset[Path]:
            in_use = {path.parent for path in self.files}
            return frozenset(folder for folder in (*in_use, *ASSET_FOLDERS) if folder.is_dir())

        while True:
            watched = folders()
            for changes in watchfiles.watch(*sorted(watched), recursive=False, watch_filter=None):
                self.saved(Path(path) for _, path in changes)
                if folders() != watched:
                    break

    def begin(self) -> None:
        """Show an existing trace of this lecture, if any, and start."""
        with self._lock:
            self._read_version()
            earlier = [*self._earlier_traces()]
            current = [(trace, path) for trace, path in earlier if self._version.has_code_of(trace.sources[0])]
            for trace, path in (*current, *earlier)[:1]:
                modules = self._version.modules
                if any(_time_of_save(module) > _time_of_save(path) for module in modules):
                    modules = {}  # the trace is older than an imported module
                self._lecture_trace = serve_trace(trace, path, trace.sources[0].text, modules)
                self._show()
            self._update()

    def saved(self, paths: Iterable[Path]) -> None:
        """React to saved files."""
        with self._lock:
            written = {path.resolve() for path in paths}
            if any(path.is_relative_to(folder) for path in written for folder in ASSET_FOLDERS):
                page_shell.assets.cache_clear()
                self._show()
            elif written & set(self._version.dependencies.images):
                self._show()
            if written & self.files:
                self._update()

    def stop(self) -> None:
        """Stop the running trace."""
        self._retracer.close(wait_s=2)

    # ------------------------------------------------------------------ saves

    def _read_version(self) -> ParsedSource | None:
        """Read the lecture; return None, and show the mistakes on the pages, if it cannot run."""
        try:
            source = parsed_once(read_text(self._lecture), self._lecture.name)
        except TraceToolsError as error:
            self._retracer.stop()
            self._statuses.post(problems=(str(error),), link="", doing="")
            return None
        dependencies = dependencies_of(source, self._folder)
        modules: dict[Path, bytes] = {}
        for path in dependencies.modules:
            with suppress(OSError):  # an editor is replacing the file, which is a save of its own
                modules[path] = path.read_bytes()
        self._version = LectureVersion(source.text, dependencies, modules)
        return source

    def _update(self) -> None:
        """Read the lecture and trace what changed."""
        source = self._read_version()
        if source is None:
            return
        version, tracer = self._version, self._retracer.tracer
        if version.is_shown_by(self._lecture_trace):
            self._retracer.stop()
            self._section_trace = self._failed_trace = None
            self._show()
        elif (
            tracer is not None
            and version.modules == self._traced_version.modules
            and version.has_code_of(SourceFile(tracer.plan.source.path, tracer.plan.source.text))
        ):
            return  # that code is being traced already; only prose has changed since
        elif version.is_shown_by(self._section_trace):
            self._show()
            self._trace(None)
        else:
            self._statuses.post(problems=(), link="")
            section = None
            if self._lecture_trace is not None and version.modules == self._lecture_trace.modules:
                section = section_to_trace(self._lecture_trace.trace.sources[0], source, self._options.main)
            self._trace(section)

    # ------------------------------------------------------------------ tracing

    def _trace(self, only: str | None) -> None:
        traced_part = f"section {only}" if only else "the whole lecture"
        options = replace(self._options, only=only)

        def progress(message: Progress) -> None:
            if self._retracer.tracer is tracer:
                where = ", ".join(filter(None, (activity(message.process), message.where)))
                self._statuses.post(doing=f"Tracing {traced_part}: {where}")

        try:
            source = parsed_once(self._version.text, self._lecture.name)
            uses_torch = is_installed("torch") and "torch" in imported(source, self._folder)
            server = self._retracer.fork_server(start=uses_torch)
            tracer = Tracer(self._lecture, self._out, options, progress, server)
        except TraceToolsError as error:  # saved again meanwhile
            self._statuses.post(problems=(str(error),), link="", doing="")
            return
        self._traced_version = self._version
        self._statuses.post(doing=f"Tracing {traced_part}")
        self._retracer.start(tracer)

    def _ended(self, tracer: Tracer, outcome: Outcome) -> None:
        """Show the result of a run. Called in the run's thread."""
        with self._lock:
            source = SourceFile(tracer.plan.source.path, tracer.plan.source.text)
            if self._retracer.tracer is not None or not self._version.has_code_of(source):
                return  # a newer save has precedence
            if isinstance(outcome, TraceToolsError):
                self._statuses.post(problems=(str(outcome),), link="", doing="")
                return
            modules = self._traced_version.modules
            served = serve_trace(outcome.trace, outcome.path, self._version.text, modules)
            self._failed_trace = None if outcome.trace.run.complete else served
            if tracer.plan.options.only and outcome.trace.run.complete:
                self._section_trace = served
                self._show()
                self._trace(None)
                return
            if outcome.trace.run.complete:
                self._lecture_trace, self._section_trace = served, None
            self._show()

    def _earlier_traces(self) -> Iterator[tuple[Trace, Path]]:
        """Yield the complete traces of this lecture, first the last one served, then the one in its folder."""
        for folder in (self._out, self._folder / "rendered"):
            for path in sorted(folder.glob("*/trace.yaml")):
                try:
                    trace = load(path).trace
                except TraceToolsError:
                    continue  # not readable, for example of another version
                same_device = trace.machine.device == devices.kind(self._options.device or "cpu")
                same_main = trace.run.lecture == self._lecture.name and (trace.run.main or MAIN) == self._options.main
                if same_main and same_device and trace.sources and trace.run.complete:
                    yield trace, path

    # ------------------------------------------------------------------ showing

    def _show(self) -> None:
        """Make the pages again, with the current prose if the code has not changed since the trace."""
        self._lecture_trace = self._with_prose(self._lecture_trace)
        self._section_trace = self._with_prose(self._section_trace)
        self.site = Site(self._folder, self._lecture_trace, self._section_trace, self._failed_trace)
        shown = self._failed_trace or self._section_trace or self._lecture_trace
        problem_lines = tuple(_problem_lines(shown.trace)) if shown is not None else ()
        link = ""
        if shown is not None and problem_lines:  # the first page that shows a problem
            slug = shown.trace.machine.slug
            slugs = (s.slug for s in shown.document.sections if s.failure is not None or s.failed)
            link = f"{slug}/{PARTIAL}" if shown is self._failed_trace else slug
            link += f"/{next(slugs, 'index')}.html"
        doing = self._statuses.latest.doing if self._retracer.tracer is not None else ""
        self._statuses.new_edition(problems=problem_lines, link=link, doing=doing)

    def _with_prose(self, served: ServedTrace | None) -> ServedTrace | None:
        text = self._version.text
        if served is None or served.text == text or not self._version.has_code_of(served.trace.sources[0]):
            return served
        return serve_trace(served.trace, served.path, text, served.modules)


def _problem_lines(trace: Trace) -> Iterator[str]:
    """Yield a line for each problem of a run; for the exception that ended it, its message."""
    raised = next((e.raised for e in reversed(trace.steps) if isinstance(e, Step) and e.raised is not None), None)
    lines = problems(trace)
    if not trace.run.complete and raised is not None and trace.run.ending.detail == raised.type:
        where = f"{trace.run.lecture}:{raised.origin_line}: "
        if not any(line.startswith(where) for line in lines):
            yield where + f"{raised.type}: {raised.message}".removesuffix(": ")
    yield from lines


def _time_of_save(path: Path) -> float:
    """Return when a file was last written; the current time if it is being replaced."""
    try:
        return path.stat().st_mtime
    except OSError:
        return time.time()


# --- running traces -------------------------------------------------------------------------------

Outcome = Traced | TraceToolsError


class Retracer:
    """Runs tracers; `ended` receives the outcome of each tracer that was not stopped."""

    def __init__(self, ended: Callable[[Tracer, Outcome], None], temporary: Path) -> None:
        self._ended = ended
        self._temporary = temporary
        self._tracer: Tracer | None = None
        self._server: ForkServer | None = None  # imports torch once for all traces
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    @property
    def tracer(self) -> Tracer | None:
        """The running tracer, or None."""
        return self._tracer

    def start(self, tracer: Tracer) -> None:
        """Run a tracer after the previous one has ended."""
        self.stop()
        previous, self._thread = self._thread, threading.Thread(target=lambda: self._run(tracer, previous), daemon=True)
        with self._lock:
            self._tracer = tracer
        self._thread.start()

    def stop(self, wait_s: float = 0) -> None:
        """Stop the running tracer; wait up to `wait_s` seconds for its processes to end."""
        with self._lock:
            tracer, self._tracer = self._tracer, None
        if tracer is not None:
            tracer.stop()
        if wait_s and self._thread is not None and self._thread.ident is not None:  # the thread was started
            self._thread.join(wait_s)

    def close(self, wait_s: float) -> None:
        """Stop the running tracer and the fork server."""
        self.stop(wait_s)
        if self._server is not None:
            self._server.stop()

    def fork_server(self, *, start: bool) -> ForkServer | None:
        """Return the server that forks the processes of traces, or None; with `start`, start one if needed."""
        if FORKS and start and not (self._server and self._server.alive):
            self._server = ForkServer(environment(), torch=True)
        return self._server

    def _run(self, tracer: Tracer, previous: threading.Thread | None) -> None:
        if previous is not None:
            previous.join()
        outcome: Outcome
        try:
            outcome = tracer.run()
        except StoppedError:
            return
        except TraceToolsError as error:
            outcome = error
        finally:
            for path in self._temporary.iterdir():
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        with self._lock:
            stopped = self._tracer is not tracer
            if not stopped:
                self._tracer = None
        if not stopped:
            self._ended(tracer, outcome)


@contextlib.contextmanager
def temporary_files() -> Iterator[Path]:
    """Make a folder for the temporary files of processes started from here; remove it at the end."""
    # torch's cache must not be in this folder, or everything would be compiled again each time
    caches = "TORCHINDUCTOR_CACHE_DIR"
    before = {name: os.environ.get(name) for name in ("TMPDIR", caches)}
    os.environ.setdefault(caches, str(Path(tempfile.gettempdir(), f"torchinductor_{os.getuid()}")))
    with tempfile.TemporaryDirectory(prefix="serve-", ignore_cleanup_errors=True) as folder:
        os.environ["TMPDIR"] = folder
        try:
            yield Path(folder)
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
