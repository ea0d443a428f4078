"""Alignment of calls and steps of two traces, checked with the examples in `cases/`."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from tests.cases_in_one import each
from tests.diff.plain_tracing import align, lines, traced
from tests.diff.planted import differ
from tests.traces import big_trace, example_trace
from trace_tools.trace.model import Frame, Omitted, SourceFile, Step

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
MARK = re.compile(r"  #= (\d+|-|\?)$", re.MULTILINE)


@each("case", sorted((Path(__file__).parent / "cases").glob("*.txt")))
def test_edited_lectures_align_as_marked_and_each_step_once(case: Path) -> None:
    before, _, marked = case.read_text(encoding="utf-8").partition("=== edited\n")
    a, b = traced(before), traced(MARK.sub("", marked))
    aligned = align(a, b)
    marks = {number: m[1] for number, line in enumerate(marked.splitlines(), 1) if (m := MARK.search(line))}
    executed = {s.line for s in b.steps if isinstance(s, Step)} & {n for n, mark in marks.items() if mark != "?"}
    expected = {(None if mark == "-" else int(mark), n) for n, mark in marks.items() if n in executed}
    open_lines = {None} | {n for n, mark in marks.items() if mark == "?"}
    assert {pair for pair in lines(aligned) if pair[1] not in open_lines} == expected
    assert sorted(p.a.id for p in aligned.rows if p.a) == sorted(s.id for s in a.steps if isinstance(s, Step))
    assert [p.b.id for p in aligned.rows if p.b] == [s.id for s in b.steps if isinstance(s, Step)]
    assert len([f for f in aligned.frames if f.a]) == sum(isinstance(e, Frame) for e in a.steps)


def test_call_missing_in_b_belongs_to_the_renamed_section() -> None:
    a = traced(LECTURE.replace("    return 1\n", "    helper()\n    return 1\n"))
    difference = differ(a, traced(LECTURE.replace("second", "other")))
    assert {pair.section for pair in difference.frames} == {None, "first", "other"}


def test_a_main_that_only_one_file_calls_itself_has_its_counterpart() -> None:
    """Without a `__main__` block the tracer calls `main`, so that no statement of the file does."""
    called = traced(LECTURE)
    first_call = next(frame for frame in called.steps if isinstance(frame, Frame) and frame.function == "main")
    steps = [replace(step, of=None) if step == first_call else step for step in called.steps]
    for a, b in ((called, replace(called, steps=steps)), (replace(called, steps=steps), called)):
        assert all(row.a is not None and row.b is not None for row in align(a, b).rows)
    without = replace(called, steps=[step for step in steps if not isinstance(step, Step) or step.id != first_call.of])
    [caller] = [row for row in align(without, called).rows if row.a is None or row.b is None]
    assert caller.b is not None and caller.b.id == first_call.of and caller.beyond_limit


def test_longer_loops_align_from_the_start_and_deleted_statements_keep_their_position() -> None:
    source = "total = 0\nfor i in range({}):\n    total += i\n"
    body = [p for p in align(traced(source.format(3)), traced(source.format(5))).rows if (p.b or p.a).line == 3]
    executions = [(p.a and p.a.execution, p.b and p.b.execution) for p in body]
    assert executions == [(1, 1), (2, 2), (3, 3), (None, 4), (None, 5)]
    rows = align(traced("x = 1\ngone = [x]\ny = 2\n"), traced("x = 1\ny = 2\n")).rows
    assert [(p.a and p.a.id, p.b and p.b.id) for p in rows] == [(0, 0), (1, None), (2, 1)]


def test_omitted_steps_are_marked_as_beyond_the_limit() -> None:
    a = example_trace()
    remaining = [e for e in a.steps if not (isinstance(e, Step) and e.statement == 25 and e.execution == 1000)]
    counted = [replace(e, omitted=999) if isinstance(e, Omitted) else e for e in remaining]
    aligned = align(a, replace(a, steps=counted))
    assert [(p.a.id, p.beyond_limit) for p in aligned.rows if p.a and p.b is None] == [(20, True)]


def test_deep_and_large_traces_align_with_themselves() -> None:
    """A recursion may be deeper than Python's."""
    deep: list[Frame | Step] = []
    for level in range(3000):
        deep += [Frame(level, "f", of=level - 1 if level else None), Step(level, level, 0, 1)]
    trace = example_trace(source=SourceFile("lecture.py", "f()\n"), steps=deep)
    aligned = align(trace, trace)
    assert len(aligned.rows) == 3000 and aligned.frames[-1].depth == 2999
    large = big_trace(10_000)
    assert all(p.a is not None and p.b is not None and p.a.id == p.b.id for p in align(large, large).rows)
