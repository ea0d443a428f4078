"""`trace` with bad input, and drafts; `tests/tracing/test_tracer.py` tests complete traces."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result

from tests.messages import says
from trace_tools.cli import main
from trace_tools.machines.machine import STORED
from trace_tools.trace.file import load
from trace_tools.trace.model import Step


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> Path:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("MAKELEVEL", raising=False)  # under make, a trace names its targets
    monkeypatch.chdir(tmp_path)
    return tmp_path


def trace(source: str, *arguments: str) -> Result:
    Path("lecture.py").write_text(source, encoding="utf-8")
    return CliRunner().invoke(main, ["trace", "lecture.py", *arguments])


EMPTY = "def main(): pass\n"
SEED = "expected a whole number of 64 bits"


@pytest.mark.parametrize(
    ("source", "arguments", "message"),
    [
        ("# x = 1\n", [], "lecture.py: has no statements; expected a script"),
        ("x = 1\n", ["--only", "x"], "--only x: the cells of a script share variables"),
        ("def main():\n    x = = 1\n", [], ": invalid syntax"),
        ("def main():\n    x = 1  # @inpsect x\n", [], "lecture.py:2: unknown directive `@inpsect`"),
        ("def main():\n    one()\ndef one(): pass\n", ["--only", "two"], "--only two: "),
        pytest.param(EMPTY, ["--device", "cuda"], "no CUDA device", marks=pytest.mark.slow),
        (EMPTY, ["--seed", str(2**64)], SEED),
        (EMPTY, ["--seed", str(-(2**63) - 1)], SEED),
        (EMPTY, ["--seed", "x"], f"error: --seed x: {SEED}"),
        (EMPTY, ["--name", "a/b"], "error: --name a/b: found 'a/b'; expected a folder's name"),
        (EMPTY, ["--name", "index.html"], "--name index.html: "),  # of a page
        (EMPTY, ["--name", "diff"], "--name diff: "),  # of the reports
        (EMPTY, ["--passes", "0"], "Invalid value for '--passes'"),
    ],
)
def test_bad_input_is_a_one_line_error(source: str, arguments: list[str], message: str, folder: Path) -> None:
    result = trace(source, *arguments)
    assert result.exit_code == 2 and isinstance(result.exception, SystemExit)
    assert message in result.stderr.splitlines()[-1]
    assert not list(folder.glob("rendered/*"))


def test_a_file_in_the_place_of_the_folder_is_an_error(folder: Path) -> None:
    (folder / "taken").write_text("a file", encoding="utf-8")
    result = trace("def main(): part()\ndef part(): pass\n", "-o", "taken")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1) and "taken: can't be written" in result.stderr


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
def test_draft_is_one_run_with_the_values_of_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace measures peaks and counts the operators of each step in a further run; a draft runs once."""
    monkeypatch.delenv(STORED)
    counted = "from trace_tools import count\n    c = count(lambda: x @ y)  # @inspect c\n    assert"
    source, traces = DRAFTED.replace("assert", counted), []
    for options in (["--passes", "1"], ["--draft"]):
        result = trace(source, "--device", "cpu", "--name", "cpu", *options)
        assert result.exit_code == 0, result.output
        traces.append(load(Path("rendered/cpu/trace.yaml")))
    whole, draft = traces
    assert draft.machine.peaks == [] and draft.machine.threads == torch.get_num_threads()
    assert [(p.name, p.ended, p.warm_ns) for p in draft.run.processes] == [("pass 1", "complete", None)]
    assert len([peak for peak in whole.machine.peaks if peak.measured and peak.per_second]) == 5
    of_whole, of_draft = ([event for event in one.steps if isinstance(event, Step)] for one in traces)
    assert [(s.line, s.values, s.claim) for s in of_whole] == [(s.line, s.values, s.claim) for s in of_draft]
    assert [s.meters.flops for s in of_whole if s.meters and s.meters.flops] == [2 * 1024 + 65, 1024, 1024, 65]
    assert not any(s.meters for s in of_draft)


@pytest.mark.slow
def test_failure_in_a_draft_is_reported() -> None:
    """A draft's processes are forked, and their failures are reported like those of other processes."""
    failed = trace(DRAFTED.replace("512", "513"), "--device", "cpu", "--draft")
    assert failed.exit_code == 1 and "claim failed" in failed.stderr
    ended = trace(DRAFTED.replace("y = x @ x", "import os; os.kill(os.getpid(), 11)"), "--device", "cpu", "--draft")
    assert ended.exit_code == 1 and "killed by SIGSEGV at line 13 (pass 1)" in ended.stderr


@pytest.mark.slow
def test_the_end_names_files_differences_and_paths_from_here(folder: Path) -> None:
    """The lecture is in another folder than the caller. The first trace has no other one to be compared with."""
    for name in ("talks", "here"):
        (folder / name).mkdir()
    os.chdir("here")
    lecture, opened = Path("../talks/one.py"), "    for n in 'abcde': open(n, 'w').close()\n"
    source = f"def main():\n    part()\ndef part():\n{opened}    x = 1  # @inspect x\n"
    ends = []
    for name, text in (("a", source), ("b", source.replace("x = 1", "x = 2")), ("b", source + "    assert x == 3\n")):
        lecture.write_text(text, encoding="utf-8")
        result = CliRunner().invoke(main, ["trace", str(lecture), "--name", name, "--passes", "1"])
        ends.append((result.stdout.splitlines(), result.stderr.splitlines()))
    (out, first), (_, second), (failed_out, failed) = ends
    assert out == ["../talks/rendered/a/trace.yaml", "open ../talks/rendered/index.html"]
    assert "written in the copy, discarded: a, b, c and 2 more" in first and "against" not in " ".join(first)
    assert any(line.startswith("time ") and "1 pass" in line for line in second)
    assert says(second[-1], "against ../talks/rendered/a/trace.yaml", "1 value", "diff ../talks/rendered/a/trace.yaml ")
    assert failed_out[0] == "../talks/rendered/b/partial/trace.yaml"
    assert [line.partition(" failed")[0] for line in failed if "claim failed" in line] == ["../talks/one.py:6: claim"]


@pytest.mark.slow
def test_a_lecture_inside_a_package(folder: Path) -> None:
    files = {
        "course/__init__.py": "",
        "course/unit/__init__.py": "from .deep import VALUE\n",
        "course/unit/deep.py": "VALUE = 7\n",
        "course/unit/one.py": """
from trace_tools import image
from .deep import VALUE
import course.unit as unit
def main():
    section()
def section():
    x = VALUE + unit.VALUE  # @inspect x
    image('here.svg')
    open('written', 'w').close()
""",
        "here.svg": '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>',
    }
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")
    result = CliRunner().invoke(main, ["trace", "-m", "course.unit.one", "--passes", "1", "--name", "cpu"])
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in folder.iterdir()) == ["course", "here.svg", "rendered"]
    text = Path("rendered/cpu/trace.yaml").read_text(encoding="utf-8")
    assert '"x", {"type": "int", "value": 14}' in text and 'lecture: "course/unit/one.py"' in text
    page = Path("rendered/cpu/00-section.html").read_text(encoding="utf-8")
    assert "data:image/svg+xml" in page and "not shown" not in page
