"""Compare many traces by their differences from the first, and by one table per quantity, with the best marked and
ratios to the first.

    comparison = compare([Side("cpu.yaml", cpu_trace), Side("gpu.yaml", gpu_trace)])
    comparison.tables[TIME][0].cells[1]
    # Cell(value=2.1e-05, low=2.0e-05, high=2.2e-05, ratio=0.012, best=True)

The differences match the steps, so a step that the first trace lacks has a line for each machine that ran it. The best
is marked only if each of its passes beat every pass of the others. Only measurements become numbers: launch times,
FLOPs of tensors without memory (device "meta") and rates without a roofline are absent, with the reason.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from trace_tools.analysis.rates import (
    HARNESS,
    Rate,
    Timing,
    computed_flops,
    moved_bytes,
    not_counted,
    rates_of,
    timing_of,
    why_no_rate,
)
from trace_tools.diff.align.code import translated
from trace_tools.diff.difference import Difference, Side
from trace_tools.diff.judge.between import DEFAULT, Choices, difference_between
from trace_tools.errors import UsageError
from trace_tools.machines.peaks import peak_of
from trace_tools.source.vocabularies import parsed_or_none
from trace_tools.trace.model import LARGEST_FLOAT, Machine, Scalar, Step, Value
from trace_tools.util import formats
from trace_tools.util.interpreter import collector_paused

SEVERAL = "it contains several measurements"
NOWHERE = "its FLOPs were on tensors without memory, so no device computed them"


@dataclass(frozen=True, slots=True)
class Quantity:
    """A measured quantity, and its better end if it has one."""

    key: str  # its name in the CSV
    title: str
    unit: str | None  # None for a fraction
    better: Literal["lower", "higher"] | None
    meaning: str


TIME = Quantity("time_s", "Time", "s", "lower", "Median of the warm runs of all passes.")
RATE = Quantity("flops_per_second", "Achieved FLOP/s", "FLOP/s", "higher", "Counted FLOPs ÷ time.")
MFU = Quantity("mfu", "MFU", None, "higher", "Achieved FLOP/s ÷ the machine's own peak for the step's dtype.")
BANDWIDTH = Quantity("bytes_per_second", "Bandwidth", "B/s", "higher", "Bytes its operators read and wrote ÷ time.")
SHARE = Quantity("bandwidth_share", "Bandwidth used", None, "higher", "Bandwidth ÷ the machine's own peak.")
MEMORY = Quantity("peak_bytes", "Peak memory", "B", "lower", "Most bytes of tensors alive at once during the step.")
OF_STEPS = (TIME, RATE, MFU, BANDWIDTH, SHARE, MEMORY)
# The units of these are those of their lines.
PEAKS = Quantity("peak", "Peaks", None, "higher", "Peak of each dtype, and of memory.")
VALUES = Quantity("value", "Measured by the lecture", None, None, "Numbers that the lecture measured and inspected.")


@dataclass(frozen=True, slots=True)
class Cell:
    """The measurement of one machine; `low` and `high` are the extremes over its passes, `ratio` is to the first's."""

    value: float | None
    low: float | None = None
    high: float | None = None
    why: str | None = None  # reason for a missing value
    ratio: float | None = None
    best: bool = False
    above: str | None = None  # the warning for a rate above its roofline


@dataclass(frozen=True, slots=True)
class Line:
    """One section, annotated step, computed value or peak, on every machine."""

    where: Literal["section", "step", "value", "peak"]
    function: str
    code: str
    line: int | None  # in the source of the first machine that has it
    which: str  # "call 2, execution 3" if it ran several times
    cells: tuple[Cell, ...]
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of many machines; tuples with one item per machine are in their order."""

    title: str
    sides: tuple[Side, ...]  # each with a unique label; the first is the base
    differences: tuple[Difference, ...]  # of each other machine from the base
    tables: Mapping[Quantity, tuple[Line, ...]]
    matched: int  # annotated steps that every machine has
    unmatched: tuple[int, ...]  # annotated steps that some other machine lacks
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Execution:
    """One execution on each machine, before it becomes a line of the tables."""

    steps: Sequence[Step | None]
    line: Line  # without cells
    cells: Sequence[Mapping[str, Cell] | None]  # of each machine that ran it, by quantity


@collector_paused()
def compare(sides: Sequence[Side], choices: Choices = DEFAULT) -> Comparison:
    """Compare two or more machines; ratios are to the first, which is the base.

    Equal labels are numbered. Raises UsageError for fewer than two traces, or if a trace is of another lecture than the
    base.
    """
    if len(sides) < 2:
        raise UsageError(f"found {formats.plural(len(sides), 'trace')}; expected two or more to compare")
    names = [side.label for side in sides]
    labels = [
        label if names.count(label) == 1 else f"{label}-{names[: index + 1].count(label)}"
        for index, label in enumerate(names)
    ]
    sides = [replace(side, label=label) for side, label in zip(sides, labels, strict=True)]
    differences = [difference_between(sides[0], side, choices) for side in sides[1:]]
    executions = list(_listed(sides, differences))
    tables = {
        PEAKS: tuple(_peaks(sides)),
        **{quantity: tuple(_lines(quantity, executions)) for quantity in OF_STEPS},
        VALUES: tuple(_values(executions, differences)),
    }
    annotated = [
        {n for n, execution in enumerate(executions) if _is_annotated(execution.steps[index])}
        for index in range(len(sides))
    ]
    everywhere = set.intersection(*annotated)
    return Comparison(
        title=sides[0].trace.title,
        sides=tuple(sides),
        differences=tuple(differences),
        tables=tables,
        matched=len(everywhere),
        unmatched=tuple(len(steps - everywhere) for steps in annotated),
        notes=tuple(_notes(sides)),
    )


def _is_annotated(step: Step | None) -> bool:
    return step is not None and step.annotated


def better_end(unit: str | None) -> Literal["lower", "higher"] | None:
    """Return the better end of a number with this unit, if it is seconds or a rate."""
    return "lower" if unit == "s" else "higher" if unit in formats.SI_UNITS and unit.endswith("/s") else None


def _is_measured(value: Value) -> bool:
    """Return whether a value is a measurement by the lecture, that is, in seconds or per second, or varying."""
    return type(value.value) in (int, float) and (value.varies or better_end(value.unit) is not None)


def _executions(base: Side, differences: Sequence[Difference]) -> list[list[Step | None]]:
    """Return the step of each machine for each execution, in the base's order; a missing step follows a common one."""
    width = len(differences) + 1
    lines: dict[int, list[Step | None]] = {id: [step] + [None] * (width - 1) for id, step in base.tree.by_id.items()}
    ordered: list[tuple[tuple[int, int, int], list[Step | None]]] = [((id, 0, 0), line) for id, line in lines.items()]
    for machine, difference in enumerate(differences, 1):
        before = -1
        for row in difference.rows:
            if row.a is None:
                alone = [row.b if n == machine else None for n in range(width)]
                ordered.append(((before, machine, row.number), alone))
            else:
                before = row.a.id
                lines[before][machine] = row.b
    return [line for _, line in sorted(ordered, key=lambda item: item[0])]


def _listed(sides: Sequence[Side], differences: Sequence[Difference]) -> Iterator[_Execution]:
    """Yield executions that called a section, are annotated, or measured something.

    A line has its position in the source of the first machine that has it.
    """
    trees = [side.tree for side in sides]
    callers: list[set[int]] = []  # of each machine the steps that called a section which does more than emit narrative
    for side, tree in zip(sides, trees, strict=True):
        calls = [step for step, _ in tree.section_calls()]
        callers.append({s.id for s in calls if s.statement not in side.prose})

    def is_listed(step: Step | None, callers: Container[int]) -> bool:
        if step is None:
            return False
        return step.annotated or step.id in callers or any(_is_measured(value) for _, value in step.values or ())

    parsed = [parsed_or_none(tree.trace.source) for tree in trees]
    codes = [source.first_lines() if source is not None else {} for source in parsed]  # by number of a statement
    # the numbers that distinguish each call on its path from the module: n-th executions and calls, from 2 on
    numbers: list[dict[int, tuple[int, ...]]] = [{} for _ in trees]
    for tree, of_frame in zip(trees, numbers, strict=True):
        made: Counter[tuple[int, str, int]] = Counter()
        for frame in tree.frames.values():
            caller = tree.by_id.get(frame.of) if frame.of is not None else None
            if caller is None:
                of_frame[frame.frame] = ()
                continue
            key = (caller.frame, frame.function, caller.execution)
            made[key] += 1
            of_frame[frame.frame] = (*of_frame[caller.frame], *(n for n in (caller.execution, made[key]) if n > 1))
    for steps in _executions(sides[0], differences):
        if not any(map(is_listed, steps, callers)):
            continue
        index, step = next((index, step) for index, step in enumerate(steps) if step is not None)
        frame = trees[index].frames[step.frame]
        call = ".".join(map(str, numbers[index][step.frame]))
        which = [f"call {call}"] * bool(call) + [f"execution {step.execution}"] * (step.execution > 1)
        code = codes[index].get(step.statement, "")
        where: Literal["section", "step"] = "section" if step.id in callers[index] else "step"
        cells = [
            None if step is None else cells_of(step, side.trace.machine, section=step.id in of)
            for step, side, of in zip(steps, sides, callers, strict=True)
        ]
        yield _Execution(steps, Line(where, frame.function, code, step.line, ", ".join(which), ()), cells)


def _lines(quantity: Quantity, executions: Sequence[_Execution]) -> Iterator[Line]:
    """Yield one quantity's lines; for sections, only time and memory."""
    for execution in executions:
        is_section = execution.line.where == "section" and quantity in (TIME, MEMORY)
        cells = [
            of_step[quantity.key] if of_step is not None else Cell(None, why="did not run")
            for of_step in execution.cells
        ]
        is_listed = is_section or any(map(_is_annotated, execution.steps))
        if is_listed and any(cell.value is not None for cell in cells):
            where: Literal["section", "step"] = "section" if is_section else "step"
            yield replace(execution.line, where=where, cells=with_ratios(cells, quantity.better))


def with_ratios(cells: Sequence[Cell], better: str | None) -> tuple[Cell, ...]:
    """Return a row's cells with ratios to the first; the best is marked if each of its passes beat every pass of the
    others.
    """
    best, against = best_of(cells, better), cells[0].value
    return tuple(
        replace(
            cell,
            ratio=cell.value / against if cell.value is not None and against else None,
            best=best == index,
        )
        for index, cell in enumerate(cells)
    )


def best_of(cells: Sequence[Cell], better: str | None) -> int | None:
    """Return the index of the machine with passes that all beat every pass of the others."""
    spans = [
        (min(ends), max(ends), index)
        for index, cell in enumerate(cells)
        if (ends := [end for end in (cell.low, cell.high, cell.value) if end is not None])
    ]
    if better is None or len(spans) < 2:
        return None
    if better == "lower":
        first, second = sorted(spans)[:2]
        return first[2] if first[1] < second[0] else None
    first, second = sorted(((-high, -low, index) for low, high, index in spans))[:2]
    return first[2] if first[1] < second[0] else None


def _values(executions: Sequence[_Execution], differences: Sequence[Difference]) -> Iterator[Line]:
    """Yield the measurements that the lecture inspected; a variable with another name on another machine is matched."""
    for execution in executions:
        of_base = execution.steps[0]
        frame = differences[0].a.tree.frames[of_base.frame] if of_base is not None else None
        by_name: dict[str, list[Value | None]] = {}  # by the name on the first machine that has it
        for index, step in enumerate(execution.steps):
            matching = differences[index - 1].matching if index else None
            renamed = matching.renamed(frame.function) if matching is not None and frame else {}
            names_in_base = {new: old for old, new in renamed.items()}
            for name, value in step.values or () if step is not None else ():
                if _is_measured(value):
                    values = by_name.setdefault(translated(name, names_in_base), [None] * len(execution.steps))
                    values[index] = value
        for name, values in by_name.items():
            value = next(value for value in values if value is not None)
            if len({v.value for v in values if v is not None}) == 1 and not value.varies:
                continue  # a constant with such a unit is not a measurement
            cells = with_ratios([*map(_value_cell, values)], better_end(value.unit))
            yield replace(execution.line, where="value", code=name, cells=cells, unit=value.unit)


def _value_cell(value: Value | None) -> Cell:
    alone = _number(value.value) if value is not None else None
    if value is None or alone is None:
        return Cell(None, why="no number was recorded on this machine")
    samples = [number for s in value.samples or value.cold_samples or () if (number := _number(s)) is not None]
    return _cell(samples) if samples else Cell(alone)


def _number(value: Scalar) -> float | None:
    """Return a value as a float, if it is a number within their range."""
    return float(value) if isinstance(value, (int, float)) and abs(value) < LARGEST_FLOAT else None


def _cell(samples: Sequence[float]) -> Cell:
    return Cell(statistics.median(samples), min(samples), max(samples))


def _peaks(sides: Sequence[Side]) -> Iterator[Line]:
    """Yield every peak of a machine, memory last; the best datasheet peak is marked."""
    machines = [side.trace.machine for side in sides]
    names = dict.fromkeys(peak.name for machine in machines for peak in machine.peaks)
    for name in sorted(names, key=lambda name: name == "memory"):
        peaks = [peak_of(machine, name) for machine in machines]
        cells = []
        for peak in peaks:
            rate = peak.per_second if peak is not None else None
            cells.append(Cell(rate, rate, rate, None if rate else peak.source if peak else "not in the table"))
        unit = BANDWIDTH.unit if name == "memory" else "OP/s" if name.startswith("int") else RATE.unit
        is_measured = any(peak is not None and peak.measured for peak in peaks)  # then its spread is unknown
        yield Line("peak", "", name, None, "", with_ratios(cells, None if is_measured else PEAKS.better), unit)


def _notes(sides: Sequence[Side]) -> Iterator[str]:
    for side in sides:
        run, peaks = side.trace.run, side.trace.machine.peaks
        if not run.complete:
            yield f"{side.label} is partial ({run.ended}): later steps are missing here."
        if run.passes < 2:
            yield f"{side.label} ran one pass: run-to-run variation unknown; use --passes 3."
        missing = [peak.name for peak in peaks if not peak.per_second]
        if missing or not peaks:
            names = ", ".join(missing) or "any dtype"
            yield f"{side.label}: no peak is known for {names}, so its MFU is not shown."
    for subject, values in (
        ("lecture's source", {side.trace.source.text for side in sides}),
        ("torch", {dict(side.trace.versions).get("torch") for side in sides}),
        ("seed", {side.trace.run.seed for side in sides}),
    ):
        if len(values) > 1:
            yield f"The {subject} differs between these machines."


# --- one step on one machine ----------------------------------------------------------------------


def cells_of(step: Step, machine: Machine, *, section: bool = False) -> Mapping[str, Cell]:
    """Return the measurements of one step by quantity; of a step that called `measure`, for one call of its function.

    A section's time is its total, including all its measurements.
    """
    timing = timing_of(step, machine)
    several = len(step.measured or ()) > 1
    rates = {} if several else {rate.name: rate for rate in rates_of(step, timing, machine)}
    counts = step.measured[0] if step.measured and not several else step.meters
    if several:
        why = SEVERAL
    elif counts is None:
        why = "nothing was counted"
    elif counts.flops and not computed_flops(counts):
        why = NOWHERE
    else:
        why = (
            not_counted(counts)
            or (None if step.measured else why_no_rate(step, timing))
            or counts.why
            or "no such work was counted in the step"
        )
    if several:
        time = Cell(None, why=SEVERAL)
    elif step.harness and not step.measured and not section:
        time = Cell(None, why=HARNESS)
    elif timing is None:
        time = Cell(None, why="it was suspended" if step.suspended else "no pass timed it")
    elif timing.clock == "launch":
        time = Cell(None, why="only its launch was timed; annotate the statement to time it")
    else:
        time = _cell([ns / 1e9 for ns in timing.samples_ns])
    flops = rates.get("FLOP/s") if counts is not None and moved_bytes(counts) else None
    bandwidth = rates.get("B/s")
    peak = step.meters.peak_bytes if step.meters is not None else None
    why_no_peak = (step.meters.why if step.meters is not None else None) or "nothing was counted"
    return {
        TIME.key: time,
        RATE.key: _rate(flops, timing, why),
        MFU.key: _rate(flops, timing, why, share=True),
        BANDWIDTH.key: _rate(bandwidth, timing, why),
        SHARE.key: _rate(bandwidth, timing, why, share=True),
        MEMORY.key: Cell(None, why=why_no_peak) if peak is None else _cell([float(peak)]),
    }


def _rate(rate: Rate | None, timing: Timing | None, why: str, *, share: bool = False) -> Cell:
    """Return an achieved rate, or its share of the roofline, with the extremes computed from the fastest and slowest
    times.
    """
    if rate is None:
        return Cell(None, why=why)
    value = rate.share if share else rate.per_second
    if value is None:
        return Cell(None, why=rate.roof)
    assert timing is not None  # a rate requires a time
    median_ns = statistics.median(timing.samples_ns)
    slowest, fastest = max(timing.samples_ns), min(timing.samples_ns)
    high = value * median_ns / fastest if fastest else None
    low = value * median_ns / slowest
    return Cell(value, low, high, above=rate.above)
