"""Warn at steps that start new Python processes, because these are not recorded.

    with saying_what_is_untraced(recorder):
        multiprocessing.get_context("spawn").Process(target=work).start()     # a warning of the step that is open

Forked processes get no warning: their output goes to the parent's output, and the parent is still traced.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from sys import _getframe
from typing import Any

from trace_tools.tracing.recorder.recorder import Recorder
from trace_tools.util.interpreter import replaced

UNTRACED = (
    "NotTraced: processes were started here ({method}); they are not traced, and this page shows only their output"
)

STAND_IN = """\
import runpy
from trace_tools.tracing.edtrace_hook import adopt_in_spawned
adopt_in_spawned()
globals().update(runpy.{run}({main!r}, run_name="__mp_main__"))
"""


@contextlib.contextmanager
def saying_what_is_untraced(recorder: Recorder) -> Iterator[None]:
    """Warn once at each step that starts processes in which the lecture's modules are imported again."""
    from multiprocessing import process as processes  # imported here, because only some lectures start processes

    start = processes.BaseProcess.start
    warned: set[int] = set()

    def recorded_start(self: Any) -> None:
        method = getattr(self, "_start_method", None)
        owner = recorder.recorded_owner(_getframe(1)) if method in ("spawn", "forkserver") else None
        if owner is not None and owner.seq not in warned:
            warned.add(owner.seq)
            recorder.emit("warnings", UNTRACED.format(method=method))
        start(self)

    with replaced(processes.BaseProcess, "start", recorded_start):
        yield


@contextlib.contextmanager
def adopted_in_spawned(stand_in: Path) -> Iterator[None]:
    """Set up another tool's vocabulary in newly started Python processes: they run a file that sets it up, then the
    lecture.

    `stand_in` is the path of that file, which is written when a process is started.
    """
    from multiprocessing import spawn

    prepared = spawn.get_preparation_data

    def get_preparation_data(name: str) -> dict[str, Any]:
        data = dict(prepared(name))
        kind = "path" if "init_main_from_path" in data else "name"
        main = data.pop(f"init_main_from_{kind}", None)
        if main is not None:
            stand_in.write_text(STAND_IN.format(run="run_path" if kind == "path" else "run_module", main=main))
            data["init_main_from_path"] = str(stand_in)
        return data

    with replaced(spawn, "get_preparation_data", get_preparation_data):
        yield
