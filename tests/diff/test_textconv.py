"""Traces as text for `git diff`: without durations; files that are not traces are shown unchanged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.diff.planted import slower, with_steps
from tests.traces import example_trace
from trace_tools.diff.report.textconv import convert, text_of


def test_text_of_a_trace_omits_durations() -> None:
    text = text_of(example_trace())
    assert "flops = 48 FLOP" in text and "claim FAILED" in text and "ns" not in text.split()
    slow = replace(example_trace(), steps=with_steps(example_trace(), slower(2.0, 19)).steps)
    assert text_of(slow) == text


def test_other_files_are_shown_unchanged_with_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "trace.yaml"
    path.write_text("broken: [", encoding="utf-8")
    reason, _, contents = convert(path).partition("\n")
    assert reason.startswith("not a trace: trace") and contents == "broken: ["
    assert convert(tmp_path / "nowhere").startswith("not a trace: ")
