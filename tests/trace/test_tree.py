"""The call tree defines the sections of every report."""

from __future__ import annotations

from dataclasses import replace

from tests.diff.plain_tracing import traced
from tests.diff.planted import with_steps
from tests.traces import example_trace
from trace_tools.trace.model import Omitted, Raised, Step
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


def test_omitted_executions_are_counted() -> None:
    tree = Tree(example_trace())
    [omitted] = [event for event in tree.trace.steps if isinstance(event, Omitted)]
    recorded = len(tree.steps(omitted.frame, omitted.statement))
    assert tree.executions(omitted.frame, omitted.statement) == recorded + omitted.omitted == 1000
    assert tree.executions(omitted.frame, 10**6) == 0


def test_calls_of_module_main_and_sections() -> None:
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


def test_caught_exceptions_are_distinguished_from_the_fatal_one() -> None:
    """Line 13 raises again what the `except` above has caught; whoever called `one` for line 2 made it an OSError."""
    kinds = {5: "ValueError", 10: "KeyError", 13: "KeyError", 17: "KeyError", 2: "OSError", 21: "KeyError"}

    def raising(step: Step) -> Step:
        kind = kinds.get(step.line)
        line = 17 if kind == "KeyError" else 5
        return step if kind is None else replace(step, raised=Raised(kind, "", origin_line=line))

    trace = with_steps(traced(RAISING), raising)
    tree = Tree(replace(trace, run=replace(trace.run, complete=False, ended="KeyError at line 17")))
    outcomes = [(step.line, tree.caught(step)) for step in tree.by_id.values() if step.raised is not None]
    assert [line for line, caught in outcomes if not caught] == [21, 2, 13]
    assert [line for line, caught in outcomes if caught] == [5, 10, 17, 10, 17]
