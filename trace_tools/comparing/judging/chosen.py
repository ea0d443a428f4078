"""Two traces → which steps only one side has for no other reason than a clock, or than that runs differ.

chosen = Chosen(aligned, a, b)
chosen.why_absent(12)         "whether it runs follows from a clock"
chosen.why_executions(10)     "it ran in 4 of 6 runs of A"; None where the count says something

A trace says of each step whether it ran in all timed runs, and whether it still did once clocks were scaled. A step
that did not is no difference of the lecture; nor is what the other side ran in the other branch of that condition,
or in more rounds of that loop; nor is anything inside the calls of these.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping, Sequence

from trace_tools.comparing.matching.align import Aligned
from trace_tools.errors import LectureError
from trace_tools.schema import Frame, SourceFile, Step, Trace
from trace_tools.statements import parse_source

LOOPS = (ast.While, ast.For, ast.AsyncFor)
CHOOSING = (ast.If, ast.Match, *LOOPS)  # statements whose bodies may run or not

Ancestors = Mapping[int, Sequence[int]]  # of a statement: those it stands in, innermost first; a loop itself


class Chosen:
    """Why each place of an alignment that only one side has, or had more often, says nothing."""

    def __init__(self, aligned: Aligned, a: Trace, b: Trace) -> None:
        self.aligned = aligned
        self.traces = a, b
        marked = [step for trace in self.traces for step in trace.steps if isinstance(step, Step) and _is_marked(step)]
        self.ancestors = [[_ancestors(source) for source in trace.sources] if marked else [] for trace in self.traces]
        self.statements: dict[tuple[int, int], str] = {}  # (frame, statement as B numbers it) → why it varies
        self.choices: dict[tuple[int, int], str] = {}  # (frame, choosing statement) → why what is in it varies
        self.by_side: tuple[set[tuple[int, int]], set[tuple[int, int]]] = (set(), set())
        if marked:
            self._mark()
        self.absent: dict[int, str] = {}
        self._spread()

    def why_absent(self, number: int) -> str | None:
        """Say why a place that one side does not have says nothing; None where it does."""
        return self.absent.get(number)

    def why_executions(self, number: int) -> str | None:
        """Say why the number of executions of a place's statement says nothing; None where it does."""
        place = self.aligned.places[number]
        for side, step in enumerate((place.a, place.b)):
            if step is None:
                continue
            found = self.statements.get((place.frame, self._in_b(side, place.frame, step.statement)))
            if found is not None:
                return found
            for choice in self._around(side, place.frame, step):
                if (place.frame, choice) in self.choices:
                    return self.choices[place.frame, choice]
        return None

    def _mark(self) -> None:
        for place in self.aligned.places:
            for side, step in enumerate((place.a, place.b)):
                if step is None or not _is_marked(step):
                    continue
                why = self._why(side, step)
                self.statements.setdefault((place.frame, self._in_b(side, place.frame, step.statement)), why)
                around = self._around(side, place.frame, step)
                is_loop = bool(around) and around[0] == self._in_b(side, place.frame, step.statement)
                for choice in around[: 2 if is_loop and step.execution == 1 else 1]:
                    self.choices.setdefault((place.frame, choice), why)
                    self.by_side[side].add((place.frame, choice))

    def _spread(self) -> None:
        """Find what only one side has and that says nothing; callers stand before what they call."""
        inside: dict[int, str] = {}
        for number, place in enumerate(self.aligned.places):
            if place.a is not None and place.b is not None:
                continue
            side, step = (1, place.b) if place.b is not None else (0, place.a)
            assert step is not None
            parent = self.aligned.frames[place.frame].parent
            found = inside.get(parent) if parent is not None else None
            if found is None and _is_marked(step):
                found = self._why(side, step)
            if found is None and self.choices:
                around = self._around(side, place.frame, step)
                if any((place.frame, choice) in self.by_side[1 - side] for choice in around):
                    found = f"{'BA'[side]} ran another branch, or other rounds, and there this follows from a clock"
            if found is not None:
                self.absent[number] = inside[number] = found

    def _why(self, side: int, step: Step) -> str:
        if step.clock:
            return "whether it runs follows from a clock"
        total = self.traces[side].run.timed_runs
        return f"it ran in {step.runs}{f' of {total}' if total else ''} runs of {'AB'[side]}"

    def _frame(self, side: int, frame: int) -> Frame | None:
        pair = self.aligned.frames[frame]
        return (pair.a, pair.b)[side]

    def _in_b(self, side: int, frame: int, statement: int) -> int:
        """Return a statement's number as B has it; one that B does not have gets a number of its own."""
        matching, opened = self.aligned.matching, self._frame(side, frame)
        if side == 1 or matching is None or opened is None:
            return statement
        found = matching.statements.get((opened.source, statement))
        return found[1] if found is not None else -1 - statement

    def _around(self, side: int, frame: int, step: Step) -> list[int]:
        """Return the choosing statements that a step stands in, as B numbers them, innermost first."""
        opened = self._frame(side, frame)
        if opened is None or opened.source >= len(self.ancestors[side]):
            return []
        around = self.ancestors[side][opened.source].get(step.statement, ())
        return [self._in_b(side, frame, choice) for choice in around]


def _is_marked(step: Step) -> bool:
    return step.clock or step.runs is not None


def _ancestors(source: SourceFile) -> Ancestors:
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
