"""What the report of many machines says, and its CSV: against stock readers."""

from __future__ import annotations

import csv
import io

import pytest

from tests.comparing.test_compare import LECTURE, PEAKS, machine_trace, side_by_side
from tests.rendering.recording import Recording, matrix
from trace_tools.comparing.reports.comparison_report import csv_text, factor, report_of
from trace_tools.comparing.reports.markdown import markdown
from trace_tools.rendering.compose import make_document
from trace_tools.schema import Claim, Machine


def test_claims_are_counted_once_each_as_on_the_pages_however_often_they_were_judged() -> None:
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
def test_ratios_are_read_without_exponents(ratio: float, text: str) -> None:
    assert factor(ratio) == text


def test_csv_holds_every_number_exactly() -> None:
    found = side_by_side(machine_trace("a", [190_000, 200_000, 230_000]), machine_trace("b", [140_000] * 3))
    rows = list(csv.DictReader(io.StringIO(csv_text(found))))
    times = [row for row in rows if row["quantity"] == "time_s" and row["where"] == "step"]
    assert [(float(row["a"]), float(row["b"])) for row in times] == [(2e-4, 1.4e-4)] * 3
    assert float(times[0]["b ÷ a"]) == pytest.approx(0.7)
    assert {row["quantity"] for row in rows} >= {"mfu", "peak_bytes", "value", "peak", "highest_mfu"}


def test_csv_holds_no_formula() -> None:
    name = "=HYPERLINK(1)"
    bad = machine_trace("a", [1_000], machine=Machine(name, name, "cpu", peaks=PEAKS))
    header = next(csv.reader(io.StringIO(csv_text(side_by_side(bad, machine_trace("b", [1_000]))))))
    assert not any(cell.startswith("=") for cell in header)


def test_each_row_of_three_machines_names_the_best_and_the_worst() -> None:
    times = {"a": [200_000] * 3, "b": [100_000, 110_000, 105_000], "c": [900_000, 800_000, 850_000]}
    text = markdown(report_of(side_by_side(*(machine_trace(name, ns) for name, ns in times.items())), "md"))
    assert "best b, worst c, 8.1× apart" in text  # of 105 and 850 µs
    assert "○ 850 µs" in text
    two = markdown(report_of(side_by_side(*(machine_trace(name, times[name]) for name in "ab")), "md"))
    assert "best " not in two.replace("marks the best", "") and "○" not in two
