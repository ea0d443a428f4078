"""Figures: bars and positions are proportional to what they show, and all that is left out is said."""

from __future__ import annotations

import math
import random
from xml.etree.ElementTree import Element, fromstring

import numpy as np
import pytest

from tests.cases_in_one import each
from tests.messages import says
from tests.presentation.reading import places, words
from trace_tools.analysis.rates import StatementCost
from trace_tools.presentation.charts import plot
from trace_tools.presentation.charts.measured import memory_figure, roof_figure, rows_of, time_figure
from trace_tools.presentation.charts.plot import describe, figure
from trace_tools.presentation.charts.svg import standalone
from trace_tools.presentation.report import Bar
from trace_tools.presentation.storage import places as storage_places
from trace_tools.presentation.storage import storage
from trace_tools.trace.model import Plot, Scalar, Series, Tensor

# --- what was measured ---

MIB = 2**20


def cost(label: str, ns: int, mib: int = 0, inside: tuple[StatementCost, ...] = ()) -> StatementCost:
    """Return the cost of a statement, or of a part of the text, whose label has a capital."""
    return StatementCost(label, label[0], label.islower(), ns, mib * MIB, inside)


def test_time_has_the_longest_rows_in_the_order_of_the_run() -> None:
    costs = [cost("First", 6_000_000, inside=(cost("deep()", 3_000_000), cost("f()", 40_000))), cost("b()", 2_000_000)]
    [figure] = time_figure("p", rows_of(costs), "c")
    assert (figure.name, figure.title, figure.caption) == ("p-time", "“First” takes 75% of 8 ms", "c")
    assert [(bar.label, bar.depth, bar.is_code, bar.link) for bar in figure.rows] == [
        ("First", 0, False, "#F"),
        ("deep()", 1, True, "#d"),
        ("b()", 0, True, "#b"),
    ]
    assert [(bar.share, bar.number) for bar in figure.rows] == [(1, "6 ms"), (0.5, "3 ms"), (1 / 3, "2 ms")]
    [figure] = time_figure("p", rows_of([cost("All", 9_000_000, inside=tuple(costs)), cost("c()", 90_000)]), "")
    assert figure.title == "“First” takes 66% of 9.09 ms"
    many = [cost(f"f{n}()", 1_000_000 + n) for n in range(40)]
    [figure] = time_figure("p", rows_of(many, "page.html"), "")
    assert [bar.label for bar in figure.rows] == [f"f{n}()" for n in range(28, 40)]
    assert {bar.link for bar in figure.rows} == {"page.html#f"}
    for none in ([], [cost("a()", 9_000_000)], [cost("a()", 400_000), cost("b()", 500_000)]):
        assert not list(time_figure("p", rows_of(none), ""))


def test_memory_has_parts_and_the_statements_that_needed_more_than_those_before() -> None:
    inside = (cost("x = 1", 0, 32), cost("y = 2", 0, 32), cost("z = 3", 0, 64), cost("del x", 0, 48))
    [figure] = memory_figure("p", [cost("Large", 0, 64, inside), cost("Small", 0, 16, (cost("u = 4", 0, 16),))])
    assert figure.title == "“z = 3” takes the most memory: 64 MiB"
    assert [(bar.label, bar.share, bar.number) for bar in figure.rows] == [
        ("Large", 1, "64 MiB"),
        ("x = 1", 0.5, "32 MiB"),
        ("z = 3", 1, "64 MiB"),
        ("Small", 0.25, "16 MiB"),
        ("u = 4", 0.25, "16 MiB"),
    ]
    small = [StatementCost("a", "", True, 1, 3_000), StatementCost("b", "", True, 1, 4_000)]
    for none in ([], [cost("Large", 0, 64)], small):
        assert not list(memory_figure("p", none))


def test_operations_are_ordered_by_the_share_of_their_roof() -> None:
    bars = [Bar(name, share, f"{share:.0%}", f"at {share}") for name, share in (("b", 0.5), ("c", 0.25), ("a", 0.75))]
    [figure] = roof_figure("p", bars)
    assert figure.title == "“a” reaches 75% of its roof, “c” 25%" and "100%" not in figure.caption
    assert [(bar.label, bar.share) for bar in figure.rows] == [("a", 0.75), ("b", 0.5), ("c", 0.25)]
    [figure] = roof_figure("p", [*bars, Bar("cached", 2, "200%", "at 2")])
    assert [bar.share for bar in figure.rows] == [1, 0.375, 0.25, 0.125] and "Above 100%" in figure.caption
    assert not list(roof_figure("p", [*bars[:2], bars[0]]))  # fewer than three different operations


# --- storages ---


def tensor(shape: list[int], strides: list[int], offset: int = 0, cells: int = 6, **more: list[float] | None) -> Tensor:
    count = math.prod(shape)
    elements = more.get("elements", [float(n) for n in range(count)])
    sizes = {"storage": "A", "storage_bytes": 4 * cells, "elements": elements}
    return Tensor("float32", shape, "cpu", 4 * count, strides, offset, **sizes)


def shown(name: str, one: Tensor, views: list[tuple[str, Tensor]]) -> tuple[dict[str, list[str]], list[str]]:
    """Return the rows of a storage by their heads, and the lines below."""
    found = storage(name, one, views)
    assert found is not None
    table = found[0].rows if found[0].rows[0][1] == "0" else [*map(list, zip(*found[0].rows, strict=True))]
    return {row[0]: row[1:] for row in table}, found[1]


def test_the_elements_of_a_view_are_numbered_in_reading_order() -> None:
    view = np.arange(6).reshape(2, 3).T[1:]
    rows, about = shown("x", tensor([2, 3], [3, 1]), [("y", tensor([2, 2], [1, 3], 1))])
    assert rows["cell"] == rows["x"] == [*"012345"] and rows["element"] == [f"{n}." for n in range(6)]
    assert [rows["y"].index(str(n)) for n in range(4)] == view.flatten().tolist()  # each element equals its address
    assert about == ["x [2, 3], strides (3, 1)", "y [2, 2], strides (1, 3), offset 1"]
    precise = [1.2345, -0.0002938, 1234567.0, -3.0]
    rows, _ = shown("x", tensor([2, 2], [2, 1], cells=4, elements=precise), [])
    assert [float(number) for number in rows["element"]] == pytest.approx(precise, rel=1e-3)


def test_many_cells_stand_below_each_other_without_unused_ones() -> None:
    found = storage("x", tensor([3], [4], 1, 12), [])
    assert found is not None
    assert found[0].rows == [["cell", "element", "x"], ["1", "0.", "0"], ["5", "1.", "1"], ["9", "2.", "2"]]


def test_trivial_and_large_storages_are_not_shown() -> None:
    expanded = tensor([1000, 1000], [0, 0], cells=1, elements=None)
    for one in (
        tensor([6], [1]),
        tensor([], [], 3),
        tensor([10, 10], [10, 1], cells=100),
        expanded,
        Tensor("float32", [2], "cpu"),
    ):
        assert storage("x", one, []) is None
    assert storage("x", tensor([2], [1]), [("huge", expanded)]) is not None


def test_a_storage_reports_what_it_leaves_out() -> None:
    first = 31 * 32 + 20
    rows, about = shown("row", tensor([4], [1], first, 1024), [])
    assert rows["cell"][:4] == [*map(str, range(first, first + 4))] and rows["row"][:4] == [*"0123"]
    assert f"… {1024 - 12:,} more of 1,024 elements, {first:,} of them before these" in about
    views = [(f"view{n}", tensor([1], [1], n, 20)) for n in range(20)]
    rows, about = shown("x", tensor([20], [1], cells=20), views)
    assert len(rows.keys() & {name for name, _ in views}) == 5
    assert says(about[-1], "15 more tensors", "view5", "view10")
    partly_recorded = Tensor("float32", [2, 3], "cpu", 24, [3, 1], 0, storage="A", storage_bytes=24)
    assert says(shown("x", partly_recorded, [])[1][-1], "… 6 of 6 elements", "trace")


@each("seed", range(10))
def test_storage_positions_equal_those_of_numpy(seed: int) -> None:
    draw = random.Random(seed)
    base = np.arange(48)
    view = base.reshape(draw.choice([(48,), (6, 8), (2, 3, 8), (1, 48), (48, 1, 1)]))
    view = view[draw.randrange(view.shape[0]) :: draw.choice([1, 2])]
    view = np.broadcast_to(view.T, (draw.choice([1, 2]), *view.T.shape))
    strides = [stride // base.itemsize for stride in view.strides]
    offset = int(view.flatten()[0]) if view.size else 0
    tensor = Tensor("int64", list(view.shape), "cpu", strides=strides, offset=offset)
    assert storage_places(tensor, 100) == view.flatten().tolist() and storage_places(tensor, view.size - 1) == []


@each(
    ("shape", "strides"),
    [([1 << 28], [1]), ([10**6, 10**6], [0, 0]), ([0, 10**12], [1, 1]), ([10**30], [10**30]), ([2], None)],
)
def test_unlistable_storage_positions_are_empty(shape: list[int], strides: list[int] | None) -> None:
    assert storage_places(Tensor("float32", shape, "meta", strides=strides), 256) == []


# --- plots of the lecture ---


def plotted(style: str, x: list[Scalar], y: list[Scalar], **more: str) -> Plot:
    return Plot(title="T", x_label="n", y_label="t", series=[Series("a", x, y, style)], **more)


def drawn(record: Plot) -> Element:
    return fromstring(figure(record, "f") or "")


def bars(root: Element, number: int = 1) -> list[tuple[float, float]]:
    """Return the lower and upper ends of the bars in the n-th colour, without the legend's."""
    paths = [p.get("d", "") for p in root.iter("path") if (p.get("fill") or "").startswith(f"var(--s{number},")]
    ends = [sorted(y for _, y in places(path)) for path in paths if path]
    return [(ys[-1], ys[0]) for ys in ends if ys[-1] - ys[0] > 8]


def test_a_line_goes_through_its_points_and_breaks_at_gaps() -> None:
    root = drawn(plotted("line", [0, 1, 2, 3, 4], [0.0, 1.0, None, 1.0, 0.0]))
    path = next(p.get("d", "") for p in root.iter("path") if p.get("stroke") == "var(--s1, #2f6fdd)")
    corners = places(path)
    assert path.count("M") == 2 and len(corners) == 4
    xs = [x for x, _ in corners]
    assert xs[1] - xs[0] == pytest.approx(xs[3] - xs[2], abs=0.2) == pytest.approx((xs[2] - xs[1]) / 2, abs=0.2)
    assert corners[0][1] == corners[3][1] > corners[1][1] == corners[2][1]
    marks = drawn(plotted("points", [*range(64)], [*range(64)])).iter("use")
    assert sum(mark.get("stroke") != "currentColor" for mark in marks) == 64  # all of them, though a line has fewer


def test_bars_start_at_zero_and_are_stacked_with_their_sum() -> None:
    root = drawn(plotted("bars", ["one", "two"], [10, -5]))
    up, down = bars(root)
    assert up[0] == pytest.approx(down[1], abs=0.2) and up[0] - up[1] == pytest.approx(2 * (down[0] - down[1]), abs=0.3)
    assert {"one", "two", "10", "-5"} <= set(words(root))
    parts = {"weights": [2.0, 4.0], "none": [0.0, 0.0], "states": [6.0, None]}
    root = drawn(Plot(title="T", series=[Series(name, ["one", "two"], ys, "stacked") for name, ys in parts.items()]))
    (two, _), [six] = bars(root, 1), bars(root, 3)
    assert six[0] == pytest.approx(two[1], abs=0.2)
    assert six[0] - six[1] == pytest.approx(3 * (two[0] - two[1]), abs=0.5)
    assert {"8", "4", "6", "2", "weights", "none", "states"} <= set(words(root))
    names: list[Scalar] = [f"a long name {n}" for n in range(6)]
    root = drawn(Plot(y_label="bytes", series=[Series("a", names, [2**20 * n for n in range(1, 7)], "stacked")]))
    assert {"2 MiB", "4 MiB"} <= set(words(root))  # bytes have binary ticks


@pytest.mark.slow
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
    assert figure(plotted("line", [1, 2], [float("nan"), None]), "f") is figure(Plot(series=[]), "f") is None
    named = Plot(title="$x$", series=[Series("<script>$\\frac{", ["a", "$b_"], [1, 2], "bars")] * 2)
    text = figure(named, "f") or ""
    assert "&lt;script&gt;$\\frac{" in text and "$b_" in text
    in_words = "across: n, up: t. a: 3 values from 1 to 3."
    assert describe(plotted("line", [1, 2, 3], [3.0, None, 1.0])) == in_words
