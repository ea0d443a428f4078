"""Traces of a lecture made by edtrace itself, in a separate process, and by our tracer."""

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
    """Run edtrace on a lecture and return the path of its JSON file; skip the test if edtrace is not installed."""
    for name in ("edtrace", "torch", "sympy"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    command = [sys.executable, "-m", "edtrace.execute", "-m", lecture.stem, "-o", "."]
    python_path = os.pathsep.join([str(lecture.parent), *filter(None, sys.path)])
    subprocess.run(
        command, cwd=lecture.parent, env={**os.environ, "PYTHONPATH": python_path}, check=True, capture_output=True
    )
    return lecture.with_suffix(".json")


def traced_by_us(lecture: Path, environment: dict[str, str]) -> Trace:
    """Run a lecture once with our tracer and return the trace."""
    machine = from_json(Path(environment[STORED]).read_text(encoding="utf-8"))
    example = replace(example_trace(), machine=machine)
    options = TraceOptions(device="cpu", draft=True)
    return Tracer(lecture, lecture.parent / "rendered", options, like=example).run().trace


def copied(name: str, folder: Path) -> Path:
    """Copy one of the cases to a folder and return the copy's path."""
    return Path(shutil.copy(CASES / name, folder / name))
