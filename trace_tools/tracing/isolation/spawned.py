"""Set up another tool's vocabulary in Python processes that a lecture starts; they are not recorded.

with adopted_in_spawned(Path("pass-1.spawned.py")):
    multiprocessing.get_context("spawn").Process(target=work).start()     # finds edtrace's functions
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trace_tools.util.interpreter import replaced

STAND_IN = """\
import runpy
from trace_tools.tracing.edtrace_hook import adopt_in_spawned
adopt_in_spawned()
globals().update(runpy.{run}({main!r}, run_name="__mp_main__"))
"""


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
