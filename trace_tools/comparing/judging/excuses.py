"""Matched executions → which of them only one side has for no other reason than a clock, or than that runs differ.

    absent, uneven = excuses(aligned, a, b)
    absent[12]     "whether it runs follows from a clock": why it says nothing that one side lacks row 12
    uneven[10]     "it ran in 4 of 6 runs of A": why it says nothing that row 10's statement ran more often on one side

A trace says of each step whether it ran in all timed runs, and whether it still did once clocks were scaled. A step
that did not is no difference of the lecture; nor is what the other side ran in the other branch of that condition,
or in more rounds of that loop; nor is anything inside the calls of these.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from trace_tools.comparing.difference import Side
from trace_tools.comparing.matching.align import Aligned
from trace_tools.errors import LectureError
from trace_tools.schema import SourceFile, Step
from trace_tools.statements import parse_source

LOOPS = (ast.While, ast.For, ast.AsyncFor)
CHOOSING = (ast.If, ast.Match, *LOOPS)  # statements whose bodies may run or not

Statement = tuple[int, int]  # its call in `Aligned.frames`, its number as B has it


def excuses(aligned: Aligned, a: Side, b: Side) -> tuple[Mapping[int, str], Mapping[int, str]]:
    """Return, by row, why it says nothing that a side lacks it, and that its statement ran more often on a side."""
    sides = a, b
    absent: dict[int, str] = {}
    uneven: dict[int, str] = {}
    if not any(_is_marked(step) for side in sides for step in side.tree.by_id.values()):
        return absent, uneven
    ancestors = [[_ancestors(source) for source in side.trace.sources] for side in sides]

    def observed() -> Iterator[tuple[int, int, Step, Statement, list[Statement]]]:
        """Yield (row, side, step, its statement, the choosing statements that it stands in, innermost first)."""
        for row in aligned.rows:
            pair = aligned.frames[row.frame]
            for side, (step, frame) in enumerate(((row.a, pair.a), (row.b, pair.b))):
                if step is None or frame is None:
                    continue
                around = ancestors[side][frame.source].get(step.statement, ())
                numbers = [step.statement, *around]
                if side == 0:
                    places = [aligned.matching.statement_in_b(frame.source, number) for number in numbers]
                    # What B does not have gets a number of its own.
                    numbers = [-1 - n if place is None else place[1] for n, place in zip(numbers, places, strict=True)]
                statement, *choosing = ((row.frame, number) for number in numbers)
                yield row.number, side, step, statement, choosing

    def why(side: int, step: Step) -> str:
        if step.clock:
            return "whether it runs follows from a clock"
        total = sides[side].trace.run.timed_runs
        return f"it ran in {step.runs}{f' of {total}' if total else ''} runs of {'AB'[side]}"

    varying: dict[Statement, str] = {}  # statements that a marked step is of
    choices: dict[Statement, str] = {}  # choosing statements with a marked step right inside
    chosen_on: tuple[set[Statement], set[Statement]] = (set(), set())  # these, by the side that has the mark
    for _, side, step, statement, around in observed():
        if _is_marked(step):
            varying.setdefault(statement, why(side, step))
            # Whether a loop is entered at all is chosen by what stands around it.
            entered = bool(around) and around[0] == statement and step.execution == 1
            for choice in around[: 2 if entered else 1]:
                choices.setdefault(choice, why(side, step))
                chosen_on[side].add(choice)
    for number, side, step, statement, around in observed():  # callers stand before what they call
        row = aligned.rows[number]
        reasons = (varying.get(statement), *(choices.get(choice) for choice in around))
        if any(reasons):
            uneven.setdefault(number, next(filter(None, reasons)))
        if row.a is None or row.b is None:
            parent = aligned.frames[row.frame].parent
            found = absent.get(parent) if parent is not None else None
            if found is None and _is_marked(step):
                found = why(side, step)
            if found is None and any(choice in chosen_on[1 - side] for choice in around):
                found = f"{'BA'[side]} ran another branch, or other rounds, and there this follows from a clock"
            if found is not None:
                absent[number] = found
    return absent, uneven


def _is_marked(step: Step) -> bool:
    return step.clock or step.runs is not None


@lru_cache(maxsize=8)  # mostly both sides ran the same
def _ancestors(source: SourceFile) -> Mapping[int, Sequence[int]]:
    """Return, for each statement, the choosing ones that it stands in, innermost first; a loop stands in itself."""
    try:
        statements = parse_source(source.text, source.path).statements
    except LectureError:  # another Python's syntax
        return {}
    found: dict[int, list[int]] = defaultdict(list)
    by_number = {statement.number: statement for statement in statements}
    for statement in statements:  # parents first
        parent = by_number[statement.parent] if statement.parent is not None else None
        around: list[int] = []
        if parent is not None and parent.function == statement.function:  # not the `def` that it stands in
            choosing = isinstance(parent.node, CHOOSING) and not isinstance(parent.node, LOOPS)
            around = [parent.number] * choosing + found[parent.number]
        found[statement.number] = [statement.number] * isinstance(statement.node, LOOPS) + around
    return dict(found)
