"""Sides and rows of a difference."""

from __future__ import annotations

from dataclasses import replace

from tests.diff.plain_tracing import traced
from tests.diff.planted import differ, made
from trace_tools.diff.difference import Side


def test_label_defaults_to_the_machine_slug() -> None:
    side = Side("a.yaml", made(0))
    assert side.label == "cpu"


def test_given_label_replaces_the_default() -> None:
    assert Side("a.yaml", made(0), label="left").label == "left"


def test_side_is_complete_if_its_run_is() -> None:
    trace = made(0)
    assert Side("a.yaml", trace).is_complete
    assert not Side("a.yaml", replace(trace, run=replace(trace.run, complete=False))).is_complete


def test_row_has_its_function_source_line_and_renamed_variables() -> None:
    a, b = traced("def f():\n    x = [1]\n    y = [x]\nf()\n"), traced("def g():\n    h = [1]\n    y = [h]\ng()\n")
    difference = differ(a, b)
    row = next(row for row in difference.rows if row.step.line == 3)
    assert (difference.function_of(row), difference.source_line(row)) == ("g", "y = [h]")
    assert difference.renamed(row) == {"x": "h"}
    assert {(f.a, f.b, f.how) for f in difference.functions} == {
        ("f", "g", "renamed"),
        ("<module>", "<module>", "edited"),
    }
