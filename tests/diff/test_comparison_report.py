"""What the report of many machines says, and its CSV: against stock readers."""

from __future__ import annotations

import csv
import io

import pytest
from rich.console import Console

from tests.diff.test_compare import FAST, H100, LECTURE, PEAKS, WORK, machine_trace, side_by_side, with_floors
from tests.pages.recording import Recording, matrix
from trace_tools.diff.compare import compare
from trace_tools.diff.difference import Side
from trace_tools.diff.report.comparison_report import csv_text, factor, report_of
from trace_tools.diff.report.report import html, markdown, terminal
from trace_tools.pages.content.compose import make_document
from trace_tools.trace.model import Claim, Machine


def test_claims_are_counted_once_as_on_the_pages() -> None:
    made = Recording(LECTURE)
    first = made.frame("first", made.step(made.frame("main"), "first()"))
    made.step(first, "y = ", annotated=True, host_ns=[10], values=[("y", matrix(2, 2))])
    for held in (True, False, True):
        made.step(first, "assert", claim=Claim("seconds < 1", held, []))
    traces = [made.trace(machine=Machine(name, name, "cpu")) for name in "ab"]
    text = markdown(report_of(side_by_side(*traces), "md"))
    assert text.count("| 1 of 1 failed |") == 2
    assert make_document(traces[0]).failed == 1


@pytest.mark.parametrize(("ratio", "text"), [(0.5, "× 0.5"), (1 / 1470, "× 1/1,470"), (61_100, "× 61,100"), (3, "× 3")])
def test_ratios_have_no_exponents(ratio: float, text: str) -> None:
    assert factor(ratio) == text


def test_csv_has_exact_numbers() -> None:
    found = side_by_side(machine_trace("a", [190_000, 200_000, 230_000]), machine_trace("b", [140_000] * 3))
    rows = list(csv.DictReader(io.StringIO(csv_text(found))))
    times = [row for row in rows if row["quantity"] == "time_s" and row["where"] == "step"]
    assert [(float(row["a"]), float(row["b"])) for row in times] == [(2e-4, 1.4e-4)] * 3
    assert float(times[0]["b ÷ a"]) == pytest.approx(0.7)
    assert {row["quantity"] for row in rows} >= {"mfu", "peak_bytes", "value", "peak", "highest_mfu"}


def test_rates_above_the_roof_are_marked_in_all_formats() -> None:
    """2,000,000 FLOPs in 100 µs are 20 GFLOP/s, twice the peak; the other machine takes much longer."""
    found = side_by_side(machine_trace("a", [100_000] * 3, meters=FAST), machine_trace("b", [2_000_000] * 3))
    printed = io.StringIO()
    Console(file=printed, width=120).print(terminal(report_of(found, "terminal", everything=True)))
    told = {
        "terminal": printed.getvalue(),
        "md": markdown(report_of(found, "md")),
        "html": html(report_of(found, "html")),
    }
    for form, text in told.items():
        words = " ".join(text.split())
        assert "200% ▲" in words and "20 GFLOP/s ▲" in words, form
        assert "▲: above this machine's" in words.replace("&#x27;", "'").replace("&#39;", "'"), form
    rows = [row for row in csv.DictReader(io.StringIO(csv_text(found))) if row["quantity"] == "mfu"]
    assert [row["above its roof"] for row in rows] == ["a"]


def test_csv_cells_are_no_formulas() -> None:
    name = "=HYPERLINK(1)"
    bad = machine_trace("a", [1_000], machine=Machine(name, name, "cpu", peaks=PEAKS))
    header = next(csv.reader(io.StringIO(csv_text(side_by_side(bad, machine_trace("b", [1_000]))))))
    assert not any(cell.startswith("=") for cell in header)


def test_floors_are_separate_named_columns() -> None:
    """67,000,000 FLOPs ÷ 67 TFLOP/s are 1 µs; a terabyte of tensors does not fit into 80 GB."""
    trace = with_floors("a", WORK, peak_bytes=10**12)
    found = compare([Side("a.yaml", trace), Side("b.yaml", with_floors("b", WORK))], ceilings=[H100])
    name = "floor from the datasheet: NVIDIA H100 80GB HBM3"
    rows = csv.DictReader(io.StringIO(csv_text(found)))
    [row] = [row for row in rows if row["quantity"] == "time_s" and "x @ w" in row["code"]]
    assert float(row[name]) == pytest.approx(1e-6) and float(row["b ÷ a"]) == 1
    text = markdown(report_of(found, "md"))
    assert f"| {name} |" in text and "| ≥ 1 µs, float32 |" in text
    assert "Would the lecture fit? No: 1 TB of tensors were alive at once, more than 80 GB." in text
    page = html(report_of(found, "html"))
    assert f'<th scope="col" class="right floor">{name}</th>' in page
    assert '<td class="right floor">≥ 1 µs, float32' in page
    shown = Console(width=200, file=io.StringIO(), record=True)
    shown.print(terminal(report_of(found, "terminal", width=200)))
    assert "≥ 1 µs, float32" in shown.export_text()


def test_rows_of_three_machines_name_the_best_and_the_worst() -> None:
    times = {"a": [200_000] * 3, "b": [100_000, 110_000, 105_000], "c": [900_000, 800_000, 850_000]}
    text = markdown(report_of(side_by_side(*(machine_trace(name, ns) for name, ns in times.items())), "md"))
    assert "best b, worst c, 8.1× apart" in text  # of 105 and 850 µs
    assert "○ 850 µs" in text
    two = markdown(report_of(side_by_side(*(machine_trace(name, times[name]) for name in "ab")), "md"))
    assert "best " not in two.replace("marks the best", "") and "○" not in two
