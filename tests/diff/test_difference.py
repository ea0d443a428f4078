"""Sides and rows of a difference."""

from __future__ import annotations

from tests.diff.plain_tracing import traced
from tests.diff.planted import differ, made
from trace_tools.diff.difference import Side


def test_label_defaults_to_the_machine_slug() -> None:
    side = Side("a.yaml", made(0))
    assert side.label == "cpu"


def test_given_label_replaces_the_default() -> None:
    assert Side("a.yaml", made(0), label="left").label == "left"


def test_row_has_its_function() -> None:
    a, b = traced("def f():\n    x = [1]\n    y = [x]\nf()\n"), traced("def g():\n    h = [1]\n    y = [h]\ng()\n")
    difference = differ(a, b)
    row = next(row for row in difference.rows if row.step.line == 3)
    assert difference.function_of(row) == "g"
    assert {(f.a, f.b, f.how) for f in difference.matching.functions} == {
        ("f", "g", "renamed"),
        ("<module>", "<module>", "edited"),
    }
