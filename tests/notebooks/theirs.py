"""edtrace itself, in a process of its own, and our own trace of the same lecture."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.traces import example_trace
from trace_tools.machines.machine import STORED, from_json
from trace_tools.trace.model import Trace
from trace_tools.tracing.options import TraceOptions
from trace_tools.tracing.supervisor import Tracer

CASES = Path(__file__).parent / "cases"


def traced_by_edtrace(lecture: Path) -> Path:
    """Return the JSON that edtrace writes of a lecture beside it; skip the test where it is not installed."""
    for name in ("edtrace", "torch", "sympy"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    command = [sys.executable, "-m", "edtrace.execute", "-m", lecture.stem, "-o", "."]
    beside = os.pathsep.join([str(lecture.parent), *filter(None, sys.path)])
    subprocess.run(
        command, cwd=lecture.parent, env={**os.environ, "PYTHONPATH": beside}, check=True, capture_output=True
    )
    return lecture.with_suffix(".json")


def traced_by_us(lecture: Path, environment: dict[str, str]) -> Trace:
    """Return our trace of one run of a lecture."""
    machine = from_json(Path(environment[STORED]).read_text(encoding="utf-8"))
    known = replace(example_trace(), machine=machine)
    options = TraceOptions(device="cpu", draft=True)
    return Tracer(lecture, lecture.parent / "rendered", options, like=known).run().trace


def copied(name: str, folder: Path) -> Path:
    """Return a copy of one of the cases."""
    return Path(shutil.copy(CASES / name, folder / name))
