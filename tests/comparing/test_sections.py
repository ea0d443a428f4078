"""What a section is, the call tree says, for every report."""

from __future__ import annotations

from dataclasses import replace

from tests.comparing.plain_tracing import traced
from tests.comparing.planted import CPU, differ, with_steps
from trace_tools.call_tree import Tree
from trace_tools.comparing.compare import compare
from trace_tools.comparing.difference import Side
from trace_tools.comparing.reports.listing import listing_of
from trace_tools.schema import Value

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


def test_a_call_that_only_a_has_is_in_the_section_that_b_renamed() -> None:
    renamed = LECTURE.replace("second", "other")
    a = traced(LECTURE.replace("    return 1\n", "    helper()\n    return 1\n"))
    difference = differ(a, traced(renamed))
    assert {pair.section for pair in difference.frames} == {None, "first", "other"}
