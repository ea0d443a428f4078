"""What a section is, the call tree says, for every report."""

from __future__ import annotations

from dataclasses import replace

from tests.comparing.plain_tracing import traced
from tests.comparing.planted import differ, with_steps
from trace_tools.call_tree import Tree
from trace_tools.comparing.matching.keys import keyed_steps
from trace_tools.comparing.reports.along import along
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
    trace = with_steps(traced(LECTURE), lambda step: replace(step, values=[("x", Value("int", 1))]))
    tree = Tree(trace)
    sections = [section.title for section in along(differ(trace, trace)).sections]
    assert sections == ["Around the sections", *dict.fromkeys(filter(None, tree.section_of.values()))]
    assert sections[1:] == ["first", "second"]  # called twice, and one all the same
    of_compare = {keyed.code for keyed in keyed_steps(trace).values() if keyed.section}
    assert of_compare == {"first()", "y = second()"}


def test_a_call_that_only_a_has_is_in_the_section_that_b_renamed() -> None:
    renamed = LECTURE.replace("second", "other")
    a = traced(LECTURE.replace("    return 1\n", "    helper()\n    return 1\n"))
    difference = differ(a, traced(renamed))
    assert set(difference.sections) == {None, "first", "other"}
    assert len(difference.sections) == len(difference.frames)
