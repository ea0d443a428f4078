"""Make a lecture's pages again at each save: read the lecture, run it as a draft if its code changed, render.

    session = Session(Path("lecture.py"), Path(".serve"), TraceOptions(draft=True, force=True), show)
    session.watch()             # until Ctrl-C; `show` receives each new Status
    session.close()

Reworded prose only needs new pages, in a second or two; other changes need a run. Meanwhile, and after a mistake, the
last pages remain. One thread runs the lecture and renders; the caller's thread waits for saves.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import watchfiles

from trace_tools.analysis.outcome import activity, problems
from trace_tools.errors import TraceToolsError
from trace_tools.machines import devices
from trace_tools.pages.content.shown_source import shown_source
from trace_tools.pages.site import render_folder
from trace_tools.source.statements import read_text
from trace_tools.trace.file import load
from trace_tools.trace.model import SourceFile, Trace
from trace_tools.tracing.options import TraceOptions
from trace_tools.tracing.process import Process, started_early
from trace_tools.tracing.progress import Progress
from trace_tools.tracing.tracer import StoppedError, Tracer

PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp")
STOPPING_S = 2.0  # wait at the end for the processes of a run


@dataclass(frozen=True, slots=True)
class Status:
    """The state that the open pages and the terminal show."""

    edition: int = 0  # number of this version of the pages; a page of an earlier one loads itself again
    doing: str = ""  # "" while nothing runs
    problems: tuple[str, ...] = ()  # each with the line of the lecture, if known


class Session:
    """The lecture, its newest trace, and the thread that brings them together."""

    def __init__(self, lecture: Path, out: Path, options: TraceOptions, show: Callable[[Status], None]) -> None:
        self.lecture, self.out, self.options, self.show = lecture, out, options, show
        self.status = Status()
        self._trace: Trace | None = None  # the newest one, which the pages show
        self._modules_changed = False  # since it ran
        self._tracer: Tracer | None = None  # while the lecture runs
        self._next: Process | None = None  # of the next run: it imports torch before the next save
        self._saved = threading.Event()
        self._over = False
        self._worker = threading.Thread(target=self._work, name="pages", daemon=True)

    def watch(self) -> None:
        """Make the pages, and again at each save, until KeyboardInterrupt.

        The folder of the lecture is watched, and the packages in it. Folders are watched instead of files, because
        editors may save by renaming a new file over the old one.
        """
        self._trace = self._earlier_trace()
        self._saved.set()
        self._worker.start()
        folder = self.lecture.resolve().parent
        packages = [path.parent for path in folder.glob("*/__init__.py")]
        for changes in watchfiles.watch(folder, *packages, recursive=False, watch_filter=None):
            self.saved(Path(path) for _, path in changes)

    def saved(self, paths: Iterable[Path]) -> None:
        """React to saved files: stop a run of code that has changed since, and make the pages."""
        changed = {path.resolve() for path in paths if path.suffix in (".py", *PICTURES)}
        if not changed:
            return
        modules = {path for path in changed if path.suffix == ".py"} - {self.lecture.resolve()}
        self._modules_changed |= bool(modules)
        tracer = self._tracer
        if tracer is not None and (modules or not self._has_code_of(tracer.job.text)):
            tracer.stop()
        self._saved.set()

    def close(self) -> None:
        """Stop the running trace and the process of the next one."""
        self._over = True
        if (tracer := self._tracer) is not None:
            tracer.stop()
        self._saved.set()
        if self._worker.ident is not None:  # the thread was started
            self._worker.join(STOPPING_S)
        if self._next is not None:
            self._next.kill()

    def _work(self) -> None:
        while self._saved.wait() and not self._over:
            self._saved.clear()
            try:
                self._make_pages()
            except StoppedError:
                continue  # for a newer save
            except TraceToolsError as error:
                self._post(doing="", problems=(str(error),))
            except Exception as error:  # such as a template's: without this thread, no save would do anything
                self._post(doing="", problems=(f"{type(error).__name__}: {error}",))

    def _make_pages(self) -> None:
        """Run the lecture if the newest trace is of other code, then render."""
        if self._trace is None or self._modules_changed or not self._has_code_of(self._trace.source.text):
            self._trace = self._traced()
        render_folder(self.out, self.lecture)
        self._post(edition=self.status.edition + 1, doing="", problems=tuple(problems(self._trace)))

    def _traced(self) -> Trace:
        def progress(message: Progress) -> None:
            self._post(doing=f"Running: {': '.join(filter(None, (activity(message.process), message.where)))}")

        self._post(doing="Running", problems=())
        self._modules_changed = False
        self._tracer = Tracer(self.lecture, self.out, self.options, progress, self._next)
        try:
            self._next = None
            return self._tracer.run().trace
        finally:
            self._tracer = None
            if not self._over:
                self._next = started_early(self.lecture, self.options)

    def _has_code_of(self, text: str) -> bool:
        """Return whether the lecture differs from a text only in its words."""
        with suppress(TraceToolsError):  # not readable, or not valid Python: no run can be of it
            return shown_source(SourceFile(self.lecture.name, text), read_text(self.lecture)).stale is None
        return False

    def _earlier_trace(self) -> Trace | None:
        """Return the newest complete trace of this lecture that an earlier session left."""
        for path in sorted(self.out.glob("*/trace.yaml"), key=os.path.getmtime, reverse=True):
            with suppress(TraceToolsError):  # not readable, for example of another version
                trace = load(path)
                same_device = trace.machine.device == devices.kind(self.options.device or "cpu")
                if trace.run.lecture == self.lecture.name and same_device:
                    return trace
        return None

    def _post(self, **changes: Any) -> None:
        status = replace(self.status, **changes)
        if status != self.status:
            self.status = status
            self.show(status)
