"""What a section is, the call tree says, for every report."""

from __future__ import annotations

from dataclasses import replace

from tests.comparing.plain_tracing import traced
from tests.comparing.planted import CPU, differ, with_steps
from tests.traces import example_trace
from trace_tools.call_tree import Tree
from trace_tools.comparing.compare import compare
from trace_tools.comparing.difference import Side
from trace_tools.comparing.reports.listing import listing_of
from trace_tools.schema import Omitted, Value

LECTURE = """\
def main():
    first()
    y = second()
    first()
def first():
    helper()
def second():
    helper()
    return 1
def helper():
    x = [1]
main()
"""


def test_a_report_has_the_sections_of_the_call_tree() -> None:
    trace = with_steps(traced(LECTURE, machine=CPU), lambda step: replace(step, values=[("x", Value("int", 1))]))
    tree = Tree(trace)
    sections = [section.title for section in listing_of(differ(trace, trace)).sections]
    assert sections == ["Around the sections", *dict.fromkeys(filter(None, tree.section_of.values()))]
    assert sections[1:] == ["first", "second"]  # called twice, and one all the same
    of_compare = {line.code for line in compare([Side("a", trace), Side("b", trace)]).tables[0].lines}
    assert of_compare == {"first()", "y = second()"}


def test_what_the_limit_left_out_counts_among_executions() -> None:
    tree = Tree(example_trace())
    [omitted] = [event for event in tree.trace.steps if isinstance(event, Omitted)]
    recorded = len(tree.steps(omitted.frame, omitted.statement))
    assert tree.executions(omitted.frame, omitted.statement) == recorded + omitted.omitted == 1000
    assert tree.executions(omitted.frame, 10**6) == 0


def test_what_nothing_traced_called_has_no_caller() -> None:
    tree = Tree(traced(LECTURE))
    assert [frame.function for frame in tree.calls(None)] == ["<module>"]
    [main] = [frame for step in tree.steps_of(0) for frame in tree.calls(step.id)]
    assert main is tree.main and [frame.function for _, frame in tree.section_calls()] == ["first", "second", "first"]
