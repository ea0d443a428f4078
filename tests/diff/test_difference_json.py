"""Differences as JSON: every field is documented, and every number is valid JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.diff.planted import at, differ, made, slower, tensor, with_steps
from trace_tools.diff.report import difference_json
from trace_tools.trace.model import Trace, Value


def test_json_contains_the_documented_fields() -> None:
    b = with_steps(with_steps(made(1), slower(1.5)), at(6, values=[("y", tensor(elements=[0.0] * 4))]))
    text = difference_json.difference_json(differ(made(0), b), bench={"rounds": 6})
    report: dict[str, Any] = json.loads(text)
    assert report["matters"] is True and report["version"] == 2 and report["bench"] == {"rounds": 6}
    (changed,) = [f for f in report["findings"] if f["aspect"] == "values" and f["matters"]]
    assert (changed["name"], changed["line"], changed["verdict"]) == ("y", 6, "changed")
    slow = [f for f in report["findings"] if f["aspect"] == "time" and f["matters"]]
    assert {f["line"] for f in slow} == {15} and all(1.3 < f["ratio"] < 1.7 for f in slow)
    documented = difference_json.__doc__ or ""
    for key in {*report, *report["times"], *report["a"], *changed, *slow[0], *changed["subject"]} - {"bench"}:
        assert f'"{key}"' in documented, key


def test_non_finite_number_is_null() -> None:
    def valued(value: float) -> Trace:
        return with_steps(made(0), at(6, values=[("v", Value("float", value))]))

    text = difference_json.difference_json(differ(valued(0.0), valued(float("inf"))))
    report = json.loads(text, parse_constant=lambda constant: pytest.fail(constant))
    assert [f["size"] for f in report["findings"] if f["aspect"] == "values"] == [None]
