from __future__ import annotations

from xml.etree.ElementTree import Element, fromstring

import pytest

from tests.cases_in_one import each
from tests.presentation.reading import places, words
from trace_tools.presentation.charts import plot
from trace_tools.presentation.charts.plot import describe, figure
from trace_tools.presentation.charts.svg import standalone
from trace_tools.trace.model import Plot, Scalar, Series


def plotted(style: str, x: list[Scalar], y: list[Scalar], **more: str) -> Plot:
    return Plot(title="T", x_label="n", y_label="t", series=[Series("a", x, y, style)], **more)


def drawn(record: Plot) -> Element:
    return fromstring(figure(record, "f") or "")


def curve(root: Element) -> str:
    """Return the path of the first series."""
    return next(p.get("d", "") for p in root.iter("path") if p.get("stroke") == "var(--s1, #2f6fdd)")


def bars(root: Element, number: int = 1) -> list[tuple[float, float]]:
    """Return the lower and upper ends of the bars in the n-th colour, without the legend's."""
    paths = [p.get("d", "") for p in root.iter("path") if (p.get("fill") or "").startswith(f"var(--s{number},")]
    ends = [sorted(y for _, y in places(path)) for path in paths if path]
    return [(ys[-1], ys[0]) for ys in ends if ys[-1] - ys[0] > 8]


def test_a_line_goes_through_its_points_and_breaks_at_gaps() -> None:
    path = curve(drawn(plotted("line", [0, 1, 2, 3, 4], [0.0, 1.0, None, 1.0, 0.0])))
    corners = places(path)
    assert path.count("M") == 2 and len(corners) == 4
    xs = [x for x, _ in corners]
    assert xs[1] - xs[0] == pytest.approx(xs[3] - xs[2], abs=0.2) == pytest.approx((xs[2] - xs[1]) / 2, abs=0.2)
    assert corners[0][1] == corners[3][1] > corners[1][1] == corners[2][1]


def test_bars_start_at_zero_and_show_their_values() -> None:
    root = drawn(plotted("bars", ["one", "two"], [10, -5]))
    up, down = bars(root)
    assert up[0] == pytest.approx(down[1], abs=0.2) and up[0] - up[1] == pytest.approx(2 * (down[0] - down[1]), abs=0.3)
    assert {"one", "two", "10", "-5"} <= set(words(root))


def test_bars_are_stacked_and_show_their_sum() -> None:
    parts = {"weights": [2.0, 4.0], "none": [0.0, 0.0], "states": [6.0, None]}
    series = [Series(name, ["one", "two"], list(ys), "stacked") for name, ys in parts.items()]
    root = drawn(Plot(title="T", series=series))
    (two, _), [six] = bars(root, 1), bars(root, 3)
    assert six[0] == pytest.approx(two[1], abs=0.2)
    assert six[0] - six[1] == pytest.approx(3 * (two[0] - two[1]), abs=0.5)
    assert {"8", "4", "6", "2", "weights", "none", "states"} <= set(words(root))


def test_bytes_have_binary_ticks() -> None:
    names: list[Scalar] = [f"a long name {n}" for n in range(6)]
    root = drawn(Plot(y_label="bytes", series=[Series("a", names, [2**20 * n for n in range(1, 7)], "stacked")]))
    assert {"2 MiB", "4 MiB"} <= set(words(root))


@each("style", ["line", "points", "bars", "stacked", "steps"])
def test_plots_are_reproducible_and_accept_extreme_numbers(style: str) -> None:
    record = plotted(style, [1, 2, 4], [3.0, 1.0, 2.0], x_scale="log", y_scale="log")
    first = figure(record, "fig1")
    plot._drawn.cache_clear()
    assert first is not None and first == figure(record, "fig1")
    fromstring(standalone(first))
    xs: list[Scalar] = [1, *range(100, 1500, 100)]
    for ys in ([5e-324, 1.7e308], [1e-320], [0, -1, 1], [10**400, 1]):
        heights: list[Scalar] = [ys[n % len(ys)] for n in range(len(xs))]
        for scale in ("log", "linear"):
            assert figure(plotted(style, xs, heights, x_scale=scale, y_scale=scale), "f")


def test_a_plot_without_numbers_is_none_and_names_are_escaped() -> None:
    nan = float("nan")
    assert figure(plotted("line", [1, 2], [nan, None]), "f") is None
    assert figure(Plot(series=[]), "f") is None
    named = Plot(title="$x$", series=[Series("<script>$\\frac{", ["a", "$b_"], [1, 2], "bars")] * 2)
    text = figure(named, "f") or ""
    assert "&lt;script&gt;$\\frac{" in text and "$b_" in text


def test_a_figure_is_described_in_words() -> None:
    words = describe(plotted("line", [1, 2, 3], [3.0, None, 1.0]))
    assert words == "across: n, up: t. a: 3 values from 1 to 3."
