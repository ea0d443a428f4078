"""Match the runs of a trace with one another, and choose the run that the trace shows: a run of median duration.

runs = Runs(recorded)
runs.shown                                 the run that the trace shows
runs.steps_at(step, runs.warm)             the same step in each warm run that reached it
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from trace_tools.trace.identities import COLD, COUNTED, WARM
from trace_tools.trace.model import Frame, Step
from trace_tools.tracing.merge.reader import RunRecord

TOP = -1  # the caller of a call that no traced step made
UNKNOWN = -2  # position of a step whose call is unknown, because its record is damaged


class CallKey(NamedTuple):
    """Identifies the n-th call of its function in a step, in all runs."""

    caller: int  # position of the step that made the call, or TOP
    function: str
    number: int  # among the calls of this function in the step, from 1


class StepKey(NamedTuple):
    """Identifies the n-th execution of its statement in a call, in all runs."""

    call: int  # position of the call
    statement: int
    execution: int  # from 1


class Runs:
    """The runs of a trace. The same call, or step, has the same position in all of them."""

    def __init__(self, recorded: Sequence[RunRecord], floor_ns: int | None = None) -> None:
        """Take the runs of all passes, of which one has steps, and the device clock's reading for an empty step."""
        self.floor_ns = floor_ns
        self.counted = next((run for run in recorded if run.id.kind == COUNTED), None)
        self.cold = [run for run in recorded if run.id.kind == COLD and run.steps]
        warm = [run for run in recorded if run.id.kind == WARM]
        # A warm run that failed after a complete cold one has no valid times, but it judged claims.
        self.warm = [run for run in warm if run.ending.is_complete]
        self.timed = [run for run in recorded if run in self.cold or run in self.warm]
        self.judging = [*self.timed, *(run for run in warm if run not in self.warm)]
        # all; those whose samples come first; the cold runs, if these are the warm ones
        self.compared = (self.timed, self.warm or self.cold, self.cold if self.warm else [])
        self.keys: list[CallKey | StepKey] = []  # by position
        self._positions: dict[tuple[type, CallKey | StepKey], int] = {}  # with its type: tuples of two types are equal
        for run in (*self.judging, *([self.counted] if self.counted else [])):
            self._locate(run)
        self.complete = [run for run in self.timed if run.ending.is_complete]
        by_time = sorted(self.warm or self.complete or self.timed[:1], key=lambda run: run.ns or 0)
        self.shown = by_time[(len(by_time) - 1) // 2]

    def _position(self, key: CallKey | StepKey) -> int:
        position = self._positions.setdefault((type(key), key), len(self.keys))
        if position == len(self.keys):
            self.keys.append(key)
        return position

    def _locate(self, run: RunRecord) -> None:
        """Give each call and each step of a run its position."""
        steps_of: dict[int, list[Step]] = {}
        for step in run.steps.values():
            steps_of.setdefault(step.frame, []).append(step)
        calls: Counter[tuple[int, str]] = Counter()
        for _, call in sorted(run.frames.items()):  # callers before callees
            caller = TOP if call.of is None else run.positions.get(call.of, UNKNOWN)
            calls[caller, call.function] += 1
            position = self._position(CallKey(caller, call.function, calls[caller, call.function]))
            run.calls_at[position] = call
            run.call_positions[call.frame] = position
            for step in steps_of.get(call.frame, ()):
                at = self._position(StepKey(position, step.statement, step.execution))
                run.positions[step.id] = at
                run.steps_at[at] = step
        run.omissions = {(one.frame, one.statement) for one in run.omitted}

    def ran(self, position: int, run: RunRecord) -> bool:
        """Return whether a step happened in a run, or may have happened because a limit left it out."""
        while position not in run.steps_at:
            call, statement, _ = self.keys[position]
            if call in run.calls_at:
                return (run.calls_at[call].frame, statement) in run.omissions
            key = self.keys[call]
            assert isinstance(key, CallKey)
            if key.caller in run.steps_at or key.caller < 0:
                return key.function in run.refused
            position = key.caller
        return True

    def count_with(self, step: Step) -> int | None:
        """Return the number of complete timed runs with this step; None if it ran in all."""
        position = self.shown.positions.get(step.id, UNKNOWN)
        count = sum(self.ran(position, run) for run in self.complete)
        return None if count == len(self.complete) else count

    def steps_at(self, step: Step, runs: Iterable[RunRecord]) -> list[Step]:
        """Return the same step in each run that reached it."""
        position = self.shown.positions.get(step.id, UNKNOWN)
        return [run.steps_at[position] for run in runs if position in run.steps_at]

    def calls_at(self, call: Frame, runs: Iterable[RunRecord]) -> list[Frame]:
        """Return the same call in each run that reached it."""
        position = self.shown.call_positions[call.frame]
        return [run.calls_at[position] for run in runs if position in run.calls_at]
