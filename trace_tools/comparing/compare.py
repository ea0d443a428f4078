"""Traces of many machines → one table per measured quantity, with the best marked and ratios to a base.

    comparison = compare([Contender("cpu", cpu_trace), Contender("nvidia-h200", gpu_trace)], base="cpu")
    comparison.tables[0].lines[0].cells[1]
    # Cell(Reading(value=2.1e-05, low=2.0e-05, high=2.2e-05), ratio=0.012, best=True)

Steps are matched by what they are (`matching`). The best is marked where every pass of it beat every pass
of the others: what the passes don't separate has no winner.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from trace_tools import formats
from trace_tools.comparing.judging.measured import (
    BANDWIDTH,
    MEMORY,
    MFU,
    QUANTITIES,
    RATE,
    TIME,
    Measured,
    Quantity,
    Reading,
)
from trace_tools.comparing.judging.measured import measured as measure_step
from trace_tools.comparing.matching.keys import KeyedStep, StepKey, keyed_steps
from trace_tools.comparing.roofs import has_place
from trace_tools.errors import UsageError
from trace_tools.rates import peak_of
from trace_tools.schema import Trace, Value

WORTH_SHOWING_S = 10e-6  # of an annotated step, on the slowest machine; the CSV holds every one
WORTH_SHOWING_BYTES = 1024
MEASURED_UNITS = {"s": "lower", "FLOP/s": "higher", "B/s": "higher"}  # of values the lecture computed


@dataclass(frozen=True, slots=True)
class Contender:
    """One trace that takes part, under a label that no other has."""

    label: str
    trace: Trace
    path: str = ""
    notes: tuple[str, ...] = ()  # what its file no longer had


@dataclass(frozen=True, slots=True)
class Cell:
    """What one machine measured; `ratio` is to the base's value."""

    reading: Reading
    ratio: float | None = None
    best: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """One thing measured on every machine: a section, an annotated step, a value the lecture computed."""

    where: Literal["section", "step", "value", "peak"]
    function: str
    code: str
    line: int | None  # of the first machine's source that has it
    which: str  # "call 2, execution 3" where there are several
    cells: tuple[Cell, ...]
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """All lines of one quantity; `folded` are too small to show."""

    quantity: Quantity
    lines: tuple[Line, ...]
    folded: tuple[Line, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """Many machines side by side; what there is one of for each machine is in their order."""

    title: str
    contenders: tuple[Contender, ...]
    base: int
    tables: tuple[Table, ...]
    values: tuple[Line, ...]  # what the lecture measured itself
    peaks: tuple[Line, ...]  # of each dtype, and memory
    reached: tuple[Line, ...]  # the best MFU of each dtype
    points: tuple[tuple[Measured, ...], ...]  # annotated steps that have a place under the roof
    matched: int  # annotated steps that every machine has
    unmatched: tuple[int, ...]  # annotated steps that some other machine has not
    notes: tuple[str, ...] = ()


def labelled(traces: Sequence[tuple[str, Trace, Sequence[str]]]) -> list[Contender]:
    """Give (path, trace, notes) labels: the machine's folder, numbered where several have the same."""
    slugs = [trace.machine.slug for _, trace, _ in traces]
    found = []
    for place, (path, trace, notes) in enumerate(traces):
        slug = slugs[place]
        label = slug if slugs.count(slug) == 1 else f"{slug}-{slugs[: place + 1].count(slug)}"
        found.append(Contender(label, trace, path, tuple(notes)))
    return found


def compare(contenders: Sequence[Contender], base: str | None = None) -> Comparison:
    """Set two or more machines side by side; ratios are to `base` (a label; default: the first).

    Raises UsageError when there are fewer than two, none has the base's label, or two share no step.
    """
    labels = [contender.label for contender in contenders]
    if len(contenders) < 2:
        raise UsageError(f"found {formats.plural(len(contenders), 'trace')}; expected two or more to compare")
    if base is not None and base not in labels:
        raise UsageError(f"--base {base}: no machine of that name; expected one of {', '.join(labels)}")
    at = labels.index(base) if base is not None else 0
    steps = [keyed_steps(contender.trace) for contender in contenders]
    told = [_told(found) for found in steps]
    every = [
        {key: measure_step(keyed, contender.trace.machine) for key, keyed in found.items() if key in shown}
        for contender, found, shown in zip(contenders, steps, told, strict=True)
    ]
    _refuse_strangers(contenders, steps, at)
    annotated = [{key for key, m in found.items() if m.keyed.step.annotated} for found in every]
    everywhere = set.intersection(*annotated)
    keys = _in_order([list(found) for found in every])
    return Comparison(
        title=contenders[at].trace.title,
        contenders=tuple(contenders),
        base=at,
        tables=tuple(_table(quantity, keys, every, at) for quantity in QUANTITIES),
        values=tuple(_values(steps, at)),
        peaks=tuple(_peaks(contenders, at)),
        reached=tuple(_reached(every, at)),
        points=tuple(tuple(m for m in found.values() if has_place(m)) for found in every),
        matched=len(everywhere),
        unmatched=tuple(len(found - everywhere) for found in annotated),
        notes=tuple(_notes(contenders)),
    )


def _told(found: Mapping[StepKey, KeyedStep]) -> set[StepKey]:
    """Return the steps that tables tell of: sections, and what the author annotated."""
    return {key for key, keyed in found.items() if keyed.section or keyed.step.annotated}


def _refuse_strangers(contenders: Sequence[Contender], steps: Sequence[Mapping[StepKey, KeyedStep]], base: int) -> None:
    for contender, found in zip(contenders, steps, strict=True):
        if not found.keys() & steps[base].keys():
            text = f"shares no step with {contenders[base].label}; expected traces of one lecture"
            raise UsageError(f"{contender.path or contender.label}: {text}")


def _in_order(orders: Sequence[Sequence[StepKey]]) -> list[StepKey]:
    """Merge orders into one: what a machine has beside those before it stands after what it follows there."""
    merged = list(orders[0])
    for order in orders[1:]:
        known, last = set(merged), None
        after: dict[StepKey | None, list[StepKey]] = {}
        for key in order:
            if key in known:
                last = key
            else:
                after.setdefault(last, []).append(key)
        merged = [*after.get(None, ()), *(new for key in merged for new in (key, *after.get(key, ())))]
    return merged


def _table(
    quantity: Quantity, keys: Sequence[StepKey], every: Sequence[Mapping[StepKey, Measured]], base: int
) -> Table:
    """Return one quantity's lines; for sections, time and memory only."""
    lines: list[Line] = []
    folded: list[Line] = []
    for key in keys:
        found = [machine.get(key) for machine in every]
        first = next(m for m in found if m is not None)
        section = first.keyed.section and quantity in (TIME, MEMORY)
        readings = [m.readings[quantity.key] if m is not None else Reading(None, why="did not run") for m in found]
        known = [r.value for r in readings if r.value is not None]
        if not known or not (section or first.keyed.step.annotated):
            continue
        line = _line("section" if section else "step", key, first.keyed, cells(readings, base, quantity.better))
        small = {TIME: WORTH_SHOWING_S, MEMORY: WORTH_SHOWING_BYTES}.get(quantity, 0)
        (lines if section or max(known) >= small else folded).append(line)
    return Table(quantity, tuple(lines), tuple(folded))


def _line(where: Literal["section", "step"], key: StepKey, keyed: KeyedStep, row: tuple[Cell, ...]) -> Line:
    calls = [str(number) for _, execution, nth in key.calls[1:] for number in (execution, nth) if number > 1]
    which = [f"call {'.'.join(calls)}"] if calls else []
    which += [f"execution {key.execution}"] if key.execution > 1 else []
    return Line(where, keyed.function, keyed.code, keyed.step.line, ", ".join(which), row)


def cells(readings: Sequence[Reading], base: int, better: str | None) -> tuple[Cell, ...]:
    """Return a row's cells: each reading with its ratio to the base, the best marked."""
    best = _best(readings, better)
    against = readings[base].value
    return tuple(
        Cell(reading, reading.value / against if reading.value is not None and against else None, place == best)
        for place, reading in enumerate(readings)
    )


def _best(readings: Sequence[Reading], better: str | None) -> int | None:
    """Return the place of the reading whose every pass is better than every other's; None if there is none."""
    sign = 1 if better == "lower" else -1
    spans = []
    for place, reading in enumerate(readings):
        if reading.value is not None:
            ends = [sign * end for end in (reading.low, reading.high, reading.value) if end is not None]
            spans.append((min(ends), max(ends), place))
    if better is None or len(spans) < 2:
        return None
    first, second = sorted(spans)[:2]
    return first[2] if first[1] < second[0] else None


def _values(steps: Sequence[Mapping[StepKey, KeyedStep]], base: int) -> Iterator[Line]:
    """Yield the numbers the lecture measured and inspected: in seconds or per second, or varying."""
    found = [_inspected(machine) for machine in steps]
    orders = _in_order([list(dict.fromkeys(key for key, _ in machine)) for machine in found])
    names = {key: [name for machine in found for k, name in machine if k == key] for key in orders}
    for key in orders:
        for name in dict.fromkeys(names[key]):
            read = [machine.get((key, name)) for machine in found]
            value = next(v for v in read if v is not None)
            readings = [_value_reading(v) for v in read]
            if len({v.value for v in read if v is not None}) == 1 and not value.varies:
                continue  # a constant with such a unit: nobody measured it
            keyed = next(machine[key] for machine in steps if key in machine)
            row = cells(readings, base, MEASURED_UNITS.get(value.unit or ""))
            line = _line("step", key, keyed, row)
            yield Line("value", line.function, name, line.line, line.which, row, value.unit)


def _inspected(machine: Mapping[StepKey, KeyedStep]) -> dict[tuple[StepKey, str], Value]:
    return {
        (key, name): value
        for key, keyed in machine.items()
        for name, value in keyed.step.values or ()
        if type(value.value) in (int, float) and (value.unit in MEASURED_UNITS or value.varies or value.clock)
    }


def _value_reading(value: Value | None) -> Reading:
    if value is None or not isinstance(value.value, (int, float)):
        return Reading(None, why="there is no such number here")
    samples = [float(s) for s in value.samples or value.cold_samples or () if isinstance(s, (int, float))]
    if not samples:
        return Reading(float(value.value))
    return Reading(statistics.median(samples), min(samples), max(samples))


def _peaks(contenders: Sequence[Contender], base: int) -> Iterator[Line]:
    """Yield every peak that a machine has, memory last; the best of those that a datasheet names."""
    names = dict.fromkeys(peak.name for c in contenders for peak in c.trace.machine.peaks)
    for name in sorted(names, key=lambda name: name == "memory"):
        readings, is_measured = [], False
        for contender in contenders:
            peak = peak_of(contender.trace.machine, name)
            known = peak.per_second if peak is not None else None
            is_measured |= peak is not None and peak.measured
            readings.append(
                Reading(known, known, known, None if known else peak.source if peak else "not in the table")
            )
        unit = BANDWIDTH.unit if name == "memory" else "OP/s" if name.startswith("int") else RATE.unit
        better = None if is_measured else "higher"  # once measured, nobody knows how far it scatters
        yield Line("peak", "", name, None, "", cells(readings, base, better), unit)


def _reached(every: Sequence[Mapping[StepKey, Measured]], base: int) -> Iterator[Line]:
    """Yield, for each dtype, the highest MFU that an annotated step of each machine reached."""
    dtypes = dict.fromkeys(m.dtype for machine in every for m in machine.values() if m.dtype is not None)
    for dtype in dtypes:
        readings = []
        for machine in every:
            reached = [m.readings[MFU.key] for m in machine.values() if m.dtype == dtype and m.keyed.step.annotated]
            none = Reading(None, why="no annotated step used it")
            readings.append(max(reached, key=lambda reading: reading.value or 0.0, default=none))
        yield Line("peak", "", dtype, None, "", cells(readings, base, None))


def _notes(contenders: Iterable[Contender]) -> Iterator[str]:
    contenders = list(contenders)
    for c in contenders:
        yield from (f"{c.label}: {note}" for note in c.notes)
        if not c.trace.run.complete:
            yield f"{c.label} is partial ({c.trace.run.ended}): what it did not reach is missing here."
        if c.trace.run.passes < 2:
            yield f"{c.label} ran in one pass: how far its times scatter is not known."
        missing = [peak.name for peak in c.trace.machine.peaks if not peak.per_second]
        if missing or not c.trace.machine.peaks:
            what = ", ".join(missing) or "any dtype"
            yield f"{c.label}: no peak is known for {what}, so there is no MFU against it."
    for what, found in (
        ("lecture's source", {tuple(s.text for s in c.trace.sources) for c in contenders}),
        ("torch", {dict(c.trace.versions).get("torch") for c in contenders}),
        ("seed", {c.trace.run.seed for c in contenders}),
    ):
        if len(found) > 1:
            yield f"The {what} is not the same on all of these machines."
