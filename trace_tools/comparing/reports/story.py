"""A comparison → what it comes to, in sentences, each with where its evidence stands.

    story(comparison)
    # [Sentence("float32 products: at most 201 GFLOP/s on cpu, 104 GFLOP/s on cpu-one-thread; memory: …", "peaks"), …]

Only what every pass of one machine did better than every pass of the others is said to be better; the rest is counted
as not told apart.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trace_tools import formats
from trace_tools.comparing.compare import MEMORY, RATE, TIME, Comparison, Line, Quantity
from trace_tools.rates import peak_of

FEW = 3  # steps that share a limit: of fewer nothing is said
LARGEST = 3  # effects that are named
MANY = 4  # machines: of more, sentences name the ends


@dataclass(frozen=True, slots=True)
class Sentence:
    """Something that the comparison found, and the part of the report that shows it."""

    text: str
    evidence: str


def story(comparison: Comparison) -> list[Sentence]:
    """Return the sentences, those on the machines first, then claims, then time, then memory."""
    return [
        *_peaks(comparison),
        *_claims(comparison),
        *_sections(comparison),
        *_limits(comparison),
        *_largest(comparison),
        *_memory(comparison),
    ]


def judged(lines: Sequence[Line]) -> list[Line]:
    """Return the lines of steps in which one machine was told apart as the best, the largest effects first."""
    told = [line for line in lines if line.where != "section" and any(cell.best for cell in line.cells)]
    return sorted(told, key=effect, reverse=True)


def effect(line: Line) -> float:
    """Return how far a line's machines are apart: the logarithm of the largest number over the smallest."""
    values = [cell.value for cell in line.cells if cell.value]
    return math.log(max(values) / min(values)) if len(values) > 1 and min(values) > 0 else 0.0


def _lines(comparison: Comparison, quantity: Quantity) -> tuple[Line, ...]:
    return next(table.lines for table in comparison.tables if table.quantity == quantity)


def _labels(comparison: Comparison) -> list[str]:
    return [formats.one_line(side.label, 40) for side in comparison.sides]


def _peaks(comparison: Comparison) -> Iterator[Sentence]:
    """The two rates that bound everything else: of products in float32, and of memory."""
    labels, said = _labels(comparison), []
    for name, words, unit in (("float32", "float32 products", "FLOP/s"), ("memory", "memory", "B/s")):
        for line in (line for line in comparison.peaks if line.code == name):
            rates = [(cell.value, label) for cell, label in zip(line.cells, labels, strict=True) if cell.value]
            ends = sorted(rates)[::-1] if len(rates) <= MANY else [max(rates), min(rates)]
            listed = [f"{formats.quantity(rate, unit, 3)} on {label}" for rate, label in ends]
            said += (
                [f"{words} at most {(', ' if len(rates) <= MANY else ' to ').join(listed)}"] if len(rates) > 1 else []
            )
    if said:
        text = "; ".join(said)
        yield Sentence(f"What the machines can do: {text}.", "peaks")


def _claims(comparison: Comparison) -> Iterator[Sentence]:
    found = []
    for side, label in zip(comparison.sides, _labels(comparison), strict=True):
        steps = [step for step in side.tree.by_id.values() if step.claim is not None]
        failed = {step.line for step in steps if step.claim is not None and not step.claim.held}
        found.append((label, len(steps), sorted(failed)))
    wrong = [f"{label} (line {', '.join(map(str, lines[:5]))})" for label, _, lines in found if lines]
    if wrong:
        yield Sentence(f"Claims failed on {'; '.join(wrong)}.", "machines")
    elif any(count for _, count, _ in found):
        yield Sentence("Every claim of the lecture holds on every machine.", "machines")


def _sections(comparison: Comparison) -> Iterator[Sentence]:
    """On which machine sections were faster in every pass."""
    sections = [line for line in _lines(comparison, TIME) if line.where == "section"]
    parts = []
    for place, label in enumerate(_labels(comparison)):
        best = sorted((line for line in sections if line.cells[place].best), key=effect, reverse=True)
        if best:
            named = f", by most in {_named(best[0])} ({_times(best[0], place)})"
            parts.append(f"{label} was the fastest in every pass in {len(best)} of {len(sections)} sections{named}")
    left = sum(not any(cell.best for cell in line.cells) for line in sections)
    if parts:
        rest = f"; {left} are not told apart" if left else ""
        yield Sentence("; ".join(parts) + rest + ".", TIME.key)
    elif sections:
        yield Sentence(
            f"No section was faster in every pass on one machine than on the others ({len(sections)} sections).",
            TIME.key,
        )


def _limits(comparison: Comparison) -> Iterator[Sentence]:
    """Whether a machine's advantage is in arithmetic or in memory: by which of the base's roofs is above each step."""
    labels, base = _labels(comparison), comparison.base
    machine = comparison.sides[base].trace.machine
    bandwidth = peak_of(machine, "memory")
    told = judged(_lines(comparison, RATE)) if len(labels) <= MANY else []  # the tables say it of many
    for place, label in enumerate(labels):
        ratios: dict[str, list[float]] = {"memory": [], "arithmetic": []}
        for line in told if place != base else ():
            cell = line.cells[base]
            peak = peak_of(machine, cell.dtype or "float32")
            ratio = line.cells[place].ratio
            if ratio and cell.intensity and bandwidth and peak and bandwidth.per_second and peak.per_second:
                ridge = peak.per_second / bandwidth.per_second
                ratios["memory" if cell.intensity < ridge else "arithmetic"].append(ratio)
        said = [
            f"those that {limit} limits there at × {formats.ratio(statistics.median(found))} of its rate "
            f"(median of {len(found)})"
            for limit, found in ratios.items()
            if len(found) >= FEW
        ]
        if said:
            text = f"Of the steps told apart from {labels[base]}, {label} ran {', and '.join(said)}."
            yield Sentence(text, RATE.key)


def _largest(comparison: Comparison) -> Iterator[Sentence]:
    """The largest differences of time that were told apart."""
    steps = [line for line in _lines(comparison, TIME) if line.where != "section"]
    told = judged(steps)
    if not steps:
        return
    named = [
        f"{_named(line)} on {label} ({_times(line, place)})"
        for line in told[:LARGEST]
        for place, label in enumerate(_labels(comparison))
        if line.cells[place].best
    ]
    count = f"{len(told)} of {len(steps)} timed steps were faster in every pass on one machine"
    yield Sentence(f"{count}; by most {', '.join(named)}." if named else f"{count}.", "judged" if told else TIME.key)


def _memory(comparison: Comparison) -> Iterator[Sentence]:
    steps = [line for line in _lines(comparison, MEMORY) if line.where != "section"]
    differ = [line for line in steps if effect(line) > 0]
    if steps:
        text = f"took another amount of memory: {', '.join(map(_named, differ[:LARGEST]))}" if differ else ""
        same = "Every step took the same memory at its peak on all machines"
        yield Sentence(f"{len(differ)} of {len(steps)} steps {text}." if differ else f"{same}.", MEMORY.key)


def _named(line: Line) -> str:
    if line.where == "section":
        return line.code.removesuffix("()")
    return f"“{formats.one_line(line.code, 60)}”" + (f", line {line.line}," if line.line else "")


def _times(line: Line, place: int) -> str:
    """Write how many times as fast the best machine is as the slowest."""
    values = [cell.value for cell in line.cells if cell.value]
    best = line.cells[place].value
    return f"{formats.ratio(max(values) / best)} times as fast" if best else "–"
