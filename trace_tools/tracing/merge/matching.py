"""Match the runs of a trace with one another, and choose the run that the trace shows.

runs = Runs.of(processes)
runs.representative                        the run that the trace shows
steps_at(step.position, runs.warm)         the same step in each warm run that reached it

The representative run is a medoid: the one nearest to the others in everything that varied, which is values, both sides
of claims, numbers in prose, and the set of steps that ran. So a page shows one consistent run that is not an outlier.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from operator import is_
from typing import Any

from trace_tools.lecture.vocabulary import PROSE
from trace_tools.trace.identities import (
    COLD,
    COUNTED,
    PASS,
    TOP,
    WARM,
    CallCounter,
    Positions,
    StepKey,
)
from trace_tools.tracing.merge.reader import UNKNOWN, ProcessRecord, RecordedStep, RunRecord

NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?")  # in prose: 1,024 and 0.5 and 6.3e24


def most_typical(runs: Sequence[RunRecord]) -> RunRecord:
    """Return the run with the least total distance to all others; the first such run if several tie."""
    if len(runs) < 3:
        return runs[0]
    distances = [0.0] * len(runs)
    for position in dict.fromkeys(position for run in runs for position in run.steps_at):
        steps = [run.steps_at.get(position) for run in runs]
        if all(_is_the_same(steps[0], other) for other in steps):
            continue
        facts = [dict(_facts(step)) if step else {} for step in steps]
        for name in dict.fromkeys(name for of_run in facts for name in of_run):
            of_runs = [of_run.get(name) for of_run in facts]
            if all(fact == of_runs[0] for fact in of_runs):
                continue
            numbers = [fact for fact in of_runs if isinstance(fact, float)]
            span = max(numbers) - min(numbers) if numbers else 0.0
            for i, j in combinations(range(len(runs)), 2):
                one, other = of_runs[i], of_runs[j]
                if isinstance(one, float) and isinstance(other, float):
                    distance = abs(one - other) / span if span else 0.0
                else:
                    distance = float(one != other)
                distances[i] += distance
                distances[j] += distance
    return runs[min(range(len(runs)), key=lambda n: round(distances[n], 9))]


def _is_the_same(one: RecordedStep | None, other: RecordedStep | None) -> bool:
    """Return whether two runs certainly observed the same content: equal content is read as one object."""
    if one is None or other is None:
        return False
    pairs = [(one.values, other.values), (one.narrative, other.narrative)]
    return one.claim is other.claim and all(len(a) == len(b) and all(map(is_, a, b)) for a, b in pairs)


def _facts(step: RecordedStep) -> Iterator[tuple[tuple[Any, ...], float | str]]:
    """Yield all observations of a step that could vary; anything except a finite number as text."""
    yield ("ran",), "ran"
    for index, (_, _, value) in enumerate(step.values):
        yield ("value", index), _fact(value)
    for index, side in enumerate(step.claim[2] if step.claim else ()):
        yield ("side", index), _fact(side)
    for index, narrative in enumerate(step.narrative):
        template, numbers = template_of(words_of(narrative))
        yield ("narrative", index), template
        for slot, number in enumerate(numbers):
            yield ("narrative", index, slot), _as_number(number)


def _fact(value: Any) -> float | str:
    scalar = value.get("value") if isinstance(value, dict) else None
    if isinstance(scalar, (int, float)) and not isinstance(scalar, bool):
        return _as_number(str(scalar))
    return as_key(value)


def _as_number(digits: str) -> float | str:
    try:
        number = float(digits.replace(",", ""))
    except (ValueError, OverflowError):
        return digits
    return number if math.isfinite(number) else digits


def as_key(plain: Any) -> str:
    """Return plain data as text that is equal for equal data; unlike ==, also for nan and nan."""
    return json.dumps(plain, sort_keys=True)


def words_of(narrative: Mapping[str, Any]) -> str:
    """Return all text of a narrative call, including its numbers."""
    if narrative.get("kind") in PROSE:
        return str(narrative.get("text") or "")
    return json.dumps([narrative.get("rows"), narrative.get("series")])


def template_of(text: str) -> tuple[str, list[str]]:
    """Split a text into a template with a mark for each number, and the list of numbers."""
    return NUMBER.sub("#", text), NUMBER.findall(text)


class Runs:
    """The runs of a trace. The same call, or step, has the same position in all of them: see `trace.identities`."""

    def __init__(
        self,
        timed: Sequence[RunRecord],
        metered: RunRecord | None = None,
        abandoned: Sequence[RunRecord] = (),
        floor_ns: int | None = None,
    ) -> None:
        """Take the timed runs of the passes, and the metered run.

        `abandoned` are warm runs that failed: they have no valid times, but they judged claims. `wanted` names the run
        to show, if it is a candidate. `floor_ns` is the reading of the device's clock for an empty step.
        """
        self.floor_ns = floor_ns
        self.timed = timed  # pass 1 cold, pass 1 warm, pass 2 cold …
        self.cold = [run for run in timed if run.id.kind == COLD]
        self.warm = [run for run in timed if run.id.kind == WARM]
        self.metered = metered
        self.abandoned = abandoned
        self.positions = Positions()
        for run in (*timed, *abandoned, *([metered] if metered else [])):
            self._locate(run)
        self.complete = [run for run in timed if run.ending.is_complete]
        candidates = [run for run in self.complete if run in self.warm] or self.complete
        self.representative = most_typical(candidates) if candidates else timed[0]

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
            metered=next((run for run in recorded if run.id.kind == COUNTED), None),
            abandoned=[run for run in of_passes if run not in timed],
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


def steps_at(position: int, runs: Iterable[RunRecord]) -> list[RecordedStep]:
    """Return the step at a position in each run that reached it."""
    return [run.steps_at[position] for run in runs if position in run.steps_at]
