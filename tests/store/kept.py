"""Runs of a small lecture for the tests of a store: when, of which commit, on which machine, how long."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.diff.test_compare import LECTURE, machine_trace
from trace_tools.trace.model import Machine, Trace
from trace_tools.trace.trace_file import write

LONGER = LECTURE.replace("    y = x @ w", "    w = w + 1\n    y = x @ w")  # "y = …" stands a line lower, and is edited
EDITED = LONGER.replace("y = x @ w", "y = x @ w.T")
WITHOUT = LECTURE.replace("    y = x @ w  # @inspect y\n", "")
REWRITTEN = LECTURE.replace("y = x @ w", "y = relu(x)")
RENAMED = REWRITTEN.replace("y = relu(x)", "out = relu(x)")  # "y = x @ w" to who has not seen the one between them


def ran(day: int, us: int = 200, *, machine: str = "a", commit: str = "c0ffee1", text: str = LECTURE) -> Trace:
    """Return the run of a day: "y = …" took `us` in three passes, 1% apart."""
    times = [us * 1_000, us * 1_010, us * 990]
    one = machine_trace(machine, times, text, machine=Machine(f"Machine {machine}", machine, "cpu"))
    return replace(one, run=replace(one.run, started=f"2026-10-{day:02}T12:00:00+00:00", commit=commit))


def written(trace: Trace, folder: Path, name: str = "trace.yaml") -> Path:
    path = folder / name
    write(trace, path)
    return path
