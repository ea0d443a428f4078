"""Differences as JSON: every field is documented, and every number is valid JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.diff.planted import at, differ, differ_at, made, slower, tensor, with_steps
from trace_tools.diff.report import difference_report
from trace_tools.trace.model import Value


def test_json_contains_the_documented_fields() -> None:
    b = with_steps(with_steps(made(1), slower(1.5)), at(6, values=[("y", tensor(elements=[0.0] * 4))]))
    report: dict[str, Any] = json.loads(difference_report.difference_json(differ(made(0), b)))
    assert report["matters"] is True and report["version"] == 3
    (changed,) = [f for f in report["findings"] if f["aspect"] == "values" and f["matters"]]
    assert (changed["name"], changed["line"], changed["verdict"]) == ("y", 6, "changed")
    assert changed["subject"] == {"kind": "value", "index": 0, "expression": "y", "function": ""}
    assert [changed[side]["tensor"]["elements"] for side in "ab"] == [[1.0, 2.0, 3.0, 4.0], [0.0] * 4]
    slow = [f for f in report["findings"] if f["aspect"] == "time" and f["matters"]]
    assert {f["line"] for f in slow} == {15} and all(1.3 < f["durations"]["overall"] < 1.7 for f in slow)
    documented = (Path(difference_report.__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    of_parts = {*report["times"], *report["a"], *changed["subject"], *slow[0]["durations"]}
    missing = {key for key in {*report, *changed, *of_parts} if not re.search(rf"\b{key}\b", documented)}
    assert not missing


def test_non_finite_number_is_null() -> None:
    difference = differ_at(6, *({"values": [("v", Value("float", value))]} for value in (0.0, float("inf"))))
    text = difference_report.difference_json(difference)
    report = json.loads(text, parse_constant=lambda constant: pytest.fail(constant))
    assert [f["size"] for f in report["findings"] if f["aspect"] == "values"] == [None]
