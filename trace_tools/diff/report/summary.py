"""Summarise a comparison in sentences, each with a link to its evidence.

    summary_of(comparison)
    # [Sentence("float32 products: at most 201 GFLOP/s on cpu, 104 GFLOP/s on cpu-one-thread; memory: …", "peaks"), …]

A machine is called better only if each of its passes beat every pass of the others; everything else is counted as
undecided.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trace_tools.diff.compare import MEMORY, RATE, TIME, Comparison, Line, Quantity
from trace_tools.diff.report.sources import titles_of
from trace_tools.machines.peaks import peak_of
from trace_tools.presentation import prose
from trace_tools.util import formats

FEW = 3  # fewest steps with a common limit for a sentence
LARGEST = 3  # most effects that are named
MANY = 4  # more machines: sentences name only the extremes


@dataclass(frozen=True, slots=True)
class Sentence:
    """A conclusion of the comparison, and the part of the report that shows it."""

    text: str
    evidence: str


def summary_of(comparison: Comparison) -> list[Sentence]:
    """Return the sentences: machines first, then claims, time, and memory."""
    sentences = list(_peaks(comparison))
    failed, count = [], 0
    for side, label in zip(comparison.sides, _labels(comparison), strict=True):
        claims = [(step.line, step.claim.held) for step in side.tree.by_id.values() if step.claim is not None]
        lines = sorted({line for line, held in claims if not held})
        count += len(claims)
        if lines:
            text = "{machine} (line {lines})"
            failed.append(text.format(machine=label, lines=", ".join(map(str, lines[:5]))))
    if failed:
        sentences.append(Sentence("Claims failed on {machines}.".format(machines="; ".join(failed)), "machines"))
    elif count:
        sentences.append(Sentence("Every claim of the lecture holds on every machine.", "machines"))
    sentences += _sections(comparison)
    sentences += _limits(comparison)
    timed = [line for line in _lines(comparison, TIME) if line.where != "section"]
    if timed:
        clear = clear_differences(timed)
        named = [
            f"{_named(line)} on {label} ({_times(line, index)})"
            for line in clear[:LARGEST]
            for index, label in enumerate(_labels(comparison))
            if line.cells[index].best
        ]
        text = "{n} of {all} timed steps were faster in every pass on one machine"
        text = text.format(n=len(clear), all=len(timed))
        text += "; the widest margins: {steps}".format(steps=", ".join(named)) if named else ""
        sentences.append(Sentence(text + ".", "judged" if clear else TIME.key))
    steps = [line for line in _lines(comparison, MEMORY) if line.where != "section"]
    differ = [line for line in steps if effect(line) > 0]
    if steps and differ:
        text = "{n} of {all} steps have different peak memory: {names}."
        names = ", ".join(map(_named, differ[:LARGEST]))
        sentences.append(Sentence(text.format(n=len(differ), all=len(steps), names=names), MEMORY.key))
    elif steps:
        sentences.append(Sentence("Every step had the same peak memory on all machines.", MEMORY.key))
    return sentences


def clear_differences(lines: Sequence[Line]) -> list[Line]:
    """Return the lines of steps with a clear best machine, the largest effects first."""
    clear = [line for line in lines if line.where != "section" and any(cell.best for cell in line.cells)]
    return sorted(clear, key=effect, reverse=True)


def effect(line: Line) -> float:
    """Return the logarithm of the largest over the smallest number of a line's machines."""
    values = [cell.value for cell in line.cells if cell.value]
    return math.log(max(values) / min(values)) if len(values) > 1 and min(values) > 0 else 0.0


def _lines(comparison: Comparison, quantity: Quantity) -> tuple[Line, ...]:
    return next(table.lines for table in comparison.tables if table.quantity == quantity)


def _labels(comparison: Comparison) -> list[str]:
    return [formats.one_line(side.label, 40) for side in comparison.sides]


def _peaks(comparison: Comparison) -> Iterator[Sentence]:
    """Yield the two rates that limit all others, of float32 products and of memory."""
    labels, parts = _labels(comparison), []
    for name, words, unit in (("float32", "float32 products", "FLOP/s"), ("memory", "memory", "B/s")):
        for line in (line for line in comparison.peaks if line.code == name):
            rates = [(cell.value, label) for cell, label in zip(line.cells, labels, strict=True) if cell.value]
            ends = sorted(rates)[::-1] if len(rates) <= MANY else [max(rates), min(rates)]
            listed = [f"{formats.quantity(rate, unit, 3)} on {label}" for rate, label in ends]
            if len(rates) > 1:
                rates_text = ", ".join(listed) if len(rates) <= MANY else f"{listed[0]} to {listed[1]}"
                parts.append(f"{words} at most {rates_text}")
    if parts:
        yield Sentence("Peaks: {peaks}.".format(peaks="; ".join(parts)), "peaks")


def _sections(comparison: Comparison) -> Iterator[Sentence]:
    """Yield sentences that name the machine on which sections were faster in every pass."""
    sections = [line for line in _lines(comparison, TIME) if line.where == "section"]
    titles = titles_of(comparison.sides[comparison.base])
    parts = []
    for index, label in enumerate(_labels(comparison)):
        best = sorted((line for line in sections if line.cells[index].best), key=effect, reverse=True)
        if best:
            named = f", by the widest margin in {_named(best[0], titles)} ({_times(best[0], index)})"
            parts.append(f"{label} was the fastest in every pass in {len(best)} of {len(sections)} sections" + named)
    unclear = sum(not any(cell.best for cell in line.cells) for line in sections)
    if parts:
        no_difference = f"; {unclear} show no clear difference" if unclear else ""
        yield Sentence("; ".join(parts) + no_difference + ".", TIME.key)
    elif sections:
        yield Sentence(
            f"No section was faster in every pass on one machine than on the others ({len(sections)} sections).",
            TIME.key,
        )


def _limits(comparison: Comparison) -> Iterator[Sentence]:
    """Yield whether a machine's advantage is in arithmetic or in memory, by the limit of each step on the base."""
    labels, base = _labels(comparison), comparison.base
    machine = comparison.sides[base].trace.machine
    bandwidth = peak_of(machine, "memory")
    # the tables show it for many machines
    clear = clear_differences(_lines(comparison, RATE)) if len(labels) <= MANY else []
    for index, label in enumerate(labels):
        ratios: dict[str, list[float]] = {"memory": [], "compute": []}
        for line in clear if index != base else ():
            cell = line.cells[base]
            peak = peak_of(machine, cell.dtype or "float32")
            ratio = line.cells[index].ratio
            if ratio and cell.intensity and bandwidth and peak and bandwidth.per_second and peak.per_second:
                ridge = peak.per_second / bandwidth.per_second
                ratios["memory" if cell.intensity < ridge else "compute"].append(ratio)
        bound = {
            "memory": "steps that are memory-bound on {base} at {ratio} times its rate (median of {steps})",
            "compute": "steps that are compute-bound on {base} at {ratio} times its rate (median of {steps})",
        }
        parts = [
            bound[limit].format(
                base=labels[base],
                ratio=formats.ratio(statistics.median(values)),
                steps=formats.plural(len(values), "step"),
            )
            for limit, values in ratios.items()
            if len(values) >= FEW
        ]
        if parts:
            text = "Of the steps with a clear difference, {machine} ran {steps}."
            yield Sentence(text.format(machine=label, steps=", and ".join(parts)), RATE.key)


def _named(line: Line, titles: Mapping[str, str] | None = None) -> str:
    if line.where == "section":
        name = line.code.removesuffix("()")
        return f"“{formats.one_line(prose.plain_text(titles[name]), 80)}”" if titles and name in titles else name
    return f"“{formats.one_line(line.code, 60)}”" + (f", line {line.line}," if line.line else "")


def _times(line: Line, index: int) -> str:
    """Format how many times faster the best machine is than the slowest."""
    values = [cell.value for cell in line.cells if cell.value]
    best = line.cells[index].value
    return f"{formats.ratio(max(values) / best)} times as fast" if best else "–"
