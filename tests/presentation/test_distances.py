"""How far from the roof, drawn: a row for each kind, its median where the axis has it."""

from __future__ import annotations

from tests.messages import says
from tests.presentation.reading import read, words
from trace_tools.analysis.distances import Distance
from trace_tools.analysis.floors import Floor
from trace_tools.presentation.charts.distances import distance


def one(kind: str, ratio: float, *, own: bool = True) -> Distance:
    return Distance(0, ratio * 1e-3, Floor(1e-3, "memory", {"copy": 1e-3}, 1e-3), kind, own, steady=True)


def test_each_kind_has_a_row_with_what_it_lost() -> None:
    """Three matmuls of 2, 3 and 10 ms over floors of 1 ms lost 12 ms; a call that holds them is in no row."""
    distances = [*(one("matmul", ratio) for ratio in (2, 3, 10)), one("copy", 5), one("matmul", 100, own=False)]
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


def test_without_a_step_there_is_nothing_to_draw() -> None:
    assert distance([], "distance", "How far") is None
    assert distance([one("copy", 3, own=False)], "distance", "How far") is None
