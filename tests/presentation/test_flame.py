from __future__ import annotations

import pytest

from tests.presentation.reading import read, words
from trace_tools.analysis.rates import StatementTime
from trace_tools.presentation.charts.flame import flame


def time(code: str, ns: int, line: int = 0, inside: tuple[StatementTime, ...] = (), anchor: str = "") -> StatementTime:
    return StatementTime(code, line, anchor or (f"L{line}" if line else ""), ns, 1, inside)


def test_blocks_are_as_wide_as_their_time_below_callers() -> None:
    inside = time("a()", 600, 1, (time("deep", 300, 9),)), time("b()", 400)
    root = read(flame(time("main", 1_000, inside=inside), "time", "Where"))
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
    inside = tuple(time(name, 1_000) for name in "abc")
    root = read(flame(time("main", 1_000, inside=inside), "time", "Where"))
    edges = [float(r.get("x", 0)) + float(r.get("width", 0)) for r in root.iter("rect")]
    assert max(edges) <= float(root.get("width", 0))
    assert flame(time("main", 0), "time", "Where") is None


def test_sections_and_statements_link_to_the_sections_page() -> None:
    deep = time("f()", 500, 2, (time("g()", 500, 3, (time("h()", 500, 4),)),))
    lecture = time("main", 500, inside=(time("1 First", 500, inside=(deep,), anchor="01-first.html"),))
    root = read(flame(lecture, "time", "Where", rows=4))
    page = "01-first.html"
    assert [link.get("href") for link in root.iter("a")] == [page, f"{page}#L2", f"{page}#L3"]
    assert root.get("height") == str(4 * 24) and "h()" not in "".join(words(root))
