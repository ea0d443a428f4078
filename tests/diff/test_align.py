"""Alignment of calls and steps of two or more traces, checked with the examples in `cases/`."""

from __future__ import annotations

import re
from collections.abc import Iterable
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


def test_call_missing_in_b_belongs_to_the_renamed_section() -> None:
    renamed = LECTURE.replace("second", "other")
    a = traced(LECTURE.replace("    return 1\n", "    helper()\n    return 1\n"))
    difference = differ(a, traced(renamed))
    assert {pair.section for pair in difference.frames} == {None, "first", "other"}


def test_a_main_that_only_one_file_calls_itself_has_its_counterpart() -> None:
    """Without a `__main__` block the tracer calls `main`, so that no statement of the file does."""
    called = traced(LECTURE)
    first_call = next(frame for frame in called.steps if isinstance(frame, Frame) and frame.function == "main")
    steps = [replace(step, of=None) if step == first_call else step for step in called.steps]
    for a, b in ((called, replace(called, steps=steps)), (replace(called, steps=steps), called)):
        rows = align(a, b).rows
        assert all(row.a is not None and row.b is not None for row in rows)
    without = replace(called, steps=[step for step in steps if not isinstance(step, Step) or step.id != first_call.of])
    [caller] = [row for row in align(without, called).rows if row.a is None or row.b is None]
    assert caller.b is not None and caller.b.id == first_call.of and caller.beyond_limit


CASES = sorted((Path(__file__).parent / "cases").glob("*.txt"))
MARK = re.compile(r"  #= (\d+|-|\?)$", re.MULTILINE)


def expected_pairs(before: str, edited: str) -> tuple[set[tuple[int | None, int | None]], set[int]]:
    """Read the marks: pairs of lines, unmatched lines, and edited lines for which both answers are accepted."""
    marks = {number: m[1] for number, line in enumerate(edited.splitlines(), 1) if (m := MARK.search(line))}
    open_lines = {number for number, mark in marks.items() if mark == "?"}
    pairs: set[tuple[int | None, int | None]] = set()
    for number, mark in marks.items():
        if mark != "?":
            pairs.add((None if mark == "-" else int(mark), number))
    return pairs, open_lines


@each("case", CASES, ids=lambda path: path.stem)
def test_edited_lectures_align_as_expected(case: Path) -> None:
    before, _, marked = case.read_text(encoding="utf-8").partition("=== edited\n")
    edited = MARK.sub("", marked)
    pairs, open_lines = expected_pairs(before, marked)
    executed = {s.line for s in traced(edited).steps if isinstance(s, Step)}
    matched = lines(align(traced(before), traced(edited)))
    assert {pair for pair in matched if pair[1] is not None and pair[1] not in open_lines} == {
        pair for pair in pairs if pair[1] in executed
    }


@each("case", CASES, ids=lambda path: path.stem)
def test_every_step_occurs_once_in_the_alignment(case: Path) -> None:
    before, _, marked = case.read_text(encoding="utf-8").partition("=== edited\n")
    a, b = traced(before), traced(marked)
    aligned = align(a, b)
    assert sorted(p.a.id for p in aligned.rows if p.a) == sorted(s.id for s in a.steps if isinstance(s, Step))
    assert [p.b.id for p in aligned.rows if p.b] == [s.id for s in b.steps if isinstance(s, Step)]
    assert len([f for f in aligned.frames if f.a]) == sum(isinstance(e, Frame) for e in a.steps)


def test_loops_of_different_lengths_align_from_the_start() -> None:
    source = "total = 0\nfor i in range({}):\n    total += i\n"
    aligned = align(traced(source.format(3)), traced(source.format(5)))
    body = [p for p in aligned.rows if (p.b or p.a).line == 3]
    assert [(p.a and p.a.execution, p.b and p.b.execution) for p in body] == [
        (1, 1),
        (2, 2),
        (3, 3),
        (None, 4),
        (None, 5),
    ]


def test_omitted_steps_are_marked_as_beyond_the_limit() -> None:
    a = example_trace()
    remaining = [e for e in a.steps if not (isinstance(e, Step) and e.statement == 25 and e.execution == 1000)]
    counted = [replace(e, omitted=999) if isinstance(e, Omitted) else e for e in remaining]
    aligned = align(a, replace(a, steps=counted))
    assert [(p.a.id, p.beyond_limit) for p in aligned.rows if p.a and p.b is None] == [(20, True)]


def test_deep_recursion_does_not_overflow_the_stack() -> None:
    deep: list[Frame | Step] = []
    for level in range(3000):
        deep += [Frame(level, "f", of=level - 1 if level else None), Step(level, level, 0, 1)]
    trace = example_trace(sources=[SourceFile("lecture.py", "f()\n")], steps=deep)
    aligned = align(trace, trace)
    assert len(aligned.rows) == 3000 and aligned.frames[-1].depth == 2999


def test_a_large_trace_aligns_with_itself() -> None:
    trace = big_trace(20_000)
    assert all(p.a is not None and p.b is not None and p.a.id == p.b.id for p in align(trace, trace).rows)


def _ids(steps: Iterable[Step | None]) -> list[int | None]:
    return [step.id if step else None for step in steps]


def test_deleted_statement_keeps_its_position() -> None:
    a, b = traced("x = 1\ngone = [x]\ny = 2\n"), traced("x = 1\ny = 2\n")
    rows = align(a, b).rows
    assert _ids(p.a for p in rows) == [0, 1, 2] and _ids(p.b for p in rows) == [0, None, 1]
