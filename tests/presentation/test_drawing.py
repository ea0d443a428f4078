from __future__ import annotations

import pytest

from tests.presentation.reading import read, words
from trace_tools.presentation.charts.drawing import Drawing, Scale, binary_ticks, decades, fitted, marker, width_of


def test_lecture_text_is_escaped_and_coordinates_are_rounded() -> None:
    drawing = Drawing(100, 50)
    with drawing.linked('#a"b', "<tip>"):
        drawing.text((1 / 3, 2), "<b>&", size=11)
    root = read(drawing.svg("f", "T", "d"))
    assert words(root) == ["<b>&"] and next(root.iter("text")).get("x") == "0.3"
    assert next(root.iter("a")).get("href") == '#a"b' and root.get("role") == "group"
    assert [title.text for title in root.iter("title")] == ["T", "<tip>"]


def test_texts_are_shortened_to_fit() -> None:
    assert fitted("matmul", width_of("matmul", 11), 11) == "matmul"
    assert fitted("matmul", width_of("matm", 11) + 1, 11) == "mat…" and fitted("matmul", 5, 11) == ""


def test_markers_differ_in_shape() -> None:
    shapes = set()
    for n in range(4):
        drawing = Drawing(10, 10)
        marker(drawing, (5, 5), n)
        shapes |= {e.get("d", "disc") for e in read(drawing.svg("f", "T", "d")) if e.tag in ("path", "circle")}
    assert len(shapes) == 4


def test_ticks_are_round_numbers() -> None:
    assert decades(1e-9, 1e9, 5) == [1e-9, 1e-5, 1e-1, 1e3, 1e7]
    assert binary_ticks(5 * 2**20) == [0, 2**21, 2**22]


def test_a_scale_is_linear_or_logarithmic() -> None:
    assert Scale(0, 10, 100, 200)(5) == 150
    assert Scale(1, 10_000, 0, 400, log=True)(100) == pytest.approx(200)
