"""Entries of reports: one for all executions of a statement, the most important first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.diff.planted import differ, differ_at, ints, made, with_steps
from tests.diff.report_cases import html_of, markdown_of
from trace_tools.diff.difference import Difference, Subject
from trace_tools.diff.report.entries import ORDER, blocks, entries, times_text
from trace_tools.trace.model import Meters, Step, Trace, Value

LONG = "model.blocks[0].attention.projection.weight.detach().reshape(-1)[:128].double().abs()"


@pytest.fixture(scope="module")
def counts() -> Difference:
    def counted(flops: int) -> Trace:
        def observed(step: Step) -> Step:
            values = ints(y=flops) if step.line == 6 else step.values
            return replace(step, values=values, meters=Meters(flops * step.line, 8, 8, 1, 1))

        return with_steps(made(0), observed)

    return differ(counted(10), counted(20))


def test_counts_are_sorted_by_size_and_values_by_line(counts: Difference) -> None:
    sizes = [e.size for e in entries(counts, "flops") if not e.after_lines]
    lines = [e.line for e in entries(counts, "values")]
    assert sizes == sorted(sizes, reverse=True) and lines == sorted(lines)


def test_each_finding_is_listed_once(counts: Difference) -> None:
    listed = [(e.row.number, e.finding.subject) for _, _, block_entries in blocks(counts) for e in block_entries]
    assert len(listed) == len(set(listed)) > 0
    assert {aspect for aspect, is_lead, _ in blocks(counts) if not is_lead} == set(ORDER)


def test_expressions_that_differ_beyond_their_shown_part_are_numbered() -> None:
    first, second = f"{LONG}.min()", f"{LONG}.max()"  # equal in their first 80 characters
    sides = ({"values": [(first, Value("int", 100)), (second, Value("int", n))]} for n in (200, 300))
    difference = differ_at(6, *sides)
    [entry] = entries(difference, "values")
    assert entry.finding.subject == Subject("value", 1, second)
    assert entry.name.endswith("#2") and len(entry.name) <= 80
    assert all("#2" in report for report in (markdown_of(difference), html_of(difference)))


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(1.214, "1.21× slower"), (0.5, "2× faster"), (1 / 3154.4, "3150× faster"), (1.004, "equally long")],
)
def test_ratios_of_times_in_words(ratio: float, text: str) -> None:
    assert times_text(ratio) == text
