"""Reports of differences: planted differences come first, and nothing that matters is missing."""

from __future__ import annotations

import re
from dataclasses import replace

from tests.diff.planted import differ, made
from tests.diff.report_cases import LECTURE, between, html_of, markdown_of, planted, recorded
from tests.pretend_gpu import pretend_gpu
from trace_tools.diff.difference import Difference, SettingChange
from trace_tools.diff.report.difference_report import charts_of, side_text


def cpu_and_gpu() -> Difference:
    cpu = recorded()
    return between(cpu, pretend_gpu(cpu))


def headings(text: str) -> list[str]:
    return re.findall(r"^#+ (.*)$", text, re.MULTILINE)


def test_markdown_starts_with_differences_that_matter_in_order() -> None:
    text = markdown_of(planted())
    assert headings(text)[1:] == ["Claims", "Values", "Memory"]
    assert text.index("**Differences that matter: 1 claim") < text.index("## Claims")
    claim = next(line for line in text.splitlines() if "claim flipped" in line)
    assert "lecture.py:13 first<br>`assert y.shape == (2, 3)`" in claim
    assert "@inspect" not in text  # code is shown as the pages show it


def test_markdown_of_equal_traces_reports_no_differences() -> None:
    text = markdown_of(between(recorded(), recorded()))
    assert "**No differences" in text
    assert headings(text) == ["A cpu → B cpu"]


def test_markdown_lists_changed_settings_and_functions() -> None:
    edited = LECTURE.replace("torch.ones(3, 2)", "torch.zeros(3, 2)")
    difference = replace(
        between(recorded(), recorded(text=edited)), settings=(SettingChange("version", "torch", "2.12|", None),)
    )
    text = markdown_of(difference)
    assert "| version: torch | 2.12\\| | – |" in text
    assert "| edited | `make` | `make` |" in text


def test_cpu_and_gpu_have_ratios_and_figures_without_verdicts() -> None:
    difference = cpu_and_gpu()
    page = html_of(difference)
    assert "Times of annotated steps, as ratios" in page
    assert not difference.matters
    titles = [chart.title for chart in charts_of(difference)]
    assert len(titles) == 1 and "rooflines" in titles[0]
    assert "Pretend GPU (made up for tests)" in side_text(difference.b)
    assert html_of(difference) == page  # rendering is deterministic


def test_page_of_equal_traces_reports_no_differences() -> None:
    same: Difference = between(recorded(), recorded())
    page = html_of(same)
    assert "No difference that matters" in page


def test_reports_state_if_a_slowdown_could_be_missed() -> None:
    noisy, calm = (differ(made(0, noise=noise), made(1, noise=noise)) for noise in (0.3, 0.01))
    for report in (markdown_of, html_of):
        assert re.search(r"20% can go unnoticed with 3 passes; about \d+ would", report(noisy))
        assert "can go unnoticed" not in report(calm)
