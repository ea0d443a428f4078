"""Summarise a comparison in sentences, each with a link to its evidence.

    summary_of(comparison)
    # [Sentence("Every claim of the lecture holds on every machine.", "machines"), …]

A machine is called faster only if each of its passes beat every pass of the others; everything else is counted as
undecided.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trace_tools.diff.compare import TIME, Comparison, Line
from trace_tools.diff.report.sources import titles_of
from trace_tools.presentation import prose
from trace_tools.util import formats

LARGEST = 3  # most effects that are named


@dataclass(frozen=True, slots=True)
class Sentence:
    """A conclusion of the comparison, and the part of the report that shows it."""

    text: str
    evidence: str


def summary_of(comparison: Comparison) -> list[Sentence]:
    """Return the sentences: claims first, then times."""
    sentences, failed, count = [], [], 0
    labels = [formats.one_line(side.label, 40) for side in comparison.sides]
    for side, label in zip(comparison.sides, labels, strict=True):
        claims = [(step.line, step.claim.held) for step in side.tree.by_id.values() if step.claim is not None]
        lines = sorted({line for line, held in claims if not held})
        count += len(claims)
        if lines:
            failed.append(f"{label} (line {', '.join(map(str, lines[:5]))})")
    if failed:
        sentences.append(Sentence(f"Claims failed on {'; '.join(failed)}.", "machines"))
    elif count:
        sentences.append(Sentence("Every claim of the lecture holds on every machine.", "machines"))
    times = next(table.lines for table in comparison.tables if table.quantity == TIME)
    sentences += _sections([line for line in times if line.where == "section"], labels, titles_of(comparison.sides[0]))
    if timed := [line for line in times if line.where != "section"]:
        clear = clear_differences(timed)
        named = [
            f"{_named(line)} on {label} ({_times(line, index)})"
            for line in clear[:LARGEST]
            for index, label in enumerate(labels)
            if line.cells[index].best
        ]
        text = f"{len(clear)} of {len(timed)} timed steps were faster in every pass on one machine"
        text += f"; the widest margins: {', '.join(named)}" if named else ""
        sentences.append(Sentence(text + ".", "judged" if clear else TIME.key))
    return sentences


def clear_differences(lines: Sequence[Line]) -> list[Line]:
    """Return the lines of steps with a clear best machine, the largest effects first."""
    clear = [line for line in lines if line.where != "section" and any(cell.best for cell in line.cells)]
    return sorted(clear, key=effect, reverse=True)


def effect(line: Line) -> float:
    """Return the logarithm of the largest over the smallest number of a line's machines."""
    values = [cell.value for cell in line.cells if cell.value]
    return math.log(max(values) / min(values)) if len(values) > 1 and min(values) > 0 else 0.0


def _sections(sections: Sequence[Line], labels: Sequence[str], titles: Mapping[str, str]) -> Iterator[Sentence]:
    """Yield sentences that name the machine on which sections were faster in every pass."""
    parts = []
    for index, label in enumerate(labels):
        best = sorted((line for line in sections if line.cells[index].best), key=effect, reverse=True)
        if best:
            named = f", by the widest margin in {_named(best[0], titles)} ({_times(best[0], index)})"
            parts.append(f"{label} was the fastest in every pass in {len(best)} of {len(sections)} sections" + named)
    unclear = sum(not any(cell.best for cell in line.cells) for line in sections)
    if parts:
        no_difference = f"; {unclear} show no clear difference" if unclear else ""
        yield Sentence("; ".join(parts) + no_difference + ".", TIME.key)
    elif sections:
        text = f"No section was faster in every pass on one machine than on the others ({len(sections)} sections)."
        yield Sentence(text, TIME.key)


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
