"""Build the call tree of a trace's events, with the step and the section of each call.

    tree = Tree(trace)
    tree.steps(frame=3, statement=17)     its executions in that call, in order
    tree.calls(step=41)                   the frames opened during a step; for None: by no traced step
    tree.section_of[3]                    "napkin_math": the section that a frame belongs to
    tree.caught(step)                     whether the lecture continued after the exception that left the step

A section is a function that `main` calls: `statements.sections` finds them before a run, `section_of` after it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from trace_tools.trace.model import MAIN, MODULE, Frame, Omitted, Step, Trace


class Tree:
    """The call tree of one trace. In `trace.steps`, steps are in order, parents before their children."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.frames: dict[int, Frame] = {}
        self.by_id: dict[int, Step] = {}
        self._steps: defaultdict[tuple[int, int], list[Step]] = defaultdict(list)
        self._of_frame: defaultdict[int, list[Step]] = defaultdict(list)
        self._omitted: defaultdict[tuple[int, int], list[Omitted]] = defaultdict(list)
        self._calls: defaultdict[int | None, list[Frame]] = defaultdict(list)
        for event in trace.steps:
            if isinstance(event, Step):
                self.by_id[event.id] = event
                self._steps[event.frame, event.statement].append(event)
                self._of_frame[event.frame].append(event)
            elif isinstance(event, Frame):
                self.frames[event.frame] = event
                self._calls[event.of].append(event)
            else:
                self._omitted[event.frame, event.statement].append(event)
        self._number()

    def _number(self) -> None:
        """Give each frame its section, and its number among the calls of its function in that section."""
        self.main_name = self.trace.run.main or MAIN
        self.mains = [f.frame for f in self.frames.values() if f.function == self.main_name]
        self.main = self.frames[self.mains[0]] if self.mains else None  # a `__main__` block may call it several times
        self.module = next((f for f in self.frames.values() if f.function == MODULE), None)
        self.section_of: dict[int, str | None] = {}
        self.call_number: dict[int, int] = {}
        self.call_total: Counter[tuple[str | None, str]] = Counter()
        for frame in self.frames.values():
            caller = self.by_id.get(frame.of) if frame.of is not None else None
            if caller is None:
                section = None
            elif caller.frame in self.mains and frame.frame not in self.mains:
                section = frame.function
            else:
                section = self.section_of.get(caller.frame)
            self.section_of[frame.frame] = section
            self.call_total[section, frame.function] += 1
            self.call_number[frame.frame] = self.call_total[section, frame.function]

    def steps(self, frame: int, statement: int) -> Sequence[Step]:
        """Return the executions of a statement in one call, in order."""
        return self._steps.get((frame, statement), ())

    def steps_of(self, frame: int) -> Sequence[Step]:
        """Return all steps of one call, in order."""
        return self._of_frame.get(frame, ())

    def executions(self, frame: int, statement: int) -> int:
        """Return how often a statement ran in one call, including executions beyond the limit."""
        return len(self.steps(frame, statement)) + sum(o.omitted for o in self.omitted(frame, statement))

    def omitted(self, frame: int, statement: int) -> Sequence[Omitted]:
        """Return the totals of the executions beyond the limit."""
        return self._omitted.get((frame, statement), ())

    def calls(self, step: int | None) -> Sequence[Frame]:
        """Return the frames that a step opened, in order; for None, the frames that no traced step opened."""
        return self._calls.get(step, ())

    def section_calls(self) -> list[tuple[Step, Frame]]:
        """Return the calls that `main` made, in order, each with its step."""
        steps = (step for main in self.mains for step in self.steps_of(main))
        return [(step, frame) for step in steps for frame in self.calls(step.id)]

    def caught(self, step: Step) -> bool:
        """Whether the exception that left `step` was caught inside the lecture."""
        last = self._last_left(step)
        if last.raised is None or last.raised.survived:
            return last.raised is None
        outermost = self._caller(last) is None
        return not outermost or self.trace.run.complete or not self._is_last_raised(last)

    def survived(self, step: Step) -> bool:
        """Whether the exception that left `step` ended only a section, because of `--keep-going`."""
        raised = self._last_left(step).raised
        return raised is not None and raised.survived

    def _last_left(self, step: Step) -> Step:
        """Follow an exception out of calls; return the step that it did not leave, or the outermost step."""
        while step.raised is not None and not step.raised.survived:
            caller = self._caller(step)
            if caller is None or (caller.raised is not None and not self._went_on(step, caller)):
                break
            step = caller
        return step

    def _caller(self, step: Step) -> Step | None:
        frame = self.frames.get(step.frame)
        return self.by_id.get(frame.of) if frame is not None and frame.of is not None else None

    def _went_on(self, step: Step, caller: Step) -> bool:
        """Return whether the exception that left `step` also left the step that called its function, rather than a
        later exception.
        """
        raised, above = step.raised, caller.raised
        assert raised is not None and above is not None
        alike = raised.type == above.type and raised.origin_line == above.origin_line
        was_last = self.steps_of(step.frame)[-1] is step  # otherwise a later statement replaced the exception
        return self._is_last_raised(step) and (alike or was_last)

    def _is_last_raised(self, step: Step) -> bool:
        return not any(s.raised is not None and s.id > step.id for s in self.steps_of(step.frame))

    def is_origin(self, step: Step) -> bool:
        """Whether the exception began in this statement, not in a lecture function it called."""
        raised = step.raised
        inner = (s.raised for frame in self.calls(step.id) for s in self.steps_of(frame.frame))
        return not any(r is not None and raised is not None and r.type == raised.type for r in inner)
