"""Match the runs of a trace with one another.

runs = Runs.of(processes, metered="metering")
runs.representative                        the run that the trace shows
steps_at(step.position, runs.warm)         the same step in each warm run that reached it
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trace_tools.trace.identities import (
    COLD,
    OTHER_SEEDS,
    PASS,
    PERTURBED,
    TOP,
    WARM,
    CallCounter,
    Positions,
    RunId,
    StepKey,
)
from trace_tools.tracing.merge.reader import UNKNOWN, ProcessRecord, RecordedStep, RunRecord
from trace_tools.tracing.merge.representative import most_typical


class Runs:
    """The runs of a trace. The same call, or step, has the same position in all of them: see `trace.keys`."""

    def __init__(
        self,
        timed: Sequence[RunRecord],
        metered: RunRecord | None = None,
        perturbed: Sequence[RunRecord] = (),
        seeded: RunRecord | None = None,
        abandoned: Sequence[RunRecord] = (),
        wanted: RunId | None = None,
        floor_ns: int | None = None,
    ) -> None:
        """Take the runs of the passes, the metered run, and the runs with perturbed clocks and other seeds.

        `abandoned` are warm runs that failed: they have no valid times, but they judged claims. `wanted` names the run
        to show, if it is a candidate. `floor_ns` is the reading of the device's clock for an empty step.
        """
        self.floor_ns = floor_ns
        self.timed = timed  # pass 1 cold, pass 1 warm, pass 2 cold …
        self.cold = [run for run in timed if run.id.kind == COLD]
        self.warm = [run for run in timed if run.id.kind == WARM]
        self.metered = metered
        again = bool(self.warm) or len(perturbed) < 2  # else a second run differs because of state left by the first
        self.perturbed = perturbed if again else perturbed[:1]
        self.seeded = seeded
        self.abandoned = abandoned
        self.positions = Positions()
        for run in (*timed, *self.perturbed, *abandoned, *(run for run in (metered, seeded) if run)):
            self._locate(run)
        self.complete = [run for run in timed if run.ending.is_complete]
        candidates = [run for run in self.complete if run in self.warm] or self.complete
        chosen = next((run for run in candidates or timed if run.id == wanted), None)
        self.representative = chosen or (most_typical(candidates) if candidates else timed[0])

    @classmethod
    def of(
        cls, processes: Sequence[ProcessRecord], metered: str | None = None, wanted: RunId | None = None
    ) -> Runs | None:
        """Return the runs of all processes, of which `metered` was metered; None if no pass recorded a step."""
        runs_of = {str(process.id): process.runs for process in processes}
        of_passes = [run for process in processes if process.id.kind == PASS for run in process.runs]
        # The samples of a warm run that failed after a complete cold one don't count.
        timed = [run for run in of_passes if run.steps and (run.ending.is_complete or run.id.kind == COLD)]
        if not timed:
            return None
        perturbed = runs_of.get(PERTURBED, [])
        return cls(
            timed,
            metered=next(iter(runs_of.get(metered or "", [])), None),
            perturbed=[run for run in perturbed if run.id.kind != OTHER_SEEDS],
            seeded=next((run for run in perturbed if run.id.kind == OTHER_SEEDS), None),
            abandoned=[run for run in of_passes if run not in timed],
            wanted=wanted,
            floor_ns=max((process.floor_ns for process in processes if process.floor_ns is not None), default=None),
        )

    def _locate(self, run: RunRecord) -> None:
        """Give each call and each step of a run its position."""
        steps_of: dict[int, list[RecordedStep]] = {}
        for step in run.steps.values():
            steps_of.setdefault(step.frame, []).append(step)
        calls = CallCounter()
        for call in sorted(run.frames.values(), key=lambda call: call.id):  # callers before callees
            caller = TOP if call.of is None else run.steps[call.of].position if call.of in run.steps else UNKNOWN
            call.position = self.positions.of_call(calls.key(caller, call.function))
            run.calls_at[call.position] = call
            for step in steps_of.get(call.id, ()):
                step.position = self.positions.of_step(StepKey(call.position, step.statement, step.execution))
                run.steps_at[step.position] = step

    def ran(self, position: int, run: RunRecord) -> bool:
        """Return whether a step happened in a run, or may have happened because the limit left out some of its
        executions.
        """
        while position not in run.steps_at:
            call, statement, _ = self.positions.keys[position]
            if call in run.calls_at:
                return (run.calls_at[call].id, statement) in run.omitted
            caller, function, _ = self.positions.keys[call]
            if caller in run.steps_at or caller < 0:
                return function in run.refused
            position = caller
        return True

    def count_with(self, position: int) -> int | None:
        """Return the number of complete timed runs with this step; None if it ran in all."""
        count = sum(self.ran(position, run) for run in self.complete)
        return None if count == len(self.complete) else count

    def is_chosen_by_clock(self, position: int) -> bool:
        """Return whether a step did not run in a complete run with perturbed clocks."""
        return any(not self.ran(position, run) for run in self.perturbed if run.ending.is_complete)


def steps_at(position: int, runs: Iterable[RunRecord]) -> list[RecordedStep]:
    """Return the step at a position in each run that reached it."""
    return [run.steps_at[position] for run in runs if position in run.steps_at]
