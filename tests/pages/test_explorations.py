"""Calculators (calls of `explore`): JavaScript writes their numbers as Python does."""

from __future__ import annotations

import random

import pytest

from tests.cases_in_one import each
from tests.javascript import evaluated
from trace_tools.pages import explorations
from trace_tools.presentation.page_shell import HERE
from trace_tools.trace.explorations import Result

UNITS = (None, "%", "B", "bytes", "FLOP", "FLOP/s", "bytes/s", "s", "days", "GPU-hours")


def drawn_values(draw: random.Random) -> list[float]:
    """Return numbers of all sizes; none lies midway between two numbers of four digits, where roundings may differ."""
    values = [draw.uniform(-1, 1) * 10.0 ** draw.randint(-12, 12) for _ in range(300)]
    values += [float(draw.randint(0, 999)) for _ in range(100)]
    return [*values, 0.0, 1e7, 1e15, 1e21, 1e300, 5e-324, 1.7e308]


@pytest.mark.slow
@each("decimal", [False, True])
@each("unit", UNITS)
def test_javascript_writes_numbers_as_python_does(unit: str | None, decimal: bool) -> None:
    values = drawn_values(random.Random(f"{unit} {decimal}"))
    values = [value for value in values if unit != "%" or value < 1e15]  # percentages are written with all digits
    options = {"unit": unit or "", **explorations._ladder(unit, decimal)}
    script = (HERE / "static" / "explore.js").read_text(encoding="utf-8")
    actual = evaluated(
        f"(() => {{const page = {{}}; {script}; return given[1].map((x) => page.written(x, given[0]));}})()",
        [options, values],
    )
    expected = [explorations.shown(Result("x", "x", value, unit), decimal) for value in values]
    assert [pair for pair in zip(values, expected, actual, strict=True) if pair[1] != pair[2]] == []


def test_booleans_are_written_as_yes_and_no() -> None:
    assert [explorations.shown(Result("x", "x", value), False) for value in (True, False)] == ["yes", "no"]
