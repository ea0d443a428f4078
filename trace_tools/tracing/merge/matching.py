"""Match the runs of a trace with one another, and choose the run that the trace shows: a run of median duration.

runs = Runs.of(processes)
runs.shown                                 the run that the trace shows
runs.steps_at(step, runs.warm)             the same step in each warm run that reached it
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trace_tools.trace.identities import COLD, COUNTED, PASS, TOP, WARM, CallCounter, CallKey, Positions, StepKey
from trace_tools.trace.model import Frame, Step
from trace_tools.tracing.merge.reader import ProcessRecord, RunRecord

UNKNOWN = -2  # position of a step whose call is unknown, because its record is damaged


class Runs:
    """The runs of a trace. The same call, or step, has the same position in all of them: see `trace.identities`."""

    def __init__(
        self,
        timed: Sequence[RunRecord],
        counted: RunRecord | None = None,
        abandoned: Sequence[RunRecord] = (),
        floor_ns: int | None = None,
    ) -> None:
        """Take the timed runs of the passes, and the counted run.

        `abandoned` are warm runs that failed: they have no valid times, but they judged claims. `floor_ns`
        is the reading of the device's clock for an empty step.
        """
        self.floor_ns = floor_ns
        self.timed = timed  # pass 1 cold, pass 1 warm, pass 2 cold …
        self.cold = [run for run in timed if run.id.kind == COLD]
        self.warm = [run for run in timed if run.id.kind == WARM]
        # all; those whose samples come first; the cold runs, if these are the warm ones
        self.compared = (timed, self.warm or self.cold, self.cold if self.warm else [])
        self.counted = counted
        self.abandoned = abandoned
        self.positions = Positions()
        for run in (*timed, *abandoned, *([counted] if counted else [])):
            self._locate(run)
        self.complete = [run for run in timed if run.ending.is_complete]
        candidates = [run for run in self.complete if run in self.warm] or self.complete or timed[:1]
        by_time = sorted(candidates, key=lambda run: run.ns or 0)
        self.shown = by_time[(len(by_time) - 1) // 2]

    @classmethod
    def of(cls, processes: Sequence[ProcessRecord]) -> Runs | None:
        """Return the runs of all processes; None if no pass recorded a step."""
        recorded = [run for process in processes if process.id.kind == PASS for run in process.runs]
        of_passes = [run for run in recorded if run.id.kind != COUNTED]
        # The samples of a warm run that failed after a complete cold one don't count.
        timed = [run for run in of_passes if run.steps and (run.ending.is_complete or run.id.kind == COLD)]
        if not timed:
            return None
        return cls(
            timed,
            counted=next((run for run in recorded if run.id.kind == COUNTED), None),
            abandoned=[run for run in of_passes if run not in timed],
            floor_ns=max((process.floor_ns for process in processes if process.floor_ns is not None), default=None),
        )

    def _locate(self, run: RunRecord) -> None:
        """Give each call and each step of a run its position."""
        steps_of: dict[int, list[Step]] = {}
        for step in run.steps.values():
            steps_of.setdefault(step.frame, []).append(step)
        calls = CallCounter()
        for _, call in sorted(run.frames.items()):  # callers before callees
            caller = TOP if call.of is None else run.positions.get(call.of, UNKNOWN)
            position = self.positions.of_call(calls.key(caller, (call.source, call.function)))
            run.calls_at[position] = call
            run.call_positions[call.frame] = position
            for step in steps_of.get(call.frame, ()):
                at = self.positions.of_step(StepKey(position, step.statement, step.execution))
                run.positions[step.id] = at
                run.steps_at[at] = step
        run.omissions = {(one.frame, one.statement) for one in run.omitted}

    def ran(self, position: int, run: RunRecord) -> bool:
        """Return whether a step happened in a run, or may have happened because a limit left it out."""
        while position not in run.steps_at:
            call, statement, _ = self.positions.keys[position]
            if call in run.calls_at:
                return (run.calls_at[call].frame, statement) in run.omissions
            key = self.positions.keys[call]
            assert isinstance(key, CallKey) and isinstance(key.function, tuple)  # as `_locate` made it
            if key.caller in run.steps_at or key.caller < 0:
                return key.function[1] in run.refused
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
