"""Validation that `cases/refused.yaml` does not cover; test_file.py runs the cases of that file."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cases_in_one import each
from tests.pages.explored import EXPLORED as NARRATIVES
from tests.traces import example_trace
from trace_tools.errors import TraceFileError
from trace_tools.trace.file import validate
from trace_tools.trace.model import (
    Answer,
    Ask,
    Exploration,
    Explore,
    Frame,
    Machine,
    Peak,
    Raised,
    Result,
    Scalar,
    SourceFile,
    Step,
    Table,
    Trace,
    Value,
)
from trace_tools.util.structs import to_plain

assert NARRATIVES[0].exploration is not None
EXPLORED = NARRATIVES[0].exploration


def trace_of(step: Step, **fields: Any) -> Trace:
    return example_trace(steps=[Frame(0, "f"), step], **fields)


def nested(depth: int) -> Value:
    return Value("int", 1) if depth == 0 else Value("list", length=1, items=[nested(depth - 1)])


STEP = Step(0, 0, 0, 1)
THREE_LINES = [SourceFile("a.py", "x\r\ny\rz")]
MODULES = [SourceFile(f"m{number}.py", "") for number in range(1_001)]
RAISING = Step(0, 0, 0, 3, raised=Raised("E", "", origin_line=4))


@each(
    ("trace", "message"),
    [
        (trace_of(replace(STEP, values=[("x", nested(51))])), "steps[1], values: nested more than 50 values deep"),
        (
            trace_of(RAISING, sources=THREE_LINES),
            "steps[1], raised: found line 4; expected 1 to 3",
        ),
        (trace_of(STEP, sources=MODULES), "sources: found 1,001 of them; expected at most 1,000"),
    ],
)
def test_what_is_too_deep_too_many_or_beyond_the_source_is_refused(trace: Trace, message: str) -> None:
    with pytest.raises(TraceFileError, match=f"{re.escape(message)}$"):
        validate(trace, Path("trace.yaml"))


def test_the_deepest_value_and_the_most_sources_are_valid() -> None:
    validate(trace_of(replace(STEP, values=[("x", nested(49))]), sources=MODULES[:-1]), Path("trace.yaml"))


@each(
    ("answer", "message"),
    [
        (Answer(float("nan"), within=0.01), "found nan; expected a finite number"),
        (Answer(1, within=0.01, slips=[(float("inf"), "no")]), "found inf; expected a finite number"),
        (Answer("c", choices=["a", "b"]), "expected one of a, b"),
        (Answer(1), "expected a tolerance for a number, none for a text"),
        (Answer("a", within=0.01), "expected a tolerance for a number, none for a text"),
        (Answer(1, within=-1.0), "Expected `float` >= 0"),
    ],
)
def test_invalid_answers_are_refused(answer: Answer, message: str) -> None:
    valid = Ask(text="?", answer=Answer(1, within=0.0, slips=[(2, "no")]))
    validate(trace_of(replace(STEP, narrative=[valid])), Path("trace.yaml"))
    with pytest.raises(TraceFileError, match=rf"steps\[1\], narrative\[0\]\.answer.*{message}"):
        validate(trace_of(replace(STEP, narrative=[replace(valid, answer=answer)])), Path("trace.yaml"))


@each(
    ("change", "message"),
    [
        ({"formula": "def f0(v0, v1):\n    return (alert(1), v0)"}, r"found no formula: line 2: alert\(1\)"),
        ({"formula": "</script><script>alert(1)</script>"}, "found no formula: found no functions"),
        ({"formula": "def f0(v0):\n    return (v0, v0)"}, "expected one for each parameter"),
        ({"results": []}, "expected finite numbers"),
        ({"results": [Result("days", "d", float("nan")), Result("quick", "q", True)]}, "expected finite numbers"),
        ({"results": [Result("days", "d", 1.0)]}, "found 1 results; expected 2"),
        ({"inputs": [replace(EXPLORED.inputs[0], low=0.0), *EXPLORED.inputs[1:]]}, "expected more than 0"),
        ({"menus": [replace(EXPLORED.menus[0], rows=[("a", [])])]}, "expected 1 finite numbers"),
        ({"menus": [replace(EXPLORED.menus[0], rows=[("a" * 300, [1.0])])]}, "a name has 300 characters"),
    ],
)
def test_inconsistent_explorations_are_refused(change: dict[str, Any], message: str) -> None:
    def exploring(exploration: Exploration, text: str) -> Trace:
        return trace_of(replace(STEP, narrative=[Explore(text=text, exploration=exploration)]))

    validate(exploring(EXPLORED, "In {days}."), Path("trace.yaml"))
    with pytest.raises(TraceFileError, match=rf"steps\[1\], narrative\[0\].*{message}"):
        validate(exploring(replace(EXPLORED, **change), "In {days}."), Path("trace.yaml"))
    with pytest.raises(TraceFileError, match="uses nothing"):
        validate(exploring(EXPLORED, "In {nothing}."), Path("trace.yaml"))


def test_numbers_of_a_table_that_are_beyond_floats_become_text() -> None:
    rows: list[list[Scalar]] = [[10**400, 1.5], [-(2**1023), 2**1000]]
    assert Table(columns=["a", "b"], rows=rows).rows == [["1e400", 1.5], ["-8.988e307", 2**1000]]
    assert rows[0][0] == 10**400  # the lecture's own list


def test_names_of_machines_are_one_visible_line_of_bounded_length() -> None:
    peak = Peak("fp\x1b8", 1.0, "a\tb", measured=True)
    machine = Machine("NVIDIA\n\u202e H200 " + "x" * 99, "h200", "cuda", peaks=[peak])
    assert machine.name.startswith("NVIDIA \\u202e H200 x") and len(machine.name) == 60
    assert (peak.name, peak.source) == ("fp\\u001b8", "a b")
    machine = replace(example_trace().machine, os="Ubuntu\n24.04")
    assert msgspec.convert(to_plain(machine), Machine).os == "Ubuntu 24.04"
