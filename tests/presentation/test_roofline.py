from __future__ import annotations

import pytest

from tests.messages import says
from tests.presentation.reading import circles, places, read, words
from trace_tools.presentation.charts.roofline import Roof, RoofPoint, roof_of, roofline
from trace_tools.trace.model import Machine, Peak


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
    description = next(root.iter("desc")).text or ""
    assert all(f"m{n}: float32 100 GFLOP/s; 1 step, at most 1 GFLOP/s." in description for n in range(4))
    assert roofline([Roof("m", (("float32", 1e11),), None, ())], "roof") is None
    assert "float32 100 GFLOP/s." in (roofline([Roof("m", (("float32", 1e11),), 1e10, ())], "roof") or "")


def test_a_machine_without_peaks_shows_its_points_under_no_roof() -> None:
    roof = roof_of(
        "cpu", Machine("c", "c", "cpu", peaks=[Peak("memory", None, "not in the table")]), [RoofPoint(1, 1e9, "a")]
    )
    assert (roof.peaks, roof.bytes_per_second) == ((), None)
    assert "no known peak" in (next(read(roofline([roof], "roof")).iter("desc")).text or "")


def test_rates_that_no_axis_can_have_are_left_out() -> None:
    peaks = [Peak("float32", 1.7e308, "t"), Peak("bfloat16", 5e-324, "t"), Peak("memory", 1e-310, "t")]
    roof = roof_of("g", Machine("g", "g", "cuda", peaks=peaks), [RoofPoint(1, 1, "a", dtype="float32")])
    assert (roof.peaks, roof.bytes_per_second) == ((), None)
    assert roof_of("g", Machine("g", "g", "cuda"), [RoofPoint(1, 1e308, "a"), RoofPoint(1e-300, 1, "b")]).points == ()
    ends = roof_of("g", Machine("g", "g", "cuda", peaks=[Peak("float32", 1e100, "t"), Peak("memory", 1e-100, "t")]), ())
    assert roofline([ends], "roof")


def test_a_roof_has_the_peaks_that_its_points_are_measured_against() -> None:
    peaks = [
        Peak(name, rate, "t")
        for name, rate in (("float32", 1e12), ("bfloat16", 9e12), ("int8", 2e13), ("memory", 1e11))
    ]
    machine = Machine("g", "g", "cuda", peaks=peaks)
    assert [name for name, _ in roof_of("g", machine, [RoofPoint(1, 1, "a")]).peaks] == ["bfloat16"]
    both = roof_of("g", machine, [RoofPoint(1, 1, "a", dtype="float32")])
    assert [name for name, _ in both.peaks] == ["float32", "bfloat16"] and both.bytes_per_second == 1e11


def test_a_step_far_below_its_roof_stretches_no_axis_and_its_rate_is_said() -> None:
    near = (RoofPoint(1, 5e9, "a", None), RoofPoint(100, 9e10, "b", None))
    peaks = (("float32", 1e11),)
    alone = circles(read(roofline([Roof("cpu", peaks, 1e10, near)], "roof")))
    beside = read(roofline([Roof("cpu", peaks, 1e10, (*near, RoofPoint(1, 9e4, "toy()", "#L9")))], "roof"))
    a, b, toy = circles(beside)[:3]  # the last one is the legend's
    assert a[1] - b[1] > 0.6 * (alone[0][1] - alone[1][1])  # as if it were not there, but for its roof
    assert toy[0] == a[0] and toy[1] > a[1]
    axis = next(float(line.get("y1", 0)) for line in beside.iter("line") if line.get("stroke-dasharray"))
    assert toy[1] > axis > a[1] and "#L9" in [link.get("href") for link in beside.iter("a")]
    assert {"toy(): 90 kFLOP/s", "far below"} <= set(words(beside))
    [summary] = [text for text in words(beside) if says(text, "far below", "1 step", "thousandth", "90 kFLOP/s")]
    assert summary in (next(beside.iter("desc")).text or "")


def test_an_axis_is_not_cut_where_all_are_far_or_no_roof_is_known() -> None:
    toys = (RoofPoint(1, 1e3, "a", None), RoofPoint(1, 1e5, "b", None))
    for peaks, memory in (((("float32", 1e11),), 1e10), ((), None)):
        root = read(roofline([Roof("cpu", peaks, memory, toys)], "roof"))
        a, b = circles(root)[:2]
        assert a[1] > b[1] and "far below" not in words(root)


def test_of_many_machines_each_has_one_line_the_highest_and_a_group_of_its_own() -> None:
    peaks = (("float32", 1e11), ("bfloat16", 4e11), ("float64", 5e10))
    roofs = [Roof(f"m{n}", peaks, 1e10, (RoofPoint(2, 1e9, "x", None),)) for n in range(5)]
    roofs[1] = Roof("bare", (), None, ())  # nothing of it is drawn, and the others keep their number
    root = read(roofline([*roofs, roofs[0]], "roof"))
    assert {group.get("class") for group in root.iter("g") if group.get("class")} == {"m0", "m2", "m3", "m4", "m5"}
    lines = [path for path in root.iter("path") if (path.get("d") or "").count("L") == 2 and path.get("fill") == "none"]
    assert len(lines) == 5
    assert sorted(text for text in words(root) if ": " in text) == sorted(
        f"{label}: bfloat16 400 GFLOP/s" for label in ("m0", "m2", "m3", "m4", "m0")
    )
