"""Reports of differences: planted differences come first, and nothing that matters is missing."""

from __future__ import annotations

import re
from dataclasses import replace

from tests.diff.plain_tracing import traced
from tests.diff.planted import LECTURE, at, differ, differ_at, ints, made, slower, with_steps
from tests.diff.report_cases import cpu_and_gpu, html_of, markdown_of, planted, recorded, terminal_of
from trace_tools.diff.difference import SettingChange
from trace_tools.diff.report.difference_report import side_text
from trace_tools.trace.model import Claim, Meters, Step


def headings(text: str) -> list[str]:
    return re.findall(r"^#+ (.*)$", text, re.MULTILINE)


def test_markdown_starts_with_differences_that_matter_in_order() -> None:
    text = markdown_of(planted())
    assert headings(text)[1:] == ["Claims", "Values", "Memory"]
    assert text.index("**Differences that matter: 1 claim") < text.index("## Claims")
    claim = next(line for line in text.splitlines() if "claim flipped" in line)
    assert "lecture.py:7 first<br>`assert y == 2`" in claim
    assert "@inspect" not in text  # code is shown as the pages show it


def test_equal_traces_have_no_differences_in_any_format() -> None:
    same = differ(recorded(), recorded())
    assert "**No differences" in markdown_of(same) and headings(markdown_of(same)) == ["A cpu → B cpu"]
    assert "No difference that matters" in html_of(same)


def test_changed_settings_and_functions_are_listed() -> None:
    edited = differ(traced(LECTURE), traced(LECTURE.replace("b = a * 2", "b = a * 3")))
    text = markdown_of(replace(edited, settings=(SettingChange("version", "torch", "2.12|", None),)))
    assert "| version: torch | 2.12\\| | – |" in text and "| edited | `work` | `work` |" in text
    b = replace(made(0), versions=[("torch", "9.9")], run=replace(made(0).run, seed=7))
    text = " ".join(terminal_of(differ(made(0), b)).split())
    assert "setting: seed 0 → 7; version: python 3.11.7 → –; version: torch 2.13.0 → 9.9" in text


def test_cpu_and_gpu_have_ratios_without_verdicts() -> None:
    difference = cpu_and_gpu()
    page = html_of(difference)
    assert "Times of annotated steps, as ratios" in page and not difference.matters
    assert "y = x + 1" in page and "b = a * 2" not in page  # which is not annotated
    assert "Pretend GPU (made up for tests)" in side_text(difference.b)
    assert html_of(difference) == page  # rendering is deterministic


def test_reports_state_if_a_slowdown_could_be_missed() -> None:
    noisy, calm = (differ(made(0, noise=noise), made(1, noise=noise)) for noise in (0.3, 0.01))
    for report in (markdown_of, html_of):
        assert re.search(r"20% can go unnoticed with 3 passes; about \d+ would", report(noisy))
        assert "can go unnoticed" not in report(calm)


def test_changed_output_is_listed_and_does_not_matter() -> None:
    difference = differ_at(9, {"stdout": "loss 0.51\n"}, {"stdout": "loss 0.49\n"})
    text = terminal_of(difference)
    assert not difference.matters and "No differences that matter" in text
    assert re.search(r"lecture\.py:9\b.*\n.*printed.*loss 0\.51.*loss 0\.49", text)
    assert "printed" not in terminal_of(differ(made(0), made(0))).lower()


def test_terminal_report_is_short_and_starts_with_claims() -> None:
    def wrecked(step: Step) -> Step:
        claim = Claim("y == 2", False, message="no") if step.line == 7 else step.claim
        values = ints(**{f"v{n}": n for n in range(9)})
        return replace(slower(3.0, step.line)(step), claim=claim, values=values, meters=Meters(5, 5, 5, 5, 5))

    base = with_steps(made(0), lambda s: replace(s, values=ints(**{f"v{n}": -1 for n in range(9)})))
    difference = differ(base, with_steps(made(1), wrecked))
    text = terminal_of(difference)
    assert len(text.splitlines()) <= 60 and "more (--all)" in text
    assert text.index("Claims") < text.index("Values") < text.index("Memory") < text.index("Time, ")
    assert len(terminal_of(difference, everything=True)) > 3 * len(text)


def test_terminal_never_truncates_the_differing_part() -> None:
    a, b = (with_steps(made(0), at(6, stdout="a" * 200 + end)) for end in ("one", "two"))
    difference = differ(a, b)
    for width in (40, 80, 120):
        text = "".join(line.strip() for line in terminal_of(difference, width).splitlines())
        assert "aone" in text and "atwo" in text
