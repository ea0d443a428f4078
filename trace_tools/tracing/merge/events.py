"""Make the events of a trace from the calls and steps of one run, with the samples of all runs."""

from __future__ import annotations

import json
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from trace_tools.describing.storage_labels import ADDRESS
from trace_tools.lecture.vocabulary import ANSWERS, PROSE, decided
from trace_tools.trace.model import (
    Ask,
    Choice,
    Claim,
    Event,
    Frame,
    Measured,
    Meters,
    Narrative,
    Note,
    Observed,
    Scalar,
    Step,
    Table,
    Text,
    Value,
    Varied,
)
from trace_tools.trace.records import to_plain
from trace_tools.tracing.merge.reader import Runs

NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?")  # in prose: 1,024 and 0.5 and 6.3e24
NO_COUNTERPART = "no counterpart in the counted run"
SCALARS = ("bool", "int", "float", "str")
MEASUREMENTS = 100  # kept per step
FLOORS = 2  # device time beyond the launch up to which the device counts as idle, in units of an empty step


def events(runs: Runs) -> list[Event]:
    """Return calls, steps and totals of the run that is shown, in order of execution, numbered from 0."""
    run = runs.shown
    steps = {seq: number for number, seq in enumerate(sorted(run.steps))}
    first: dict[int, int] = {}  # step of each call
    last: dict[tuple[int, int], int] = {}  # step of each statement of each call
    for step in run.steps.values():
        first[step.frame] = min(step.id, first.get(step.frame, step.id))
        last[step.frame, step.statement] = max(step.id, last.get((step.frame, step.statement), 0))
    starts: dict[int, tuple[int, int, int]] = {}  # of calls, in order of execution
    for number, call in sorted(run.frames.items()):  # callers before callees
        starts[number] = (first[number], 0, number) if number in first else (call.of or 0, 2, number)
    frames = {frame: number for number, frame in enumerate(sorted(starts, key=starts.__getitem__))}
    keyed: list[tuple[tuple[int, int, int], Event]] = []
    for number, start in starts.items():
        call = run.frames[number]
        of = None if call.of is None else steps[call.of]
        keyed.append((start, replace(call, frame=frames[number], of=of, arguments=_arguments(call, runs))))
    for step in run.steps.values():
        merged = _merged(step, runs)
        keyed.append(((step.id, 1, 0), replace(merged, id=steps[step.id], frame=frames[step.frame])))
    for omitted in run.omitted:
        after = last.get((omitted.frame, omitted.statement), 0)
        keyed.append(((after, 3, omitted.statement), replace(omitted, frame=frames[omitted.frame])))
    return [event for _, event in sorted(keyed, key=lambda item: item[0])]


def _merged(step: Step, runs: Runs) -> Step:
    """Return a step of the shown run with the other runs' records of it."""
    timed, main, first = of = [runs.steps_at(step, some) for some in runs.compared]
    counted = next(iter(runs.steps_at(step, [runs.counted])), None) if runs.counted else None
    host_ns, cold_ns = (_samples(runs.steps_at(step, some), "host_ns") for some in (runs.warm, runs.cold))
    device_ns, launch_ns, queued_ns = (_samples(main, name) for name in ("device_ns", "launch_ns", "queued_ns"))
    if device_ns and launch_ns and _is_of_the_host(counted, device_ns, launch_ns, runs.floor_ns):
        # Between two events it would read some µs longer, and the wait after it would be empty.
        host_ns, cold_ns = (launch_ns, cold_ns) if runs.warm else (None, launch_ns)
        device_ns = launch_ns = None
    claim, caught = _claim(step, runs)
    values = _compared(step.values or [], *([one.values or [] for one in some] for some in of))
    return replace(
        step,
        host_ns=host_ns,
        cold_ns=cold_ns,
        device_ns=device_ns,
        launch_ns=launch_ns,
        queued_ns=queued_ns if len(queued_ns or ()) == len(runs.warm or runs.cold) else None,  # else due to chance
        values=[*values, *caught] or None,
        claim=claim,
        narrative=_narrative(step, timed, main, first),
        meters=_meters(step, counted, runs),
        measured=_measured(step, main, counted),
        runs=runs.count_with(step),
    )


def _samples(steps: Sequence[Step], name: str) -> list[int] | None:
    return [sample for step in steps for sample in getattr(step, name) or ()] or None


def _is_of_the_host(counted: Step | None, device_ns: list[int], launch_ns: list[int], floor_ns: int | None) -> bool:
    """Return whether the device was idle in a step: no operator used its memory, and it worked hardly longer than in an
    empty step (see `FLOORS`).

    The second condition detects replayed graphs, and kernels that are no torch operators.
    """
    if not floor_ns or counted is None or counted.meters is None or counted.meters.device_operators:
        return False
    return statistics.median(device_ns) - statistics.median(launch_ns) <= FLOORS * floor_ns


# --- values and claims --------------------------------------------------------------------------------------------

Several = Sequence[Sequence[Observed]]  # the same observations of several runs


def _compared(own: Sequence[Observed], timed: Several, main: Several, cold: Several) -> list[Observed]:
    """Mark the values that differ between timed runs; see `Runs.compared`."""

    def read(several: Several, index: int) -> list[Value | None]:
        return [observed[index][1] if index < len(observed) else None for observed in several]

    compared = []
    for index, (expression, value) in enumerate(own):
        others = read(timed, index)
        if any(other != value for other in others) and len(set(map(_key, others))) > 1:
            samples, cold_samples = _scalars(read(main, index)), _scalars(read(cold, index))
            value = replace(value, varies=True, samples=samples, cold_samples=cold_samples)
        compared.append((expression, value))
    return compared


def _key(value: Any) -> str:
    """Return a value as text, without the notes on how it was read, which may depend on the contents of memory.

    Labels of addresses are equal: memory that is used again by chance gets an earlier one.
    """

    def bare(plain: Any) -> Any:
        if isinstance(plain, dict):
            if plain.get("type") == "int" and str(plain.get("text")).startswith(ADDRESS):
                return ADDRESS
            return {name: bare(part) for name, part in plain.items() if name != "note"}
        return [*map(bare, plain)] if isinstance(plain, list | tuple) else plain

    return json.dumps(bare(to_plain(value)), sort_keys=True)


def _scalars(values: Sequence[Value | None]) -> list[Scalar] | None:
    """Return the values, if all of them are scalars."""
    scalars = [value.value for value in values if value is not None and value.type in SCALARS]
    return scalars if len(scalars) == len(values) and scalars else None


def _arguments(call: Frame, runs: Runs) -> list[Observed] | None:
    if call.arguments is None:
        return None
    of = ([other.arguments or [] for other in runs.calls_at(call, some)] for some in runs.compared)
    return _compared(call.arguments, *of)


def _claim(step: Step, runs: Runs) -> tuple[Claim | None, list[Observed]]:
    """Return a step's claim and []; of a failed claim that the lecture caught, None and its sides as values."""
    own = step.claim
    if own is None:
        return None, []
    failed = [str(run.id) for run in runs.judging if any(one.id in run.failed for one in runs.steps_at(step, [run]))]
    of = ([one.claim.sides if one.claim else [] for one in runs.steps_at(step, some)] for some in runs.compared)
    sides = _compared(own.sides, *of)
    if not failed and not own.held:
        return None, sides
    message = step.raised.message if step.raised and failed else None
    return Claim(source=own.source, held=not failed, sides=sides, message=message, failed_runs=failed or None), []


# --- counts -------------------------------------------------------------------------------------------------------


def _meters(step: Step, counted: Step | None, runs: Runs) -> Meters | None:
    if runs.counted is None:
        return None
    if counted is None or counted.meters is None:
        return Meters(why=NO_COUNTERPART) if step.annotated else None
    return None if counted.meters.operators == [] else counted.meters


def _measured(step: Step, main: Sequence[Step], counted: Step | None) -> list[Measured] | None:
    """Combine the seconds per call in each run with the counts per call in the counted run."""
    measured = []
    for index in range(min(len(step.measured or ()), MEASUREMENTS)):
        seconds = [one.seconds[0] for other in main for one in (other.measured or [])[index : index + 1]]
        counts = ((counted and counted.measured) or [])[index : index + 1] or [Measured([], why=NO_COUNTERPART)]
        measured.append(replace(counts[0], seconds=seconds))
    return measured or None


# --- prose --------------------------------------------------------------------------------------------------------


def _narrative(step: Step, timed: Sequence[Step], main: Sequence[Step], cold: Sequence[Step]) -> list[Narrative] | None:
    def versions(steps: Sequence[Step], index: int) -> list[Narrative]:
        return [version for one in steps for version in (one.narrative or [])[index : index + 1]]

    return [
        _one_narrative(own, versions(timed, index), versions(main, index), versions(cold, index))
        for index, own in enumerate(step.narrative or [])
    ] or None


def _one_narrative(own: Narrative, timed: list[Narrative], main: list[Narrative], cold: list[Narrative]) -> Narrative:
    """Return a narrative call of the shown run with the versions of other runs."""
    narrative = own
    choices: list[Any] = [getattr(version, "choice", None) for version in timed]
    if isinstance(own, Text):
        choice = None
        if choices and all(choices):  # decided by the samples of all runs that reached it
            samples = [sample for one in choices for sample in one.samples]
            choice = decided(Choice(choices[0].low, choices[0].high, samples))
            answer = ANSWERS.index(choice.answer or "undecided")

            def chosen(version: Any) -> Any:
                return replace(version, text=version.choice.sentences[answer], choice=None)

            own, timed = chosen(own), [*map(chosen, timed)]
            main, cold = [*map(chosen, main)], [*map(chosen, cold)]
        narrative = replace(own, choice=choice)
    if isinstance(own, Ask):
        answers = [version.answer.value for version in timed if isinstance(version, Ask)]
        if len(set(map(_key, answers))) > 1:  # the median of numbers, or the most common text
            numbers = [value for value in answers if not isinstance(value, str)]
            is_number = len(numbers) == len(answers)
            value = statistics.median(numbers) if is_number else Counter(answers).most_common(1)[0][0]
            narrative = replace(own, answer=replace(own.answer, value=value, samples=answers))
    if not isinstance(own, Text | Note | Ask | Table) or len(set(map(_key, timed))) < 2:
        return narrative
    form = _form(own)
    texts = {_form(one): "another table" if isinstance(own, Table) else words_of(one) for one in timed}
    others = Counter(_form(version) for version in timed if _form(version) != form)
    main, cold = ([version for version in some if _form(version) == form] for some in (main, cold))
    varied = _varied_cells if isinstance(own, Table) else _varied_numbers
    return replace(
        narrative,
        varied=list(varied(own, main, cold)) or None,
        others=[(texts[other], count) for other, count in others.most_common()] or None,
    )


def words_of(narrative: Any) -> str:
    """Return all text of a narrative call, including its numbers."""
    if narrative.kind in PROSE:
        return str(narrative.text or "")
    return json.dumps(to_plain([getattr(narrative, "rows", None), getattr(narrative, "series", None)]))


def _form(version: Any) -> str:
    """Return the form of a version, which is equal for versions that differ only in their numbers."""
    if isinstance(version, Table):
        return json.dumps([version.title, version.columns, len(version.rows)])
    return NUMBER.sub("#", words_of(version))


def _varied_numbers(own: Any, warm: Sequence[Any], cold: Sequence[Any]) -> Iterator[Varied]:
    """Yield the numbers of a text that differ between the runs with this text."""
    in_warm, in_cold = ([NUMBER.findall(words_of(version)) for version in versions] for versions in (warm, cold))
    for slot, number in enumerate(NUMBER.finditer(words_of(own))):
        samples, cold_samples = ([numbers[slot] for numbers in in_runs] for in_runs in (in_warm, in_cold))
        if len({*samples, *cold_samples}) > 1:
            yield Varied([*samples], [*cold_samples] or None, start=number.start(), end=number.end())


def _varied_cells(own: Any, warm: Sequence[Any], cold: Sequence[Any]) -> Iterator[Varied]:
    """Yield the cells of a table that differ between the runs with this table."""
    for row, cells in enumerate(own.rows):
        for column in range(len(cells)):
            samples, cold_samples = ([version.rows[row][column] for version in some] for some in (warm, cold))
            if len({json.dumps(cell) for cell in (*samples, *cold_samples)}) > 1:
                yield Varied(samples, cold_samples or None, row=row, column=column)
