"""React to each save: read the lecture, update its pages, and trace again if needed.

    session = Session(Path("lecture.py"), Path(".serve"), board, TraceOptions(device="cpu"), temporary)
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
from dataclasses import replace
from pathlib import Path

import watchfiles

from trace_tools.analysis.outcome import activity, problems
from trace_tools.errors import TraceToolsError, UsageError
from trace_tools.live.edits import Dependencies, dependencies_of, section_to_trace
from trace_tools.live.pages import PARTIAL, ServedTrace, Site, serve_trace
from trace_tools.live.status import Board
from trace_tools.machines import devices
from trace_tools.presentation import page_shell
from trace_tools.source.catalogue import Words, catalogue_of
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

LOOKS = (page_shell.HERE / "templates", page_shell.HERE / "static")


class Session:
    """Holds the current pages and decides how to react to a save."""

    def __init__(
        self,
        lecture: Path,
        out: Path,
        board: Board,
        options: TraceOptions,
        temporary: Path,
        language: str | None = None,
    ) -> None:
        self._lecture = lecture
        self._catalogue = catalogue_of(lecture.resolve(), language) if language is not None else None
        self._words = Words.read(self._catalogue) if self._catalogue is not None else None
        self._folder = lecture.resolve().parent
        self._out = out
        self._board = board
        self._options = replace(options, force=True, draft=True)
        self._retracer = Retracer(self._ended, temporary)
        self._lock = threading.RLock()
        self._text = ""
        self._dependencies = Dependencies()
        self._modules: dict[Path, bytes] = {}  # content of the imported modules
        self._running_with: Mapping[Path, bytes] = {}
        self._whole: ServedTrace | None = None
        self._section: ServedTrace | None = None
        self._failed: ServedTrace | None = None
        self._server: ForkServer | None = None  # imports torch once for all traces of this session
        self.site = Site(self._folder)

    @property
    def files(self) -> frozenset[Path]:
        """The files, besides templates, to watch for saves."""
        own = [self._lecture.resolve(), *([self._catalogue] if self._catalogue is not None else [])]
        return frozenset([*own, *self._dependencies.modules, *self._dependencies.images])

    def watch(self) -> None:
        """React to saves until KeyboardInterrupt.

        Folders are watched instead of files, because editors may save by renaming a new file over the old one.
        """

        def folders() -> frozenset[Path]:
            used = {path.parent for path in self.files}
            return frozenset(folder for folder in (*used, *LOOKS) if folder.is_dir())

        while True:
            watched = folders()
            for changes in watchfiles.watch(*sorted(watched), recursive=False, watch_filter=None):
                self.saved(Path(path) for _, path in changes)
                if folders() != watched:
                    break

    def begin(self) -> None:
        """Show an existing trace of this lecture, if any, and start."""
        with self._lock:
            self._look()
            earlier = [*self._earlier()]
            current = [one for one in earlier if self._is_of_this_code(one[0].sources[0])]
            for trace, path in (*current, *earlier)[:1]:
                made = _saved(path)
                older = any(_saved(module) > made for module in self._modules)  # than an imported module
                modules = {} if older else self._modules
                self._whole = serve_trace(trace, path, trace.sources[0].text, modules, self._words)
                self._show()
            self._read()

    def saved(self, paths: Iterable[Path]) -> None:
        """React to saved files."""
        with self._lock:
            written = {path.resolve() for path in paths}
            if any(path.is_relative_to(folder) for path in written for folder in LOOKS):
                page_shell.assets_in.cache_clear()
                self._show()
            elif written & set(self._dependencies.images):
                self._show()
            if self._catalogue in written:
                self._translate()
            if written & self.files:
                self._read()

    def _translate(self) -> None:
        """Read the saved translations, and make the pages with them."""
        assert self._catalogue is not None
        try:
            self._words = Words.read(self._catalogue)
        except UsageError as error:
            self._board.post(problems=(str(error),), link="", doing="")
            return
        remade = [
            one and serve_trace(one.trace, one.path, one.text, one.modules, self._words)
            for one in (self._whole, self._section, self._failed)
        ]
        self._whole, self._section, self._failed = remade
        self._show()

    def stop(self) -> None:
        """Stop the running trace."""
        self._retracer.stop(wait_s=2)
        if self._server is not None:
            self._server.stop()

    # ------------------------------------------------------------------ saves

    def _look(self) -> ParsedSource | None:
        """Read the lecture; return None, and show the mistakes on the pages, if it cannot run."""
        try:
            source = parsed_once(read_text(self._lecture), self._lecture.name)
        except TraceToolsError as error:
            self._retracer.stop()
            self._board.post(problems=(str(error),), link="", doing="")
            return None
        self._text = source.text
        self._dependencies = dependencies_of(source, self._folder)
        self._modules = {}
        for path in self._dependencies.modules:
            with suppress(OSError):  # an editor is replacing the file, which is a save of its own
                self._modules[path] = path.read_bytes()
        return source

    def _read(self) -> None:
        """Read the lecture and trace what changed."""
        source = self._look()
        if source is None:
            return
        tracer = self._retracer.tracer
        if self._is_fresh(self._whole):
            self._retracer.stop()
            self._section = self._failed = None
            self._show()
        elif (
            tracer is not None
            and self._modules == self._running_with
            and self._is_of_this_code(SourceFile(tracer.plan.source.path, tracer.plan.source.text))
        ):
            return  # that code is being traced already; only prose has changed since
        elif self._is_fresh(self._section):
            self._show()
            self._trace(None)
        else:
            self._board.post(problems=(), link="")
            whole = self._whole
            comparable = whole is not None and self._modules == whole.modules
            main = self._options.main
            self._trace(section_to_trace(whole.trace.sources[0], source, main) if whole and comparable else None)

    def _is_fresh(self, one: ServedTrace | None) -> bool:
        """Return whether the shown pages belong to the current code."""
        return one is not None and self._is_of_this_code(one.trace.sources[0]) and self._modules == one.modules

    def _is_of_this_code(self, source: SourceFile) -> bool:
        return shown_source(source, self._text).stale is None

    # ------------------------------------------------------------------ tracing

    def _trace(self, only: str | None) -> None:
        what = f"section {only}" if only else "the whole lecture"
        options = replace(self._options, only=only)

        def progress(message: Progress) -> None:
            if self._retracer.tracer is tracer:
                where = ", ".join(filter(None, (activity(message.process), message.where)))
                self._board.post(doing=f"Tracing {what}: {where}")

        try:
            source = parsed_once(self._text, self._lecture.name)
            torch = is_installed("torch") and "torch" in imported(source, self._folder)
            if FORKS and torch and not (self._server and self._server.alive):
                self._server = ForkServer(environment(), torch=True)
            tracer = Tracer(self._lecture, self._out, options, progress, self._server)
        except TraceToolsError as error:  # saved again meanwhile
            self._board.post(problems=(str(error),), link="", doing="")
            return
        self._running_with = self._modules
        self._board.post(doing=f"Tracing {what}")
        self._retracer.start(tracer)

    def _ended(self, tracer: Tracer, outcome: Outcome) -> None:
        """Show the result of a run. Called in the run's thread."""
        with self._lock:
            ran = SourceFile(tracer.plan.source.path, tracer.plan.source.text)
            if self._retracer.tracer is not None or not self._is_of_this_code(ran):  # a newer save has precedence
                return
            if isinstance(outcome, TraceToolsError):
                self._board.post(problems=(str(outcome),), link="", doing="")
                return
            fresh = serve_trace(outcome.trace, outcome.path, self._text, self._running_with, self._words)
            self._failed = None if outcome.trace.run.complete else fresh
            if tracer.plan.options.only and outcome.trace.run.complete:
                self._section = fresh
                self._show()
                self._trace(None)
                return
            if outcome.trace.run.complete:
                self._whole, self._section = fresh, None
            self._show()

    def _earlier(self) -> Iterator[tuple[Trace, Path]]:
        """Yield the complete traces of this lecture, first the last one served, then the one in its folder."""
        for folder in (self._out, self._folder / "rendered"):
            for path in sorted(folder.glob("*/trace.yaml")):
                try:
                    trace = load(path).trace
                except TraceToolsError:
                    continue  # not readable, for example of another version
                here = trace.machine.device == devices.kind(self._options.device or "cpu")
                is_it = trace.run.lecture == self._lecture.name and (trace.run.main or MAIN) == self._options.main
                if is_it and here and trace.sources and trace.run.complete:
                    yield trace, path

    # ------------------------------------------------------------------ showing

    def _show(self) -> None:
        """Make the pages again, with the current prose if the code has not changed since the trace."""
        self._whole, self._section = self._with_prose(self._whole), self._with_prose(self._section)
        self.site = Site(self._folder, self._whole, self._section, self._failed)
        shown = self._failed or self._section or self._whole
        wrong = tuple(_wrong(shown.trace)) if shown is not None else ()
        link = ""
        if shown is not None and wrong:  # the first page that shows a problem
            slug = shown.trace.machine.slug
            slugs = (s.slug for s in shown.document.sections if s.failure is not None or s.failed)
            link = f"{slug}/{PARTIAL}" if shown is self._failed else slug
            link += f"/{next(slugs, 'index')}.html"
        doing = self._board.notice.doing if self._retracer.tracer is not None else ""
        self._board.new_edition(problems=wrong, link=link, doing=doing)

    def _with_prose(self, one: ServedTrace | None) -> ServedTrace | None:
        if one is None or one.text == self._text or not self._is_of_this_code(one.trace.sources[0]):
            return one
        return serve_trace(one.trace, one.path, self._text, one.modules, self._words)


def _wrong(trace: Trace) -> Iterator[str]:
    """Yield a line for each problem of a run; for the exception that ended it, its message."""
    raised = next((e.raised for e in reversed(trace.steps) if isinstance(e, Step) and e.raised is not None), None)
    lines = problems(trace)
    if not trace.run.complete and raised is not None and trace.run.ending.detail == raised.type:
        where = f"{trace.run.lecture}:{raised.origin_line}: "
        if not any(line.startswith(where) for line in lines):
            yield where + f"{raised.type}: {raised.message}".removesuffix(": ")
    yield from lines


def _saved(path: Path) -> float:
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
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    @property
    def tracer(self) -> Tracer | None:
        """The running tracer, or None."""
        return self._tracer

    def start(self, tracer: Tracer) -> None:
        """Run a tracer after the previous one has ended."""
        self.stop()
        before, self._thread = self._thread, threading.Thread(target=lambda: self._run(tracer, before), daemon=True)
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

    def _run(self, tracer: Tracer, before: threading.Thread | None) -> None:
        if before is not None:
            before.join()
        outcome: Outcome
        try:
            outcome = tracer.run()
        except StoppedError:
            return
        except TraceToolsError as error:
            outcome = error
        finally:
            for left in self._temporary.iterdir():
                shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink(missing_ok=True)
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
