"""What a section is, the call tree says, for every report."""

from __future__ import annotations

from dataclasses import replace

from tests.diff.plain_tracing import traced
from tests.diff.planted import CPU, differ, with_steps
from tests.traces import example_trace
from trace_tools.diff.compare import compare
from trace_tools.diff.difference import Side
from trace_tools.diff.report.listing import listing_of
from trace_tools.trace.model import Omitted, Raised, Step, Value
from trace_tools.trace.tree import Tree

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
    assert sections == ["Outside the sections", *dict.fromkeys(filter(None, tree.section_of.values()))]
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


RAISING = """\
def main():
    one()
def one():
    try:
        int("a")
    except ValueError:
        x = 1
    for n in range(2):
        try:
            two(n)
        except KeyError:
            if n:
                raise
    x = 2
def two(n):
    try:
        y = {}[n]
    finally:
        y = 0
try:
    main()
except KeyError:
    x = 3
"""


def test_an_exception_is_caught_where_another_one_ended_the_run() -> None:
    """Line 13 raises again what the `except` above it has caught."""
    begun = {5: "ValueError", 10: "KeyError", 13: "KeyError", 17: "KeyError", 2: "KeyError", 21: "KeyError"}

    def raising(step: Step) -> Step:
        kind = begun.get(step.line)
        line = 17 if kind == "KeyError" else 5
        return step if kind is None else replace(step, raised=Raised(kind, "", origin_line=line))

    trace = with_steps(traced(RAISING), raising)
    tree = Tree(replace(trace, run=replace(trace.run, complete=False, ended="KeyError at line 17")))
    caught = [(step.line, tree.caught(step)) for step in tree.by_id.values() if step.raised is not None]
    assert [line for line, went_on in caught if not went_on] == [21, 2, 13]
    assert [line for line, went_on in caught if went_on] == [5, 10, 17, 10, 17]
