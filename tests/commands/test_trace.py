"""`trace` where it can't begin; `tests/tracing/test_tracer.py` has what it does then."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result

from trace_tools.cli import main
from trace_tools.file_format.trace_file import load
from trace_tools.machines.devices import FORMS
from trace_tools.machines.machine import STORED
from trace_tools.schema import Peak, Step

BAD = {
    "no main": ("x = 1\n", [], "lecture.py:1: defines no function `main`"),
    "syntax": ("def main():\n    x = = 1\n", [], ": invalid syntax"),
    "directive": ("def main():\n    x = 1  # @inpsect x\n", [], "lecture.py:2: unknown directive `@inpsect`"),
    "section": ("def main():\n    one()\ndef one(): pass\n", ["--only", "two"], "--only two: main calls no such"),
    "device": ("def main(): pass\n", ["--device", "cuda"], "no CUDA device"),
    "no such kind": ("def main(): pass\n", ["--device", "tpu"], f"error: device 'tpu'; expected {FORMS}"),
    "seed": ("def main(): pass\n", ["--seed", str(2**64)], "expected a whole number of 64 bits"),
    "negative seed": ("def main(): pass\n", ["--seed", str(-(2**63) - 1)], "expected a whole number of 64 bits"),
    "no seed": ("def main(): pass\n", ["--seed", "x"], "error: --seed x: expected a whole number of 64 bits"),
    "passes": ("def main(): pass\n", ["--passes", "0"], "Invalid value for '--passes'"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> Path:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def trace(source: str | None, *arguments: str) -> Result:
    if source is not None:
        Path("lecture.py").write_text(source, encoding="utf-8")
    return CliRunner().invoke(main, ["trace", "lecture.py", *arguments])


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line(case: str, folder: Path) -> None:
    source, arguments, message = BAD[case]
    ran = trace(source, *arguments)
    assert ran.exit_code == 2 and isinstance(ran.exception, SystemExit)
    assert message in ran.stderr.splitlines()[-1]
    assert not list(folder.glob("rendered/*"))


def test_a_missing_lecture_and_an_unwritable_folder(folder: Path) -> None:
    ran = trace(None)
    assert (ran.exit_code, ran.stderr.count("\n")) == (2, 1)
    assert "lecture.py: can't be read: No such file" in ran.stderr
    (folder / "taken").write_text("a file", encoding="utf-8")
    ran = trace("def main(): pass\n", "-o", "taken")
    assert (ran.exit_code, ran.stderr.count("\n")) == (2, 1) and "taken: can't be written" in ran.stderr


DRAFTED = '''"""Drafted"""

import torch


def main():
    part()


def part():
    """Part"""
    x = torch.ones(8, 8)
    y = x @ x  # @inspect y
    assert y.sum() == 512
'''


def test_a_draft_is_one_run_and_a_machine_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A draft measures nothing; what a trace measured serves later ones with its date, until somebody asks for more."""
    monkeypatch.delenv(STORED)
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path("cache").absolute()))
    path = Path("rendered/cpu/trace.yaml")

    def peaks(*options: str) -> list[Peak]:
        made = trace(DRAFTED, "--device", "cpu", *options)
        assert made.exit_code == 0, made.output
        return load(path).trace.machine.peaks

    assert peaks("--draft") == []
    drafted = load(path).trace
    assert [(p.name, p.ended, p.warm_ns) for p in drafted.run.processes] == [("pass 1", "complete", None)]
    assert dict(drafted.versions)["torch"] == torch.__version__ and drafted.machine.threads == torch.get_num_threads()
    measured = peaks("--passes", "1")
    assert len(measured) == 5 and not any(", on 2" in peak.source for peak in measured)
    for later in (peaks("--passes", "1"), peaks("--draft")):
        assert [replace(peak, source="") for peak in later] == [replace(peak, source="") for peak in measured]
        assert all(re.search(r", on 2\d{3}-\d\d-\d\d$", peak.source) for peak in later)
    assert not any(", on 2" in peak.source for peak in peaks("--passes", "1", "--survey"))


def test_a_draft_says_what_a_trace_says() -> None:
    """Its one run is counted, too: values and counts are those of a trace, whose metering has a process of its own."""
    path = Path("rendered/cpu/trace.yaml")
    said = []
    for options in (["--passes", "1"], ["--draft"]):
        counted = "from trace_tools import count\n    c = count(lambda: x @ y)  # @inspect c\n    assert"
        source = DRAFTED.replace("assert", counted)
        made = trace(source, "--device", "cpu", *options)
        assert made.exit_code == 0, made.output
        steps = [one for one in load(path).trace.steps if isinstance(one, Step)]
        said.append([(s.line, s.values, s.meters and replace(s.meters, live_bytes=0), s.claim) for s in steps])
    assert said[0] == said[1]
    assert [meters.flops for _, _, meters, _ in said[1] if meters and meters.flops] == [2 * 1024 + 65, 1024, 1024, 65]


@pytest.mark.parametrize("line", ["import time", "from trace_tools import measure", "y = torch.compile(torch.sin)(x)"])
def test_a_draft_of_what_would_see_its_operators_being_counted_counts_them_in_another_process(line: str) -> None:
    made = trace(DRAFTED.replace("    part()", f"    part()\n    if 0: {line}"), "--device", "cpu", "--draft")
    assert made.exit_code == 0, made.output
    drafted = load(Path("rendered/cpu/trace.yaml")).trace
    assert [process.name for process in drafted.run.processes] == ["pass 1", "metering"]
    meters = [one.meters for one in drafted.steps if isinstance(one, Step)]
    assert [one.flops for one in meters if one and one.flops] == [1024 + 65, 1024, 65]


def test_a_draft_of_a_lecture_that_fails_says_so() -> None:
    """Its processes are forked: what goes wrong there is told as of any other."""
    failed = trace(DRAFTED.replace("512", "513"), "--device", "cpu", "--draft")
    assert failed.exit_code == 1 and "claim failed" in failed.stderr
    ended = trace(DRAFTED.replace("y = x @ x", "import os; os.kill(os.getpid(), 11)"), "--device", "cpu", "--draft")
    assert ended.exit_code == 1 and "killed by SIGSEGV at line 13 (pass 1)" in ended.stderr
