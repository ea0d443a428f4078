"""Entries of reports: one for all executions of a statement, the most important first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.diff.planted import at, differ, made, with_steps
from trace_tools.diff.report.entries import ORDER, blocks, entries, entry_of, times_text
from trace_tools.trace.model import Meters, Step, Trace, Value


def counted(flops: int) -> Trace:
    def observed(step: Step) -> Step:
        values = [("y", Value("int", flops))] if step.line == 6 else step.values
        return replace(step, values=values, meters=Meters(flops * step.line, 8, 8, 1, 1))

    return with_steps(made(0), observed)


def test_counts_are_sorted_by_size_and_values_by_line() -> None:
    flops = entries(differ(counted(10), counted(20)), "flops")
    sizes = [e.size for e in flops if not e.after_lines]
    assert sizes == sorted(sizes, reverse=True)
    lines = [e.line for e in entries(differ(counted(10), counted(20)), "values")]
    assert lines == sorted(lines)


def test_each_finding_is_listed_once() -> None:
    difference = differ(counted(10), counted(20))
    listed = [(e.row.number, e.finding.subject) for _, _, block_entries in blocks(difference) for e in block_entries]
    assert len(listed) == len(set(listed)) > 0
    assert {aspect for aspect, is_lead, _ in blocks(difference) if not is_lead} == set(ORDER)


def test_entry_has_both_sides_and_verdict() -> None:
    a, b = (with_steps(made(0), at(6, values=[("y", Value("int", n))])) for n in (1, 2))
    [(row, finding)] = list(differ(a, b).findings("values"))
    entry = entry_of(differ(a, b), row, finding)
    assert (entry.line, entry.name, entry.a, entry.b, entry.finding.verdict) == (6, "y", "1", "2", "changed")


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(1.214, "1.21× slower"), (0.5, "2× faster"), (1 / 3154, "3,150× faster"), (1.004, "equally long")],
)
def test_ratios_of_times_in_words(ratio: float, text: str) -> None:
    assert times_text(ratio) == text
