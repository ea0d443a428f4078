"""Two traces → their calls and steps matched as a tree, in the order of the lecture.

    aligned = align(a, b)
    aligned.frames[0]  # FramePair(a=Frame(0, "<module>"), b=Frame(0, "<module>"), parent=None, depth=0)
    aligned.places[5]  # Place(frame=1, a=Step(…), b=Step(…), edited=False)

A frame of B is the counterpart of one of A when it is the n-th call of the same function in the same step;
a step when it is the n-th execution of the same statement in the same frame, so loops align from the front.
A call whose own statement has no counterpart is matched with the next such call of the same function.
Everything is found through dictionaries: the work is proportional to the number of steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from trace_tools.comparing.difference import FramePair
from trace_tools.comparing.matching.code import codes_of
from trace_tools.comparing.matching.functions import Matching, match_code
from trace_tools.schema import Frame, Omitted, Step, Trace


@dataclass(frozen=True, slots=True)
class Place:
    """One execution of one statement, before it is judged."""

    frame: int  # in `Aligned.frames`
    a: Step | None
    b: Step | None
    edited: bool = False  # its code is not the same, or only one side has it
    beyond_limit: bool = False  # the other side executed it as often, but its trace holds only the total


@dataclass(frozen=True, slots=True)
class Aligned:
    """Both trees as one: B's order, with what only A has where it stood."""

    frames: tuple[FramePair, ...]
    places: tuple[Place, ...]
    matching: Matching | None  # None: the sources are the same
    executions: tuple[Mapping[tuple[int, int], int], Mapping[tuple[int, int], int]]  # by (frame, statement)


class Tree:
    """A trace's events by where they hang."""

    def __init__(self, trace: Trace) -> None:
        self.frames: dict[int, Frame] = {}
        self.steps: dict[int, list[Step]] = defaultdict(list)  # by frame, in order
        self.calls: dict[int | None, list[Frame]] = defaultdict(list)  # by calling step
        self.by_id: dict[int, Step] = {}
        self.executions: dict[tuple[int, int], int] = defaultdict(int)  # by (frame, statement)
        for event in trace.steps:
            if isinstance(event, Frame):
                self.frames[event.frame] = event
                self.calls[event.of].append(event)
            elif isinstance(event, Step):
                self.steps[event.frame].append(event)
                self.by_id[event.id] = event
                self.executions[event.frame, event.statement] += 1
            elif isinstance(event, Omitted):
                self.executions[event.frame, event.statement] += event.omitted


def align(a: Trace, b: Trace) -> Aligned:
    """Match two traces of one lecture, whose source may have been edited between them."""
    same = [source.text for source in a.sources] == [source.text for source in b.sources]
    matching = None if same else match_code(codes_of(a), codes_of(b))
    matcher = _Matcher(Tree(a), Tree(b), matching)
    matcher.match()
    frames, places = _Merged(matcher).walk()
    return Aligned(tuple(frames), tuple(places), matching, (matcher.a.executions, matcher.b.executions))


class _Matcher:
    """Finds the counterparts in B of A's frames and steps."""

    def __init__(self, a: Tree, b: Tree, matching: Matching | None) -> None:
        self.a, self.b, self.matching = a, b, matching
        self.frames: dict[int, int] = {}  # of A → of B
        self.steps: dict[int, Step] = {}  # id in A → step of B

    def match(self) -> None:
        self._match_calls(self.a.calls[None], self.b.calls[None])
        self._match_strays()

    def statement(self, source: int, statement: int) -> tuple[int, int] | None:
        """Return where a statement of A is in B: its source and number."""
        return (source, statement) if self.matching is None else self.matching.statements.get((source, statement))

    def function(self, frame: Frame) -> tuple[int, str] | None:
        """Return which function of B a frame of A ran."""
        key = (frame.source, frame.function)
        return key if self.matching is None else self.matching.called.get(key)

    def _match_calls(self, a: Iterable[Frame], b: Iterable[Frame]) -> None:
        """Match frames by function, the n-th with the n-th, and everything below them."""
        waiting: list[tuple[Iterable[Frame], Iterable[Frame]]] = [(a, b)]
        while waiting:
            for frame, other in self._paired(*waiting.pop()):
                self.frames[frame.frame] = other.frame
                waiting += self._match_steps(frame, other)

    def _paired(self, a: Iterable[Frame], b: Iterable[Frame]) -> Iterator[tuple[Frame, Frame]]:
        by_function: dict[tuple[int, str], list[Frame]] = defaultdict(list)
        for frame in b:
            by_function[frame.source, frame.function].append(frame)
        taken: dict[tuple[int, str], int] = defaultdict(int)
        for frame in a:
            function = self.function(frame)
            if function is not None and taken[function] < len(by_function.get(function, ())):
                yield frame, by_function[function][taken[function]]
                taken[function] += 1

    def _match_steps(self, a: Frame, b: Frame) -> Iterator[tuple[Iterable[Frame], Iterable[Frame]]]:
        """Match two frames' steps; yield the calls of each pair."""
        others = {(step.statement, step.execution): step for step in self.b.steps[b.frame]}
        for step in self.a.steps[a.frame]:
            place = self.statement(a.source, step.statement)
            other = others.get((place[1], step.execution)) if place and place[0] == b.source else None
            if other is not None:
                self.steps[step.id] = other
                if step.id in self.a.calls and other.id in self.b.calls:
                    yield self.a.calls[step.id], self.b.calls[other.id]

    def _match_strays(self) -> None:
        """Match calls whose own statements have no counterpart, in order, callers before the called."""
        known = None if self.matching is None else set(self.matching.statements)
        found = None if self.matching is None else set(self.matching.statements.values())
        strays_b: dict[tuple[int, str], list[Frame]] = defaultdict(list)
        for frame in _strays(self.b, found, set(self.frames.values())):
            strays_b[frame.source, frame.function].append(frame)
        for queue in strays_b.values():
            queue.reverse()
        matched_b = set(self.frames.values())
        for frame in _strays(self.a, known, set(self.frames)):
            function = self.function(frame)
            queue = strays_b.get(function, []) if function else []
            while queue and queue[-1].frame in matched_b:
                queue.pop()
            if queue and frame.frame not in self.frames:
                before = len(self.frames)
                self._match_calls([frame], [queue.pop()])
                matched_b.update(list(self.frames.values())[before:])


def _strays(tree: Tree, known: set[tuple[int, int]] | None, matched: set[int]) -> list[Frame]:
    """Return the unmatched frames that a statement without counterpart called, itself or through others.

    Not those of an execution that the other side did not have: a loop that ran on calls no other function.
    """
    strays: dict[int, Frame] = {}
    for frame in tree.frames.values():
        if frame.of is None or frame.frame in matched or known is None:
            continue
        step = tree.by_id[frame.of]
        caller = tree.frames[step.frame]
        if step.frame in strays or (step.frame in matched and (caller.source, step.statement) not in known):
            strays[frame.frame] = frame
    return list(strays.values())


class _Merged:
    """Walks both trees at once, in B's order, and puts what only A has where it stood."""

    def __init__(self, matcher: _Matcher) -> None:
        self.matcher, self.a, self.b = matcher, matcher.a, matcher.b
        self.step_in_a = {other.id: self.a.by_id[step] for step, other in matcher.steps.items()}
        self.frame_in_a = {other: self.a.frames[frame] for frame, other in matcher.frames.items()}
        matching = matcher.matching
        self.back = None if matching is None else {place: key for key, place in matching.statements.items()}
        self.frames: list[FramePair] = []
        self.places: list[Place] = []

    def walk(self) -> tuple[list[FramePair], list[Place]]:
        """Return frames and places in order: a place, then the frames of the calls made in it."""
        stack: list[Iterator[FramePair | Place]] = [self._calls(None, None, None, 0)]
        while stack:
            item: FramePair | Place | None = next(stack[-1], None)
            if item is None:
                stack.pop()
            elif isinstance(item, FramePair):
                self.frames.append(item)
                stack.append(self._steps(item, len(self.frames) - 1))
            else:
                self.places.append(item)
                depth = self.frames[item.frame].depth + 1
                stack.append(self._calls(item.a, item.b, len(self.places) - 1, depth))
        return self.frames, self.places

    def _calls(self, a: Step | None, b: Step | None, parent: int | None, depth: int) -> Iterator[FramePair]:
        root = a is None and b is None
        for frame in self.b.calls.get(b.id if b else None, ()) if b or root else ():
            yield FramePair(self.frame_in_a.get(frame.frame), frame, parent, depth)
        for frame in self.a.calls.get(a.id if a else None, ()) if a or root else ():
            if frame.frame not in self.matcher.frames:
                yield FramePair(frame, None, parent, depth)

    def _steps(self, pair: FramePair, number: int) -> Iterator[Place]:
        unrecorded = pair.parent is not None and self.places[pair.parent].beyond_limit
        steps_a = self.a.steps[pair.a.frame] if pair.a else []
        passed = 0  # of A's steps
        for step in self.b.steps[pair.b.frame] if pair.b else ():
            other = self.step_in_a.get(step.id)
            if other is None:
                unknown = self.back is not None and (pair.b is None or (pair.b.source, step.statement) not in self.back)
                limit = unrecorded or self._counted_in_a(pair, step)
                yield Place(number, None, step, edited=unknown, beyond_limit=limit)
                continue
            while passed < len(steps_a) and steps_a[passed].id <= other.id:
                yield from self._only_in_a(pair, steps_a[passed], number, unrecorded=unrecorded)
                passed += 1
            yield Place(number, other, step, edited=self._edited(pair, other))
        for step in steps_a[passed:]:
            yield from self._only_in_a(pair, step, number, unrecorded=unrecorded)

    def _only_in_a(self, pair: FramePair, step: Step, number: int, *, unrecorded: bool) -> Iterator[Place]:
        if step.id not in self.matcher.steps:
            known = pair.a is not None and self.matcher.statement(pair.a.source, step.statement) is not None
            limit = unrecorded or self._counted_in_b(pair, step)
            yield Place(number, step, None, edited=not known, beyond_limit=limit)

    def _edited(self, pair: FramePair, step: Step) -> bool:
        matching = self.matcher.matching
        return matching is not None and pair.a is not None and (pair.a.source, step.statement) in matching.edited

    def _counted_in_b(self, pair: FramePair, step: Step) -> bool:
        if pair.a is None or pair.b is None:
            return False
        place = self.matcher.statement(pair.a.source, step.statement)
        return place is not None and self.b.executions.get((pair.b.frame, place[1]), 0) >= step.execution

    def _counted_in_a(self, pair: FramePair, step: Step) -> bool:
        if pair.a is None or pair.b is None:
            return False
        place = (pair.b.source, step.statement)
        place = place if self.back is None else self.back.get(place, (-1, -1))
        return self.a.executions.get((pair.a.frame, place[1]), 0) >= step.execution
