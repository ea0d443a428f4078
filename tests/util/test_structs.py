"""Records without msgspec must equal records made with msgspec."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.traces import example_trace
from trace_tools.trace.trace_file import load, write
from trace_tools.tracing.progress import Progress

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
sys.modules["msgspec"] = None  # as if it were not installed
from dataclasses import replace
from pathlib import Path
from trace_tools.errors import TraceFileError
from trace_tools.trace.structure import from_plain
from trace_tools.trace.trace_file import load, validate, write
from trace_tools.trace.model import Peak, Step
from trace_tools.tracing.progress import Progress
folder = Path(sys.argv[1])
trace = load(folder / "trace.yaml").trace
validate(trace, folder)
write(replace(trace, title=trace.title), folder / "again.yaml")
print(repr(trace))
print(repr(Progress.read(Progress("pass 1", "matmul", line=42).to_json())))
for plain in ({}, {"name": 1, "per_second": 1.0, "source": ""}, {"nane": ""}, [], None):
    try:
        from_plain(Peak, plain, "peak")
    except TraceFileError as error:
        print(error)
"""


def test_traces_are_the_same_without_msgspec(tmp_path: Path) -> None:
    write(example_trace(), tmp_path / "trace.yaml")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    completed = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path], env=environment, capture_output=True, text=True, check=True
    )
    trace, progress, *errors = completed.stdout.splitlines()
    assert trace == repr(load(tmp_path / "trace.yaml").trace)
    assert progress == repr(Progress("pass 1", "matmul", line=42))
    assert (tmp_path / "again.yaml").read_bytes() == (tmp_path / "trace.yaml").read_bytes()
    assert len(errors) == 5 and all(error.startswith("peak: ") for error in errors), errors
