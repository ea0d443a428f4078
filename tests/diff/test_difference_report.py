"""What the report of a difference says: what was planted leads, nothing that matters is lost."""

from __future__ import annotations

import re
from dataclasses import replace

from tests.diff.planted import differ, made
from tests.diff.report_cases import LECTURE, between, html_of, markdown_of, planted, recorded
from tests.pretend_gpu import pretend_gpu
from trace_tools.diff.difference import Difference, SettingChange
from trace_tools.diff.report.difference_report import charts_of, side_text


def beside_gpu() -> Difference:
    cpu = recorded()
    return between(cpu, pretend_gpu(cpu))


def headings(text: str) -> list[str]:
    return re.findall(r"^#+ (.*)$", text, re.MULTILINE)


def test_markdown_lists_important_differences_first() -> None:
    text = markdown_of(planted())
    assert headings(text)[1:] == ["Claims", "Values", "Memory"]
    assert text.index("**Differences that matter: 1 claim") < text.index("#### Claims")
    claim = next(line for line in text.splitlines() if "claim flipped" in line)
    assert "lecture.py:13 first<br>`assert y.shape == (2, 3)`" in claim
    assert "@inspect" not in text  # code is shown as the pages show it


def test_markdown_reports_equal_traces() -> None:
    text = markdown_of(between(recorded(), recorded()))
    assert "**No differences" in text
    assert headings(text) == ["A cpu → B cpu"]


def test_markdown_lists_settings_and_changed_functions() -> None:
    edited = LECTURE.replace("torch.ones(3, 2)", "torch.zeros(3, 2)")
    difference = replace(
        between(recorded(), recorded(text=edited)), settings=(SettingChange("version", "torch", "2.12|", None),)
    )
    text = markdown_of(difference)
    assert "| version: torch | 2.12\\| | – |" in text
    assert "| edited | `make` | `make` |" in text


def test_a_cpu_and_a_gpu_have_ratios_without_verdicts() -> None:
    difference = beside_gpu()
    page = html_of(difference)
    assert "Times of annotated steps, as ratios" in page
    assert not difference.matters
    titles = [chart.title for chart in charts_of(difference)]
    assert len(titles) == 3 and "rooflines" in titles[1]
    assert "Pretend GPU (made up for tests)" in side_text(difference.b)
    assert html_of(difference) == page  # the same bytes again


def test_an_empty_difference_has_a_page() -> None:
    same: Difference = between(recorded(), recorded())
    page = html_of(same)
    assert "No difference that matters" in page


def test_a_report_states_its_smallest_detectable_slowdown() -> None:
    noisy, calm = (differ(made(0, noise=noise), made(1, noise=noise)) for noise in (0.3, 0.01))
    for report in (markdown_of, html_of):
        assert re.search(r"20% can go unnoticed with 3 passes; about \d+ would", report(noisy))
        assert "can go unnoticed" not in report(calm)
