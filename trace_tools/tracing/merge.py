"""Runs → the events of a trace: the first pass's cold run is the story, the other runs are its samples.

A step of one run is the same as a step of another when it is the n-th execution of the same statement
in the same frame, and a frame when it is the n-th call of the same function in the same step. What a
run did that the first did not is left out; what it did not do has fewer samples.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from trace_tools.file_format.structure import from_plain
from trace_tools.schema import Claim, Event, Frame, Meters, Narrative, Omitted, Raised, Step, Value
from trace_tools.statements import ParsedSource
from trace_tools.tracing.instrument import Instrumented
from trace_tools.tracing.runs import Draft, FrameDraft, RunRecord

NO_COUNTERPART = "no counterpart in the metering process"
JOURNAL = Path("journal")  # where an error says that the data is from
SCALARS = ("bool", "int", "float", "str")

Steps = dict[int, Draft]  # a run's steps, by the sequence number of the base's


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of a trace: the base tells the story; each other one is matched with it."""

    base: RunRecord
    cold: list[tuple[str, Steps]]  # the timed passes' first runs, the base included
    warm: list[tuple[str, Steps]]
    metered: Steps | None = None
    abandoned: Sequence[tuple[str, Steps]] = ()  # warm runs that failed: they timed nothing, but judged claims
    other_device_seed: bool = False  # the metering process drew other numbers on its device

    @property
    def timed(self) -> list[tuple[str, Steps]]:
        """Every timed run in the order it ran: pass 1 cold, pass 1 warm, pass 2 cold …"""
        return sorted([*self.cold, *self.warm], key=lambda run: run[0])

    @classmethod
    def of(
        cls,
        timed: Sequence[RunRecord],
        metered: RunRecord | None,
        abandoned: Sequence[RunRecord] = (),
        *,
        other_device_seed: bool,
    ) -> Runs:
        """Match every run with the first."""
        matcher = Matcher(timed[0])
        matched = [(run.name, matcher.match(run)) for run in timed]
        return cls(
            base=timed[0],
            cold=[run for run in matched if run[0].endswith("cold")],
            warm=[run for run in matched if run[0].endswith("warm")],
            metered=matcher.match(metered) if metered else None,
            abandoned=[(run.name, matcher.match(run)) for run in abandoned],
            other_device_seed=other_device_seed,
        )


class Matcher:
    """Finds, for the steps of a base run, their counterparts in other runs."""

    def __init__(self, base: RunRecord) -> None:
        self.frames: dict[Any, int] = {key: frame for frame, key in _numbered(base, lambda of: of)}
        self.steps: dict[Any, int] = {(s.frame, s.statement, s.execution): s.seq for s in base.steps.values()}

    def match(self, run: RunRecord) -> Steps:
        """Return the run's steps by the base's sequence number."""
        matched: Steps = {}
        base_seq: dict[int, int] = {}
        steps_of: dict[int, list[Draft]] = {}
        for step in run.steps.values():
            steps_of.setdefault(step.frame, []).append(step)
        for frame, key in _numbered(run, lambda of: base_seq.get(of, -1)):
            found = self.frames.get(key)
            for step in steps_of.get(frame, ()) if found is not None else ():
                seq = self.steps.get((found, step.statement, step.execution))
                if seq is not None:
                    base_seq[step.seq] = seq
                    matched[seq] = step
        return matched


def _numbered(run: RunRecord, calling: Callable[[int], int]) -> Any:
    """Yield (frame, (calling step, function, n-th such call)), callers before the called."""
    calls: Counter[Any] = Counter()
    for frame in sorted(run.frames.values(), key=lambda f: f.id):
        place = (None if frame.of is None else calling(frame.of), frame.function)
        calls[place] += 1
        yield frame.id, (*place, calls[place])


def events(runs: Runs, program: Instrumented, source: ParsedSource, annotated: frozenset[int]) -> list[Event]:
    """Return frames, steps and totals in order of execution, numbered from 0."""
    return _Builder(runs, program, source, annotated).build()


class _Builder:
    def __init__(self, runs: Runs, program: Instrumented, source: ParsedSource, annotated: frozenset[int]) -> None:
        self.runs = runs
        self.base = runs.base
        self.program = program
        self.source = source
        self.annotated = annotated
        self.step_ids = {seq: number for number, seq in enumerate(sorted(self.base.steps))}
        first_step: dict[int, int] = {}
        for step in self.base.steps.values():
            first_step[step.frame] = min(step.seq, first_step.get(step.frame, step.seq))
        frames = [f for f in self.base.frames.values() if f.of is None or f.of in self.step_ids]
        self.starts = {f.id: (first_step.get(f.id, f.of or 0), 0 if f.id in first_step else 2, f.id) for f in frames}
        ordered = sorted(self.starts, key=self.starts.__getitem__)
        self.frame_ids = {frame: number for number, frame in enumerate(ordered)}

    def build(self) -> list[Event]:
        placed: list[tuple[tuple[int, int, int], Event]] = []
        for frame, start in self.starts.items():
            placed.append((start, self._frame(self.base.frames[frame])))
        for step in self.base.steps.values():
            if step.frame in self.frame_ids:
                placed.append(((step.seq, 1, 0), self._step(step)))
        last: dict[tuple[int, int], int] = {}
        for step in self.base.steps.values():
            key = (step.frame, step.statement)
            last[key] = max(step.seq, last.get(key, 0))
        for (frame, statement), (count, ns) in self.base.omitted.items():
            if frame in self.frame_ids:
                omitted = Omitted(count, self.frame_ids[frame], statement, self._line(statement), ns)
                placed.append(((last.get((frame, statement), 0), 3, statement), omitted))
        return [event for _, event in sorted(placed, key=lambda item: item[0])]

    def _line(self, statement: int) -> int:
        return self.source.statements[statement].line

    def _frame(self, frame: FrameDraft) -> Frame:
        arguments = [(source, _value(value, unit)) for source, unit, value in frame.arguments]
        return Frame(
            frame=self.frame_ids[frame.id],
            function=self.program.functions[frame.function],
            of=None if frame.of is None else self.step_ids[frame.of],
            arguments=arguments or None,
            thread=frame.thread,
        )

    def _step(self, step: Draft) -> Step:
        suspended = step.statement in self.program.suspending
        warm = self.runs.warm
        return Step(
            id=self.step_ids[step.seq],
            frame=self.frame_ids[step.frame],
            statement=step.statement,
            line=self._line(step.statement),
            execution=step.execution,
            host_ns=None if suspended else _samples(warm, step.seq, "ns"),
            cold_ns=None if suspended else _samples(self.runs.cold, step.seq, "ns"),
            device_ns=_samples(warm or self.runs.cold, step.seq, "device_ns"),
            annotated=step.statement in self.annotated,
            values=self._values(step) or None,
            claim=self._claim(step),
            narrative=[from_plain(Narrative, told, JOURNAL) for told in step.narrative] or None,
            stdout="".join(step.stdout) or None,
            warnings=step.warnings or None,
            allocated_bytes=step.allocated_bytes,
            meters=self._meters(step),
            raised=from_plain(Raised, step.raised, JOURNAL) if step.raised else None,
            suspended=suspended,
            compiled=step.compiled,
        )

    def _values(self, step: Draft) -> list[tuple[str, Value]]:
        return [
            (source, self._judged(_value(value, unit), step.seq, partial(_value_of, place)))
            for place, (source, unit, value) in enumerate(step.values)
        ]

    def _judged(self, value: Value, seq: int, same: Callable[[Draft], Any]) -> Value:
        """Mark a value that differs between timed runs, or that follows from a device's generator."""
        others = [same(steps[seq]) for _, steps in self.runs.timed if seq in steps]
        if len({_key(other) for other in others}) > 1:
            scalars = [o.get("value") for o in others if o and o.get("type") in SCALARS]
            return replace(value, varies=True, samples=scalars if len(scalars) == len(others) else None)
        metered = self.runs.metered
        if self.runs.other_device_seed and metered and seq in metered and _key(same(metered[seq])) != _key(others[0]):
            return replace(value, device_random=True)
        return value

    def _claim(self, step: Draft) -> Claim | None:
        if step.claim is None:
            return None
        statement, held, sides = step.claim
        test, sources = self.program.claims[statement]
        judging = sorted([*self.runs.timed, *self.runs.abandoned], key=lambda run: run[0])
        failed = [name for name, steps in judging if step.seq in steps and _failed(steps[step.seq])]
        values = [
            (source, self._judged(_value(side, None), step.seq, partial(_side_of, place)))
            for place, (source, side) in enumerate(zip(sources, sides, strict=True))
            if side is not None
        ]
        message = step.raised["message"] if step.raised and not held else None
        return Claim(source=test, held=not failed, sides=values, message=message, failed_runs=failed or None)

    def _meters(self, step: Draft) -> Meters | None:
        if self.runs.metered is None:
            return None
        counterpart = self.runs.metered.get(step.seq)
        if counterpart is None or counterpart.meters is None:
            return Meters(why=NO_COUNTERPART) if step.statement in self.annotated else None
        meters = counterpart.meters
        if not meters["operators"]:
            return None
        return from_plain(Meters, {name: figure for name, figure in meters.items() if figure != []}, JOURNAL)


def _value(plain: Any, unit: str | None) -> Value:
    value = from_plain(Value, plain, JOURNAL)
    return replace(value, unit=unit) if unit else value


def _value_of(place: int, step: Draft) -> Any:
    return step.values[place][2] if place < len(step.values) else None


def _side_of(place: int, step: Draft) -> Any:
    return step.claim[2][place] if step.claim and place < len(step.claim[2]) else None


def _failed(step: Draft) -> bool:
    return step.claim is not None and not step.claim[1]


def _key(plain: Any) -> str:
    return json.dumps(plain, sort_keys=True)  # unlike ==, it takes nan for nan


def _samples(runs: Sequence[tuple[str, Steps]], seq: int, name: str) -> list[int] | None:
    samples = [getattr(steps[seq], name) for _, steps in runs if seq in steps]
    return [sample for sample in samples if sample is not None] or None
