"""Times on the page of differences: each timing once, by section, with its ratio and the shares of the roof."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.diff.planted import CPU, SLOW_LINE, differ, made, measuring, slower, with_steps
from tests.diff.report_cases import html_of
from trace_tools.diff.report.entries import timings_of
from trace_tools.diff.report.timings import timing_parts
from trace_tools.presentation.report import Grid, Part, Phrase
from trace_tools.trace.model import Peak


def test_a_slower_statement_is_one_timing_for_all_its_executions() -> None:
    assert list(timing_parts(differ(made(0), made(1)))) == []
    difference = differ(made(0), with_steps(made(1), slower(1.5)))
    [timing] = timings_of(difference)
    assert (timing.line, timing.executions) == (SLOW_LINE, 20)
    assert timing.finding.durations.overall == pytest.approx(1.5, rel=0.05)
    [part] = timing_parts(difference)
    assert isinstance(part, Part) and part.title == "second" and isinstance(part.parts[0], Grid)
    [(statement, _, ratio, _, interval, *_)] = part.parts[0].rows
    assert statement.code == "b = a * 2" and "in 20 executions" in statement.soft and ratio.style == "slower"
    assert interval.strip is not None
    low, middle, high = interval.strip
    assert 100 / 3 < low < middle < high < 100  # beyond 1×
    page = html_of(difference)
    assert ratio.text in page
    assert "1 timing on 1 line (20 executions) of the lecture: 1 slower on B, by 1.5" in page


def test_timings_are_summarised_by_roof() -> None:
    machine = replace(CPU, peaks=[Peak(name, 1e12, "a datasheet") for name in ("float32", "memory")])
    a, b = (measuring(s, 1e-5, flops=3_000_000, machine=machine) for s in (3.1e-6, 6.2e-6))
    [by_roof, part] = timing_parts(differ(a, b))
    assert isinstance(by_roof, Grid) and isinstance(part, Part)
    [[sentence]] = by_roof.rows
    [[*_, share]] = part.parts[0].rows  # type: ignore[union-attr]
    assert share == Phrase("97% → 48%", soft="float32", style="right")
    assert sentence == Phrase("At the roof of arithmetic (85% or more of A's peak; 1 timing): 2 times as long.")
