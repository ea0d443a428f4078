"""Checks of `make emulate`: how operators ran, which claims failed, and which sizes the lecture uses."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cases_in_one import each
from tests.diff.planted import made
from tests.emulated_cuda import emulate
from tests.emulated_cuda.claims import LEFT_OUT, NOT_JUDGED
from trace_tools.trace.model import Claim, Process, Step
from trace_tools.trace.trace_file import write


@each(("in_step", "well"), [(0, True), (9, True), (20, False)])
def test_launches_in_step_are_listed_and_limited(
    in_step: int, well: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, counts in enumerate(([990, 5, 0], [0, 0, in_step])):
        text = json.dumps({"role": "pass-1", "operators": {f"aten::op_{number}": counts}})
        (tmp_path / f"pass-{number}.json").write_text(text)
    assert emulate._asynchronous(tmp_path) is well
    listed = f"aten::op_1 {in_step}" if in_step else "none"
    assert capsys.readouterr().out == f"990 launches were queued, {in_step} ran in step: {listed}\n"


def test_run_without_launches_fails(tmp_path: Path) -> None:
    assert not emulate._asynchronous(tmp_path)


@each(("runs", "well"), [(["pass 1, cold"], True), (["pass 1, cold", "pass 1, warm"], False)])
def test_claim_that_never_holds_fails_the_run(runs: list[str], well: bool, tmp_path: Path) -> None:
    """So does a process that was killed."""
    trace = made(0)
    first = next(step for step in trace.steps if isinstance(step, Step))
    failed = replace(first, claim=Claim("x < 1", False, failed_runs=runs))
    steps = [failed if step is first else step for step in trace.steps]
    run = replace(trace.run, timed_runs=2, processes=[Process("pass 1", "complete")])
    write(replace(trace, steps=steps, run=run), tmp_path / "trace.yaml")
    assert emulate._completed(tmp_path / "trace.yaml") is well
    killed = replace(run, processes=[Process("shaken", "killed by SIGSEGV")])
    write(replace(trace, run=killed), tmp_path / "trace.yaml")
    assert not emulate._completed(tmp_path / "trace.yaml")


def test_lecture_is_changed_only_to_use_a_cpus_sizes(tmp_path: Path) -> None:
    changed, original = (
        emulate._lecture(tmp_path).read_text().splitlines(),
        (emulate.ROOT / "lecture.py").read_text().splitlines(),
    )
    differing = [pair for pair in zip(changed, original, strict=True) if pair[0] != pair[1]]
    assert differing == [("    if device():", '    if device() == "cpu":')]


def test_listed_exceptions_exist_in_the_lecture() -> None:
    nodes = list(ast.walk(ast.parse((emulate.ROOT / "lecture.py").read_text(encoding="utf-8"))))
    assert LEFT_OUT.keys() <= {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    assert NOT_JUDGED.keys() <= {ast.unparse(node.test) for node in nodes if isinstance(node, ast.Assert)}
