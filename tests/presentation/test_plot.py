from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from xml.etree.ElementTree import fromstring

import pytest

from tests.cases_in_one import each
from tests.presentation.reading import circles, places, read, words
from trace_tools.presentation.charts.plot import describe, figure
from trace_tools.presentation.charts.svg import standalone
from trace_tools.trace.model import Narrative, Plot, Scalar, Series


def plotted(style: str, x: list[Scalar], y: list[Scalar], **more: str) -> Narrative:
    return Plot(title="T", x_label="n", y_label="t", series=[Series("a", x, y, style)], **more)


def test_a_line_goes_through_its_points_and_breaks_at_gaps() -> None:
    root = read(figure(plotted("line", [0, 1, 2, 3, 4], [0.0, 1.0, None, 1.0, 0.0]), "f"))
    path = max((p.get("d", "") for p in root.iter("path")), key=len)
    corners = places(path)
    assert path.count("M") == 2 and len(corners) == 4
    xs = [x for x, _ in corners]
    assert xs[1] - xs[0] == pytest.approx(xs[3] - xs[2], abs=0.11) == pytest.approx((xs[2] - xs[1]) / 2, abs=0.11)
    assert corners[0][1] == corners[3][1] > corners[1][1] == corners[2][1]


def test_a_power_law_is_straight_on_logarithmic_axes() -> None:
    xs: list[Scalar] = [10, 100, 1000, 10000]
    root = read(
        figure(plotted("line", xs, [x**2 for x in xs if isinstance(x, int)], x_scale="log", y_scale="log"), "f")
    )
    corners = places(max((p.get("d", "") for p in root.iter("path")), key=len))
    steps = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(corners)]
    assert all(step == pytest.approx(steps[0], abs=0.11) for step in steps)


def test_bars_start_at_zero_and_show_their_values() -> None:
    root = read(figure(plotted("bars", ["one", "two"], [10, -5]), "f"))
    up, down = [(float(r.get("y", 0)), float(r.get("height", 0))) for r in root.iter("rect")]
    assert up[0] + up[1] == pytest.approx(down[0], abs=0.11) and up[1] == pytest.approx(2 * down[1], abs=0.11)
    assert {"one", "two", "10", "-5"} <= set(words(root))


def test_bars_are_stacked_and_show_their_sum() -> None:
    parts = {"weights": [2.0, 4.0], "none": [0.0, 0.0], "states": [6.0, None]}
    series = [Series(name, ["one", "two"], list(ys), "stacked") for name, ys in parts.items()]
    root = read(figure(Plot(title="T", series=series), "f"))
    bars = [tuple(float(r.get(side, 0)) for side in ("x", "y", "height")) for r in root.iter("rect")]
    (left, low, two), (_, _, four), (above, high, six) = [bar for bar in bars if bar[2] > 12]
    assert left == above and high + six + 1 == pytest.approx(low, abs=0.11)
    assert six + 1 == pytest.approx(3 * (two + 1), abs=0.3) and four + 1 == pytest.approx(2 * (two + 1), abs=0.3)
    assert {"8", "4", "weights", "none", "states"} <= set(words(root))


@each("style", ["line", "points", "bars", "stacked", "steps"])
def test_plots_of_every_style_are_reproducible(style: str) -> None:
    example = plotted(style, [1, 2, 4], [3.0, 1.0, 2.0], x_scale="log", y_scale="log")
    drawn = figure(example, "fig1")
    assert drawn is not None and drawn == figure(example, "fig1")
    fromstring(standalone(drawn))


def test_non_finite_numbers_are_gaps_and_names_are_escaped() -> None:
    nan = float("nan")
    assert figure(plotted("line", [1, 2], [nan, None]), "f") is None
    assert figure(Plot(series=[]), "f") is None
    drawn = figure(plotted("line", [1, 2, 3, 4], [10**400, 1, nan, 2]), "f")
    assert drawn is not None
    named = Plot(title="$x$", series=[Series("<script>$\\frac{", ["a", "$b_"], [1, 2], "bars")] * 2)
    drawn = figure(named, "f") or ""
    assert "&lt;script&gt;$\\frac{" in drawn and "$b_" in drawn


def test_extreme_numbers_can_be_drawn_on_logarithmic_axes() -> None:
    xs: list[Scalar] = [1, *range(100, 1500, 100)]
    for style in ("line", "points", "bars", "stacked", "steps"):
        for ys in ([5e-324, 1.7e308], [1e-320], [0, -1, 1]):
            heights: list[Scalar] = [ys[n % len(ys)] for n in range(len(xs))]
            read(figure(plotted(style, xs, heights, x_scale="log", y_scale="log"), "f"))


def test_a_figure_is_described_in_words() -> None:
    words = describe(plotted("line", [1, 2, 3], [3.0, None, 1.0]))
    assert words == "across: n, up: t. a: 3 values from 1 to 3."


def test_few_ordered_points_are_joined_by_a_curve() -> None:
    function = Series("f", [1, 2, 4, 8], [1.0, 4.0, 16.0, 64.0], "points")
    picked, scattered = Series("counted", [2, 8], [4.0, 64.0], "points"), Series("runs", [3, 1, 5], [1, 2, 3], "points")
    root = read(figure(Plot(series=[function, picked, scattered]), "f"))
    [curve] = [p for p in root.iter("path") if p.get("fill") == "none"]
    marks = {(x, y) for x, y in circles(root)}
    # The points on the curve are also drawn
    assert len(places(curve.get("d", ""))) == 4 and set(places(curve.get("d", ""))) <= marks
    short = [line for line in root.iter("line") if line.get("stroke") == curve.get("stroke")]
    assert len(short) == 1  # in the legend
    thousand = Series("many", list(range(1000)), [1.0] * 1000, "points")
    for series in ([function], [thousand, scattered], [replace(function, x=["a", "b", "c", "d"]), picked]):
        root = read(figure(Plot(series=series), "f"))
        assert [p for p in root.iter("path") if p.get("fill") == "none"] == []
