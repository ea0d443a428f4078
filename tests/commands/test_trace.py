"""`trace` where it can't begin; `tests/tracing/test_tracer.py` has what it does then."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from trace_tools.cli import main
from trace_tools.file_format.trace_file import load
from trace_tools.machines.devices import FORMS
from trace_tools.machines.machine import STORED

BAD = {
    "no main": ("x = 1\n", [], "lecture.py: defines no function `main`"),
    "syntax": ("def main():\n    x = = 1\n", [], "lecture.py:2: not valid Python: invalid syntax"),
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


def test_a_draft_is_one_run_and_measures_no_machine_that_a_trace_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The peaks are those of the trace that is there, with their date; another computer's are not taken."""
    monkeypatch.delenv(STORED)
    first = trace(DRAFTED, "--device", "cpu", "--passes", "1")
    assert first.exit_code == 0 and "survey" in first.stderr
    path = Path("rendered/cpu/trace.yaml")
    measured = load(path).trace.machine.peaks
    draft = trace(None, "--device", "cpu", "--draft")
    assert draft.exit_code == 0 and "survey" not in draft.stderr and "one run only" in draft.stderr
    drafted = load(path).trace
    assert [(p.name, p.ended, p.warm_ns) for p in drafted.run.processes] == [
        ("pass 1", "complete", None),
        ("metering", "complete", None),
    ]
    assert [peak.per_second for peak in drafted.machine.peaks] == [peak.per_second for peak in measured]
    assert all(", on 2" in peak.source for peak in drafted.machine.peaks)
    path.write_text(path.read_text().replace(f"cores: {drafted.machine.cores}\n", "cores: 1000\n"))
    assert "survey" in trace(None, "--device", "cpu", "--draft").stderr
