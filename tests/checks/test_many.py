"""Traces that are pretended, and the report that is made with them."""

from __future__ import annotations

from tests.checks import many
from tests.checks.pretend_machines import pretend
from tests.traces import example_trace
from trace_tools.comparing.difference import Side
from trace_tools.comparing.judging.between import difference_between
from trace_tools.file_format.structure import to_plain
from trace_tools.file_format.trace_file import dump
from trace_tools.schema import Step, Trace


def without_times(trace: Trace) -> list[object]:
    timed = {"host_ns", "cold_ns", "device_ns", "measured", "values"}
    return [{k: v for k, v in to_plain(event).items() if k not in timed} for event in trace.steps]


def test_a_pretended_machine_has_other_times_and_nothing_else() -> None:
    real = example_trace()
    made = pretend(real, 3)
    assert dump(made) == dump(pretend(real, 3)) != dump(pretend(real, 4))
    assert without_times(made) == without_times(real)
    assert made.machine.emulated and made.machine.name == "Pretend Grace 03"
    before, after = ([e.host_ns for e in t.steps if isinstance(e, Step) and e.host_ns] for t in (real, made))
    assert all(map(str.__ne__, map(str, before), map(str, after)))


def test_an_edited_lecture_is_matched_with_itself() -> None:
    real = example_trace()
    difference = difference_between(Side("a", real), Side("b", many.edited(real, 3)))
    assert not difference.same_source
    assert all(row.a is not None and row.b is not None for row in difference.rows)
    assert {row.b.line - row.a.line for row in difference.rows if row.a and row.b} <= {0, 3}
    assert max(row.b.line - row.a.line for row in difference.rows if row.a and row.b) == 3


def test_the_report_has_a_row_for_each_size() -> None:
    rows = [(f"{n:,}", *"123456") for n in (10, 1_000)]
    text = many.report(rows, [("2", "1.0", "100", "")], [("10", *"12345")], "1 s", "all found", 600)
    assert "| 10 | 1 | 2 |" in text and "| 1,000 | 1 | 2 |" in text
    assert "in 10 minutes" in text and "all found" in text
