"""Make the events of a trace: the calls and steps of the representative run, with the samples of all runs.

A narrative call may differ from run to run in its choice, its answer and its numbers; the trace stores one narrative
that states the differences.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from trace_tools.errors import LectureError, TraceFileError
from trace_tools.lecture.vocabulary import ANSWERS, decided
from trace_tools.source.statements import ParsedSource
from trace_tools.trace.model import (
    NOT_METERED,
    Ask,
    Choice,
    Claim,
    Event,
    Frame,
    LeftOut,
    Measured,
    Meters,
    Narrative,
    Note,
    Omitted,
    Raised,
    Step,
    Table,
    Text,
    Value,
    Varied,
)
from trace_tools.trace.structure import from_plain
from trace_tools.tracing import included
from trace_tools.tracing.instrument import Instrumented
from trace_tools.tracing.journal import NO_RECORD
from trace_tools.tracing.merge.matching import NUMBER, Runs, as_key, steps_at, template_of, words_of
from trace_tools.tracing.merge.reader import JOURNAL, RecordedCall, RecordedStep, RunRecord

Version = Mapping[str, Any]  # a narrative call as one run recorded it


def merged_narrative(own: Version, runs: Runs, position: int, index: int) -> Narrative:
    """Return a narrative call of the representative run with the versions of other runs, which are the calls with the
    same index in the steps at `position`.
    """
    choice: Choice | None = None

    def versions(some: Iterable[RunRecord]) -> list[Version]:
        recorded = [version for step in steps_at(position, some) for version in step.narrative[index : index + 1]]
        return recorded if choice is None else [_with_sentence(version, choice) for version in recorded]

    timed = versions(runs.timed)
    if all(version.get("choice") for version in timed):
        # decided by the samples of all runs that reached it
        choices = [version["choice"] for version in timed]
        samples = [sample for one in choices for sample in one["samples"]]
        choice = decided(Choice(choices[0]["low"], choices[0]["high"], samples))
        own, timed = _with_sentence(own, choice), versions(runs.timed)
    plain = {name: part for name, part in own.items() if name != "choice"}
    narrative: Narrative = from_plain(cast("Any", Narrative), plain, JOURNAL)
    if isinstance(narrative, Text):
        narrative = replace(narrative, choice=choice)
    if isinstance(narrative, Ask):
        answers = [version["answer"]["value"] for version in timed if version.get("answer")]
        if len(set(map(as_key, answers))) > 1:  # the median of numbers, or the most common text
            numbers = [value for value in answers if not isinstance(value, str)]
            is_number = len(numbers) == len(answers)
            value = statistics.median(numbers) if is_number else Counter(answers).most_common(1)[0][0]
            narrative = replace(narrative, answer=replace(narrative.answer, value=value, samples=answers))
    if not isinstance(narrative, Text | Note | Ask | Table):
        return narrative
    if len({as_key(version) for version in timed}) < 2:
        return narrative
    form = _form(own)
    other_forms = Counter(_form(version) for version in timed if _form(version) != form)
    texts = {
        _form(version): "another table" if isinstance(narrative, Table) else words_of(version) for version in timed
    }
    warm, cold = (
        [version for version in versions(some) if _form(version) == form]
        for some in (runs.warm or runs.cold, runs.cold if runs.warm else [])
    )
    varied = _varied_cells if isinstance(narrative, Table) else _varied_numbers
    return replace(
        narrative,
        varied=list(varied(own, warm, cold)) or None,
        others=[(texts[other], count) for other, count in other_forms.most_common()] or None,
    )


def _with_sentence(version: Version, choice: Choice) -> Version:
    """Return a run's version with the sentence for the choice of all runs."""
    sentence = version["choice"]["sentences"][ANSWERS.index(choice.answer or "undecided")]
    return {**version, "text": sentence, "choice": None}


def _form(version: Version) -> str:
    """Return the form of a version, which is equal for versions that differ only in their numbers."""
    if version.get("kind") == "table":
        return as_key([version.get("title"), version.get("columns"), len(version.get("rows") or [])])
    return template_of(words_of(version))[0]


def _varied_numbers(own: Version, warm: Sequence[Version], cold: Sequence[Version]) -> Iterator[Varied]:
    """Yield the numbers of a text that differ between the runs with this text."""
    in_warm, in_cold = ([template_of(words_of(version))[1] for version in versions] for versions in (warm, cold))
    for slot, number in enumerate(NUMBER.finditer(words_of(own))):
        samples, cold_samples = ([numbers[slot] for numbers in in_runs] for in_runs in (in_warm, in_cold))
        if len({*samples, *cold_samples}) > 1:
            yield Varied([*samples], [*cold_samples] or None, start=number.start(), end=number.end())


def _varied_cells(own: Version, warm: Sequence[Version], cold: Sequence[Version]) -> Iterator[Varied]:
    """Yield the cells of a table that differ between the runs with this table."""
    for row, cells in enumerate(own.get("rows") or []):
        for column in range(len(cells)):
            samples, cold_samples = ([version["rows"][row][column] for version in some] for some in (warm, cold))
            if len({as_key(cell) for cell in (*samples, *cold_samples)}) > 1:
                yield Varied(samples, cold_samples or None, row=row, column=column)


NO_COUNTERPART = "no counterpart in the metering process"
SCALARS = ("bool", "int", "float", "str")
MEASUREMENTS = 100  # kept per step
FLOORS = 2  # device time beyond the launch up to which the device counts as idle, in units of an empty step

Read = Callable[[Iterable[RunRecord]], list[Any]]  # returns the same value from each of the runs


def events(runs: Runs, program: Instrumented, source: ParsedSource, firsts: Sequence[int] = (0,)) -> list[Event]:
    """Return frames, steps and totals in order of execution, numbered from 0; `firsts` as in `included`."""
    return _Events(runs, program, source, firsts).in_order()


class _Events:
    def __init__(self, runs: Runs, program: Instrumented, source: ParsedSource, firsts: Sequence[int]) -> None:
        self.firsts = firsts
        self.runs = runs
        self.run = runs.representative
        self.program = program
        self.source = source
        self.step_ids = {seq: number for number, seq in enumerate(sorted(self.run.steps))}
        first_step: dict[int, int] = {}
        for step in self.run.steps.values():
            first_step[step.frame] = min(step.seq, first_step.get(step.frame, step.seq))
        self.starts: dict[int, tuple[int, int, int]] = {}  # of calls, in order of execution
        for call in sorted(self.run.frames.values(), key=lambda call: call.id):  # callers before callees
            first = first_step.get(call.id)
            caller = self.run.steps.get(call.of) if call.of is not None else None
            if call.of is not None and (
                caller is None or caller.frame not in self.starts or (first is not None and first <= caller.seq)
            ):
                continue  # the caller's record was damaged: leave out everything below it
            self.starts[call.id] = (call.of or 0, 2, call.id) if first is None else (first, 0, call.id)
        ordered = sorted(self.starts, key=self.starts.__getitem__)
        self.frame_ids = {frame: number for number, frame in enumerate(ordered)}

    def in_order(self) -> list[Event]:
        """Return all events in order of execution."""
        keyed_events: list[tuple[tuple[int, int, int], Event]] = []
        for frame, start in self.starts.items():
            keyed_events.append((start, self._frame(self.run.frames[frame])))
        last_seq: dict[tuple[int, int], int] = {}
        for step in self.run.steps.values():
            last_seq[step.frame, step.statement] = max(step.seq, last_seq.get((step.frame, step.statement), 0))
            if step.frame in self.frame_ids:
                try:
                    keyed_events.append(((step.seq, 1, 0), self._step(step)))
                except (TraceFileError, *NO_RECORD) as error:
                    why = f"the record of this line is damaged: {error}"
                    raise LectureError(self.source.path, self._line(step.statement), why) from error
        for (frame, statement), (count, ns) in self.run.omitted.items():
            if frame in self.frame_ids:
                _, number = included.locate(statement, self.firsts)
                omitted = Omitted(count, self.frame_ids[frame], number, self._line(statement), ns)
                keyed_events.append(((last_seq.get((frame, statement), 0), 3, statement), omitted))
        return [event for _, event in sorted(keyed_events, key=lambda item: item[0])]

    def _line(self, statement: int) -> int:
        return self.source.statements[statement].line

    def _frame(self, call: RecordedCall) -> Frame:
        def arguments(runs: Iterable[RunRecord], index: int) -> list[Any]:
            calls = [run.calls_at[call.position] for run in runs if call.position in run.calls_at]
            return [_nth(one.arguments, index, 2) for one in calls]

        compared = [
            (expression, self._compared(_value(value, unit), partial(arguments, index=index)))
            for index, (expression, unit, value) in enumerate(call.arguments)
        ]
        return Frame(
            frame=self.frame_ids[call.id],
            function=self.program.functions[call.function],
            source=included.locate(call.function, self.firsts)[0],
            of=None if call.of is None else self.step_ids[call.of],
            arguments=compared or None,
            thread=call.thread,
        )

    def _step(self, step: RecordedStep) -> Step:
        runs, at = self.runs, step.position
        suspended = step.statement in self.program.suspending
        claim, caught = self._claim(step)
        host_ns = None if suspended else _samples(runs.warm, at, "ns")
        cold_ns = None if suspended else _samples(runs.cold, at, "ns")
        device_ns, launch_ns, queued_ns = (
            _samples(runs.warm or runs.cold, at, name) for name in ("device_ns", "launch_ns", "queued_ns")
        )
        if device_ns and launch_ns and self._is_of_the_host(step, device_ns, launch_ns):
            # Between two events it would read some µs longer, and the wait after it would be empty.
            host_ns, cold_ns = (launch_ns, cold_ns) if runs.warm else (None, launch_ns)
            device_ns = launch_ns = None
        return Step(
            id=self.step_ids[step.seq],
            frame=self.frame_ids[step.frame],
            statement=included.locate(step.statement, self.firsts)[1],
            line=self._line(step.statement),
            execution=step.execution,
            host_ns=host_ns,
            cold_ns=cold_ns,
            device_ns=device_ns,
            launch_ns=launch_ns,
            # a value missing in some runs is due to chance
            queued_ns=queued_ns if len(queued_ns or ()) == len(runs.warm or runs.cold) else None,
            annotated=step.statement in self.program.inspected,
            values=[*self._values(step), *caught] or None,
            claim=claim,
            narrative=[merged_narrative(own, runs, at, index) for index, own in enumerate(step.narrative)] or None,
            stdout="".join(step.stdout) or None,
            warnings=[*step.warnings] or None,
            left_out=_left_out(step.left_out),
            allocated_bytes=step.allocated_bytes,
            meters=self._meters(step),
            measured=self._measured(step) or None,
            harness=step.harness,
            raised=from_plain(Raised, step.raised, JOURNAL) if step.raised else None,
            suspended=suspended,
            compiled=step.compiled,
            graph=step.graph,
            runs=runs.count_with(at),
        )

    def _is_of_the_host(self, step: RecordedStep, device_ns: list[int], launch_ns: list[int]) -> bool:
        """Return whether the device was idle in a step: no operator used its memory, and it worked hardly longer than
        in an empty step (see `FLOORS`).

        The second condition detects replayed graphs, and kernels that are no torch operators.
        """
        metered, floor_ns = self._metered(step), self.runs.floor_ns
        if not floor_ns or metered is None or metered.meters is None or metered.meters.get("device_operators"):
            return False
        return statistics.median(device_ns) - statistics.median(launch_ns) <= FLOORS * floor_ns

    def _compared(self, value: Value, read: Read) -> Value:
        """Mark a value that differs between timed runs; `read` returns it from other runs."""
        timed = read(self.runs.timed)
        if len({*map(id, timed)}) == 1:  # as for nearly all values: see `read_journal`
            return value
        keys = {as_key(_bare(other)) for other in timed}
        if len(keys) > 1:
            warm = _scalars(read(self.runs.warm or self.runs.cold))
            cold = _scalars(read(self.runs.cold)) if self.runs.warm else None
            return replace(value, varies=True, samples=warm, cold_samples=cold)
        return value

    def _values(self, step: RecordedStep) -> list[tuple[str, Value]]:
        def values(runs: Iterable[RunRecord], index: int) -> list[Any]:
            return [_nth(other.values, index, 2) for other in steps_at(step.position, runs)]

        return [
            (expression, self._compared(_value(value, unit), partial(values, index=index)))
            for index, (expression, unit, value) in enumerate(step.values)
        ]

    def _claim(self, step: RecordedStep) -> tuple[Claim | None, list[tuple[str, Value]]]:
        """Return a step's claim and []; if the lecture caught the failed claim, return None and both its sides as
        values.
        """
        if step.claim is None:
            return None, []

        def sides(runs: Iterable[RunRecord], index: int) -> list[Any]:
            steps = steps_at(step.position, runs)
            return [_nth(other.claim[2], index) if other.claim else None for other in steps]

        statement, how, own_sides = step.claim
        test, expressions = self.program.claims[statement]
        judging = [*self.runs.timed, *self.runs.abandoned]
        failed = [str(run.id) for run in judging if any(map(_failed, steps_at(step.position, [run])))]
        values = [
            (expression, self._compared(_value(side, None), partial(sides, index=index)))
            for index, (expression, side) in enumerate(zip(expressions, own_sides, strict=True))
            if side is not None
        ]
        if not failed and how == "raised":
            return None, values
        message = step.raised["message"] if step.raised and failed else None
        return Claim(source=test, held=not failed, sides=values, message=message, failed_runs=failed or None), []

    def _metered(self, step: RecordedStep) -> RecordedStep | None:
        """Return the same step of the metered run."""
        return self.runs.metered.steps_at.get(step.position) if self.runs.metered else None

    def _meters(self, step: RecordedStep) -> Meters | None:
        if self.runs.metered is None:
            return None
        metered = self._metered(step)
        if metered is None or metered.meters is None:
            # A metered run that is a pass, as in a draft, has the same steps: the meter was off while it measured time.
            why = NOT_METERED if metered is step else NO_COUNTERPART
            return Meters(why=why) if step.statement in self.program.inspected else None
        if metered.meters["operators"] is not None and not metered.meters["operators"]:
            return None
        return from_plain(Meters, {name: figure for name, figure in metered.meters.items() if figure != []}, JOURNAL)

    def _measured(self, step: RecordedStep) -> list[Measured]:
        """Combine the seconds per call in each run with the counts per call in the metered run."""
        metered = self._metered(step)
        timed = steps_at(step.position, self.runs.warm or self.runs.cold)
        measured = []
        for index in range(min(len(step.measured), MEASUREMENTS)):
            seconds = [other.measured[index]["seconds"] for other in timed if index < len(other.measured)]
            counts = (metered and _nth(metered.measured, index)) or {"why": NO_COUNTERPART}
            measured.append(from_plain(Measured, {**counts, "seconds": seconds}, JOURNAL))
        return measured


def _left_out(counted: Sequence[Sequence[Any]]) -> list[LeftOut] | None:
    """Add up the counts of left-out content over the parts of a step; a `with` has two parts."""
    counts: dict[str, LeftOut] = {}
    for kind, count, at in counted:
        before = counts.get(kind)
        counts[kind] = replace(before, count=before.count + count) if before else LeftOut(kind, count, at or None)
    return [*counts.values()] or None


def _value(plain: Any, unit: str | None) -> Value:
    value = from_plain(Value, plain, JOURNAL)
    return replace(value, unit=unit) if unit else value


def _nth(items: Sequence[Any], index: int, field: int | None = None) -> Any:
    """Return an item, or one of its fields; None if a run recorded fewer items."""
    if index >= len(items):
        return None
    return items[index] if field is None else items[index][field]


def _failed(step: RecordedStep) -> bool:
    """Return whether a claim has failed: its error left the section, or would have left it if it had been raised."""
    return step.claim is not None and (step.claim[1] == "passed over" or (step.claim[1] == "raised" and step.left))


def _scalars(values: Sequence[Any]) -> list[Any] | None:
    """Return the values of scalars; None if any of them is no scalar."""
    scalars = [value.get("value") for value in values if isinstance(value, dict) and value.get("type") in SCALARS]
    return scalars if len(scalars) == len(values) and scalars else None


def _bare(value: Any) -> Any:
    """Return a described value without the notes on how it was read, which may depend on the contents of memory."""
    if isinstance(value, dict):
        return {name: _bare(part) for name, part in value.items() if name != "note"}
    return [*map(_bare, value)] if isinstance(value, list) else value


def _samples(runs: Sequence[RunRecord], position: int, name: str) -> list[int] | None:
    samples = [getattr(step, name) for step in steps_at(position, runs)]
    return [sample for sample in samples if sample is not None] or None
