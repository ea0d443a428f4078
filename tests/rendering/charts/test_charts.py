from __future__ import annotations

import math
from itertools import pairwise
from xml.etree.ElementTree import Element

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rendering.charts.reading import places, read, words
from trace_tools.rates import Timing
from trace_tools.rendering.charts.axes import Scale, binary_ticks, decades, tick_text, ticks
from trace_tools.rendering.charts.distributions import histogram, samples
from trace_tools.rendering.charts.drawing import without_links
from trace_tools.rendering.charts.flame import TimeBlock, flame
from trace_tools.rendering.charts.memory import MemoryPoint, memory
from trace_tools.rendering.charts.plot import figure
from trace_tools.rendering.charts.roofline import Roof, RoofPoint, roof_of, roofline
from trace_tools.rendering.charts.storage import storage
from trace_tools.schema import Machine, Narrative, Peak, Scalar, Series, Statistics, Tensor

# --- axes -----------------------------------------------------------------------------------------


@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9))
def test_ticks_are_round_few_and_inside(low: float, size: float) -> None:
    high = low + size
    found = ticks(low, high)
    assert 2 <= len(found) <= 14
    slack = 1e-6 * max(size, abs(low), abs(high))
    assert all(low - slack <= tick <= high + slack for tick in found)


@given(st.floats(-9, 9), st.floats(0.1, 12))
def test_ticks_of_a_log_axis_are_inside(exponent: float, size: float) -> None:
    low, high = 10**exponent, 10 ** (exponent + size)
    found = ticks(low, high, log=True)
    assert len(found) <= 12 and found == sorted(found)
    assert all(low * (1 - 1e-6) <= tick <= high * (1 + 1e-6) for tick in found)


def test_ticks_read_well() -> None:
    assert ticks(0, 10) == [0, 2, 4, 6, 8, 10]
    assert ticks(100, 1000, log=True) == [100, 200, 500, 1000]
    assert ticks(1e3, 1e9, log=True) == [10.0**n for n in range(3, 10)]
    assert decades(1e-9, 1e9, 5) == [1e-9, 1e-5, 1e-1, 1e3, 1e7]
    assert binary_ticks(5 * 2**20) == [0, 2**21, 2**22]
    assert [tick_text(t) for t in (0.01, 1.0, 20_000.0, 1e6, 2.5)] == ["0.01", "1", "20,000", "1e6", "2.5"]


def test_a_scale_maps_its_ends_and_its_middle() -> None:
    assert Scale(0, 10, 100, 200)(5) == 150
    assert Scale(1, 10_000, 0, 400, log=True)(100) == pytest.approx(200)


# --- the flame ------------------------------------------------------------------------------------


def test_a_block_is_as_wide_as_its_time_and_below_its_caller() -> None:
    inside = (
        TimeBlock("a()", 600, "#L1", "line 1: a()", (TimeBlock("deep", 300, "#L9", "line 9"),)),
        TimeBlock("b()", 400, None, "b"),
    )
    root = read(flame(TimeBlock("main", 1_000, None, "all", inside), "time", "Where"))
    main, a, deep, b = (
        {k: float(v) for k, v in r.attrib.items() if k in ("x", "y", "width")} for r in root.iter("rect")
    )
    assert a["width"] + 1 == pytest.approx(0.6 * (main["width"] + 1), rel=0.01)
    assert deep["width"] + 1 == pytest.approx(0.3 * (main["width"] + 1), rel=0.01)
    assert b["x"] == pytest.approx(a["x"] + a["width"] + 1, rel=0.01)
    assert main["y"] < a["y"] == b["y"] < deep["y"]
    assert [link.get("href") for link in root.iter("a")] == ["#L1", "#L9"]
    tips = [title.text or "" for title in root.iter("title")]
    assert "line 1: a() · 600 ns, 60%" in tips


def test_overlapping_threads_stay_inside_their_caller() -> None:
    inside = tuple(TimeBlock(name, 1_000, None, name) for name in "abc")
    root = read(flame(TimeBlock("main", 1_000, None, "all", inside), "time", "Where"))
    edges = [float(r.get("x", 0)) + float(r.get("width", 0)) for r in root.iter("rect")]
    assert max(edges) <= float(root.get("width", 0))
    assert flame(TimeBlock("main", 0, None, "all"), "time", "Where") is None


# --- memory ---------------------------------------------------------------------------------------


def test_memory_follows_the_bytes_and_names_its_peak() -> None:
    sizes = [(0, 0), (8192, 8192), (8192, 65536), (4096, 4096)]
    points = [MemoryPoint(n, live, peak, f"line {10 + n}", f"#L{10 + n}") for n, (live, peak) in enumerate(sizes, 1)]
    root = read(memory(points, "memory"))
    line = next(p for p in root.iter("path") if p.get("stroke", "none") != "none" and "H" in p.get("d", ""))
    heights = [y for _, y in places(line.get("d", ""))]
    low, high = max(heights), min(heights)
    assert heights[-1] - low == pytest.approx((high - low) / 2, abs=0.11)  # 4 KiB of 8
    assert "line 13: 64 KiB" in words(root)
    assert next(root.iter("desc")).text == "Across: 4 steps. At most 64 KiB, at line 13; 4 KiB alive at the end."


def test_many_steps_keep_their_peak_and_few_bytes_need_no_figure() -> None:
    points = [MemoryPoint(n, 4096, 10**9 if n == 77_777 else 4096, f"line {n}", None) for n in range(1, 100_001)]
    figure = memory(points, "memory")
    assert figure is not None and len(figure) < 60_000 and "line 77777" in figure
    assert memory([MemoryPoint(1, 64, 64, "line 1", None)] * 3, "memory") is None


# --- the roofline ---------------------------------------------------------------------------------


def circles(root: Element) -> list[tuple[float, float]]:
    return [(float(c.get("cx", 0)), float(c.get("cy", 0))) for c in root.iter("circle")]


def test_points_and_ridge_lie_where_their_logarithms_are() -> None:
    points = (RoofPoint(1, 1e9, "a", "#L1"), RoofPoint(100, 1e9, "b", "#L2"), RoofPoint(1, 1e10, "c", "#L3"))
    root = read(roofline([Roof("cpu", (("float32", 1e11),), 1e10, points)], "roof"))
    a, b, c = circles(root)[:3]
    two_decades, one_decade = b[0] - a[0], a[1] - c[1]
    assert a[1] == b[1] and a[0] == c[0] and two_decades > 0 < one_decade
    roof = next(p for p in root.iter("path") if (p.get("d") or "").count("L") == 2)
    ridge = places(roof.get("d", ""))[1]
    assert ridge[0] - a[0] == pytest.approx(two_decades / 2, abs=0.3)  # 1e11 / 1e10: 10 FLOP/byte
    assert c[1] - ridge[1] == pytest.approx(one_decade, abs=0.3)
    assert [link.get("href") for link in root.iter("a")] == ["#L1", "#L2", "#L3"]


def test_machines_differ_in_marker_and_are_named_in_words() -> None:
    roofs = [Roof(f"m{n}", (("float32", 1e11),), 1e10, (RoofPoint(2, 1e9, "x", None),)) for n in range(4)]
    root = read(roofline(roofs, "roof"))
    shapes = {(p.get("d") or "circle")[-1] for p in root.iter("path")} | {c.tag for c in root.iter("circle")}
    assert "circle" in shapes and "Z" in shapes
    told = next(root.iter("desc")).text or ""
    assert all(f"m{n}: float32 100 GFLOP/s; 1 step, at most 1 GFLOP/s." in told for n in range(4))
    assert roofline([Roof("m", (("float32", 1e11),), None, ())], "roof") is None
    assert "float32 100 GFLOP/s." in (roofline([Roof("m", (("float32", 1e11),), 1e10, ())], "roof") or "")


def test_a_machine_without_peaks_shows_its_points_under_no_roof() -> None:
    roof = roof_of(
        "cpu", Machine("c", "c", "cpu", peaks=[Peak("memory", None, "not in the table")]), [RoofPoint(1, 1e9, "a")]
    )
    assert (roof.peaks, roof.bytes_per_second) == ((), None)
    assert "no known peak" in (next(read(roofline([roof], "roof")).iter("desc")).text or "")


def test_a_roof_has_the_peaks_that_its_points_are_measured_against() -> None:
    peaks = [
        Peak(name, rate, "t")
        for name, rate in (("float32", 1e12), ("bfloat16", 9e12), ("int8", 2e13), ("memory", 1e11))
    ]
    machine = Machine("g", "g", "cuda", peaks=peaks)
    assert [name for name, _ in roof_of("g", machine, [RoofPoint(1, 1, "a")]).peaks] == ["bfloat16"]
    both = roof_of("g", machine, [RoofPoint(1, 1, "a", dtype="float32")])
    assert [name for name, _ in both.peaks] == ["float32", "bfloat16"] and both.bytes_per_second == 1e11


# --- closer looks ---------------------------------------------------------------------------------


def test_samples_lie_by_their_time_warm_filled_and_cold_hollow() -> None:
    root = read(samples(Timing("host", (100, 200, 300), (400,))))
    marks = list(root.iter("circle"))
    xs = [float(mark.get("cx", 0)) for mark in marks]
    assert xs[2] - xs[1] == pytest.approx(xs[1] - xs[0]) == pytest.approx(xs[3] - xs[2])
    assert [mark.get("fill") == "none" for mark in marks] == [False, False, False, True]
    assert root.get("aria-label") == "3 warm runs from 100 ns to 300 ns; first runs from 400 ns to 400 ns"
    assert samples(Timing("host", (100,))) is None and samples(Timing("host", (7, 7))) is None


def tensor(shape: list[int], strides: list[int], offset: int = 0, cells: int = 6) -> Tensor:
    count = math.prod(shape)
    return Tensor("float32", shape, "cpu", 4 * count, strides, offset, storage="A", storage_bytes=4 * cells,
                  elements=[float(n) for n in range(count)])  # fmt: skip


def test_a_view_has_its_dots_under_the_cells_that_torch_says_it_sees() -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(6.0).view(2, 3)
    view = x.t()[1:]
    other = tensor(list(view.shape), list(view.stride()), view.storage_offset())
    root = read(storage("x", tensor([2, 3], [3, 1]), [("y", other)]))
    marks = circles(root)
    cell = marks[1][0] - marks[0][0]
    of_x, of_y = (
        {round((mx - marks[0][0]) / cell) for mx, my in marks if my == y} for y in sorted({y for _, y in marks})
    )
    assert of_x == set(range(6))
    assert of_y == {int(number) for number in view.flatten().tolist()}  # its elements are their addresses
    assert "dim 0: +3" in words(root) and "dim 1: +1" in words(root)


def test_no_storage_is_drawn_where_it_would_say_nothing_or_too_much() -> None:
    assert storage("x", tensor([6], [1]), []) is None
    assert storage("x", tensor([100], [1], cells=100), [("y", tensor([6], [1]))]) is None
    expanded = tensor([1000, 1000], [0, 0], cells=1)
    assert storage("x", expanded, []) is None
    assert storage("x", tensor([2], [1]), [("huge", expanded)]) is not None
    assert storage("x", Tensor("float32", [2], "cpu"), []) is None


def test_a_histogram_has_a_bar_for_each_bin_as_tall_as_its_count() -> None:
    root = read(histogram(Statistics(-1, 1, histogram=[1, 0, 4, 2])))
    bars = next(p.get("d", "") for p in root.iter("path"))
    assert bars.count("M") == 3 and "v-48.0h" in bars and "v-24.0h" in bars and "v-12.0h" in bars
    assert histogram(Statistics(0, 1)) is None


# --- what a lecture plots -------------------------------------------------------------------------


def told(style: str, x: list[Scalar], y: list[Scalar], **more: str) -> Narrative:
    return Narrative("plot", title="T", series=[Series("a", x, y, style)], **more)


def test_a_line_goes_through_its_points_and_breaks_at_gaps() -> None:
    root = read(figure(told("line", [0, 1, 2, 3, 4], [0.0, 1.0, None, 1.0, 0.0]), "f"))
    path = max((p.get("d", "") for p in root.iter("path")), key=len)
    found = places(path)
    assert path.count("M") == 2 and len(found) == 4
    xs = [x for x, _ in found]
    assert xs[1] - xs[0] == pytest.approx(xs[3] - xs[2], abs=0.11) == pytest.approx((xs[2] - xs[1]) / 2, abs=0.11)
    assert found[0][1] == found[3][1] > found[1][1] == found[2][1]


def test_a_power_law_is_straight_on_logarithmic_axes() -> None:
    xs: list[Scalar] = [10, 100, 1000, 10000]
    root = read(figure(told("line", xs, [x**2 for x in xs if isinstance(x, int)], x_scale="log", y_scale="log"), "f"))
    found = places(max((p.get("d", "") for p in root.iter("path")), key=len))
    steps = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(found)]
    assert all(step == pytest.approx(steps[0], abs=0.11) for step in steps)


def test_bars_stand_on_zero_with_their_heights_above() -> None:
    root = read(figure(told("bars", ["one", "two"], [10, -5]), "f"))
    up, down = [(float(r.get("y", 0)), float(r.get("height", 0))) for r in root.iter("rect")]
    assert up[0] + up[1] == pytest.approx(down[0], abs=0.11) and up[1] == pytest.approx(2 * down[1], abs=0.11)
    assert {"one", "two", "10", "-5"} <= set(words(root))


def test_a_figure_in_a_file_has_no_links() -> None:
    inside = (TimeBlock("a()", 600, "#L1", "a"),)
    drawn = flame(TimeBlock("main", 1_000, None, "all", inside), "time", "Where") or ""
    assert "<a " in drawn and "<a " not in without_links(drawn) and "</a>" not in without_links(drawn)
    read(without_links(drawn))
