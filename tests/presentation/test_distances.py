"""The chart of distances from the roof: one row for each kind of operator."""

from __future__ import annotations

from tests.messages import says
from tests.presentation.reading import read, words
from trace_tools.analysis.distances import Distance
from trace_tools.analysis.floors import Floor
from trace_tools.presentation.charts.distances import distance


def step_distance(kind: str, ratio: float, *, own: bool = True) -> Distance:
    return Distance(0, ratio * 1e-3, Floor(1e-3, "memory", {"copy": 1e-3}, 1e-3), kind, own, steady=True)


def test_each_kind_has_a_row_with_its_lost_time() -> None:
    """Three matmuls of 2, 3 and 10 ms with floors of 1 ms lost 12 ms; a call that contains them has no row."""
    distances = [
        *(step_distance("matmul", ratio) for ratio in (2, 3, 10)),
        step_distance("copy", 5),
        step_distance("matmul", 100, own=False),
    ]
    svg = distance(distances, "distance", "How far")
    assert svg is not None
    texts = words(read(svg))
    assert "the roof" in texts
    assert [texts[texts.index(kind) + 1 :][:3] for kind in ("all", "matmul", "copy")] == [
        ["4", "4 ms", "16 ms"],
        ["3", "3 ms", "12 ms"],
        ["1", "1 ms", "4 ms"],
    ]
    assert any(says(part, "matmul", "3 steps", "× 3", "12 ms") for part in svg.split(";"))


def test_without_steps_no_chart_is_drawn() -> None:
    assert distance([], "distance", "How far") is None
    assert distance([step_distance("copy", 3, own=False)], "distance", "How far") is None
