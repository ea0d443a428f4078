"""Reports of many machines; their CSV is checked with the standard reader."""

from __future__ import annotations

import csv
import io

import pytest
from rich.console import Console

from tests.diff.test_compare import FAST, LECTURE, PEAKS, machine_trace, side_by_side
from tests.pages.recording import Recording, matrix
from trace_tools.diff.report.comparison_report import csv_text, factor, report_of
from trace_tools.pages.content.compose import make_document
from trace_tools.presentation.report import html, markdown, terminal
from trace_tools.trace.model import Claim, Machine


def test_repeatedly_judged_claim_is_counted_once() -> None:
    recording = Recording(LECTURE)
    first = recording.frame("first", recording.step(recording.frame("main"), "first()"))
    recording.step(first, "y = ", annotated=True, host_ns=[10], values=[("y", matrix(2, 2))])
    for held in (True, False, True):
        recording.step(first, "assert", claim=Claim("seconds < 1", held, []))
    traces = [recording.trace(machine=Machine(name, name, "cpu")) for name in "ab"]
    text = markdown(report_of(side_by_side(*traces), "md"))
    assert text.count("| 1 of 1 failed |") == 2
    assert make_document(traces[0]).failed == 1


@pytest.mark.parametrize(("ratio", "text"), [(0.5, "× 0.5"), (1 / 1470, "× 1/1,470"), (61_100, "× 61,100"), (3, "× 3")])
def test_ratios_are_written_without_exponents(ratio: float, text: str) -> None:
    assert factor(ratio) == text


def test_csv_contains_exact_numbers() -> None:
    comparison = side_by_side(machine_trace("a", [190_000, 200_000, 230_000]), machine_trace("b", [140_000] * 3))
    rows = list(csv.DictReader(io.StringIO(csv_text(comparison))))
    times = [row for row in rows if row["quantity"] == "time_s" and row["where"] == "step"]
    assert [(float(row["a"]), float(row["b"])) for row in times] == [(2e-4, 1.4e-4)] * 3
    assert float(times[0]["b ÷ a"]) == pytest.approx(0.7)
    assert {row["quantity"] for row in rows} >= {"mfu", "peak_bytes", "value", "peak"}


def test_rate_above_its_roof_is_marked_in_every_format() -> None:
    """On a, 2,000,000 FLOPs in 100 µs are 20 GFLOP/s, twice the peak; b takes 20 times as long."""
    comparison = side_by_side(machine_trace("a", [100_000] * 3, meters=FAST), machine_trace("b", [2_000_000] * 3))
    printed = io.StringIO()
    Console(file=printed, width=120).print(terminal(report_of(comparison, "terminal", everything=True)))
    texts = {
        "terminal": printed.getvalue(),
        "md": markdown(report_of(comparison, "md")),
        "html": html(report_of(comparison, "html")),
    }
    for name, text in texts.items():
        normalized = " ".join(text.split())
        assert "200% ▲" in normalized and "20 GFLOP/s ▲" in normalized, name
        assert "▲: above this machine's" in normalized.replace("&#x27;", "'").replace("&#39;", "'"), name
    rows = [row for row in csv.DictReader(io.StringIO(csv_text(comparison))) if row["quantity"] == "mfu"]
    assert [row["above its roof"] for row in rows] == ["a"]


def test_csv_header_contains_no_formula() -> None:
    name = "=HYPERLINK(1)"
    hostile = machine_trace("a", [1_000], machine=Machine(name, name, "cpu", peaks=PEAKS))
    header = next(csv.reader(io.StringIO(csv_text(side_by_side(hostile, machine_trace("b", [1_000]))))))
    assert not any(cell.startswith("=") for cell in header)
