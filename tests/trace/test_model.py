"""Records refuse what pages could not show; test_file.py reads the cases of `cases/refused.yaml`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.cases_in_one import each
from tests.pages.explored import EXPLORED as NARRATIVES
from tests.traces import example_trace
from trace_tools.trace.explorations import Result
from trace_tools.trace.model import Answer, Explore, Machine, Peak, Scalar, Table
from trace_tools.trace.records import to_plain

assert NARRATIVES[0].exploration is not None
EXPLORED = NARRATIVES[0].exploration


@each(
    ("answer", "message"),
    [
        ({"value": float("nan"), "within": 0.01}, "found nan; expected a finite number"),
        ({"value": 1, "within": 0.01, "slips": [(float("inf"), "no")]}, "found inf; expected a finite number"),
        ({"value": "c", "choices": ["a", "b"]}, "expected one of a, b"),
        ({"value": 1}, "expected a tolerance for a number, none for a text"),
        ({"value": "a", "within": 0.01}, "expected a tolerance for a number, none for a text"),
        ({"value": 1, "within": -1.0}, "Expected `float` >= 0"),
    ],
)
def test_invalid_answers_are_refused(answer: dict[str, Any], message: str) -> None:
    assert msgspec.convert({"value": 1, "within": 0.0, "slips": [(2, "no")]}, Answer)
    with pytest.raises(ValueError, match=message):
        msgspec.convert(answer, Answer)


@each(
    ("change", "message"),
    [
        ({"formula": "def f0(v0, v1):\n    return (alert(1), v0)"}, r"line 2: alert\(1\)"),
        ({"formula": "</script><script>alert(1)</script>"}, "found no functions"),
        ({"formula": "def f0(v0):\n    return (v0, v0)"}, "expected one for each parameter"),
        ({"results": []}, "found 0 results; expected 2"),
        ({"results": [Result("days", "d", float("nan")), Result("quick", "q", True)]}, "expected finite numbers"),
        ({"results": [Result("days", "d", 1.0)]}, "found 1 results; expected 2"),
        ({"inputs": [replace(EXPLORED.inputs[0], low=0.0), *EXPLORED.inputs[1:]]}, "expected more than 0"),
        ({"menus": [replace(EXPLORED.menus[0], rows=[("a", [])])]}, "expected 1 finite numbers"),
        ({"menus": [replace(EXPLORED.menus[0], rows=[])]}, "has no rows"),
        ({}, "uses nothing"),
    ],
)
def test_inconsistent_explorations_are_refused(change: dict[str, Any], message: str) -> None:
    assert Explore(text="In {days}.", exploration=EXPLORED)
    with pytest.raises(ValueError, match=message):
        Explore(text="In {days}." if change else "In {quick?{nothing}|}.", exploration=replace(EXPLORED, **change))


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
