"""Reports of many machines; their CSV is checked with the standard reader."""

from __future__ import annotations

import csv
import io

import pytest
from rich.console import Console

from tests.diff.test_compare import FAST, LECTURE, machine_trace, side_by_side
from tests.pages.recording import Recording
from trace_tools.diff.compare import Comparison
from trace_tools.diff.report.comparison_report import csv_text, factor, report_of
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.overview import failed
from trace_tools.presentation.report import html, markdown, terminal
from trace_tools.trace.model import Claim, Machine


def csv_rows(comparison: Comparison, quantity: str) -> list[dict[str, str]]:
    return [row for row in csv.DictReader(io.StringIO(csv_text(comparison))) if row["quantity"] == quantity]


def test_repeatedly_judged_claim_is_counted_once() -> None:
    recording = Recording(LECTURE)
    first = recording.frame("first", recording.step(recording.frame("main"), "first()"))
    for held in (True, False, True):
        recording.step(first, "assert", claim=Claim("seconds < 1", held, []))
    traces = [recording.trace(machine=Machine(name, name, "cpu")) for name in "ab"]
    assert markdown(report_of(side_by_side(*traces), "md")).count("| 1 of 1 failed |") == 2
    assert failed(make_document(traces[0]).claims) == 1


@pytest.mark.parametrize(("ratio", "text"), [(0.5, "× 0.5"), (1 / 1470, "× 1/1470"), (61_100, "× 61,100"), (3, "× 3")])
def test_ratios_are_written_without_exponents(ratio: float, text: str) -> None:
    assert factor(ratio) == text


def test_times_have_their_spread_and_csv_exact_numbers_and_no_formula() -> None:
    formula = machine_trace("=HYPERLINK(1)", [190_000, 200_000, 230_000])
    comparison = side_by_side(formula, machine_trace("b", [140_000] * 3))
    assert "200 µs ± 10%" in markdown(report_of(comparison, "md"))
    header, *rows = csv.reader(io.StringIO(csv_text(comparison)))
    assert not any(cell.startswith("=") for cell in header)
    a, b = header.index("b") - 1, header.index("b")
    times = [row for row in rows if row[:1] == ["time_s"] and "step" in row]
    assert [(float(row[a]), float(row[b])) for row in times] == [(2e-4, 1.4e-4)] * 3
    ratio = next(n for n, cell in enumerate(header) if cell.startswith("b ÷ "))
    assert float(times[0][ratio]) == pytest.approx(0.7)
    assert {row[0] for row in rows} >= {"mfu", "peak_bytes", "value", "peak"}


def test_rate_above_its_roof_is_marked_in_every_format() -> None:
    """On a, 2,000,000 FLOPs in 100 µs are 20 GFLOP/s, twice the peak; b takes 20 times as long."""
    comparison = side_by_side(machine_trace("a", [100_000] * 3, meters=FAST), machine_trace("b", [2_000_000] * 3))
    printed = io.StringIO()
    Console(file=printed, width=120).print(terminal(report_of(comparison, "terminal", everything=True)))
    for text in (printed.getvalue(), markdown(report_of(comparison, "md")), html(report_of(comparison, "html"))):
        normalized = " ".join(text.split())
        assert all(mark in normalized for mark in ("200% ▲", "20 GFLOP/s ▲", "▲: above this machine"))
    assert [row["above its roof"] for row in csv_rows(comparison, "mfu")] == ["a"]
