"""Match the calls and steps of two traces, in the order of the lecture.

    aligned = align(Tree(a), Tree(b))
    aligned.frames[0]  # FramePair(a=Frame(0, "<module>"), b=Frame(0, "<module>"), parent=None, depth=0, section=None)
    aligned.rows[5]    # StepPair(number=5, frame=1, a=Step(…), b=Step(…)), not judged yet

Calls and steps match if they have the same key (see `trace.records`), so loops are aligned from their first
iteration. A call from a statement without a counterpart is matched with the next such call of the same function. All
lookups use dictionaries, so the work is proportional to the number of steps.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from trace_tools.diff.align.code import SAME, Matching, code_of, match_code
from trace_tools.diff.difference import FramePair, StepPair
from trace_tools.trace.model import Frame, Step
from trace_tools.trace.tree import Tree


@dataclass(frozen=True, slots=True)
class Aligned:
    """Both trees as one, in B's order; additional steps of A keep their position."""

    frames: tuple[FramePair, ...]
    rows: tuple[StepPair, ...]
    matching: Matching


def align(a: Tree, b: Tree) -> Aligned:
    """Match two traces of one lecture; its source may have changed between them."""
    matching = SAME if a.trace.source.text == b.trace.source.text else match_code(code_of(a), code_of(b))
    frames, steps = _counterparts(a, b, matching)
    pairs, rows = _merged(a, b, matching, frames, steps)
    return Aligned(tuple(pairs), tuple(rows), matching)


# --- counterparts ---------------------------------------------------------------------------------


def _counterparts(a: Tree, b: Tree, matching: Matching) -> tuple[dict[int, int], dict[int, Step]]:
    """Return the counterparts in B of A's frames, and of its steps by their ids."""
    frames: dict[int, int] = {}
    steps: dict[int, Step] = {}
    executed = {(step.frame, step.statement, step.execution): step for step in b.by_id.values()}

    def match(in_a: Iterable[Frame], in_b: Iterable[Frame]) -> None:
        """Match frames by function, the n-th with the n-th, and their contents."""
        waiting = [(in_a, in_b)]
        while waiting:
            calls_of_a, calls_of_b = waiting.pop()
            by_function: defaultdict[str, deque[Frame]] = defaultdict(deque)
            for frame in calls_of_b:
                by_function[frame.function].append(frame)
            for frame in calls_of_a:
                function = matching.function_in_b(frame.function)
                if function is None or not by_function[function]:
                    continue
                other = by_function[function].popleft()
                frames[frame.frame] = other.frame
                for step in a.steps_of(frame.frame):
                    statement = matching.statement_in_b(step.statement)
                    if statement is None:
                        continue
                    counterpart = executed.get((other.frame, statement, step.execution))
                    if counterpart is not None:
                        steps[step.id] = counterpart
                        waiting.append((a.calls(step.id), b.calls(counterpart.id)))

    match(a.calls(None), b.calls(None))
    if not any(frame in frames for frame in a.mains):  # called by the file's `__main__` block in one trace only
        match(map(a.frames.__getitem__, a.mains), map(b.frames.__getitem__, b.mains))
    if matching.same:
        return frames, steps
    # Calls from statements without a counterpart are matched in order, callers first.
    strays: dict[str, list[Frame]] = defaultdict(list)
    for frame in reversed(_strays(b, matching.to_a.keys(), frames.values())):
        strays[frame.function].append(frame)
    matched = set(frames.values())
    for frame in _strays(a, matching.to_b.keys(), frames):
        function = matching.function_in_b(frame.function)
        queue = strays.get(function, []) if function is not None else []
        while queue and queue[-1].frame in matched:
            queue.pop()
        if queue and frame.frame not in frames:
            before = len(frames)
            match([frame], [queue.pop()])
            matched.update(list(frames.values())[before:])
    return frames, steps


def _strays(tree: Tree, statements: Iterable[int], matched: Iterable[int]) -> list[Frame]:
    """Return the unmatched frames that a statement without a counterpart called, directly or indirectly.

    `statements` are the statements with a counterpart, `matched` the frames with one. Calls in extra executions are
    excluded, because a loop with more iterations calls the same functions.
    """
    statements, matched = set(statements), set(matched)
    strays: dict[int, Frame] = {}
    for frame in tree.frames.values():
        if frame.of is None or frame.frame in matched:
            continue
        step = tree.by_id[frame.of]
        if step.frame in strays or (step.frame in matched and step.statement not in statements):
            strays[frame.frame] = frame
    return list(strays.values())


# --- merging both trees ---------------------------------------------------------------------------


def _merged(
    a: Tree, b: Tree, matching: Matching, frames: dict[int, int], steps: dict[int, Step]
) -> tuple[list[FramePair], list[StepPair]]:
    """Walk both trees at once in B's order, inserting additional steps of A at their positions.

    Returns frames and rows in order: each row, then the frames of its calls. The walk keeps a stack of iterators, so
    that a lecture may recurse deeply. A row's number is right because its iterator runs only at the top of the stack.
    """
    pairs: list[FramePair] = []
    rows: list[StepPair] = []
    step_in_a = {other.id: a.by_id[step] for step, other in steps.items()}
    frame_in_a = {other: a.frames[frame] for frame, other in frames.items()}
    # The steps that call `main` in one trace, where the tracer called it in the other, differ in nothing.
    of = [(a.frames[frame].of, b.frames[other].of) for frame, other in frames.items()]
    callers_a, callers_b = ({pair[side] for pair in of if pair[1 - side] is None} for side in (0, 1))
    in_order = sorted(frames.items(), key=lambda item: item[1])
    sections = {a.section_of[frame]: b.section_of[other] for frame, other in in_order}  # names of A's sections in B

    def calls(of_a: int | None, of_b: int | None, parent: int | None, depth: int) -> Iterator[FramePair]:
        for frame in b.calls(of_b) if of_b is not None or parent is None else ():
            yield FramePair(frame_in_a.get(frame.frame), frame, parent, depth, b.section_of[frame.frame])
        for frame in a.calls(of_a) if of_a is not None or parent is None else ():
            if frame.frame not in frames:
                section = a.section_of[frame.frame]
                yield FramePair(frame, None, parent, depth, sections.get(section, section))

    def executed(pair: FramePair, number: int) -> Iterator[StepPair]:
        unrecorded = pair.parent is not None and rows[pair.parent].beyond_limit

        def is_beyond(tree: Tree, frame: Frame | None, counterpart: int | None, step: Step) -> bool:
            """Return whether the other side executed this step too but only counted it."""
            ran = tree.executions(frame.frame, counterpart) if frame is not None and counterpart is not None else 0
            return unrecorded or ran >= step.execution

        def only_in_a(step: Step) -> StepPair:
            counterpart = matching.statement_in_b(step.statement)
            limit = step.id in callers_a or is_beyond(b, pair.b, counterpart, step)
            return StepPair(len(rows), number, step, None, edited=counterpart is None, beyond_limit=limit)

        def only_in_b(step: Step) -> StepPair:
            counterpart = matching.statement_in_a(step.statement)
            limit = step.id in callers_b or is_beyond(a, pair.a, counterpart, step)
            return StepPair(len(rows), number, None, step, edited=counterpart is None, beyond_limit=limit)

        steps_a = a.steps_of(pair.a.frame) if pair.a is not None else ()
        passed = 0  # of A's steps
        for step in b.steps_of(pair.b.frame) if pair.b is not None else ():
            other = step_in_a.get(step.id)
            if other is None:
                yield only_in_b(step)
                continue
            while passed < len(steps_a) and steps_a[passed].id <= other.id:
                if steps_a[passed].id not in steps:
                    yield only_in_a(steps_a[passed])
                passed += 1
            yield StepPair(len(rows), number, other, step, edited=other.statement in matching.edited)
        for step in steps_a[passed:]:
            if step.id not in steps:
                yield only_in_a(step)

    stack: list[Iterator[FramePair | StepPair]] = [calls(None, None, None, 0)]
    while stack:
        item = next(stack[-1], None)
        if item is None:
            stack.pop()
        elif isinstance(item, FramePair):
            pairs.append(item)
            stack.append(executed(item, len(pairs) - 1))
        else:
            rows.append(item)
            step_a, step_b = (step.id if step is not None else None for step in (item.a, item.b))
            stack.append(calls(step_a, step_b, item.number, pairs[item.frame].depth + 1))
    return pairs, rows
