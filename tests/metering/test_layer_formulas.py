"""The oracle: the same computation in operators whose formulas are tested elsewhere, or a count by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from trace_tools.metering.meters import Meter, Totals


def counted(f: Callable[[], Any]) -> Totals:
    with Meter() as meter:
        f()
    reading = meter.reading()
    assert not reading.uncounted
    return reading


def flops(f: Callable[[], Any]) -> int:
    return counted(f).flops


def by(f: Callable[[], Any], operator: str) -> int:
    """Count what one operator did, which must have run."""
    reading = counted(f)
    assert f"aten.{operator}" in reading.operators
    return sum(n for (name, _), n in reading.work_flops.items() if name == f"aten.{operator}")


X = torch.randn(3, 7, 32)
BIAS = 3 * 7 * 3 * 32  # of queries, keys and values: added in an operator of its own where the parts are separate


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_layer_is_the_operators_it_fuses(activation: str, norm_first: bool) -> None:
    """With gradients torch takes the separate operators, without it the fused one."""
    layer = nn.TransformerEncoderLayer(32, 4, 96, 0.0, activation, batch_first=True, norm_first=norm_first).eval()
    separate = counted(lambda: layer(X))
    assert "aten._transformer_encoder_layer_fwd" not in separate.operators
    with torch.inference_mode():
        assert by(lambda: layer(X), "_transformer_encoder_layer_fwd") == separate.flops - BIAS
    products = 2 * 3 * 7 * (4 * 32 * 32 + 2 * 32 * 96) + 4 * 3 * 7 * 7 * 32
    assert 0 < separate.flops - products < 0.1 * products


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_an_encoder_of_padded_sequences_computes_what_is_not_padding() -> None:
    """With a mask of padding, torch makes a nested tensor of the sequences, each as long as it is."""
    layer = nn.TransformerEncoderLayer(32, 4, 96, 0.0, batch_first=True).eval()
    encoder, lengths = nn.TransformerEncoder(layer, 2).eval(), (4, 6, 7)
    padding = torch.arange(7) >= torch.tensor(lengths)[:, None]
    alone = sum(flops(lambda length=length: layer(X[:1, :length])) for length in lengths)
    with torch.no_grad():
        assert by(lambda: encoder(X, src_key_padding_mask=padding), "_transformer_encoder_layer_fwd") == 2 * alone


@pytest.mark.parametrize("weights", [{"need_weights": False}, {}, {"average_attn_weights": False}])
def test_attention_layer_is_the_operators_it_fuses(weights: dict[str, bool]) -> None:
    layer = nn.MultiheadAttention(32, 4, batch_first=True).eval()
    separate = flops(lambda: layer(X, X, X, **weights))
    with torch.no_grad():
        assert by(lambda: layer(X, X, X, **weights), "_native_multi_head_attention") == separate - BIAS


def test_bilinear_is_two_products() -> None:
    batch, out, left, right = 5, 6, 7, 8
    layer = nn.Bilinear(left, right, out, bias=False)
    x, y = torch.randn(batch, left, requires_grad=True), torch.randn(batch, right, requires_grad=True)
    products = 2 * batch * out * left * right + 2 * batch * out * right
    assert flops(lambda: torch.einsum("bi,oij->boj", x, layer.weight)) == products - 2 * batch * out * right
    assert by(lambda: layer(x, y), "_trilinear") == products
    result = layer(x, y)
    # the gradient of x takes two products over all, of the weight and of y one and one; where o is summed, it is a loop
    by_hand = 8 * batch * out * left * right + 2 * batch * out * (left + right) + batch * out * (left + right)
    assert by(lambda: result.backward(torch.ones_like(result)), "_trilinear") == by_hand


def test_euclidean_distances_are_a_product_with_two_more_columns() -> None:
    x, y = torch.randn(40, 8), torch.randn(30, 8)

    def separate() -> torch.Tensor:
        norms, others = x.pow(2).sum(1, keepdim=True), y.pow(2).sum(1, keepdim=True)
        rows = torch.cat([-2 * x, norms, torch.ones(40, 1)], 1)
        return (rows @ torch.cat([y, torch.ones(30, 1), others], 1).T).clamp_min(0).sqrt()

    torch.testing.assert_close(separate(), torch.cdist(x, y))
    assert by(lambda: torch.cdist(x, y), "_euclidean_dist") == flops(separate)


ROWS, OTHERS = torch.rand(20, 64) + 0.5, torch.rand(10, 64) + 2
APART: dict[float, Callable[[], torch.Tensor]] = {
    1: lambda: (ROWS[:, None] - OTHERS).abs().sum(2),
    2: lambda: (ROWS[:, None] - OTHERS).square().sum(2).sqrt(),
    3.5: lambda: (ROWS[:, None] - OTHERS).abs().pow(3.5).sum(2).pow(1 / 3.5),
    math.inf: lambda: (ROWS[:, None] - OTHERS).abs().amax(2),
}


@pytest.mark.parametrize("p", APART)
def test_distances_are_what_is_between_the_coordinates(p: float) -> None:
    torch.testing.assert_close(APART[p](), torch.cdist(ROWS, OTHERS, p))
    fused = by(lambda: torch.cdist(ROWS, OTHERS, p), "_cdist_forward")
    assert fused <= flops(APART[p]) <= fused + 20 * 20 * 10  # terms that grow with pairs only are dropped
    assert by(lambda: F.pdist(ROWS, p), "_pdist_forward") == fused * (20 * 19 // 2) // (20 * 10)
    assert by(lambda: torch.dist(ROWS, ROWS + 1, p), "dist") * 10 == fused


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_gradients_of_distances_are_a_term_a_coordinate(p: float) -> None:
    x = ROWS.clone().requires_grad_()
    apart = torch.cdist(x, OTHERS, p)
    gradient = 4 * 20 * 10 * 64  # −, its sign or ÷ the distance, · g, +
    assert by(lambda: apart.backward(torch.ones_like(apart)), "_cdist_backward") == gradient


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_add_up_the_rows_they_gather(mode: str) -> None:
    table, rows = torch.randn(50, 16, requires_grad=True), torch.randint(50, (6, 4))
    separate = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}[mode]
    gathered = counted(lambda: separate(F.embedding(rows, table), 1))
    bag = counted(lambda: F.embedding_bag(rows, table, mode=mode))
    assert bag.flops == gathered.flops == 6 * 4 * 16
    result = F.embedding_bag(rows, table, mode=mode)
    backward = flops(lambda: result.backward(torch.ones_like(result)))
    assert backward == (6 * 16 if mode == "max" else 6 * 4 * 16)


def test_weighted_bags_multiply_as_well() -> None:
    table, rows = torch.randn(50, 16, requires_grad=True), torch.randint(50, (6, 4))
    weights = torch.rand(6, 4, requires_grad=True)
    separate = flops(lambda: (F.embedding(rows, table) * weights[:, :, None]).sum(1))
    result = F.embedding_bag(rows, table, per_sample_weights=weights, mode="sum")
    assert flops(lambda: F.embedding_bag(rows, table, per_sample_weights=weights, mode="sum")) == separate
    grad = torch.ones_like(result)
    assert by(lambda: result.backward(grad), "_embedding_bag_per_sample_weights_backward") == separate


def line(a: torch.Tensor, *taps: float) -> torch.Tensor:
    """Interpolate by hand: products with each tap, added up."""
    total = a * taps[0]
    for tap in taps[1:]:
        total = total + a * tap
    return total


@pytest.mark.parametrize(
    ("shape", "mode", "taps"),
    [
        *[((2, 3, 8), "linear", 2), ((2, 3, 8, 8), "bilinear", 2), ((2, 3, 4, 4, 4), "trilinear", 2)],
        *[((2, 3, 8, 8), "bicubic", 4), ((2, 3, 8, 8), "nearest", 1), ((2, 3, 8), "nearest-exact", 1)],
    ],
)
def test_resampling_is_its_taps_a_dimension_after_another(shape: tuple[int, ...], mode: str, taps: int) -> None:
    x = torch.randn(shape, requires_grad=True)
    result = F.interpolate(x, scale_factor=2, mode=mode)
    dims, pixel, one = len(shape) - 2, 0, torch.ones(1)
    if taps > 1:
        lines = [taps**inner for inner in reversed(range(dims))]  # first all lines in x, then in y, then in z
        pixel = sum(count * flops(lambda: line(one, *[0.5] * taps)) for count in lines)
    assert flops(lambda: F.interpolate(x, scale_factor=2, mode=mode)) == pixel * result.numel()
    backward = flops(lambda: result.backward(torch.ones_like(result)))
    assert backward == (2 * taps**dims if taps > 1 else 1) * result.numel()


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialiased_resampling_counts_the_pixels_under_each_window(mode: str) -> None:
    """The oracle: the pixels that one result has a gradient for."""
    x = torch.rand(1, 1, 24, 18, dtype=torch.float64, requires_grad=True)
    made = F.interpolate(x, (7, 5), mode=mode, antialias=True)

    def under(dim: int) -> int:
        """Count the rows (2) or columns (3) of the image under all windows."""
        sums = (made.select(dim, at).sum() for at in range(made.shape[dim]))
        grads = [torch.autograd.grad(of, x, retain_graph=True)[0].abs().sum(5 - dim) for of in sums]
        return sum(int((grad > 0).sum()) for grad in grads)

    fused = flops(lambda: F.interpolate(x, (7, 5), mode=mode, antialias=True))
    # along each of 24 rows, then along each of the 5 columns; a weight at the edge of a window may be 0
    assert fused == pytest.approx(2 * (24 * under(3) + 5 * under(2)), rel=0.05)
    assert flops(lambda: made.backward(torch.ones_like(made))) == fused


@pytest.mark.parametrize(
    ("mode", "forward", "of_image", "of_grid"),
    # by neighbours: products and sums; 2 each; by both coordinates, 3 or 4 each (aten/native/cpu/GridSamplerKernel.cpp)
    [("bilinear", 4 + 3, 2 * 4, 3 * 2 * 4), ("nearest", 0, 1, 0), ("bicubic", 5 * (4 + 3), 2 * 16, 4 * 2 * 16)],
)
def test_sampling_at_points_is_a_sum_over_neighbours(mode: str, forward: int, of_image: int, of_grid: int) -> None:
    x, grid = torch.randn(2, 3, 8, 8, requires_grad=True), torch.rand(2, 5, 5, 2, requires_grad=True)

    def sample() -> torch.Tensor:
        return F.grid_sample(x, grid, mode=mode, align_corners=False)

    result = sample()
    assert by(sample, "grid_sampler_2d") == forward * result.numel()
    backward = by(lambda: result.backward(torch.ones_like(result)), "grid_sampler_2d_backward")
    assert backward == (of_image + of_grid) * result.numel()
