"""A section's steps in order of execution → the stops of its player: where each stands, what is known after it.

    stepping = Walk(tree, editions, machine, blocks).section("tensors")
    stepping.stops[41].anchor         "L216": the row to highlight
    stepping.stops[41].seen           what was observed once that statement was done

One rule for what a stop knows: the state when its statement has been executed. What a call's own line
observed is therefore known at that line, and not inside the call. Code that is not on the page (a call that is
only named) borrows the row where the same line stands, else the row of its caller.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from trace_tools.call_tree import Tree
from trace_tools.directives import Directive
from trace_tools.rates import timing_of
from trace_tools.rendering.document import (
    Block,
    Call,
    Failure,
    Listing,
    PlayedFrame,
    Said,
    Seen,
    Stepping,
    Stop,
    visible,
)
from trace_tools.rendering.folding import line_anchors
from trace_tools.rendering.staleness import Edition
from trace_tools.rendering.storage_contents import StorageContents
from trace_tools.schema import Frame, Machine, Step, Value

_Place = tuple[int, int]  # source, line


class _Places:
    """Where steps stand on a page: by step, else by line."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.of_step: dict[int, str] = {}
        self.of_line: dict[_Place, str] = line_anchors(blocks)
        self.of_said: dict[int, str] = {}  # of steps that stand where they said something
        self.said: list[tuple[int, int]] = []  # number on the page, step
        for block in visible(blocks):
            if isinstance(block, Listing):
                for row in block.rows:
                    for one in row.executions:
                        self.of_step[one.step] = row.anchor
            elif isinstance(block, Call) and block.shown == "part" and block.step is not None:
                self.of_step.setdefault(block.step, block.anchor)
            elif isinstance(block, Said) and block.step is not None:
                anchor = f"said-{block.number}"
                if self.of_step.setdefault(block.step, anchor) == anchor:
                    self.of_said[block.step] = anchor
                self.said.append((block.number, block.step))


class Walk:
    """Walks the steps of a section once, remembering what each call knows and what each storage held."""

    def __init__(self, tree: Tree, editions: Sequence[Edition], machine: Machine, blocks: Sequence[Block]) -> None:
        self._tree = tree
        self._editions = editions
        self._machine = machine
        self._places = _Places(blocks)
        self._shown = [edition.shown() for edition in editions]
        self._directives = [_by_statement(edition.source.directives) for edition in editions]
        self._known: defaultdict[int, dict[str, Value]] = defaultdict(dict)
        self._contents = StorageContents()
        self._seen: dict[int, tuple[Seen, ...]] = {}
        self._inside: dict[int, int] = {}

    def section(self, function: str) -> Stepping:
        """Return the stops of all calls of a section's function."""
        numbers = {frame: None for frame, of in self._tree.section_of.items() if of == function}
        steps = [step for frame in numbers for step in self._tree.steps_of(frame) if self._stops_at(step)]
        steps.sort(key=lambda step: step.id)
        self._observe(steps)
        place = {step.id: index for index, step in enumerate(steps)}
        frames = [frame for frame in numbers if self._tree.steps_of(frame)]
        index = {frame: number for number, frame in enumerate(frames)}
        for step in steps:
            self._place_said(step)
        return Stepping(
            frames=tuple(self._frame(self._tree.frames[frame], place) for frame in frames),
            stops=tuple(self._stop(number, step, index[step.frame]) for number, step in enumerate(steps, start=1)),
            said=tuple((said, place[step]) for said, step in self._places.said if step in place),
        )

    def _frame(self, frame: Frame, place: dict[int, int]) -> PlayedFrame:
        tree = self._tree
        total = tree.call_total[tree.section_of[frame.frame], frame.function]
        of = place.get(frame.of) if frame.of is not None else None
        return PlayedFrame(frame.function, of, tree.call_number[frame.frame], total)

    def _stops_at(self, step: Step) -> bool:
        """Whether the player stops here: not at what the page neither shows nor says anything of.

        Constant prose that was taken out since the trace has no step any more.
        """
        source, number = self._editions[self._source(step)].source, self._number(step)
        if number < 0:
            return False
        shown = number not in source.hidden | source.narrative
        observed = step.values or step.narrative or step.claim or step.raised
        return shown or bool(observed) or self._calls(step)

    def _calls(self, step: Step) -> bool:
        return bool(self._tree.calls(step.id))

    # --- where ---

    def _source(self, step: Step) -> int:
        return self._tree.frames[step.frame].source

    def _number(self, step: Step) -> int:
        """Return the number that a step's statement has in the text that is shown; -1 where it is not in it."""
        return self._shown[self._source(step)].get(step.statement, -1)

    def _line(self, step: Step) -> int:
        edition = self._editions[self._source(step)]
        number = self._number(step)
        return edition.source.parsed.statements[number].line if number >= 0 else edition.lines.get(step.line, step.line)

    def _place_said(self, step: Step) -> None:
        """Let a narrative line that another call shows stand for this one."""
        anchor = self._places.of_said.get(step.id)
        if anchor is not None:
            self._places.of_line.setdefault((self._source(step), self._line(step)), anchor)

    def _anchor(self, step: Step) -> tuple[str, bool]:
        """Return where a step stands, and whether that is its own line: else it is its nearest caller's."""
        at: Step | None = step
        while at is not None and at.frame in self._tree.frames:
            place = (self._source(at), self._line(at))
            found = self._places.of_step.get(at.id) or self._places.of_line.get(place)
            if found is not None:
                return found, at is step
            of = self._tree.frames[at.frame].of
            at = self._tree.by_id.get(of) if of is not None else None
        return "", False

    def _stop(self, number: int, step: Step, frame: int) -> Stop:
        anchor, own = self._anchor(step)
        source, line = self._source(step), self._line(step)
        texts = self._editions[source].source.lines
        animated = any(d.name == "animate" for d in self._directives[source].get(self._number(step), ()))
        return Stop(
            number=number,
            frame=frame,
            anchor=anchor,
            line=line,
            code="" if own or not 0 < line <= len(texts) else (texts[line - 1] or "").strip(),
            statement=(source, step.statement),
            execution=step.execution,
            inside=self._inside.get(step.id, 0),
            outputs=len(step.narrative or ()) if animated else 0,
            seen=self._seen.get(step.id, ()),
            step=step,
            timing=timing_of(step, self._machine),
            failure=self._failure(step),
        )

    def _failure(self, step: Step) -> Failure | None:
        if step.raised is None:
            return None
        caught, origin = self._tree.caught(step), self._tree.is_origin(step)
        return Failure(step.raised.type, step.raised.message, caught, origin)

    # --- what is known ---

    def _observe(self, steps: Sequence[Step]) -> None:
        """Note what each step observed, in the order in which the statements were done."""
        begun: set[int] = set()
        open_calls: list[tuple[int, Step]] = []
        for index, step in enumerate(steps):
            while open_calls and self._tree.frames[step.frame].of != open_calls[-1][1].id:
                self._done(*open_calls.pop(), index)
            if step.frame not in begun:
                begun.add(step.frame)
                self._seen[step.id] = tuple(self._arguments(step.frame))
            if self._calls(step):
                open_calls.append((index, step))
            else:
                self._done(index, step, index + 1)
        while open_calls:
            self._done(*open_calls.pop(), len(steps))

    def _done(self, index: int, step: Step, following: int) -> None:
        self._inside[step.id] = following - index - 1
        self._seen[step.id] = (*self._seen.get(step.id, ()), *self._cleared(step), *self._values(step))

    def _arguments(self, frame: int) -> Iterator[Seen]:
        for name, value in self._tree.frames[frame].arguments or ():
            yield self._noted(frame, name, value, argument=True)

    def _cleared(self, step: Step) -> Iterator[Seen]:
        """Forget what `@clear` names, and the expressions that begin with it."""
        known = self._known[step.frame]
        for directive in self._directives[self._source(step)].get(self._number(step), ()):
            for name in directive.names if directive.name == "clear" else ():
                for gone in [key for key in known if re.match(rf"{re.escape(name)}(?!\w)", key)]:
                    del known[gone]
                    yield Seen(gone, None, "cleared")

    def _values(self, step: Step) -> Iterator[Seen]:
        for name, value in step.values or ():
            yield self._noted(step.frame, name, value)

    def _noted(self, frame: int, name: str, value: Value, *, argument: bool = False) -> Seen:
        known = self._known[frame]
        before = known.get(name)
        known[name] = value
        contradicts = self._contents.note(value)
        if contradicts or (before is not None and before != value and _same_storage(before, value)):
            return Seen(name, value, "written", argument)
        return Seen(name, value, "new" if before is None else "same" if before == value else "changed", argument)


def _by_statement(directives: Sequence[Directive]) -> dict[int, list[Directive]]:
    found: dict[int, list[Directive]] = {}
    for directive in directives:
        found.setdefault(directive.statement, []).append(directive)
    return found


def _same_storage(one: Value, other: Value) -> bool:
    """Whether two values are the same window onto the same memory."""
    a, b = one.tensor, other.tensor
    if a is None or b is None or a.storage is None:
        return False
    return (a.storage, a.shape, a.strides, a.offset, a.dtype) == (b.storage, b.shape, b.strides, b.offset, b.dtype)
