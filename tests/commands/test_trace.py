"""`trace` where it can't begin; `tests/tracing/test_supervisor.py` has what it does then."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result

from trace_tools.cli import main
from trace_tools.machines import machine as machines
from trace_tools.machines.devices import FORMS
from trace_tools.machines.machine import STORED
from trace_tools.trace.model import NOT_METERED, Meters, Peak, Step
from trace_tools.trace.trace_file import load

BAD = {
    "no main": ("x = 1\n", [], "lecture.py:1: defines no function `main`"),
    "syntax": ("def main():\n    x = = 1\n", [], ": invalid syntax"),
    "directive": ("def main():\n    x = 1  # @inpsect x\n", [], "2 mistakes"),
    "section": ("def main():\n    one()\ndef one(): pass\n", ["--only", "two"], "--only two: "),
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


@pytest.mark.slow
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
    ran = trace("def main(): part()\ndef part(): pass\n", "-o", "taken")
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


@pytest.mark.slow
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
    if any(machines.LOADED in peak.source for peak in measured):  # so it was not kept: other tests were running
        quiet = [replace(peak, source=peak.source.partition(f", {machines.LOADED}")[0]) for peak in measured]
        made = load(path).trace
        machines.remember(replace(made.machine, peaks=quiet), [(name, version) for name, version in made.versions])
    for later in (peaks("--passes", "1"), peaks("--draft")):
        assert [replace(peak, source="") for peak in later] == [replace(peak, source="") for peak in measured]
        assert all(re.search(r", on 2\d{3}-\d\d-\d\d$", peak.source) for peak in later)
    assert not any(", on 2" in peak.source for peak in peaks("--passes", "1", "--survey"))


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "processes"),
    [
        ("import time", ["pass 1", "metering"]),
        ("y = torch.compile(torch.sin)(x)", ["pass 1", "metering"]),
        ("from trace_tools import measure", ["pass 1"]),
    ],
)
def test_a_draft_is_counted_in_another_process_where_main_reads_a_clock_or_the_lecture_compiles(
    line: str, processes: list[str]
) -> None:
    made = trace(DRAFTED.replace("    part()", f"    part()\n    if 0: {line}"), "--device", "cpu", "--draft")
    assert made.exit_code == 0, made.output
    drafted = load(Path("rendered/cpu/trace.yaml")).trace
    assert [process.name for process in drafted.run.processes] == processes
    meters = [one.meters for one in drafted.steps if isinstance(one, Step)]
    assert [one.flops for one in meters if one and one.flops] == [1024 + 65, 1024, 65]


TIMED = """
import time
import torch
from torch.utils.flop_counter import FlopCounterMode
from trace_tools import measure
modes = torch._C._len_torch_dispatch_stack
def main():
    part()
def part():
    x = torch.ones(8, 8)
    y = x @ x  # @inspect y
    before = modes()  # @inspect before
    inside = timed(x)  # @inspect inside
    covered = timed(x)  # @inspect covered @stepover
    z = y @ x  # @inspect z
    with FlopCounterMode(display=False) as counter:
        timed(x)
    flops = counter.get_total_flops()  # @inspect flops
    try:
        timed(None)
    except TypeError:
        pass
    m = measure(lambda: x @ x, repeats=2, min_seconds=0.001)  # @inspect m
    try:
        measure(lambda: x @ None)
    except TypeError:
        pass
    w = x @ z  # @inspect w
def timed(x):
    start = time.perf_counter()
    inner(x)
    found = modes() if time.perf_counter() > start else None  # @inspect found
    return found
def inner(x):
    y = x @ x  # @inspect y
"""


@pytest.mark.slow
def test_a_draft_counts_in_its_one_run_except_while_the_lecture_measures_time() -> None:
    """There the meter is off, and off the stack of torch's modes; what the lecture put there itself stays on."""
    made = trace(TIMED, "--device", "cpu", "--draft")
    assert made.exit_code == 0, made.output
    drafted = load(Path("rendered/cpu/trace.yaml")).trace
    assert [process.name for process in drafted.run.processes] == ["pass 1"]
    taken = [one for one in drafted.steps if isinstance(one, Step)]
    lines = TIMED.splitlines()
    at = {lines[step.line - 1].split("#")[0].strip(): step for step in reversed(taken)}
    product = 2 * 8**3
    for code in ("y = x @ x", "z = y @ x", "w = x @ z"):
        step = next(s for s in taken if lines[s.line - 1].strip().startswith(code))
        assert step.meters is not None and (step.meters.flops, step.meters.why) == (product, None)
    for code in ("inside = timed(x)", "covered = timed(x)", "found = modes() if time.perf_counter() > start else None"):
        meters = at[code].meters
        assert meters is not None and (meters.flops, meters.operators, meters.why) == (None, None, NOT_METERED)
    values = {source: value.value for step in taken for source, value, *_ in step.values or () if source != "m"}
    assert [values[name] for name in ("before", "inside", "covered", "flops")] == [1, 0, 0, product]
    (measured,) = at["m = measure(lambda: x @ x, repeats=2, min_seconds=0.001)"].measured or ()
    assert (measured.flops, measured.operators) == (product, [("aten.mm", 1)]) and measured.seconds[0] > 0
    within = [s.meters for s in taken if lines[s.line - 1] == "    y = x @ x  # @inspect y"][1:]
    assert within == [Meters(why=NOT_METERED)] * 3


@pytest.mark.slow
def test_a_draft_of_a_lecture_that_fails_says_so() -> None:
    """Its processes are forked: what goes wrong there is told as of any other."""
    failed = trace(DRAFTED.replace("512", "513"), "--device", "cpu", "--draft")
    assert failed.exit_code == 1 and "claim failed" in failed.stderr
    ended = trace(DRAFTED.replace("y = x @ x", "import os; os.kill(os.getpid(), 11)"), "--device", "cpu", "--draft")
    assert ended.exit_code == 1 and "killed by SIGSEGV at line 13 (pass 1)" in ended.stderr
