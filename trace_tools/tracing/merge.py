"""Runs → the events of a trace: the most typical warm run is the story, the others are its samples.

A step of one run is the same as a step of another when it is the n-th execution of the same statement in the same
call, and a call when it is the n-th of the same function in the same step: `Places` gives both one number in all
runs. What a run did that the story did not is left out; of what the story did, the trace says in how many runs it
happened.

The story is a medoid: of all warm runs the one that is nearest to the others in what varied (values, both sides of
claims, the numbers in prose, which steps ran at all). A page is then one consistent run, and no extreme one.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from trace_tools.file_format.structure import from_plain
from trace_tools.narrative import ANSWERS, decided
from trace_tools.schema import (
    Choice,
    Claim,
    Event,
    Frame,
    Measured,
    Meters,
    Narrative,
    Omitted,
    Raised,
    Scalar,
    Step,
    Value,
    Varied,
)
from trace_tools.statements import ParsedSource
from trace_tools.tracing.instrument import Instrumented
from trace_tools.tracing.runs import COLD, COMPLETE, WARM, Draft, FrameDraft, RunRecord

NO_COUNTERPART = "no counterpart in the metering process"
JOURNAL = Path("journal")  # where an error says that the data is from
SCALARS = ("bool", "int", "float", "str")
MEASUREMENTS = 100  # kept of one step

NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?")  # in prose: 1,024 and 0.5 and 6.3e24


class Places:
    """One number for each call and each step that any run made, the same in all of them."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[Any, ...], int] = {}
        self.keys: list[tuple[Any, ...]] = []  # by number: (caller's place, function, n), or (call's, statement, n)

    def _number(self, *key: Any) -> int:
        number = self.numbers.setdefault(key, len(self.keys))
        if number == len(self.keys):
            self.keys.append(key)
        return number

    def of(self, run: RunRecord) -> Placed:
        """Number what a run did."""
        placed = Placed(run)
        steps_of: dict[int, list[Draft]] = {}
        for step in run.steps.values():
            steps_of.setdefault(step.frame, []).append(step)
        calls: Counter[tuple[int, int]] = Counter()
        for frame in sorted(run.frames.values(), key=lambda f: f.id):  # callers before the called
            caller = -1 if frame.of is None else placed.place_of.get(frame.of, -2)
            calls[caller, frame.function] += 1
            place = self._number("call", caller, frame.function, calls[caller, frame.function])
            placed.frames[place] = frame
            placed.frame_of[frame.id] = place
            for step in steps_of.get(frame.id, ()):
                at = self._number("step", place, step.statement, step.execution)
                placed.steps[at] = step
                placed.place_of[step.seq] = at
        for frame_id, statement in run.omitted:
            if frame_id in placed.frame_of:
                placed.omitted.add((placed.frame_of[frame_id], statement))
        return placed

    def ran(self, place: int, placed: Placed) -> bool:
        """Whether a step happened in a run, as far as can be told: it may be one of those that the limit left out."""
        while place not in placed.steps:
            _, frame, statement, _ = self.keys[place]
            if (frame, statement) in placed.omitted:
                return True
            _, caller, function, _ = self.keys[frame]
            if frame in placed.frames or caller in placed.steps or caller < 0:
                return frame not in placed.frames and function in placed.run.refused
            place = caller
        return True


@dataclass
class Placed:
    """A run whose calls and steps have places."""

    run: RunRecord
    steps: dict[int, Draft] = field(default_factory=dict)  # by place
    frames: dict[int, FrameDraft] = field(default_factory=dict)
    place_of: dict[int, int] = field(default_factory=dict)  # a step's sequence number → its place
    frame_of: dict[int, int] = field(default_factory=dict)  # a frame's number in the run → its place
    omitted: set[tuple[int, int]] = field(default_factory=set)  # (call's place, statement): some were left out

    @property
    def name(self) -> str:
        return self.run.name


class Runs:
    """The runs of a trace, matched with one another; `story` is the one that is told."""

    def __init__(
        self,
        timed: Sequence[RunRecord],
        metered: RunRecord | None = None,
        shaken: Sequence[RunRecord] = (),
        seeded: RunRecord | None = None,
        abandoned: Sequence[RunRecord] = (),
    ) -> None:
        """Take the runs of the passes, that of the metering process, and those with wrong clocks and other seeds.

        `abandoned` are warm runs that failed: they timed nothing, but judged claims.
        """
        self.places = Places()
        placed = [self.places.of(run) for run in timed]
        self.timed = placed  # pass 1 cold, pass 1 warm, pass 2 cold …
        self.cold = [run for run in placed if run.name.endswith(COLD)]
        self.warm = [run for run in placed if run.name.endswith(WARM)]
        self.metered = self.places.of(metered) if metered else None
        again = bool(self.warm) or len(shaken) < 2  # else a second run is another for what the first left behind
        self.shaken = [self.places.of(run) for run in (shaken if again else shaken[:1])]
        self.seeded = self.places.of(seeded) if seeded else None
        self.abandoned = [self.places.of(run) for run in abandoned]
        whole = [run for run in self.timed if run.run.status == COMPLETE]
        self.complete = len(whole)
        candidates = [run for run in self.warm if run in whole] or [run for run in self.cold if run in whole]
        self.told = most_typical(candidates) if candidates else placed[0]

    @property
    def story(self) -> RunRecord:
        """The run that values, prose and the order of steps are from."""
        return self.told.run

    def often(self, place: int) -> int | None:
        """Return in how many complete timed runs a step of the story ran; None where in all."""
        whole = [run for run in self.timed if run.run.status == COMPLETE]
        count = sum(self.places.ran(place, run) for run in whole)
        return None if count == len(whole) else count

    def is_chosen_by_clock(self, place: int) -> bool:
        """Whether a step did not run once clocks were wrong."""
        return any(not self.places.ran(place, run) for run in self.shaken if run.run.status == COMPLETE)


# --- the story ------------------------------------------------------------------------------------


def most_typical(runs: Sequence[Placed]) -> Placed:
    """Return the run with the least distance to all others; the first of those that have it."""
    if len(runs) < 3:
        return runs[0]
    facts = [dict(_facts(run)) for run in runs]
    distances = [0.0] * len(runs)
    for name in {name for of_run in facts for name in of_run}:
        of_runs = [of_run.get(name) for of_run in facts]
        if all(fact == of_runs[0] for fact in of_runs):
            continue
        numbers = [fact for fact in of_runs if isinstance(fact, float)]
        span = max(numbers) - min(numbers) if numbers else 0.0
        for i, j in combinations(range(len(runs)), 2):
            one, other = of_runs[i], of_runs[j]
            if isinstance(one, float) and isinstance(other, float):
                apart = abs(one - other) / span if span else 0.0
            else:
                apart = float(one != other)
            distances[i] += apart
            distances[j] += apart
    return runs[min(range(len(runs)), key=lambda n: round(distances[n], 9))]


def _facts(run: Placed) -> Iterator[tuple[tuple[Any, ...], float | str]]:
    """Yield everything a run observed that could vary, by place; what is no finite number as text."""
    for place, step in run.steps.items():
        yield (place,), "ran"
        for index, (_, _, value) in enumerate(step.values):
            yield (place, "value", index), _fact(value)
        for index, side in enumerate(step.claim[2] if step.claim else ()):
            yield (place, "side", index), _fact(side)
        for index, said in enumerate(step.narrative):
            words, numbers = _template(_words(said))
            yield (place, "said", index), words
            for slot, number in enumerate(numbers):
                yield (place, "said", index, slot), _as_number(number)


def _fact(plain: Any) -> float | str:
    value = plain.get("value") if isinstance(plain, dict) else None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _as_number(str(value))
    return _key(plain)


def _as_number(digits: str) -> float | str:
    try:
        number = float(digits.replace(",", ""))
    except (ValueError, OverflowError):
        return digits
    return number if math.isfinite(number) else digits


def _words(said: Mapping[str, Any]) -> str:
    """Return all that a narrative call said, its numbers among it."""
    if said.get("kind") in ("text", "note"):
        return str(said.get("text") or "")
    return json.dumps([said.get("rows"), said.get("series")])


def _template(text: str) -> tuple[str, list[str]]:
    """Divide a text into its words, with a mark for each number, and the numbers."""
    return NUMBER.sub("#", text), NUMBER.findall(text)


# --- events ---------------------------------------------------------------------------------------


def events(runs: Runs, program: Instrumented, source: ParsedSource, annotated: frozenset[int]) -> list[Event]:
    """Return frames, steps and totals in order of execution, numbered from 0."""
    return _Builder(runs, program, source, annotated).build()


class _Builder:
    def __init__(self, runs: Runs, program: Instrumented, source: ParsedSource, annotated: frozenset[int]) -> None:
        self.runs = runs
        self.story = runs.story
        self.program = program
        self.source = source
        self.annotated = annotated
        self.step_ids = {seq: number for number, seq in enumerate(sorted(self.story.steps))}
        first_step: dict[int, int] = {}
        for step in self.story.steps.values():
            first_step[step.frame] = min(step.seq, first_step.get(step.frame, step.seq))
        frames = [f for f in self.story.frames.values() if f.of is None or f.of in self.step_ids]
        self.starts = {f.id: (first_step.get(f.id, f.of or 0), 0 if f.id in first_step else 2, f.id) for f in frames}
        ordered = sorted(self.starts, key=self.starts.__getitem__)
        self.frame_ids = {frame: number for number, frame in enumerate(ordered)}

    def build(self) -> list[Event]:
        placed: list[tuple[tuple[int, int, int], Event]] = []
        for frame, start in self.starts.items():
            placed.append((start, self._frame(self.story.frames[frame])))
        for step in self.story.steps.values():
            if step.frame in self.frame_ids:
                placed.append(((step.seq, 1, 0), self._step(step)))
        last: dict[tuple[int, int], int] = {}
        for step in self.story.steps.values():
            key = (step.frame, step.statement)
            last[key] = max(step.seq, last.get(key, 0))
        for (frame, statement), (count, ns) in self.story.omitted.items():
            if frame in self.frame_ids:
                omitted = Omitted(count, self.frame_ids[frame], statement, self._line(statement), ns)
                placed.append(((last.get((frame, statement), 0), 3, statement), omitted))
        return [event for _, event in sorted(placed, key=lambda item: item[0])]

    def _line(self, statement: int) -> int:
        return self.source.statements[statement].line

    def _frame(self, frame: FrameDraft) -> Frame:
        at = self.runs.told.frame_of[frame.id]

        def argument(index: int) -> Callable[[Placed], Any]:
            return lambda run: _nth(run.frames[at].arguments, index, 2) if at in run.frames else ABSENT

        arguments = [
            (source, self._judged(_value(value, unit), argument(index)))
            for index, (source, unit, value) in enumerate(frame.arguments)
        ]
        return Frame(
            frame=self.frame_ids[frame.id],
            function=self.program.functions[frame.function],
            of=None if frame.of is None else self.step_ids[frame.of],
            arguments=arguments or None,
            thread=frame.thread,
        )

    def _step(self, step: Draft) -> Step:
        at = self.runs.told.place_of[step.seq]
        suspended = step.statement in self.program.suspending
        warm, cold = self.runs.warm, self.runs.cold
        claim, caught = self._claim(step, at)
        return Step(
            id=self.step_ids[step.seq],
            frame=self.frame_ids[step.frame],
            statement=step.statement,
            line=self._line(step.statement),
            execution=step.execution,
            host_ns=None if suspended else _samples(warm, at, "ns"),
            cold_ns=None if suspended else _samples(cold, at, "ns"),
            device_ns=_samples(warm or cold, at, "device_ns"),
            annotated=step.statement in self.annotated,
            values=[*self._values(step, at), *caught] or None,
            claim=claim,
            narrative=self._narrative(step, at) or None,
            stdout="".join(step.stdout) or None,
            warnings=step.warnings or None,
            allocated_bytes=step.allocated_bytes,
            meters=self._meters(step, at),
            measured=self._measured(step, at) or None,
            harness=step.harness,
            raised=from_plain(Raised, step.raised, JOURNAL) if step.raised else None,
            suspended=suspended,
            compiled=step.compiled,
            runs=self.runs.often(at),
            clock=self.runs.is_chosen_by_clock(at),
        )

    def _values(self, step: Draft, at: int) -> list[tuple[str, Value]]:
        def read(index: int) -> Callable[[Placed], Any]:
            return lambda run: _nth(run.steps[at].values, index, 2) if at in run.steps else ABSENT

        return [
            (source, self._judged(_value(value, unit), read(index)))
            for index, (source, unit, value) in enumerate(step.values)
        ]

    def _judged(self, value: Value, read: Callable[[Placed], Any]) -> Value:
        """Mark a value that differs between timed runs, or that follows from a clock or a device's generator.

        `read` returns it as another run had it, ABSENT where that did not come by.
        """
        others = _present(read, self.runs.timed)
        keys = {_key(other) for other in others}
        if len(keys) > 1:
            warm = _scalars(_present(read, self.runs.warm or self.runs.cold))
            cold = _scalars(_present(read, self.runs.cold)) if self.runs.warm else None
            return replace(value, varies=True, samples=warm, cold_samples=cold)
        if any(_key(other) not in keys for other in _present(read, self.runs.shaken)):
            return replace(value, clock=True)
        if self.runs.seeded and any(_key(other) not in keys for other in _present(read, [self.runs.seeded])):
            return replace(value, device_random=True)
        return value

    def _claim(self, step: Draft, at: int) -> tuple[Claim | None, list[tuple[str, Value]]]:
        """Return a step's claim; for one that the lecture caught, both its sides as values instead."""
        if step.claim is None:
            return None, []
        statement, _, sides = step.claim
        test, sources = self.program.claims[statement]
        judging = [*self.runs.timed, *self.runs.abandoned]
        failed = [run.name for run in judging if at in run.steps and _failed(run.steps[at])]

        def read(index: int) -> Callable[[Placed], Any]:
            return lambda run: _side_of(run.steps[at], index) if at in run.steps else ABSENT

        values = [
            (source, self._judged(_value(side, None), read(index)))
            for index, (source, side) in enumerate(zip(sources, sides, strict=True))
            if side is not None
        ]
        if not failed and step.claim[1] == "raised":
            return None, values
        message = step.raised["message"] if step.raised and failed else None
        return Claim(source=test, held=not failed, sides=values, message=message, failed_runs=failed or None), []

    def _meters(self, step: Draft, at: int) -> Meters | None:
        if self.runs.metered is None:
            return None
        counterpart = self.runs.metered.steps.get(at)
        if counterpart is None or counterpart.meters is None:
            return Meters(why=NO_COUNTERPART) if step.statement in self.annotated else None
        meters = counterpart.meters
        if not meters["operators"]:
            return None
        return from_plain(Meters, {name: figure for name, figure in meters.items() if figure != []}, JOURNAL)

    def _measured(self, step: Draft, at: int) -> list[Measured]:
        """Put together how long one call took in each run and what one call did in the metering run."""
        metered = self.runs.metered.steps.get(at) if self.runs.metered else None
        counted = metered.measured if metered is not None else []
        found = []
        for index in range(min(len(step.measured), MEASUREMENTS)):
            seconds = [
                run.steps[at].measured[index]["seconds"]
                for run in self.runs.warm or self.runs.cold
                if at in run.steps and index < len(run.steps[at].measured)
            ]
            figures = counted[index] if index < len(counted) else {"why": NO_COUNTERPART}
            found.append(from_plain(Measured, {"seconds": seconds, **figures}, JOURNAL))
        return found

    # --- what was said ---

    def _narrative(self, step: Draft, at: int) -> list[Narrative]:
        return [self._said(said, at, index) for index, said in enumerate(step.narrative)]

    def _said(self, said: dict[str, Any], at: int, index: int) -> Narrative:
        """Add to what the story said how other runs said it: other numbers, or another sentence."""

        def as_said(run: Placed) -> Any:
            told = run.steps[at].narrative if at in run.steps else []
            return told[index] if index < len(told) else ABSENT

        read: Callable[[Placed], Any] = as_said
        choice = None
        choices = [other.get("choice") for other in _present(read, self.runs.timed)]
        if all(choices):
            choice = decided(_all_samples(choices))
            said, read = _answered(said, choice), _answering(read, choice)
        narrative = replace(from_plain(Narrative, {**said, "choice": None}, JOURNAL), choice=choice)
        if narrative.kind not in ("text", "note", "table"):
            return narrative
        if len({_key(other) for other in _present(read, self.runs.timed)}) < 2:
            return narrative
        form = _form(said)
        others = Counter(_form(other) for other in _present(read, self.runs.timed) if _form(other) != form)
        texts = {_form(other): _words(other) for other in _present(read, self.runs.timed)}
        if narrative.kind == "table":
            texts = dict.fromkeys(texts, "another table")
        warm, cold = (
            [other for other in _present(read, runs) if _form(other) == form]
            for runs in (self.runs.warm or self.runs.cold, self.runs.cold if self.runs.warm else [])
        )
        varied = _varied_numbers if narrative.kind in ("text", "note") else _varied_cells
        return replace(
            narrative,
            varied=list(varied(said, warm, cold)) or None,
            others=[(texts[other], count) for other, count in others.most_common()] or None,
        )


def _all_samples(choices: Sequence[Mapping[str, Any]]) -> Choice:
    """Return one choice with the samples of all runs that came by."""
    return Choice(choices[0]["low"], choices[0]["high"], [sample for c in choices for sample in c["samples"]])


def _answered(said: Mapping[str, Any], choice: Choice) -> dict[str, Any]:
    """Return what a run would have said, had it known what all runs know."""
    return {**said, "text": said["choice"]["sentences"][ANSWERS.index(choice.answer or "undecided")], "choice": None}


def _answering(read: Callable[[Placed], Any], choice: Choice) -> Callable[[Placed], Any]:
    def answered(run: Placed) -> Any:
        said = read(run)
        return said if said is ABSENT else _answered(said, choice)

    return answered


class _Absent:
    """What is read of a run that did not come by."""


ABSENT = _Absent()


def _present(read: Callable[[Placed], Any], runs: Iterable[Placed]) -> list[Any]:
    return [other for run in runs if (other := read(run)) is not ABSENT]


def _form(said: Mapping[str, Any]) -> str:
    """Return what two narrative calls have in common when they say the same with other numbers."""
    if said.get("kind") == "table":
        return _key([said.get("title"), said.get("columns"), len(said.get("rows") or [])])
    return _template(_words(said))[0]


def _varied_numbers(said: Mapping[str, Any], warm: Sequence[Any], cold: Sequence[Any]) -> Iterator[Varied]:
    """Yield the numbers of a text that were not the same in all runs that said it."""
    for slot, number in enumerate(NUMBER.finditer(_words(said))):
        in_warm, in_cold = (_all_said(runs, slot) for runs in (warm, cold))
        if len({*in_warm, *in_cold}) > 1:
            yield Varied(in_warm, in_cold or None, start=number.start(), end=number.end())


def _all_said(runs: Sequence[Any], slot: int) -> list[Scalar]:
    return [_template(_words(said))[1][slot] for said in runs]


def _varied_cells(said: Mapping[str, Any], warm: Sequence[Any], cold: Sequence[Any]) -> Iterator[Varied]:
    for row, cells in enumerate(said.get("rows") or []):
        for column in range(len(cells)):
            in_warm, in_cold = ([other["rows"][row][column] for other in runs] for runs in (warm, cold))
            if len({_key(cell) for cell in (*in_warm, *in_cold)}) > 1:
                yield Varied(in_warm, in_cold or None, row=row, column=column)


def _value(plain: Any, unit: str | None) -> Value:
    value = from_plain(Value, plain, JOURNAL)
    return replace(value, unit=unit) if unit else value


def _nth(items: Sequence[Any], index: int, field: int | None = None) -> Any:
    if index >= len(items):
        return None
    return items[index] if field is None else items[index][field]


def _side_of(step: Draft, index: int) -> Any:
    return _nth(step.claim[2], index) if step.claim else None


def _failed(step: Draft) -> bool:
    """Whether a claim has failed: its error left the section, or would have, were it not passed over."""
    return step.claim is not None and (step.claim[1] == "passed over" or (step.claim[1] == "raised" and step.left))


def _scalars(plain: Sequence[Any]) -> list[Any] | None:
    """Return the values of scalars; None where there is anything else."""
    found = [o.get("value") for o in plain if isinstance(o, dict) and o.get("type") in SCALARS]
    return found if len(found) == len(plain) and found else None


def _key(plain: Any) -> str:
    return json.dumps(plain, sort_keys=True)  # unlike ==, it takes nan for nan


def _samples(runs: Sequence[Placed], at: int, name: str) -> list[int] | None:
    samples = [getattr(run.steps[at], name) for run in runs if at in run.steps]
    return [sample for sample in samples if sample is not None] or None
