from __future__ import annotations

import math

import pytest

from tests.presentation.reading import circles, read, words
from trace_tools.presentation.charts.drawing import SOFT, colour
from trace_tools.presentation.charts.ratios import MOST, TimeRatio, time_ratios

LABELS = ("A cpu", "B gpu")


def test_bars_go_from_one_to_the_ratio_logarithmically() -> None:
    ratios = [TimeRatio("1  slow()", 2.0, (1.9, 2.1), "#r1"), TimeRatio("2  quick()", 0.25), TimeRatio("3  same()", 1)]
    root = read(time_ratios(ratios, "times", LABELS))
    slow, quick, same = (
        [float(line.get(x, 0)) for x in ("x1", "x2")] for line in root.iter("line") if line.get("stroke-width") == "4"
    )
    assert slow[0] == quick[0] == same[0] == same[1]
    assert quick[0] - quick[1] == pytest.approx(2 * (slow[1] - slow[0]), abs=0.2)  # a quarter and twice
    assert circles(root)[0][0] == pytest.approx(quick[1], abs=0.1)
    assert {"× 1", "× 2", "time of B gpu ÷ time of A cpu"} <= set(words(root))
    assert [link.get("href") for link in root.iter("a")] == ["#r1"]
    tips = [title.text for title in root.iter("title")]
    assert "1  slow()" in tips and "× 2, interval × 1.9 to × 2.1" in tips
    assert next(root.iter("desc")).text == "1  slow(): × 2.0; 2  quick(): × 0.25; 3  same(): × 1"


def test_colour_and_marker_show_faster_slower_and_undecided() -> None:
    ratios = [TimeRatio("a", 2.0, (1.5, 2.5)), TimeRatio("b", 0.5, (0.4, 0.6)), TimeRatio("c", 1.1, (0.9, 1.3))]
    root = read(time_ratios(ratios, "times", LABELS))
    paints = [line.get("stroke") for line in root.iter("line") if line.get("stroke-width") == "4"]
    assert paints == [colour(1), colour(0), SOFT]
    assert len(circles(root)) == 1  # the faster one; the slower one has a square


def test_long_names_are_cut_and_extreme_ratios_are_drawn() -> None:
    ratios = [TimeRatio("x" * 200, 1e-9, (0.0, math.inf)), *[TimeRatio("y", 1e6)] * 50]
    root = read(time_ratios(ratios, "times", LABELS))
    assert len(words(root)[-1]) < 200 and len([w for w in words(root) if w == "y"]) == MOST - 1
    assert all(0 <= x <= float(root.get("width", 0)) for x, _ in circles(root))
    assert any(title.text == "x" * 200 for title in root.iter("title"))
    assert time_ratios([], "times", LABELS) is None
