"""Figures: positions are proportional to what they show, and all that is left out is said."""

from __future__ import annotations

import math
import random
from xml.etree.ElementTree import Element, fromstring

import numpy as np
import pytest

from tests.cases_in_one import each
from tests.messages import says
from tests.presentation.reading import circles, places, read, words
from trace_tools.analysis.rates import StatementTime
from trace_tools.presentation.charts import plot
from trace_tools.presentation.charts.drawing import Drawing, Scale, binary_ticks, decades, fitted, marker, width_of
from trace_tools.presentation.charts.flame import flame
from trace_tools.presentation.charts.histogram import histogram
from trace_tools.presentation.charts.memory import MemoryPoint, memory
from trace_tools.presentation.charts.plot import describe, figure
from trace_tools.presentation.charts.roofline import Roof, RoofPoint, roof_of, roofline
from trace_tools.presentation.charts.svg import standalone
from trace_tools.presentation.storage import places as storage_places
from trace_tools.presentation.storage import storage
from trace_tools.trace.model import Machine, Peak, Plot, Scalar, Series, Statistics, Tensor


def described(root: Element) -> str:
    return root.get("aria-label") or ""


def links(root: Element) -> list[str | None]:
    return [link.get("href") for link in root.iter("a")]


# --- what figures consist of ---


def test_lecture_text_is_escaped_shortened_and_coordinates_are_rounded() -> None:
    drawing = Drawing(100, 50)
    with drawing.linked('#a"b', "<tip>"):
        drawing.text((1 / 3, 2), "<b>&", size=11)
    root = read(drawing.svg("d"))
    assert words(root) == ["<b>&"] and next(root.iter("text")).get("x") == "0.3"
    assert links(root) == ['#a"b'] and root.get("role") == "group"
    assert [title.text for title in root.iter("title")] == ["<tip>"] and described(root) == "d"
    assert fitted("matmul", width_of("matmul", 11), 11) == "matmul"
    assert fitted("matmul", width_of("matm", 11) + 1, 11) == "mat…" and fitted("matmul", 5, 11) == ""


def test_markers_ticks_and_scales() -> None:
    shapes = set()
    for n in range(4):
        drawing = Drawing(10, 10)
        marker(drawing, (5, 5), n)
        shapes |= {e.get("d", "disc") for e in read(drawing.svg("d")) if e.tag in ("path", "circle")}
    assert len(shapes) == 4
    assert decades(1e-9, 1e9, 5) == [1e-9, 1e-5, 1e-1, 1e3, 1e7]
    assert binary_ticks(5 * 2**20) == [0, 2**21, 2**22]
    assert Scale(0, 10, 100, 200)(5) == 150
    assert Scale(1, 10_000, 0, 400, log=True)(100) == pytest.approx(200)


# --- where the time went ---


def time(code: str, ns: int, line: int = 0, inside: tuple[StatementTime, ...] = (), anchor: str = "") -> StatementTime:
    return StatementTime(code, line, anchor or (f"L{line}" if line else ""), ns, 1, inside)


def test_blocks_are_as_wide_as_their_time_below_callers() -> None:
    inside = time("a()", 600, 1, (time("deep", 300, 9),)), time("b()", 400)
    root = read(flame(time("main", 1_000, inside=inside)))
    main, a, deep, b = (
        {k: float(v) for k, v in r.attrib.items() if k in ("x", "y", "width")} for r in root.iter("rect")
    )
    assert a["width"] + 1 == pytest.approx(0.6 * (main["width"] + 1), rel=0.01)
    assert deep["width"] + 1 == pytest.approx(0.3 * (main["width"] + 1), rel=0.01)
    assert b["x"] == pytest.approx(a["x"] + a["width"] + 1, rel=0.01)
    assert main["y"] < a["y"] == b["y"] < deep["y"] and links(root) == ["#L1", "#L9"]
    assert "line 1: a() · 600 ns, 60%" in [title.text for title in root.iter("title")]
    overlapping = tuple(time(name, 1_000) for name in "abc")  # threads stay inside their caller
    root = read(flame(time("main", 1_000, inside=overlapping)))
    edges = [float(r.get("x", 0)) + float(r.get("width", 0)) for r in root.iter("rect")]
    assert max(edges) <= float(root.get("width", 0))
    assert not flame(time("main", 0))


def test_bars_of_a_histogram_are_as_high_as_their_counts() -> None:
    root = read(histogram(Statistics(-1, 1, histogram=[1, 0, 4, 2])))
    bars = next(p.get("d", "") for p in root.iter("path"))
    assert bars.count("M") == 3 and "v-48.0h" in bars and "v-24.0h" in bars and "v-12.0h" in bars
    assert histogram(Statistics(0, 1)) is None


# --- memory ---


def test_the_line_follows_the_bytes_and_the_peak_is_labelled() -> None:
    sizes = [(0, 0), (8192, 8192), (8192, 65536), (4096, 4096)]
    points = [MemoryPoint(n, live, peak, f"line {10 + n}", f"#L{10 + n}") for n, (live, peak) in enumerate(sizes, 1)]
    root = read(memory(points))
    line = next(p for p in root.iter("path") if p.get("stroke", "none") != "none" and "H" in p.get("d", ""))
    heights = [y for _, y in places(line.get("d", ""))]
    low, high = max(heights), min(heights)
    assert heights[-1] - low == pytest.approx((high - low) / 2, abs=0.11)  # 4 KiB of 8
    assert "line 13: 64 KiB" in words(root) and says(described(root), "4 steps", "64 KiB", "line 13", "4 KiB")
    many = [MemoryPoint(n, 4096, 10**9 if n == 77_777 else 4096, f"line {n}", None) for n in range(1, 100_001)]
    text = memory(many)
    assert len(text) < 60_000 and "line 77777" in text
    assert not memory([MemoryPoint(1, 64, 64, "line 1", None)] * 3)


# --- rooflines ---

FLOAT32 = (("float32", 1e11),)


def test_points_and_ridge_are_placed_logarithmically() -> None:
    points = (RoofPoint(1, 1e9, "a", "#L1"), RoofPoint(100, 1e9, "b", "#L2"), RoofPoint(1, 1e10, "c", "#L3"))
    root = read(roofline([Roof("cpu", FLOAT32, 1e10, points)]))
    a, b, c = circles(root)[:3]
    two_decades, one_decade = b[0] - a[0], a[1] - c[1]
    assert a[1] == b[1] and a[0] == c[0] and two_decades > 0 < one_decade
    roof = next(p for p in root.iter("path") if (p.get("d") or "").count("L") == 2)
    ridge = places(roof.get("d", ""))[1]
    assert ridge[0] - a[0] == pytest.approx(two_decades / 2, abs=0.3)  # 1e11 / 1e10: 10 FLOP/byte
    assert c[1] - ridge[1] == pytest.approx(one_decade, abs=0.3)
    assert links(root) == ["#L1", "#L2", "#L3"]


def test_each_machine_has_its_roofs_and_is_described() -> None:
    roofs = [Roof(f"m{n}", FLOAT32, 1e10, (RoofPoint(2, 1e9, "x", None),)) for n in range(3)]
    roofs[1] = Roof("bare", (), None, ())  # it is not drawn, and the others keep their colours
    root = read(roofline(roofs))
    lines = [path for path in root.iter("path") if (path.get("d") or "").count("L") == 2 and path.get("fill") == "none"]
    assert ["--s1" in lines[0].get("stroke", ""), "--s3" in lines[1].get("stroke", "")] == [True, True]
    names = [f"{label}: float32 100 GFLOP/s; 1 step." for label in ("m0", "m2")]
    assert [text for text in words(root) if ": " in text] == names
    assert all(name in described(root) for name in names)
    assert not roofline([Roof("m", FLOAT32, None, ())])
    assert "float32 100 GFLOP/s." in roofline([Roof("m", FLOAT32, 1e10, ())])


PEAKS = [Peak(*peak, "t") for peak in (("float32", 1e12), ("bfloat16", 9e12), ("int8", 2e13), ("memory", 1e11))]


@each(
    ("peaks", "dtypes", "expected", "bandwidth"),
    [
        (PEAKS, [None], ["bfloat16"], 1e11),
        (PEAKS, ["float32"], ["float32", "bfloat16"], 1e11),
        ([Peak("memory", None, "not in the table")], [None], [], None),
    ],
)
def test_a_roof_has_only_the_peaks_that_its_points_need(
    peaks: list[Peak], dtypes: list[str | None], expected: list[str], bandwidth: float | None
) -> None:
    points = [RoofPoint(1, 1e9, "a", dtype=dtype) for dtype in dtypes]
    roof = roof_of("g", Machine("g", "g", "cuda", peaks=peaks), points)
    assert [name for name, _ in roof.peaks] == expected and roof.bytes_per_second == bandwidth
    assert ("no known peak" in described(read(roofline([roof])))) == (not expected)


def test_a_step_far_below_its_roof_is_only_counted() -> None:
    machine = Machine("g", "g", "cpu", peaks=[Peak("float32", 1e11, "t"), Peak("memory", 1e10, "t")])
    near, toy = [RoofPoint(1, 5e9, "a"), RoofPoint(100, 9e10, "b")], RoofPoint(1, 9e4, "toy()", "#L9")
    without_toy = read(roofline([roof_of("g", machine, near)]))
    with_toy = read(roofline([roof_of("g", machine, [*near, toy])]))
    assert circles(with_toy) == circles(without_toy)
    [legend] = [text for text in words(with_toy) if says(text, "2 steps", "1 more", "thousandth")]
    assert legend in described(with_toy)


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
    return {row[0]: row[1:] for row in found[0].rows}, found[1]


def test_the_elements_of_a_view_are_numbered_in_reading_order() -> None:
    view = np.arange(6).reshape(2, 3).T[1:]
    rows, about = shown("x", tensor([2, 3], [3, 1]), [("y", tensor([2, 2], [1, 3], 1))])
    assert rows["cell"] == rows["x"] == [*"012345"] and rows["element"] == [f"{n}." for n in range(6)]
    assert [rows["y"].index(str(n)) for n in range(4)] == view.flatten().tolist()  # each element equals its address
    assert about == ["x [2, 3], strides (3, 1)", "y [2, 2], strides (1, 3), offset 1"]
    precise = [1.2345, -0.0002938, 1234567.0, -3.0]
    rows, _ = shown("x", tensor([2, 2], [2, 1], cells=4, elements=precise), [])
    assert [float(number) for number in rows["element"]] == pytest.approx(precise, rel=1e-3)


def test_trivial_and_large_storages_are_not_shown() -> None:
    expanded = tensor([1000, 1000], [0, 0], cells=1, elements=None)
    for one in (tensor([6], [1]), tensor([10, 10], [10, 1], cells=100), expanded, Tensor("float32", [2], "cpu")):
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
