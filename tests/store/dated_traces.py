"""Traces of a small lecture for tests of a store, with given dates, commits, machines, times and source versions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.diff.test_compare import LECTURE, machine_trace
from trace_tools.trace.model import Machine, Trace
from trace_tools.trace.trace_file import write

LONGER = LECTURE.replace("    y = x @ w", "    w = w + 1\n    y = x @ w")  # "y = x @ w" moves from line 6 to line 7
EDITED = LONGER.replace("y = x @ w", "y = x @ w.T")
WITHOUT_Y = LECTURE.replace("    y = x @ w  # @inspect y\n", "")
REWRITTEN = LECTURE.replace("y = x @ w", "y = relu(x)")
RENAMED = REWRITTEN.replace("y = relu(x)", "out = relu(x)")  # this line matches that of REWRITTEN, not of LECTURE


def trace_of_day(day: int, us: int = 200, *, machine: str = "a", commit: str = "c0ffee1", text: str = LECTURE) -> Trace:
    """Return the trace of a run in October 2026, in which "y = …" took `us` with 1% noise in three passes."""
    times_ns = [us * 1_000, us * 1_010, us * 990]
    trace = machine_trace(machine, times_ns, text, machine=Machine(f"Machine {machine}", machine, "cpu"))
    return replace(trace, run=replace(trace.run, started=f"2026-10-{day:02}T12:00:00+00:00", commit=commit))


def write_trace(trace: Trace, folder: Path, name: str = "trace.yaml") -> Path:
    """Write a trace to a file in a folder; return the path of the file."""
    path = folder / name
    write(trace, path)
    return path
