from __future__ import annotations

import pytest

from tests.messages import says
from tests.presentation.reading import read
from trace_tools.analysis.rates import Timing
from trace_tools.presentation.charts.distributions import histogram, samples
from trace_tools.trace.model import Statistics


def test_samples_are_placed_by_time_and_cold_ones_are_hollow() -> None:
    root = read(samples(Timing("host", (100, 200, 300), (400,))))
    marks = list(root.iter("circle"))
    xs = [float(mark.get("cx", 0)) for mark in marks]
    assert xs[2] - xs[1] == pytest.approx(xs[1] - xs[0]) == pytest.approx(xs[3] - xs[2])
    assert [mark.get("fill") == "none" for mark in marks] == [False, False, False, True]
    assert says(root.get("aria-label"), "3 warm", "100 ns", "300 ns", "first", "400 ns", "400 ns")
    assert samples(Timing("host", (100,))) is None and samples(Timing("host", (7, 7))) is None


def test_histogram_bars_are_as_tall_as_their_counts() -> None:
    root = read(histogram(Statistics(-1, 1, histogram=[1, 0, 4, 2])))
    bars = next(p.get("d", "") for p in root.iter("path"))
    assert bars.count("M") == 3 and "v-48.0h" in bars and "v-24.0h" in bars and "v-12.0h" in bars
    assert histogram(Statistics(0, 1)) is None
