"""Checks of `make emulate`: how operators ran, which claims failed, and which sizes the lecture uses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tests.cases_in_one import each
from tests.diff.planted import made
from tests.emulated_cuda import emulate
from trace_tools.trace.file import write
from trace_tools.trace.model import Claim, Process, Step


def test_launches_in_step_are_limited(tmp_path: Path) -> None:
    assert not emulate._asynchronous(tmp_path)  # nothing was launched
    for in_step, well in ((0, True), (9, True), (20, False)):
        for number, counts in enumerate(([990, 5, 0], [0, 0, in_step])):
            (tmp_path / f"{number}.json").write_text(json.dumps({"operators": {f"aten::op_{number}": counts}}))
        assert emulate._asynchronous(tmp_path) is well


@each(
    ("runs", "ended", "well"),
    [
        (["pass 1, cold"], "complete", True),
        (["pass 1, cold", "pass 1, warm"], "complete", False),
        ([], "killed by SIGSEGV", False),
    ],
)
def test_claim_that_never_holds_fails_the_run(runs: list[str], ended: str, well: bool, tmp_path: Path) -> None:
    """So does a process that was killed."""
    trace = made(0)
    first = next(step for step in trace.steps if isinstance(step, Step))
    failed = replace(first, claim=Claim("x < 1", not runs, failed_runs=runs))
    steps = [failed if step is first else step for step in trace.steps]
    run = replace(trace.run, timed_runs=2, processes=[Process("pass 1", ended)])
    write(replace(trace, steps=steps, run=run), tmp_path / "trace.yaml")
    assert emulate._completed(tmp_path / "trace.yaml") is well


def test_lecture_is_changed_only_to_use_a_cpus_sizes(tmp_path: Path) -> None:
    changed, original = emulate._lecture(tmp_path).read_text(), (emulate.ROOT / "lecture.py").read_text()
    pairs = zip(changed.splitlines(), original.splitlines(), strict=True)
    assert [pair for pair in pairs if pair[0] != pair[1]] == [("    if device():", '    if device() == "cpu":')]
