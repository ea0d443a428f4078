"""Figures drawn from tensors: their numbers against what the tensors themselves say."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest
import torch
from matplotlib.figure import Figure

from trace_tools.lecture.drawings import (
    draw_adam,
    draw_batched_matmul,
    draw_bits,
    draw_memories,
    draw_rings,
    draw_road_map,
    draw_segments,
    draw_storage,
    draw_views,
)


def svg(figure: Figure) -> str:
    out = io.StringIO()
    figure.savefig(out, format="svg")
    return out.getvalue()


def lines(figure: Figure) -> dict[str, list[int]]:
    [axes] = figure.get_axes()
    return {str(line.get_label()): [int(x) for x in line.get_xdata()] for line in axes.get_lines()}


def words(figure: Figure) -> list[str]:
    [axes] = figure.get_axes()
    return [label.get_text() for label in axes.texts]


def test_the_jumps_add_up_to_the_address() -> None:
    x = torch.arange(16.0).view(4, 4)
    assert lines(draw_storage(x, (1, 2))) == {"jumps to [1, 2]": [0, 4, 5, 6]}
    assert lines(draw_storage(x.t(), (1, 2))) == {"jumps to [1, 2]": [0, 1, 5, 9]}


@pytest.mark.parametrize("index", [(0, 0), (2, 1), (1, 3)])
def test_the_last_jump_lands_on_the_element(index: tuple[int, int]) -> None:
    cells = torch.arange(40.0)  # every element is its own address
    for x in (cells[:24].view(4, 6), cells.view(5, 8)[1:, 2:], cells.view(8, 5).t()):
        [path] = lines(draw_storage(x, index)).values()
        assert path[-1] == x[index]


def test_a_view_covers_the_cells_it_reads() -> None:
    x = torch.arange(12.0).view(3, 4)
    views = {"x": x, "row": x[1], "column": x[:, 2], "t": x.t(), "block": x[1:, 1:3], "wide": x[:, :1].expand(3, 5)}
    expected = {f"addresses of {name}": view.unique().int().tolist() for name, view in views.items()}
    assert lines(draw_views(views)) == expected


def test_numbers_are_shown_as_they_are() -> None:
    shown = words(draw_storage(torch.tensor([[1.5, 2.0], [float("inf"), -3.0]]), (0, 0)))
    assert {"1.5", "2", "inf", "-3"} <= set(shown)


def test_every_bit_is_drawn() -> None:
    bits = {"fp16": ("0", "01000", "0100011111"), "fp8": ("1", "0000", "101")}
    shown = words(draw_bits(bits))
    digits = [word for word in shown if word in ("0", "1")]
    assert len(digits) == 16 + 8
    assert {"fp16", "fp8", "sign", "exponent", "mantissa"} <= set(shown)


def test_a_machine_without_a_gpu_says_so() -> None:
    assert "none on this machine" in words(draw_memories({"memory": "16 GiB"}, None, "no link"))
    with_gpu = words(draw_memories({"memory": "16 GiB"}, {"memory": "140 GiB"}, "55 GB/s"))
    assert {"memory: 140 GiB", "55 GB/s"} <= set(with_gpu)
    assert "none on this machine" not in with_gpu


def test_shapes_name_the_sheets() -> None:
    shown = words(draw_batched_matmul((2, 3, 4), (4, 5)))
    assert shown == ["2 × 3 × 4", "@", "4 × 5", "=", "2 × 3 × 5"]


def test_a_step_of_adam_moves_seven_numbers() -> None:
    figure = draw_adam({"g": (100, 100), "m": (0, 10), "v": (0, 10), "w": (1, 0.99)}, 4)
    assert {"100", "0 → 10", "1 → 0.99"} <= set(words(figure))
    assert " ".join(words(figure)).replace("read 4, write 4", "4 4").replace("read 4", "4").count("4") == 7
    assert {str(line.get_label()): list(line.get_ydata()) for line in figure.get_axes()[0].get_lines()} == {
        "gradient g": [100, 100], "average m of g": [0, 10], "average v of g²": [0, 10], "weight w": [1, 0.99]
    }  # fmt: skip


def test_a_layer_is_kept_by_its_input_or_whole() -> None:
    figure = draw_segments(6, {"all": (range(0), range(6)), "every third": (range(0, 6, 3), range(3, 6))})
    expected = {"all: both tensors there": [0, 1, 2, 3, 4, 5], "every third: input kept": [0]}
    assert lines(figure) == expected | {"every third: both tensors there": [3, 4, 5]}
    assert words(figure)[:2] == ["every third", "all"]


def test_a_ring_has_a_box_for_each_gpu_and_a_number_for_each_chunk() -> None:
    figure = draw_rings({"before": [[1, 1], [1, 1]], "after": [[2, 1], [1, 2]]})
    [axes] = figure.get_axes()
    found = {str(line.get_label()): [int(y) for y in line.get_ydata()] for line in axes.get_lines()}
    assert found["after: GPU 0"] == [2, 1]
    assert [words(figure).count(name) for name in ("GPU 0", "GPU 1", "before", "after", "1", "2")] == [2, 2, 1, 1, 6, 2]


def test_all_of_them_are_svg() -> None:
    x = torch.arange(6.0).view(2, 3)
    figures = [draw_storage(x, (1, 1)), draw_views({"x": x}), draw_road_map([("tensors", "bytes"), ("models", "")])]
    figures += [draw_segments(2, {"all": (range(0), range(2))}), draw_rings({"now": [[1, 2], [2, 1]]})]
    assert all(svg(figure).rstrip().endswith("</svg>") for figure in figures)


def test_drawing_does_not_load_torch() -> None:
    code = "import sys, trace_tools.lecture.drawings; assert 'torch' not in sys.modules, 'torch was loaded'"
    subprocess.run([sys.executable, "-c", code], check=True)
