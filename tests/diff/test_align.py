"""Calls and steps of two traces and of many, matched as the cases say."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tests.cases_in_one import each
from tests.diff.plain_tracing import align, lines, traced
from tests.diff.planted import differ
from tests.traces import big_trace, example_trace
from trace_tools.diff.align.align import align_all
from trace_tools.trace.model import Frame, Omitted, SourceFile, Step
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


def test_calls_only_in_a_belong_to_the_renamed_section() -> None:
    renamed = LECTURE.replace("second", "other")
    a = traced(LECTURE.replace("    return 1\n", "    helper()\n    return 1\n"))
    difference = differ(a, traced(renamed))
    assert {pair.section for pair in difference.frames} == {None, "first", "other"}


CASES = sorted((Path(__file__).parent / "cases").glob("*.txt"))
MARK = re.compile(r"  #= (\d+|-|\?)$", re.MULTILINE)


def expected(before: str, edited: str) -> tuple[set[tuple[int | None, int | None]], set[int]]:
    """Read the marks: pairs and lonely lines, and the lines of the edited lecture that are left open."""
    marks = {number: m[1] for number, line in enumerate(edited.splitlines(), 1) if (m := MARK.search(line))}
    open_lines = {number for number, mark in marks.items() if mark == "?"}
    pairs: set[tuple[int | None, int | None]] = set()
    for number, mark in marks.items():
        if mark != "?":
            pairs.add((None if mark == "-" else int(mark), number))
    return pairs, open_lines


@each("case", CASES, ids=lambda path: path.stem)
def test_edited_lectures_align_as_in_the_cases(case: Path) -> None:
    before, _, marked = case.read_text(encoding="utf-8").partition("=== edited\n")
    edited = MARK.sub("", marked)
    pairs, left_open = expected(before, marked)
    executed = {s.line for s in traced(edited).steps if isinstance(s, Step)}
    found = lines(align(traced(before), traced(edited)))
    assert {pair for pair in found if pair[1] is not None and pair[1] not in left_open} == {
        pair for pair in pairs if pair[1] in executed
    }


@each("case", CASES, ids=lambda path: path.stem)
def test_each_step_is_in_exactly_one_row(case: Path) -> None:
    before, _, marked = case.read_text(encoding="utf-8").partition("=== edited\n")
    a, b = traced(before), traced(marked)
    aligned = align(a, b)
    assert sorted(p.a.id for p in aligned.rows if p.a) == sorted(s.id for s in a.steps if isinstance(s, Step))
    assert [p.b.id for p in aligned.rows if p.b] == [s.id for s in b.steps if isinstance(s, Step)]
    assert len([f for f in aligned.frames if f.a]) == sum(isinstance(e, Frame) for e in a.steps)


def test_loops_of_different_lengths_align_from_the_front() -> None:
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


def test_omitted_executions_are_not_missing() -> None:
    a = example_trace()
    without = [e for e in a.steps if not (isinstance(e, Step) and e.statement == 25 and e.execution == 1000)]
    counted = [replace(e, omitted=999) if isinstance(e, Omitted) else e for e in without]
    aligned = align(a, replace(a, steps=counted))
    assert [(p.a.id, p.beyond_limit) for p in aligned.rows if p.a and p.b is None] == [(20, True)]


def test_deep_recursion_and_many_steps_are_aligned() -> None:
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


def test_steps_only_in_a_keep_their_position() -> None:
    a, b = traced("x = 1\ngone = [x]\ny = 2\n"), traced("x = 1\ny = 2\n")
    rows = align(a, b).rows
    assert _ids(p.a for p in rows) == [0, 1, 2] and _ids(p.b for p in rows) == [0, None, 1]


def test_many_traces_are_aligned_by_execution() -> None:
    without = "x = 1\ny = 2\n"
    texts = [without, "x = 1\nextra = 3\ny = 2\n", "x = 1\nextra = 3\ny = 2\nz = 4\n"]
    found, with_base = align_all([Tree(traced(text)) for text in texts], base=0)
    assert {tuple(step and step.line for step in line) for line in found} == {
        (1, 1, 1),
        (2, 3, 3),
        (None, 2, 2),  # steps missing in the base are matched with the other traces
        (None, None, 4),
    }
    assert with_base[0] is None and [len(one.rows) for one in with_base[1:] if one is not None] == [3, 4]
    assert [line[1] and line[1].line for line in align_all([Tree(traced(text)) for text in texts], base=1)[0]] == [
        1,
        2,
        3,
        None,
    ]
