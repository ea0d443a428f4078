"""Programs as people write them print and end traced as `python PROGRAM.py` does, in about the same time."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from trace_tools.trace.file import load
from trace_tools.trace.model import Step

PROGRAMS = sorted((Path(__file__).parent / "cases/programs").glob("*.py"))
ENDING_S = 30  # much less than the tools would wait for idle workers of a pool


@pytest.mark.slow
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_runs_as_plain_python(path: Path, environment: dict[str, str], tmp_path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for name in ", ".join(re.findall("^# needs (.*)", text, re.M)).split(", "):
        if name and find_spec(name) is None:
            pytest.skip(f"not installed: {name}")
    lecture = Path(shutil.copy(path, tmp_path))
    runs = {}
    for how, command in {
        "plain": [lecture.name],
        "traced": ["-m", "trace_tools", "trace", lecture.name, "--passes", "1", "-o", "out", "--name", "cpu"],
    }.items():
        started = time.monotonic()
        runs[how] = (
            subprocess.run(
                [sys.executable, *command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=170
            ),
            time.monotonic() - started,
        )
    (plain, plain_s), (traced, traced_s) = runs["plain"], runs["traced"]
    assert plain.returncode == 0, plain.stderr
    trace = load(tmp_path / "out/cpu/trace.yaml").trace
    printed = "".join(step.stdout or "" for step in trace.steps if isinstance(step, Step))
    assert (printed, traced.returncode) == (plain.stdout, 0), traced.stderr
    assert [(str(process.ended), process.why_no_warm) for process in trace.run.processes] == [("complete", None)]
    assert traced_s < 5 * plain_s + ENDING_S
