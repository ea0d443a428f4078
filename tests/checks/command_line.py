"""Run commands of the tools, and plain Python, in separate processes; checks start hundreds of them.

environment()["TRACE_TOOLS_MACHINE"]    # a file about this machine, measured once for all processes
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from trace_tools.machines.machine import STORED

ROOT = Path(__file__).parents[2]
TOOLS = ("-m", "trace_tools")


def environment(**more: str) -> dict[str, str]:
    """Return variables for every process: the package on the path, one thread, and the machine's measured peaks."""
    package = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    return {**os.environ, **package, STORED: os.environ.get(STORED) or _measured(), **more}


@functools.cache
def _measured() -> str:
    folder = tempfile.TemporaryDirectory(prefix="machine-")
    _kept.append(folder)
    path = Path(folder.name) / "machine.json"
    survey = [sys.executable, "-m", "trace_tools.tracing.survey", str(path), "cpu", "measure"]
    subprocess.run(survey, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, capture_output=True)
    return str(path)


_kept: list[tempfile.TemporaryDirectory[str]] = []  # folders that must exist until this process ends


def python(words: Sequence[str], folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments in a folder; `more` is added to its environment."""
    command = [sys.executable, *words]
    return subprocess.run(
        command,
        cwd=folder,
        env=environment(**more),
        capture_output=True,
        text=True,
        errors="replace",
        timeout=600,
        check=False,
    )
