"""Subjects of findings are identified by their index, never by truncated text."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.diff.planted import at, differ, made, with_steps
from tests.diff.report_cases import html_of, markdown_of
from trace_tools.diff.difference import Difference, Subject
from trace_tools.diff.report.difference_json import difference_json
from trace_tools.diff.report.entries import entries
from trace_tools.diff.wording import subject_text
from trace_tools.trace.model import Frame, Trace, Value

LONG = "model.blocks[0].attention.projection.weight.detach().reshape(-1)[:128].double().abs()"
FIRST, SECOND = f"{LONG}.min()", f"{LONG}.max()"  # equal in their first 80 characters


def observed(first: int, second: int) -> Trace:
    values = [(FIRST, Value("int", first)), (SECOND, Value("int", second))]
    return with_steps(made(0), at(6, values=values))


def changed() -> Difference:
    assert FIRST[:80] == SECOND[:80]
    return differ(observed(100, 200), observed(100, 300))


def test_change_is_reported_for_the_right_similar_expression() -> None:
    difference = changed()
    [(_, finding)] = list(difference.findings("values"))
    assert finding.subject == Subject("value", 1, SECOND)
    assert (finding.a, finding.b) == (Value("int", 200), Value("int", 300))
    [entry] = entries(difference, "values")
    assert entry.name.endswith("#2") and len(entry.name) <= 80
    for report in (markdown_of(difference), html_of(difference)):
        assert report.count("#2") >= 1


def test_json_contains_the_full_expression() -> None:
    report = json.loads(difference_json(changed()))
    [finding] = [f for f in report["findings"] if f["aspect"] == "values"]
    assert finding["subject"] == {"kind": "value", "index": 1, "expression": SECOND, "function": ""}
    assert (finding["a"]["value"], finding["b"]["value"]) == (200, 300)


def test_repeated_expression_on_a_line_has_two_subjects() -> None:
    def twice(first: int, second: int) -> Trace:
        return with_steps(made(0), at(6, values=[("x", Value("int", first)), ("x", Value("int", second))]))

    [(_, finding)] = list(differ(twice(1, 2), twice(1, 3)).findings("values"))
    assert finding.subject == Subject("value", 1, "x")


def test_changed_argument_names_its_function() -> None:
    def called(n: int) -> Trace:
        trace = made(0)
        arguments = [("i", Value("int", 7)), ("k", Value("int", n))]
        return replace(
            trace,
            steps=[
                replace(e, arguments=arguments) if isinstance(e, Frame) and e.function == "work" else e
                for e in trace.steps
            ],
        )

    difference = differ(called(1), called(2))
    findings = [f for _, f in difference.findings("values")]
    assert {f.subject for f in findings} == {Subject("argument", 1, "k", "work")}
    assert subject_text(findings[0].subject) == "work(k)"


def test_truncated_names_stay_distinct() -> None:
    names = {subject_text(Subject("value", n, LONG * 3), 60) for n in range(3)}
    assert len(names) == 3 and all(len(name) <= 60 for name in names)
