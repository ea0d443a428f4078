"""Figures drawn from tensors: their numbers are compared with the tensors' own."""

from __future__ import annotations

import subprocess
import sys
from itertools import combinations

import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from matplotlib.text import Text

from trace_tools.lecture.drawings import (
    Drawing,
    draw_batched_matmul,
    draw_bits,
    draw_chain,
    draw_layer,
    draw_road_map,
    draw_roofline,
    draw_storage,
    draw_token_and_weights,
    draw_views,
)
from trace_tools.lecture.vocabulary import PAGE, PHONE


def lines(draw: Drawing) -> dict[str, list[int]]:
    [axes] = draw(PAGE).get_axes()
    return {str(line.get_label()): [int(x) for x in line.get_xdata()] for line in axes.get_lines()}


def labels(figure: Figure) -> list[Text]:
    """Return the texts in the axes and in the legends."""
    in_axes = [label for axes in figure.get_axes() for label in axes.texts]
    return in_axes + [label for legend in figure.legends for label in legend.get_texts()]


def words(draw: Drawing, width: float = PAGE) -> list[str]:
    return [label.get_text() for label in labels(draw(width))]


def test_the_jumps_add_up_to_the_address() -> None:
    x = torch.arange(16.0).view(4, 4)
    assert lines(draw_storage(x, (1, 2))) == {"jumps to [1, 2]": [0, 4, 5, 6]}
    assert lines(draw_storage(x.t(), (1, 2))) == {"jumps to [1, 2]": [0, 1, 5, 9]}
    cells = torch.arange(40.0)  # every element is its own address
    for index in ((0, 0), (2, 1), (1, 3)):
        for x in (cells[:24].view(4, 6), cells.view(5, 8)[1:, 2:], cells.view(8, 5).t()):
            [path] = lines(draw_storage(x, index)).values()
            assert path[-1] == x[index]


def test_a_view_covers_the_cells_it_reads() -> None:
    x = torch.arange(12.0).view(3, 4)
    views = {"x": x, "row": x[1], "column": x[:, 2], "t": x.t(), "block": x[1:, 1:3], "wide": x[:, :1].expand(3, 5)}
    expected = {f"addresses of {name}": [*dict.fromkeys(view.flatten().int().tolist())] for name, view in views.items()}
    assert lines(draw_views(views)) == expected


def test_elements_bits_and_shapes_are_written() -> None:
    assert {"1.5", "2", "inf", "-3"} <= {*words(draw_storage(torch.tensor([[1.5, 2.0], [float("inf"), -3.0]]), (0, 0)))}
    shown = words(draw_bits({"fp16": ("0", "01000", "0100011111"), "fp8": ("1", "0000", "101")}))
    assert len([word for word in shown if word in ("0", "1")]) == 16 + 8
    assert {"fp16", "fp8", "sign", "exponent", "mantissa"} <= set(shown)
    assert words(draw_batched_matmul((2, 3, 4), (4, 5))) == ["2 × 3 × 4", "@", "4 × 5", "=", "2 × 3 × 5"]


X = torch.arange(6.0).view(2, 3)
DRAWINGS = {
    "batched": draw_batched_matmul((2, 3, 4), (4, 5)),
    "bits": draw_bits({"fp32": ("0", "0" * 8, "1" * 23), "fp8 E4M3": ("1", "0000", "101")}),
    "chain": draw_chain([("x", "B × D"), ("h1", "B × D"), ("h2", "B × K")], ["@ w1", "@ w2"], ["w1.grad", "w2.grad"]),
    "layer": draw_layer(),
    "road map": draw_road_map([(f"stop {n}", "what it adds") for n in range(7)], "beside the road: one, two"),
    "token": draw_token_and_weights(),
    "roofline": draw_roofline({"H100": (1e15, 3e12)}, {"ReLU": (0.25, 8e11), "large matmul": (1365, 9e14)}),
    "storage": draw_storage(torch.arange(16.0).view(4, 4), (1, 2)),
    "views": draw_views({"x": X, "x.view(3, 2)": X.view(3, 2)}),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_words_of_a_phone_drawing_are_legible_and_do_not_overlap(name: str) -> None:
    """Labels lie inside the figure, by matplotlib's bounding boxes, and are at least 8.25 points (11 pixels) high."""
    figure, wide = DRAWINGS[name](PHONE), DRAWINGS[name](PAGE)
    assert wide.get_figheight() < wide.get_figwidth()
    figure.draw_without_rendering()
    assert figure.get_figwidth() <= PHONE + 1e-9
    assert figure.get_tightbbox().x1 <= PHONE + 0.01 and figure.get_tightbbox().x0 >= -0.01
    assert sorted(words(DRAWINGS[name], PHONE)) == sorted(words(DRAWINGS[name]))
    assert min(label.get_fontsize() for label in labels(figure)) >= 8.25
    boxes = [label.get_window_extent() for label in labels(figure) if label.get_text()]
    allowed_overlap = 0.3 if name == "bits" else 0  # pixels; the digits touch each other
    for a, b in combinations(boxes, 2):
        overlap = min(min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0))
        assert overlap <= allowed_overlap, (a, b)
    arrows = [it for axes in figure.get_axes() for it in axes.patches if isinstance(it, FancyArrowPatch)]
    assert not any(arrow.get_window_extent().overlaps(box) for arrow in arrows for box in boxes)


def test_drawing_does_not_load_torch() -> None:
    code = "import sys, trace_tools.lecture.drawings; assert 'torch' not in sys.modules, 'torch was loaded'"
    subprocess.run([sys.executable, "-c", code], check=True)
