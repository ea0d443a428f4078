"""Run traces in a thread, one at a time; a new trace stops the previous one.

    retracer = Retracer(ended, temporary)
    retracer.start(Tracer(lecture, out, options, progress))     `ended(tracer, outcome)` is called when it is done
    retracer.stop()

The processes keep their temporary files in the folder `temporary`, so that no files remain after a kill.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from trace_tools.errors import TraceToolsError
from trace_tools.tracing.run_folder import Traced
from trace_tools.tracing.supervisor import StoppedError, Tracer

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
