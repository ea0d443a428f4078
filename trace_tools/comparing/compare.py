"""Traces of many machines → one table per measured quantity, with the best marked and ratios to a base.

    comparison = compare([Side("cpu.yaml", cpu_trace), Side("gpu.yaml", gpu_trace)], base="cpu")
    comparison.tables[0].lines[0].cells[1]
    # Cell(value=2.1e-05, low=2.0e-05, high=2.2e-05, ratio=0.012, best=True)

Steps are matched as the diff matches them (`matching.align`). The best is marked where every pass of it beat every
pass of the others: what the passes don't separate has no winner. Only what was measured becomes a number: launch
times, FLOPs of tensors without memory (device "meta") and rates without a roof are absent, with the reason.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from trace_tools import formats
from trace_tools.call_tree import Tree
from trace_tools.comparing.difference import Side
from trace_tools.comparing.judging.times import HARNESS
from trace_tools.comparing.matching.align import Aligned, align_all
from trace_tools.comparing.matching.functions import translated
from trace_tools.distances import Distance, distances
from trace_tools.errors import LectureError, UsageError
from trace_tools.estimates import Estimator, estimator_of
from trace_tools.file_format.structure import LARGEST_FLOAT
from trace_tools.floors import (
    NO_WORK,
    Ceiling,
    Floor,
    best_known_ceiling,
    floor_of,
    has_work,
    most_live_bytes,
    why_no_floors,
)
from trace_tools.garbage import collector_paused
from trace_tools.rates import Rate, Timing, moved_bytes, peak_of, rates_of, timing_of, why_no_rate
from trace_tools.schema import Machine, Scalar, SourceFile, Step, Value
from trace_tools.statements import parse_source

WORTH_SHOWING_S = 10e-6  # of an annotated step, on the slowest machine; the CSV holds every one
WORTH_SHOWING_BYTES = 1024
MEASURED_UNITS = {"s": "lower", "FLOP/s": "higher", "B/s": "higher"}  # of values the lecture computed
SEVERAL = "several measurements ran in it"
NEVER_MOVED = "nothing was read or written: its tensors have no memory"


@dataclass(frozen=True, slots=True)
class Quantity:
    """Something measured: `better` says which end is best, None where neither is."""

    key: str  # in the CSV
    title: str
    unit: str | None  # None: a fraction
    better: Literal["lower", "higher"] | None
    meaning: str


TIME = Quantity("time_s", "Time", "s", "lower", "Median over the passes, warm.")
RATE = Quantity("flops_per_second", "Achieved FLOP/s", "FLOP/s", "higher", "Counted FLOPs ÷ time.")
MFU = Quantity("mfu", "MFU", None, "higher", "Achieved FLOP/s ÷ the machine's own peak for the dtype inspected there.")
BANDWIDTH = Quantity("bytes_per_second", "Bandwidth", "B/s", "higher", "Bytes its operators read and wrote ÷ time.")
SHARE = Quantity("bandwidth_share", "Bandwidth used", None, "higher", "Bandwidth ÷ the machine's own peak.")
MEMORY = Quantity("peak_bytes", "Peak memory", "B", "lower", "Most bytes of tensors alive at once during the step.")
QUANTITIES = (TIME, RATE, MFU, BANDWIDTH, SHARE, MEMORY)


@dataclass(frozen=True, slots=True)
class Cell:
    """What one machine measured; `low` and `high` are the extremes over its passes, `ratio` is to the base's value."""

    value: float | None
    low: float | None = None
    high: float | None = None
    why: str | None = None  # there is no value
    ratio: float | None = None
    best: bool = False
    worst: bool = False  # of three machines or more
    intensity: float | None = None  # of a rate of arithmetic: FLOPs ÷ bytes read and written
    dtype: str | None = None  # of the same: whose peak it is measured against


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
    floors: tuple[Floor, ...] = ()  # of a time: on machines that were not traced, never compared with what was measured


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
    sides: tuple[Side, ...]  # each with a label that no other has
    base: int
    aligned: tuple[Aligned | None, ...]  # each with the base; None for the base itself
    tables: tuple[Table, ...]
    values: tuple[Line, ...]  # what the lecture measured itself
    peaks: tuple[Line, ...]  # of each dtype, and memory
    reached: tuple[Line, ...]  # the best MFU of each dtype
    matched: int  # annotated steps that every machine has
    unmatched: tuple[int, ...]  # annotated steps that some other machine has not
    notes: tuple[str, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()  # of the machines that times have floors on
    live_bytes: int | None = None  # the most bytes of tensors alive at once, where the work was counted
    estimator: Estimator | None = None  # from floors to estimates, with its error


@collector_paused()
def compare(sides: Sequence[Side], base: str | None = None, ceilings: Sequence[Ceiling] = ()) -> Comparison:
    """Set two or more machines side by side; ratios are to `base` (a label; default: the first).

    Machines whose labels are the same have them numbered. Beside their times stand floors under `ceilings`, of the work
    that was counted on the base, else on the first machine whose trace has it; with them, one trace is enough. Raises
    UsageError when there are fewer than two, none has the base's label, or two share no step.
    """
    if len(sides) < (1 if ceilings else 2):
        raise UsageError(f"found {formats.plural(len(sides), 'trace')}; expected two or more to compare")
    given = [side.label for side in sides]
    labels = [
        label if given.count(label) == 1 else f"{label}-{given[: place + 1].count(label)}"
        for place, label in enumerate(given)
    ]
    if base is not None and base not in labels:
        raise UsageError(f"--base {base}: no machine of that name; expected one of {', '.join(labels)}")
    at = labels.index(base) if base is not None else 0
    sides = [replace(side, label=label) for side, label in zip(sides, labels, strict=True)]
    trees = [side.tree for side in sides]
    every, aligned = align_all(trees, at)
    for side, matched in zip(sides, aligned, strict=True):
        if matched is not None and not any(row.a is not None and row.b is not None for row in matched.rows):
            raise UsageError(f"{side.name}: shares no step with {labels[at]}; expected traces of one lecture")
    callers = [{step.id for step, _ in tree.section_calls()} for tree in trees]
    told = _in_order(
        [line for line in every if any(_is_told(step, of) for step, of in zip(line, callers, strict=True))]
    )
    lines = list(_lines(trees, told, callers))
    measurements = [
        [
            None if step is None else measured(step, side.trace.machine, section=step.id in of)
            for step, side, of in zip(line, sides, callers, strict=True)
        ]
        for line in told
    ]
    order = sorted(range(len(sides)), key=lambda place: (not has_work(sides[place].trace), place != at))
    floors = [_floors([line[place] for place in order if has_work(sides[place].trace)], ceilings) for line in told]
    tables = [_table(quantity, told, lines, measurements, at, floors) for quantity in QUANTITIES]
    annotated = [{n for n, line in enumerate(told) if _is_annotated(line[place])} for place in range(len(sides))]
    everywhere = set.intersection(*annotated)
    return Comparison(
        title=sides[at].trace.title,
        sides=tuple(sides),
        base=at,
        aligned=tuple(aligned),
        tables=tuple(tables),
        values=tuple(_values(trees, told, lines, aligned, at)),
        peaks=tuple(_peaks(sides, at)),
        reached=tuple(_reached(tables[QUANTITIES.index(MFU)], at)),
        matched=len(everywhere),
        unmatched=tuple(len(found - everywhere) for found in annotated),
        notes=tuple([*_notes(sides), *(_without_floors(sides) if ceilings else ())]),
        ceilings=tuple(ceilings),
        live_bytes=most_live_bytes(sides[order[0]].trace),
        estimator=_estimator(sides) if ceilings else None,
    )


def _estimator(sides: Sequence[Side]) -> Estimator | None:
    """Return how far from its floors each machine ran, taken together.

    Traces of one machine are left out together, else its own times would speak for it; an emulated one has no times.
    """
    found: dict[tuple[str, str], list[Distance]] = defaultdict(list)
    for machine, trace in ((side.trace.machine, side.trace) for side in sides):
        if not machine.emulated:
            found[machine.device, machine.name] += distances(trace, best_known_ceiling(machine))
    return estimator_of(list(found.values()))


def _floors(steps: Sequence[Step | None], ceilings: Sequence[Ceiling]) -> tuple[Floor, ...]:
    """Return a line's floors: of the first machine's work that was counted."""
    ran = [step for step in steps if step is not None]
    if not ran:
        return tuple(Floor(None, why="did not run" if steps else NO_WORK) for _ in ceilings)
    return tuple(
        next((floor for floor in found if floor.seconds is not None), found[0])
        for found in ([floor_of(step, ceiling) for step in ran] for ceiling in ceilings)
    )


def _without_floors(sides: Sequence[Side]) -> Iterator[str]:
    for side in sides:
        if why := why_no_floors(side.trace):
            yield f"{side.label} has no work that floors could be made from: {why}."


def _is_annotated(step: Step | None) -> bool:
    return step is not None and step.annotated


def _is_told(step: Step | None, callers: Container[int]) -> bool:
    """Whether a step is told of: it called a section, the author annotated it, or the lecture measured in it."""
    if step is None:
        return False
    return step.annotated or step.id in callers or any(_is_measured(value) for _, value in step.values or ())


def _is_measured(value: Value) -> bool:
    """Whether a value is a number that the lecture measured: in seconds or per second, or varying."""
    return type(value.value) in (int, float) and (value.unit in MEASURED_UNITS or value.varies or value.clock)


def _in_order(lines: Sequence[Sequence[Step | None]]) -> list[Sequence[Step | None]]:
    """Merge orders into one: what a machine has beside those before it stands after what it follows there."""
    merged: list[int] = []
    for place in range(len(lines[0]) if lines else 0):
        order = sorted((step.id, n) for n, line in enumerate(lines) if (step := line[place]) is not None)
        known, last = set(merged), None
        after: dict[int | None, list[int]] = {}
        for _, n in order:
            if n in known:
                last = n
            else:
                after.setdefault(last, []).append(n)
        merged = [*after.get(None, ()), *(new for n in merged for new in (n, *after.get(n, ())))]
    return [lines[n] for n in merged]


def _lines(
    trees: Sequence[Tree], told: Sequence[Sequence[Step | None]], callers: Sequence[Container[int]]
) -> Iterator[Line]:
    """Say where each line is: in the first machine's source that has it."""
    codes = [[_first_lines(source) for source in tree.trace.sources] for tree in trees]
    numbers = [_call_numbers(tree) for tree in trees]
    for line in told:
        place, step = next((place, step) for place, step in enumerate(line) if step is not None)
        frame = trees[place].frames[step.frame]
        calls = ".".join(map(str, numbers[place][step.frame]))
        which = [f"call {calls}"] * bool(calls) + [f"execution {step.execution}"] * (step.execution > 1)
        code = codes[place][frame.source].get(step.statement, "")
        where: Literal["section", "step"] = "section" if step.id in callers[place] else "step"
        yield Line(where, frame.function, code, step.line, ", ".join(which), ())


def _first_lines(source: SourceFile) -> Mapping[int, str]:
    """Return, by its number, each statement's first line without the comment behind it."""
    try:
        statements = parse_source(source.text, source.path).statements
    except LectureError:  # another Python's syntax
        return {}
    lines, found = source.text.splitlines(), {}
    for statement in statements:
        node = statement.node
        end = node.end_col_offset if node.end_lineno == node.lineno else None
        found[statement.number] = lines[statement.line - 1].encode()[:end].decode().strip()
    return found


def _call_numbers(tree: Tree) -> Mapping[int, Sequence[int]]:
    """Return what tells each call from others on its way from the module: n-th executions and n-th calls, from 2 on."""
    numbers: dict[int, tuple[int, ...]] = {}
    calls: Counter[tuple[int, str, int]] = Counter()
    for frame in tree.frames.values():
        caller = tree.by_id.get(frame.of) if frame.of is not None else None
        if caller is None:
            numbers[frame.frame] = ()
            continue
        of = (caller.frame, frame.function, caller.execution)
        calls[of] += 1
        numbers[frame.frame] = (*numbers[caller.frame], *(n for n in (caller.execution, calls[of]) if n > 1))
    return numbers


def _table(
    quantity: Quantity,
    told: Sequence[Sequence[Step | None]],
    lines: Sequence[Line],
    measurements: Sequence[Sequence[Mapping[str, Cell] | None]],
    base: int,
    floors: Sequence[tuple[Floor, ...]],
) -> Table:
    """Return one quantity's lines; for sections, time and memory only. Of time there are floors."""
    kept: list[Line] = []
    folded: list[Line] = []
    for steps, line, measurement, least in zip(told, lines, measurements, floors, strict=True):
        section = line.where == "section" and quantity in (TIME, MEMORY)
        found = [m[quantity.key] if m is not None else Cell(None, why="did not run") for m in measurement]
        known = [cell.value for cell in found if cell.value is not None]
        if not known or not (section or any(map(_is_annotated, steps))):
            continue
        small = {TIME: WORTH_SHOWING_S, MEMORY: WORTH_SHOWING_BYTES}.get(quantity, 0)
        where: Literal["section", "step"] = "section" if section else "step"
        cells, under = beside(found, base, quantity.better), least if quantity == TIME else ()
        row = replace(line, where=where, cells=cells, floors=under)
        (kept if section or max(known) >= small else folded).append(row)
    return Table(quantity, tuple(kept), tuple(folded))


def beside(cells: Sequence[Cell], base: int, better: str | None) -> tuple[Cell, ...]:
    """Return a row's cells with their ratios to the base, the best marked: whose every pass beat every other's.

    So is the worst of three machines or more, which every pass of the others beat.
    """
    (best, worst), known = extremes(cells, better), sum(cell.value is not None for cell in cells)
    against = cells[base].value
    return tuple(
        replace(
            cell,
            ratio=cell.value / against if cell.value is not None and against else None,
            best=known > 1 and best == (place,),
            worst=known > 2 and worst == (place,),
        )
        for place, cell in enumerate(cells)
    )


def extremes(cells: Sequence[Cell], better: str | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the places of the best machines and of the worst, in order.

    Who leads is not alone where its passes don't beat every pass of another: then both are named. Nobody is where
    neither end is better.
    """
    spans: dict[int, tuple[float, float]] = {}
    for place, cell in enumerate(cells):
        if cell.value is not None:
            ends = [end for end in (cell.low, cell.high, cell.value) if end is not None]
            spans[place] = min(ends), max(ends)
    if better is None or not spans:
        return (), ()
    lowest_end, highest_end = min(high for _, high in spans.values()), max(low for low, _ in spans.values())
    lowest = tuple(place for place, (low, _) in spans.items() if low <= lowest_end)
    highest = tuple(place for place, (_, high) in spans.items() if high >= highest_end)
    return (lowest, highest) if better == "lower" else (highest, lowest)


def _values(
    trees: Sequence[Tree],
    told: Sequence[Sequence[Step | None]],
    lines: Sequence[Line],
    aligned: Sequence[Aligned | None],
    base: int,
) -> Iterator[Line]:
    """Yield the numbers the lecture measured and inspected: in seconds or per second, or varying.

    A variable that another machine's lecture has by another name is one all the same.
    """
    for steps, line in zip(told, lines, strict=True):
        of_base = steps[base]
        frame = trees[base].frames[of_base.frame] if of_base is not None else None
        read: dict[str, list[Value | None]] = {}
        for place, step in enumerate(steps):
            own = {
                name: value for name, value in (step.values or () if step is not None else ()) if _is_measured(value)
            }
            matched = aligned[place]
            renamed = matched.matching.renamed(frame.source, frame.function) if matched is not None and frame else {}
            for known, values in read.items():
                values[place] = own.pop(translated(known, renamed), None)
            for name, value in own.items():
                read[name] = [value if other == place else None for other in range(len(steps))]
        for name, values in read.items():
            value = next(value for value in values if value is not None)
            if len({v.value for v in values if v is not None}) == 1 and not value.varies:
                continue  # a constant with such a unit: nobody measured it
            better = MEASURED_UNITS.get(value.unit or "")
            yield replace(
                line, where="value", code=name, cells=beside([*map(_value_cell, values)], base, better), unit=value.unit
            )


def _value_cell(value: Value | None) -> Cell:
    alone = _number(value.value) if value is not None else None
    if value is None or alone is None:
        return Cell(None, why="there is no such number here")
    samples = [number for s in value.samples or value.cold_samples or () if (number := _number(s)) is not None]
    return _cell(samples) if samples else Cell(alone)


def _number(value: Scalar) -> float | None:
    """Return a number as a float; None for what is none, or is beyond a float's range."""
    return float(value) if isinstance(value, (int, float)) and abs(value) < LARGEST_FLOAT else None


def _cell(samples: Sequence[float]) -> Cell:
    return Cell(statistics.median(samples), min(samples), max(samples))


def _peaks(sides: Sequence[Side], base: int) -> Iterator[Line]:
    """Yield every peak that a machine has, memory last; the best of those that a datasheet names."""
    machines = [side.trace.machine for side in sides]
    names = dict.fromkeys(peak.name for machine in machines for peak in machine.peaks)
    for name in sorted(names, key=lambda name: name == "memory"):
        peaks = [peak_of(machine, name) for machine in machines]
        found = []
        for peak in peaks:
            known = peak.per_second if peak is not None else None
            found.append(Cell(known, known, known, None if known else peak.source if peak else "not in the table"))
        unit = BANDWIDTH.unit if name == "memory" else "OP/s" if name.startswith("int") else RATE.unit
        is_measured = any(peak is not None and peak.measured for peak in peaks)  # then nobody knows how far it scatters
        yield Line("peak", "", name, None, "", beside(found, base, None if is_measured else "higher"), unit)


def _reached(utilisation: Table, base: int) -> Iterator[Line]:
    """Yield, for each dtype, the highest MFU that an annotated step of each machine reached."""
    columns = list(zip(*(line.cells for line in (*utilisation.lines, *utilisation.folded)), strict=True))
    for dtype in dict.fromkeys(cell.dtype for column in columns for cell in column if cell.dtype is not None):
        none = Cell(None, why="no annotated step used it")
        found = [
            max((cell for cell in column if cell.dtype == dtype), key=lambda cell: cell.value or 0.0, default=none)
            for column in columns
        ]
        yield Line("peak", "", dtype, None, "", beside(found, base, None))


def _notes(sides: Sequence[Side]) -> Iterator[str]:
    for side in sides:
        run, peaks = side.trace.run, side.trace.machine.peaks
        yield from (f"{side.label}: {note}" for note in side.notes)
        if not run.complete:
            yield f"{side.label} is partial ({run.ended}): what it did not reach is missing here."
        if run.passes < 2:
            yield f"{side.label} ran in one pass: how far its times scatter is not known."
        missing = [peak.name for peak in peaks if not peak.per_second]
        if missing or not peaks:
            what = ", ".join(missing) or "any dtype"
            yield f"{side.label}: no peak is known for {what}, so there is no MFU against it."
    for what, found in (
        ("lecture's source", {tuple(s.text for s in side.trace.sources) for side in sides}),
        ("torch", {dict(side.trace.versions).get("torch") for side in sides}),
        ("seed", {side.trace.run.seed for side in sides}),
    ):
        if len(found) > 1:
            yield f"The {what} is not the same on all of these machines."


# --- one step on one machine ----------------------------------------------------------------------


def measured(step: Step, machine: Machine, *, section: bool = False) -> Mapping[str, Cell]:
    """Return what was measured of one step, by quantity; of one that called `measure`, of one call of what it measured.

    Of a section the time is all that it took.
    """
    timing = timing_of(step, machine)
    several = len(step.measured or ()) > 1
    rates = {} if several else {rate.name: rate for rate in rates_of(step, timing, machine)}
    counted = step.measured[0] if step.measured and not several else step.meters
    if several:
        why = SEVERAL
    elif counted is None:
        why = "nothing was counted"
    elif counted.flops and not moved_bytes(counted):
        why = NEVER_MOVED
    else:
        why = (None if step.measured else why_no_rate(step, timing)) or counted.why or "it did none"
    flops = rates.get("FLOP/s") if counted is not None and moved_bytes(counted) else None
    bandwidth = rates.get("B/s")
    peak = step.meters.peak_bytes if step.meters is not None else None
    return {
        TIME.key: _time(timing, step, section=section),
        RATE.key: _rate(flops, timing, why),
        MFU.key: _rate(flops, timing, why, share=True),
        BANDWIDTH.key: _rate(bandwidth, timing, why),
        SHARE.key: _rate(bandwidth, timing, why, share=True),
        MEMORY.key: Cell(None, why=(step.meters.why if step.meters else None) or "nothing was counted")
        if peak is None
        else _cell([float(peak)]),
    }


def _time(timing: Timing | None, step: Step, *, section: bool) -> Cell:
    """Return how long a step took; a section with all that it measured."""
    if step.measured and len(step.measured) > 1:
        return Cell(None, why=SEVERAL)
    if step.harness and not step.measured and not section:
        return Cell(None, why=HARNESS)
    if timing is None:
        return Cell(None, why="it was suspended" if step.suspended else "no pass timed it")
    if timing.clock == "launch":
        return Cell(None, why="only its launch was timed: annotate it")
    return _cell([ns / 1e9 for ns in timing.samples_ns])


def _rate(rate: Rate | None, timing: Timing | None, why: str, *, share: bool = False) -> Cell:
    """Return an achieved rate, or its share of the roof, with its extremes, which follow from those of the time."""
    if rate is None:
        return Cell(None, why=why)
    value = rate.share if share else rate.per_second
    if value is None:
        return Cell(None, why=rate.roof)
    assert timing is not None  # without a time there is no rate
    middle = statistics.median(timing.samples_ns)
    slowest, fastest = max(timing.samples_ns), min(timing.samples_ns)
    high = value * middle / fastest if fastest else None
    return Cell(value, value * middle / slowest, high, intensity=rate.intensity, dtype=rate.peak)
