"""What happens at each save: the lecture is read, its pages are made again, and traced what has to be.

    session = Session(Path("lecture.py"), Path(".serve"), board, "cpu", temporary)
    session.begin()                 an earlier trace serves as long as the lecture's code is that which it is of
    session.watch()                 waits for saves, until Ctrl-C
    session.site                    the pages as they are now

Changed prose only needs the pages again. Changed code of one section is traced alone first, then everything; any
other change everything. Meanwhile, and when something is wrong, the last pages stay as they are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import watchfiles

from trace_tools.errors import TraceToolsError
from trace_tools.file_format.trace_file import load
from trace_tools.imports import imported, is_installed
from trace_tools.machines import devices
from trace_tools.outcome import problems
from trace_tools.rendering import page_base
from trace_tools.rendering.staleness import edition_of, parsed_once
from trace_tools.schema import SourceFile, Step, Trace
from trace_tools.serving.board import Board
from trace_tools.serving.edits import section_to_trace
from trace_tools.serving.neighbours import Neighbours, neighbours
from trace_tools.serving.pages import PARTIAL, ServedTrace, Site, serve_trace
from trace_tools.serving.retracing import Outcome, Retracer
from trace_tools.statements import ParsedSource, read_text
from trace_tools.tracing.processes import FORKS, ForkServer, environment
from trace_tools.tracing.tracer import Request, Tracer

LOOKS = (page_base.HERE / "templates", page_base.HERE / "static")


class Session:
    """Holds what is shown, and decides what a save means for it."""

    def __init__(
        self,
        lecture: Path,
        out: Path,
        board: Board,
        device: str,
        temporary: Path,
        *,
        keep_going: bool = False,
        include: tuple[str, ...] = (),
    ) -> None:
        self._lecture = lecture
        self._folder = lecture.resolve().parent
        self._out = out
        self._board = board
        self._device = device
        self._keep_going = keep_going
        self._include = include
        self._retracer = Retracer(self._ended, temporary)
        self._lock = threading.RLock()
        self._text = ""
        self._neighbours = Neighbours()
        self._modules: dict[Path, bytes] = {}  # what those beside the lecture hold
        self._running_with: Mapping[Path, bytes] = {}
        self._whole: ServedTrace | None = None
        self._section: ServedTrace | None = None
        self._failed: ServedTrace | None = None
        self._server: ForkServer | None = None  # imports torch once for all of this session's traces
        self.site = Site(self._folder)

    @property
    def files(self) -> frozenset[Path]:
        """The files beside the templates whose saves count."""
        return frozenset([self._lecture.resolve(), *self._neighbours.modules, *self._neighbours.images])

    def watch(self) -> None:
        """Do what is to be done at each save; ends with KeyboardInterrupt.

        Folders are watched, not files: an editor that saves by renaming a new file puts another one in the place.
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
        """Show the trace that there is of this lecture, if there is one, and begin."""
        with self._lock:
            self._look()
            earlier = [*self._earlier()]
            current = [one for one in earlier if self._is_of_this_code(one[0].sources[0])]
            for trace, path in (*current, *earlier)[:1]:
                made = _saved(path)
                older = any(_saved(module) > made for module in self._modules)  # than one that it imports
                modules = {} if older else self._modules
                self._whole = serve_trace(trace, path, trace.sources[0].text, modules)
                self._show()
            self._read()

    def saved(self, paths: Iterable[Path]) -> None:
        """Do what is to be done after files were written."""
        with self._lock:
            written = {path.resolve() for path in paths}
            if any(path.is_relative_to(folder) for path in written for folder in LOOKS):
                page_base.assets.cache_clear()
                self._show()
            elif written & set(self._neighbours.images):
                self._show()
            if written & self.files:
                self._read()

    def stop(self) -> None:
        """End what is being traced."""
        self._retracer.stop(wait_s=2)
        if self._server is not None:
            self._server.stop()

    # ------------------------------------------------------------------ what a save means

    def _look(self) -> ParsedSource | None:
        """Read the lecture; None, and on the pages what is wrong, when it can't be run."""
        try:
            source = parsed_once(read_text(self._lecture), self._lecture.name)
        except TraceToolsError as error:
            self._retracer.stop()
            self._board.post(problems=(str(error),), link="", doing="")
            return None
        self._text = source.text
        self._neighbours = neighbours(source, self._folder)
        self._modules = {}
        for path in self._neighbours.modules:
            with suppress(OSError):  # an editor is about to put another in its place, and that is a save of its own
                self._modules[path] = path.read_bytes()
        return source

    def _read(self) -> None:
        """Read the lecture, and trace what the pages no longer say."""
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
            and self._is_of_this_code(SourceFile(tracer.source.path, tracer.source.text))
        ):
            return  # that code is being traced already: only prose was changed since
        elif self._is_fresh(self._section):
            self._show()
            self._trace(None)
        else:
            self._board.post(problems=(), link="")
            whole = self._whole
            comparable = whole is not None and self._modules == whole.modules
            self._trace(section_to_trace(whole.trace.sources[0], source) if whole is not None and comparable else None)

    def _is_fresh(self, one: ServedTrace | None) -> bool:
        """Whether what is shown was made by the code as it is now."""
        return one is not None and self._is_of_this_code(one.trace.sources[0]) and self._modules == one.modules

    def _is_of_this_code(self, source: SourceFile) -> bool:
        return edition_of(source, self._text).stale is None

    # ------------------------------------------------------------------ tracing

    def _trace(self, only: str | None) -> None:
        what = f"section {only}" if only else "the whole lecture"
        request = Request(
            lecture=self._lecture,
            out=self._out,
            device=self._device,
            only=only,
            keep_going=self._keep_going,
            include=self._include,
            force=True,
            draft=True,
        )

        def progress(process: str, place: str, stalled: str) -> None:
            if self._retracer.tracer is tracer:
                where = ", ".join(filter(None, (process, place, stalled)))
                self._board.post(doing=f"Tracing {what}: {where}")

        try:
            source = parsed_once(self._text, self._lecture.name)
            torch = is_installed("torch") and "torch" in imported(source, self._folder)
            if FORKS and torch and not (self._server and self._server.alive):
                self._server = ForkServer(environment(), torch=True)
            tracer = Tracer(request, progress, self._server)
        except TraceToolsError as error:  # saved once more, meanwhile
            self._board.post(problems=(str(error),), link="", doing="")
            return
        self._running_with = self._modules
        self._board.post(doing=f"Tracing {what}")
        self._retracer.start(tracer)

    def _ended(self, tracer: Tracer, outcome: Outcome) -> None:
        """Show what a run recorded. Called in its thread."""
        with self._lock:
            ran = SourceFile(tracer.source.path, tracer.source.text)
            if self._retracer.tracer is not None or not self._is_of_this_code(ran):  # a save came first
                return
            if isinstance(outcome, TraceToolsError):
                self._board.post(problems=(str(outcome),), link="", doing="")
                return
            fresh = serve_trace(outcome.trace, outcome.path, self._text, self._running_with)
            self._failed = None if outcome.trace.run.complete else fresh
            if tracer.request.only and outcome.trace.run.complete:
                self._section = fresh
                self._show()
                self._trace(None)
                return
            if outcome.trace.run.complete:
                self._whole, self._section = fresh, None
            self._show()

    def _earlier(self) -> Iterator[tuple[Trace, Path]]:
        """Yield the complete traces of this lecture: the last one served, then the one that lies beside it."""
        for folder in (self._out, self._folder / "rendered"):
            for path in sorted(folder.glob("*/trace.yaml")):
                try:
                    trace = load(path).trace
                except TraceToolsError:
                    continue  # a trace of another version, say: it is made anew
                here = trace.machine.device == devices.kind(self._device)
                if trace.run.lecture == self._lecture.name and here and trace.sources:
                    yield trace, path

    # ------------------------------------------------------------------ showing

    def _show(self) -> None:
        """Make the pages anew, with the prose as it is now where the code is still that of the trace."""
        self._whole, self._section = self._with_prose(self._whole), self._with_prose(self._section)
        self.site = Site(self._folder, self._whole, self._section, self._failed)
        told = self._failed or self._section or self._whole
        wrong = tuple(_wrong(told.trace)) if told is not None else ()
        link = _where(told, partial=told is self._failed) if told is not None and wrong else ""
        doing = self._board.notice.doing if self._retracer.tracer is not None else ""
        self._board.new_edition(problems=wrong, link=link, doing=doing)

    def _with_prose(self, one: ServedTrace | None) -> ServedTrace | None:
        if one is None or one.text == self._text or not self._is_of_this_code(one.trace.sources[0]):
            return one
        return serve_trace(one.trace, one.path, self._text, one.modules)


def _wrong(trace: Trace) -> Iterator[str]:
    """Yield a line for each thing that is wrong with a run; for the exception that ended it, what it said."""
    raised = next((e.raised for e in reversed(trace.steps) if isinstance(e, Step) and e.raised is not None), None)
    said = problems(trace)
    if not trace.run.complete and raised is not None and trace.run.ended.startswith(raised.type):
        where = f"{trace.run.lecture}:{raised.origin_line}: "
        if not any(line.startswith(where) for line in said):
            yield where + f"{raised.type}: {raised.message}".removesuffix(": ")
    yield from said


def _saved(path: Path) -> float:
    """Return when a file was written last; now, if it is just being replaced."""
    try:
        return path.stat().st_mtime
    except OSError:
        return time.time()


def _where(one: ServedTrace, *, partial: bool) -> str:
    """Return the address of the first page that shows something wrong."""
    folder = f"{one.trace.machine.slug}/{PARTIAL}" if partial else one.trace.machine.slug
    wrong = (s.slug for s in one.document.sections if s.failure is not None or s.failed)
    return f"{folder}/{next(wrong, 'index')}.html"
