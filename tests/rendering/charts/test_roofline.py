from __future__ import annotations

import pytest

from tests.rendering.charts.reading import circles, places, read
from trace_tools.rendering.charts.roofline import Roof, RoofPoint, roof_of, roofline
from trace_tools.schema import Machine, Peak


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
