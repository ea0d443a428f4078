from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.presentation.reading import read, words
from trace_tools.presentation.charts.drawing import AROUND, Drawing, Labels, Point, fitted, marker, steps, width_of


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


def test_steps_keep_their_height_until_the_next_point() -> None:
    assert steps([(0, 10), (5, 20), (7, 20), (9, 1)], 12) == "M0 10h5v10h4v-19H12"


def test_markers_differ_in_shape() -> None:
    shapes = set()
    for n in range(4):
        drawing = Drawing(10, 10)
        marker(drawing, (5, 5), n)
        shapes |= {e.get("d", "disc") for e in read(drawing.svg("f", "T", "d")) if e.tag in ("path", "circle")}
    assert len(shapes) == 4


FRAME = (0.0, 0.0, 300.0, 200.0)
POINTS = st.tuples(st.floats(-50, 350), st.floats(-50, 250))


@given(st.lists(st.lists(POINTS, min_size=1, max_size=4), max_size=5), st.lists(POINTS, min_size=1, max_size=6))
def test_labels_stay_in_the_frame_and_overlap_nothing(lines: list[list[Point]], points: list[Point]) -> None:
    labels = Labels(FRAME)
    for line in lines:
        labels.avoid(line)
    boxes: list[tuple[float, float, float, float]] = []
    for point in points:
        position = labels.beside(point, "x @ w", 11)
        if position is None:
            continue
        (x, y), anchor = position
        width = width_of("x @ w", 11)
        left = x - width * ["", "middle", "end"].index(anchor) / 2
        boxes.append((left, y - 8, left + width, y + 2))
        assert left >= 0 and left + width <= 300 and y - 8 >= 0 and y + 2 <= 200
        assert abs(x - point[0]) < 12 and abs(y - point[1]) < 20
    for left, top, right, bottom in boxes:
        for line in lines:
            for (x1, y1), (x2, y2) in pairwise(line):
                for step in range(201):
                    x, y = x1 + (x2 - x1) * step / 200, y1 + (y2 - y1) * step / 200
                    assert not (left < x < right and top < y < bottom)
    for number, box in enumerate(boxes):
        for other in boxes[:number]:
            assert box[2] <= other[0] or other[2] <= box[0] or box[3] <= other[1] or other[3] <= box[1]


def test_labels_take_the_first_free_position_if_any() -> None:
    labels = Labels(FRAME)
    assert labels.beside((100, 100), "a", 11) == ((108, 104), "")
    labels.avoid([(100, 100)])
    positions = [labels.beside((100, 100), "a", 11) for _ in AROUND]
    assert positions[0] != ((108, 104), "") and None in positions
    labels = Labels(FRAME)
    labels.avoid([(100, 80), (300, 110)])  # a line above the point, falling to its right
    label = labels.beside((100, 100), "matmul 256", 11)
    assert label is not None and label[0][1] > 100
