from __future__ import annotations

from tests.presentation.reading import read, words
from trace_tools.presentation.charts.drawing import Drawing, fitted, marker, steps, width_of


def test_words_of_a_lecture_are_text_and_sizes_are_short() -> None:
    drawing = Drawing(100, 50)
    with drawing.linked('#a"b', "<tip>"):
        drawing.text((1 / 3, 2), "<b>&", size=11)
    root = read(drawing.svg("f", "T", "d"))
    assert words(root) == ["<b>&"] and next(root.iter("text")).get("x") == "0.3"
    assert next(root.iter("a")).get("href") == '#a"b' and root.get("role") == "group"
    assert [title.text for title in root.iter("title")] == ["T", "<tip>"]


def test_a_text_is_cut_to_its_room() -> None:
    assert fitted("matmul", width_of("matmul", 11), 11) == "matmul"
    assert fitted("matmul", width_of("matm", 11) + 1, 11) == "mat…" and fitted("matmul", 5, 11) == ""


def test_a_staircase_keeps_its_height_until_the_next_point() -> None:
    assert steps([(0, 10), (5, 20), (7, 20), (9, 1)], 12) == "M0 10h5v10h4v-19H12"


def test_marks_differ_in_shape_and_may_have_another_colour() -> None:
    shapes = set()
    for n in range(4):
        drawing = Drawing(10, 10)
        marker(drawing, (5, 5), n, fill="red")
        root = read(drawing.svg("f", "T", "d"))
        drawn = [e for e in root if e.tag in ("path", "circle")]
        shapes.add(drawn[0].get("d", "disc"))
        assert [e.get("fill") for e in drawn] == ["red"]
    assert len(shapes) == 4
