"""Traces of many machines → one table per measured quantity, with the best marked and ratios to a base.

    comparison = compare([Contender("cpu", cpu_trace), Contender("nvidia-h200", gpu_trace)], base="cpu")
    comparison.tables[0].lines[0].cells[1]
    # Cell(value=2.1e-05, low=2.0e-05, high=2.2e-05, ratio=0.012, best=True)

Steps are matched by what they are, not by where they stand: the calls that lead to them, the text of
their statement, the execution. What was not measured on a machine has no value there, and says why.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from trace_tools.comparing.matching import StepKey, keyed_steps
from trace_tools.comparing.measured import Measured, lecture_values, measured
from trace_tools.errors import UsageError
from trace_tools.schema import Step, Trace

WORTH_SHOWING_S = 10e-6  # of an annotated step, on the slowest machine; the CSV holds every one


@dataclass(frozen=True, slots=True)
class Contender:
    """One trace that takes part, under a label that no other has."""

    label: str
    trace: Trace
    path: str = ""
    notes: tuple[str, ...] = ()  # what its file no longer had


@dataclass(frozen=True, slots=True)
class Quantity:
    """Something measured: `better` says which end is best, None where neither is."""

    key: str  # in the CSV
    title: str
    unit: str | None  # None: a fraction
    better: Literal["lower", "higher"] | None
    meaning: str


TIME = Quantity("time_s", "Time", "s", "lower", "median over the passes, warm")
RATE = Quantity("flops_per_second", "Achieved FLOP/s", "FLOP/s", "higher", "counted FLOPs ÷ time")
MFU = Quantity("mfu", "MFU", None, "higher", "achieved FLOP/s ÷ the machine's own peak for the dtype inspected there")
BANDWIDTH = Quantity("bytes_per_second", "Bandwidth", "B/s", "higher", "bytes its operators read and wrote ÷ time")
SHARE = Quantity("bandwidth_share", "Bandwidth used", None, "higher", "bandwidth ÷ the machine's own peak")
MEMORY = Quantity("peak_bytes", "Peak memory", "B", "lower", "most tensor bytes alive at once during the step")
QUANTITIES = (TIME, RATE, MFU, BANDWIDTH, SHARE, MEMORY)


@dataclass(frozen=True, slots=True)
class Cell:
    """What one machine measured; `low` and `high` are the extremes over its passes."""

    value: float | None
    low: float | None = None
    high: float | None = None
    ratio: float | None = None  # to the base's value
    best: bool = False
    why: str | None = None  # there is no value


@dataclass(frozen=True, slots=True)
class Line:
    """One thing measured on every machine: a section, an annotated step, a value the lecture computed."""

    function: str
    code: str
    line: int  # of the first machine's source that has it
    cells: tuple[Cell, ...]
    execution: str = ""  # "call 2, execution 3", where there are several
    unit: str | None = None
    where: Literal["section", "step", "value"] = "step"


@dataclass(frozen=True, slots=True)
class Table:
    """All lines of one quantity, and how many are too small to show."""

    quantity: Quantity
    lines: tuple[Line, ...]
    folded: tuple[Line, ...] = ()


@dataclass(frozen=True, slots=True)
class DtypeLine:
    """One dtype: each machine's peak (FLOP/s), and the best share of it that any annotated step reached."""

    dtype: str
    peaks: tuple[Cell, ...]
    mfu: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Many machines side by side."""

    title: str
    contenders: tuple[Contender, ...]
    base: int
    tables: tuple[Table, ...]
    values: tuple[Line, ...]  # what the lecture measured itself
    dtypes: tuple[DtypeLine, ...]
    points: tuple[tuple[Measured, ...], ...]  # of each machine: annotated steps that have a place under the roof
    matched: int  # annotated steps that every machine has
    unmatched: tuple[int, ...]  # of each machine: annotated steps that some other machine has not
    notes: tuple[str, ...] = ()


def compare(contenders: Sequence[Contender], base: str | None = None) -> Comparison:
    """Set two or more machines side by side; ratios are to `base` (a label; default: the first).

    Raises UsageError when there are fewer than two, or none has the base's label.
    """
    if len(contenders) < 2:
        raise UsageError("found one trace; expected two or more to compare")
    labels = [c.label for c in contenders]
    if base is not None and base not in labels:
        raise UsageError(f"--base {base}: expected one of {', '.join(labels)}")
    at = labels.index(base) if base is not None else 0
    every = [measured(c.trace) for c in contenders]
    keys = _in_order([list(found) for found in every])
    whole = [key for key in keys if all(key in found for found in every)]
    return Comparison(
        title=contenders[at].trace.title,
        contenders=tuple(contenders),
        base=at,
        tables=tuple(_table(quantity, keys, every, at) for quantity in QUANTITIES),
        values=tuple(_values(contenders, at)),
        dtypes=tuple(_dtypes(contenders, every, at)),
        points=tuple(tuple(m for m in found.values() if m.intensity is not None and m.rate) for found in every),
        matched=sum(key.annotated for key in whole),
        unmatched=tuple(sum(k.annotated for k in found) - sum(k.annotated for k in whole) for found in every),
        notes=tuple(_notes(contenders)),
    )


def labelled(traces: Sequence[tuple[str, Trace, Sequence[str]]]) -> list[Contender]:
    """Give (path, trace, notes) labels: the machine's folder, numbered where several have the same."""
    slugs = [trace.machine.slug for _, trace, _ in traces]
    found = []
    for place, (path, trace, notes) in enumerate(traces):
        slug = slugs[place]
        label = slug if slugs.count(slug) == 1 else f"{slug} ({slugs[: place + 1].count(slug)})"
        found.append(Contender(label, trace, path, tuple(notes)))
    return found


def _in_order(orders: Sequence[Sequence[StepKey]]) -> list[StepKey]:
    """Merge orders into one: what a later machine has beside the earlier ones' stands after what it follows."""
    merged: list[StepKey] = list(orders[0])
    known = set(merged)
    for order in orders[1:]:
        after: dict[StepKey | None, list[StepKey]] = {}
        last: StepKey | None = None
        for key in order:
            if key in known:
                last = key
            else:
                after.setdefault(last, []).append(key)
        if after:
            merged = after.pop(None, []) + [new for key in merged for new in (key, *after.get(key, ()))]
            known |= set(order)
    return merged


_PICK: dict[str, Callable[[Measured], tuple[float | None, float | None, float | None, str | None]]] = {
    "time_s": lambda m: (m.time_s, m.low_s, m.high_s, m.why),
    "flops_per_second": lambda m: _rate(m, m.rate, m.why_no_rate),
    "mfu": lambda m: _rate(m, m.mfu, m.why_no_mfu),
    "bytes_per_second": lambda m: _rate(m, m.bandwidth, m.why),
    "bandwidth_share": lambda m: _rate(m, m.bandwidth_share, m.why_no_share),
    "peak_bytes": lambda m: (m.peak_bytes, m.peak_bytes, m.peak_bytes, m.why_no_memory),
}


def _rate(m: Measured, rate: float | None, why: str | None) -> tuple[float | None, ...]:  # type: ignore[misc]
    """Return a rate with its extremes: they follow from those of the time."""
    if rate is None or not m.time_s or not m.low_s or not m.high_s:
        return rate, rate, rate, why
    return rate, rate * m.time_s / m.high_s, rate * m.time_s / m.low_s, why
