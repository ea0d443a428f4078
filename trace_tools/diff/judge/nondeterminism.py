"""Find steps that only one side has because its runs differ.

    absent, uneven = reasons_for_absence(aligned, a, b)
    absent[12]     "it ran in 4 of 6 runs of A": why row 12 may be missing on one side
    uneven[10]     "it ran in 4 of 6 runs of A": why row 10's statement may run more often on one side

A trace records for each step whether it ran in all timed runs. A step that did not is no difference of the lecture. The
same holds for steps in the other branch of that condition or in more iterations of that loop, and for everything inside
their calls.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from trace_tools.diff.align.align import Aligned
from trace_tools.diff.difference import Side
from trace_tools.source.vocabularies import parsed_or_none
from trace_tools.trace.model import SourceFile, Step

LOOPS = (ast.While, ast.For, ast.AsyncFor)
CHOOSING = (ast.If, ast.Match, *LOOPS)  # statements with bodies that may run or not

Statement = tuple[int, int]  # index of its call in `Aligned.frames`, its number in B


def reasons_for_absence(aligned: Aligned, a: Side, b: Side) -> tuple[Mapping[int, str], Mapping[int, str]]:
    """Return by row the reasons why a side may lack it, and why its statement may run more often on a side."""
    sides = a, b
    absent: dict[int, str] = {}
    uneven: dict[int, str] = {}
    if not any(_is_marked(step) for side in sides for step in side.tree.by_id.values()):
        return absent, uneven
    ancestors = [_ancestors(side.trace.source) for side in sides]

    def observations() -> Iterator[tuple[int, int, Step, Statement, list[Statement]]]:
        """Yield (row, side, step, its statement, the choosing statements around it, innermost first)."""
        for row in aligned.rows:
            for side, step in enumerate((row.a, row.b)):
                if step is None:
                    continue
                around = ancestors[side].get(step.statement, ())
                numbers = [step.statement, *around]
                if side == 0:
                    in_b = [(n, aligned.matching.statement_in_b(n)) for n in numbers]
                    # A statement that B lacks gets a number of its own.
                    numbers = [-1 - n if number is None else number for n, number in in_b]
                statement, *choosing = ((row.frame, number) for number in numbers)
                yield row.number, side, step, statement, choosing

    def why(side: int, step: Step) -> str:
        total = sides[side].trace.run.timed_runs
        return f"it ran in {step.runs}{f' of {total}' if total else ''} runs of {'AB'[side]}"

    varying: dict[Statement, str] = {}  # statements with a marked step
    choices: dict[Statement, str] = {}  # choosing statements with a marked step directly inside
    chosen_on: tuple[set[Statement], set[Statement]] = (set(), set())  # the same statements, by the side with the mark
    for _, side, step, statement, around in observations():
        if _is_marked(step):
            varying.setdefault(statement, why(side, step))
            # Whether a loop is entered is decided by the statements around it.
            entered = bool(around) and around[0] == statement and step.execution == 1
            for choice in around[: 2 if entered else 1]:
                choices.setdefault(choice, why(side, step))
                chosen_on[side].add(choice)
    for number, side, step, statement, around in observations():  # callers come before their callees
        row = aligned.rows[number]
        reasons = (varying.get(statement), *(choices.get(choice) for choice in around))
        if any(reasons):
            uneven.setdefault(number, next(filter(None, reasons)))
        if row.a is None or row.b is None:
            parent = aligned.frames[row.frame].parent
            reason = absent.get(parent) if parent is not None else None
            if reason is None and _is_marked(step):
                reason = why(side, step)
            if reason is None and any(choice in chosen_on[1 - side] for choice in around):
                reason = f"the runs of {'BA'[side]} differ in the branch or the iterations"
            if reason is not None:
                absent[number] = reason
    return absent, uneven


def _is_marked(step: Step) -> bool:
    return step.runs is not None


@lru_cache(maxsize=8)  # both sides usually ran the same source
def _ancestors(source: SourceFile) -> Mapping[int, Sequence[int]]:
    """Return, for each statement, the choosing statements around it, innermost first; a loop includes itself."""
    parsed = parsed_or_none(source)
    statements = parsed.statements if parsed is not None else ()
    ancestors: dict[int, list[int]] = defaultdict(list)
    by_number = {statement.number: statement for statement in statements}
    for statement in statements:  # parents first
        parent = by_number[statement.parent] if statement.parent is not None else None
        around: list[int] = []
        if parent is not None and parent.function == statement.function:  # not the `def` around it
            choosing = isinstance(parent.node, CHOOSING) and not isinstance(parent.node, LOOPS)
            around = [parent.number] * choosing + ancestors[parent.number]
        ancestors[statement.number] = [statement.number] * isinstance(statement.node, LOOPS) + around
    return dict(ancestors)
