"""Checks of `make emulate`: how operators ran, and which claims failed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tests.cases_in_one import each
from tests.diff.planted import at, made, with_steps
from tests.emulated_cuda import emulate
from trace_tools.trace.file import write
from trace_tools.trace.model import Claim, Process


def test_launches_in_step_are_limited(tmp_path: Path) -> None:
    assert not emulate._asynchronous(tmp_path)  # nothing was launched
    for in_step, well in ((0, True), (9, True), (20, False)):
        for number, counts in enumerate(([990, 5, 0], [0, 0, in_step])):
            (tmp_path / f"{number}.json").write_text(json.dumps({f"aten::op_{number}": counts}))
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
    trace = with_steps(made(0), at(7, claim=Claim("x < 1", not runs, failed_runs=runs)))
    run = replace(trace.run, timed_runs=2, processes=[Process("pass 1", ended)])
    write(replace(trace, run=run), tmp_path / "trace.yaml")
    assert emulate._completed(tmp_path / "trace.yaml") is well
