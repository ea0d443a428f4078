from __future__ import annotations

import pytest

from tests.messages import says
from tests.presentation.reading import circles, places, read, words
from trace_tools.presentation.charts.drawing import width_of
from trace_tools.presentation.charts.roofline import Roof, RoofPoint, roof_of, roofline
from trace_tools.trace.model import Machine, Peak


def test_points_and_ridge_are_placed_logarithmically() -> None:
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


def test_machines_differ_in_marker_and_are_described() -> None:
    roofs = [Roof(f"m{n}", (("float32", 1e11),), 1e10, (RoofPoint(2, 1e9, "x", None),)) for n in range(4)]
    root = read(roofline(roofs, "roof"))
    shapes = {(p.get("d") or "circle")[-1] for p in root.iter("path")} | {c.tag for c in root.iter("circle")}
    assert "circle" in shapes and "Z" in shapes
    description = next(root.iter("desc")).text or ""
    assert all(f"m{n}: float32 100 GFLOP/s; 1 step, at most 1 GFLOP/s." in description for n in range(4))
    assert roofline([Roof("m", (("float32", 1e11),), None, ())], "roof") is None
    assert "float32 100 GFLOP/s." in (roofline([Roof("m", (("float32", 1e11),), 1e10, ())], "roof") or "")


def test_a_machine_without_peaks_has_points_but_no_roof() -> None:
    roof = roof_of(
        "cpu", Machine("c", "c", "cpu", peaks=[Peak("memory", None, "not in the table")]), [RoofPoint(1, 1e9, "a")]
    )
    assert (roof.peaks, roof.bytes_per_second) == ((), None)
    assert "no known peak" in (next(read(roofline([roof], "roof")).iter("desc")).text or "")


def test_extreme_rates_are_left_out() -> None:
    peaks = [Peak("float32", 1.7e308, "t"), Peak("bfloat16", 5e-324, "t"), Peak("memory", 1e-310, "t")]
    roof = roof_of("g", Machine("g", "g", "cuda", peaks=peaks), [RoofPoint(1, 1, "a", dtype="float32")])
    assert (roof.peaks, roof.bytes_per_second) == ((), None)
    assert roof_of("g", Machine("g", "g", "cuda"), [RoofPoint(1, 1e308, "a"), RoofPoint(1e-300, 1, "b")]).points == ()
    ends = roof_of("g", Machine("g", "g", "cuda", peaks=[Peak("float32", 1e100, "t"), Peak("memory", 1e-100, "t")]), ())
    assert roofline([ends], "roof")


def test_a_roof_has_only_the_peaks_that_its_points_need() -> None:
    peaks = [
        Peak(name, rate, "t")
        for name, rate in (("float32", 1e12), ("bfloat16", 9e12), ("int8", 2e13), ("memory", 1e11))
    ]
    machine = Machine("g", "g", "cuda", peaks=peaks)
    assert [name for name, _ in roof_of("g", machine, [RoofPoint(1, 1, "a")]).peaks] == ["bfloat16"]
    with_float32 = roof_of("g", machine, [RoofPoint(1, 1, "a", dtype="float32")])
    assert [name for name, _ in with_float32.peaks] == ["float32", "bfloat16"] and with_float32.bytes_per_second == 1e11


def test_a_step_far_below_its_roof_is_counted_with_its_rate() -> None:
    near, toy = (RoofPoint(1, 5e9, "a", None), RoofPoint(100, 9e10, "b", None)), RoofPoint(1, 9e4, "toy()", "#L9")
    peaks = (("float32", 1e11),)
    without_toy = read(roofline([Roof("cpu", peaks, 1e10, near)], "roof"))
    with_toy = read(roofline([Roof("cpu", peaks, 1e10, (*near, toy))], "roof"))
    assert circles(with_toy) == circles(without_toy)
    [summary] = [text for text in words(with_toy) if says(text, "far below", "1 step", "thousandth", "90 kFLOP/s")]
    assert summary in (next(with_toy.iter("desc")).text or "")


def test_names_cover_neither_points_nor_each_other() -> None:
    points = tuple(RoofPoint(10 + n / 50, 1e10, f"step {n}") for n in range(16))
    root = read(roofline([Roof("cpu", (("float32", 1e11),), 1e10, points)], "roof"))
    taken = [(x - 4, y - 4, x + 4, y + 4) for x, y in circles(root)[:16]]
    names = [text for text in root.iter("text") if (text.text or "").startswith("step ")]
    assert 2 <= len(names) < 16
    for name in names:
        x, y, wide = float(name.get("x", 0)), float(name.get("y", 0)), width_of(name.text or "", 11)
        left = x - wide * {"middle": 0.5, "end": 1}.get(name.get("text-anchor", ""), 0)
        assert all(left >= b[2] or left + wide <= b[0] or y - 8 >= b[3] or y <= b[1] for b in taken)
        taken.append((left, y - 8, left + wide, y))


def test_the_axis_is_not_cut_without_a_near_step_or_roof() -> None:
    toys = (RoofPoint(1, 1e3, "a", None), RoofPoint(1, 1e5, "b", None))
    for peaks, memory in (((("float32", 1e11),), 1e10), ((), None)):
        root = read(roofline([Roof("cpu", peaks, memory, toys)], "roof"))
        a, b = circles(root)[:2]
        assert a[1] > b[1] and not any("far below" in text for text in words(root))


def test_each_of_many_machines_has_one_roof() -> None:
    peaks = (("float32", 1e11), ("bfloat16", 4e11), ("float64", 5e10))
    roofs = [Roof(f"m{n}", peaks, 1e10, (RoofPoint(2, 1e9, "x", None),)) for n in range(5)]
    roofs[1] = Roof("bare", (), None, ())  # it is not drawn, and the others keep their colours
    root = read(roofline([*roofs, roofs[0]], "roof"))
    lines = [path for path in root.iter("path") if (path.get("d") or "").count("L") == 2 and path.get("fill") == "none"]
    assert len(lines) == 5
    assert sorted(text for text in words(root) if ": " in text) == sorted(
        f"{label}: bfloat16 400 GFLOP/s" for label in ("m0", "m2", "m3", "m4", "m0")
    )
