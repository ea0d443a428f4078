from __future__ import annotations

import pytest

from tests.rendering.charts.reading import read
from trace_tools.rendering.charts.flame import TimeBlock, flame


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
